//! Placements: fragmentation, locality and causes of delay of a made-up Philly log with nodes,
//! against a count of every node's GPUs at every minute. No public trace with placements is small
//! enough to lie around.

use std::fmt::Write as _;

use tracecast_analytics::describe::Description;
use tracecast_tests::read;

use crate::checker::{Checker, SUM};
use crate::plain;

const MINUTE: i64 = 60_000;
/// Nodes and their GPUs.
const NODES: [(&str, i64); 4] = [("m1", 8), ("m2", 8), ("m3", 4), ("m4", 2)];
/// GPUs of the largest node.
const LARGEST: i64 = 8;

/// A job: when it was submitted and started and ended, in minutes, and the GPUs it held on each node.
struct Placed {
    submit: i64,
    start: i64,
    end: i64,
    on: Vec<(usize, i64)>,
}

impl Placed {
    fn gpus(&self) -> i64 {
        self.on.iter().map(|(_, gpus)| gpus).sum()
    }

    fn gpu_hours(&self) -> f64 {
        (self.gpus() * (self.end - self.start)) as f64 / 60.0
    }

    fn wait_s(&self) -> f64 {
        (self.start - self.submit) as f64 * 60.0
    }
}

/// The same 120 jobs on every run, over some days; some nodes hold more than they have at times.
fn jobs() -> Vec<Placed> {
    let mut state = 11u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as i64
    };
    let mut submit = 0;
    let next = |_| {
        submit += draw(40);
        let start = submit + draw(2) * draw(150);
        let size = [1, 1, 2, 4, 8, 10][draw(6) as usize];
        let first = draw(4) as usize;
        let here = size.min(NODES[first].1);
        let mut on = vec![(first, here)];
        if size > here {
            on.push(((first + 1) % 4, size - here));
        }
        Placed { submit, start, end: start + 1 + draw(20) * draw(12), on }
    };
    (0..120).map(next).collect()
}

fn log(jobs: &[Placed]) -> String {
    let stamp =
        |minute: i64| format!("2017-11-{:02} {:02}:{:02}:00", 7 + minute / 1_440, minute / 60 % 24, minute % 60);
    let mut out = "[\n".to_owned();
    for (ix, job) in jobs.iter().enumerate() {
        let places: Vec<String> = job
            .on
            .iter()
            .map(|(node, gpus)| {
                let names: Vec<String> = (0..*gpus).map(|gpu| format!("\"gpu{gpu}\"")).collect();
                format!("{{\"ip\": \"{}\", \"gpus\": [{}]}}", NODES[*node].0, names.join(", "))
            })
            .collect();
        let comma = if ix + 1 == jobs.len() { "" } else { "," };
        let _ = writeln!(
            out,
            "{{\"status\": \"Pass\", \"vc\": \"v\", \"jobid\": \"application_1_{ix}\", \"user\": \"u\", \"submitted_time\": \"{}\", \
             \"attempts\": [{{\"start_time\": \"{}\", \"end_time\": \"{}\", \"detail\": [{}]}}]}}{comma}",
            stamp(job.submit),
            stamp(job.start),
            stamp(job.end),
            places.join(", ")
        );
    }
    out + "]\n"
}

/// GPUs free on each node during a minute; 0 where more are used than there are. And whether that is so anywhere.
fn free(jobs: &[Placed], minute: i64) -> (Vec<i64>, bool) {
    let mut left: Vec<i64> = NODES.iter().map(|(_, gpus)| *gpus).collect();
    for job in jobs.iter().filter(|job| job.start <= minute && minute < job.end) {
        for (node, gpus) in &job.on {
            left[*node] -= gpus;
        }
    }
    let over = left.iter().any(|left| *left < 0);
    (left.into_iter().map(|left| left.max(0)).collect(), over)
}

#[test]
fn every_number_about_places() {
    let jobs = jobs();
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("cluster_job_log.json"), folder.path().join("cluster_machine_list.csv")];
    std::fs::write(&files[0], log(&jobs)).unwrap();
    let machines: String = NODES.iter().map(|(node, gpus)| format!("{node},{gpus}, 12GB\n")).collect();
    std::fs::write(&files[1], format!("machineId, number of GPUs, single GPU mem\n{machines}")).unwrap();
    let trace = read(&files).unwrap();
    let mut c = Checker::new(serde_json::to_value(Description::new(&trace)).unwrap());
    fragment(&mut c, &jobs);
    locality(&mut c, &jobs);
    delay(&mut c, &jobs);
    c.finish_below("made-up log with nodes", &["fragment", "locality"]);
}

/// A12.
fn fragment(c: &mut Checker, jobs: &[Placed]) {
    let from = jobs.iter().map(|job| job.submit).min().unwrap();
    let to = jobs.iter().map(|job| job.end).max().unwrap();
    let minutes: Vec<i64> = (from..to).collect();
    let total: i64 = NODES.iter().map(|(_, gpus)| gpus).sum();
    let n = minutes.len() as f64;
    let (mut partial, mut empty, mut all_free, mut stranded, mut unusable, mut over) = (0, 0, 0, 0, 0.0, 0);
    let (mut busy, mut busy_empty) = (0.0, 0.0);
    let (mut free_steps, mut stranded_steps) = (plain::Stretches::new(), plain::Stretches::new());
    // By size: minutes in which one waited, and of those with too few free, and with enough but on no node.
    let mut met = vec![(0, 0, 0); LARGEST as usize + 1];
    for minute in &minutes {
        let (free, any_over) = free(jobs, *minute);
        let sum: i64 = free.iter().sum();
        let partly = |node: usize| free[node] > 0 && free[node] < NODES[node].1;
        let held_back: i64 = (0..4).filter(|node| partly(*node)).map(|node| free[node]).sum();
        let wholly = (0..4).filter(|node| free[*node] == NODES[*node].1).count();
        partial += (0..4).filter(|node| partly(*node)).count();
        empty += wholly;
        all_free += sum;
        stranded += held_back;
        over += usize::from(any_over);
        for left in &free {
            let more = jobs.iter().filter(|job| job.gpus().min(LARGEST) > *left).count();
            unusable += *left as f64 * more as f64 / jobs.len() as f64;
        }
        if total - sum >= sum * 2 {
            busy += 1.0;
            busy_empty += wholly as f64 / 4.0;
        }
        for size in 1..=LARGEST {
            let waits = |job: &&Placed| job.gpus() == size && job.submit <= *minute && *minute < job.start;
            if jobs.iter().any(|job| waits(&job)) {
                let met = &mut met[size as usize];
                met.0 += 1;
                if sum < size {
                    met.1 += 1;
                } else if free.iter().all(|left| *left < size) {
                    met.2 += 1;
                }
            }
        }
        let (start, end) = (minute * MINUTE, (minute + 1) * MINUTE);
        free_steps.push((start, end, sum as f64));
        stranded_steps.push((start, end, held_back as f64));
    }
    assert!(over > 0 && busy > 0.0 && met.iter().any(|met| met.2 > 0), "the log has what is to be told");
    c.count("fragment.nodes", 4);
    c.number("fragment.gpus", total as f64, 0.0);
    c.number("fragment.hours", n / 60.0, SUM);
    c.number("fragment.mean_partial_nodes", partial as f64 / n, SUM);
    c.number("fragment.mean_free_nodes", empty as f64 / n, SUM);
    c.number("fragment.mean_free_gpus", all_free as f64 / n, SUM);
    c.number("fragment.mean_stranded_gpus", stranded as f64 / n, SUM);
    c.number("fragment.stranded_share", stranded as f64 / all_free as f64, SUM);
    c.number("fragment.mean_unusable_gpus", unusable / n, SUM);
    c.number("fragment.unusable_share", unusable / all_free as f64, SUM);
    c.number("fragment.free_node_share_when_two_thirds_used", busy_empty / busy, SUM);
    c.number("fragment.over_capacity_time_share", over as f64 / n, SUM);
    c.number("fragment.placed_share", 1.0, SUM);
    c.count("fragment.even_splits", 0);
    let sizes: Vec<usize> = (1..met.len()).filter(|size| met[*size].0 > 0).collect();
    c.list("fragment.by_size", sizes.len());
    for (ix, size) in sizes.into_iter().enumerate() {
        let (time, full, fragmented) = met[size];
        let time = f64::from(time);
        let path = format!("fragment.by_size[{ix}]");
        c.count(&format!("{path}.gpus"), size as u64);
        c.number(&format!("{path}.waiting_hours"), time / 60.0, SUM);
        c.number(&format!("{path}.full_share"), f64::from(full) / time, SUM);
        c.number(&format!("{path}.fragmented_share"), f64::from(fragmented) / time, SUM);
        c.number(&format!("{path}.fits_share"), (time - f64::from(full) - f64::from(fragmented)) / time, SUM);
    }
    let origin = crate::world::moment("2017-11-07 00:00:00");
    let (begin, end) = (from * MINUTE, to * MINUTE);
    let step = (end - begin) / 600;
    let mut ix = 0;
    let mut start = begin;
    while start < end {
        let until = (start + step).min(end);
        let mean = |steps: &plain::Stretches| plain::area(steps, start, until) / (until - start) as f64;
        let path = format!("fragment.curve[{ix}]");
        c.number(&format!("{path}.ms"), (origin + start) as f64, 0.0);
        c.number(&format!("{path}.free_gpus"), mean(&free_steps), SUM);
        c.number(&format!("{path}.stranded_gpus"), mean(&stranded_steps), SUM);
        start = until;
        ix += 1;
    }
    c.list("fragment.curve", ix);
}

/// A13 but for the causes of delay.
fn locality(c: &mut Checker, jobs: &[Placed]) {
    let multi: Vec<&Placed> = jobs.iter().filter(|job| job.gpus() > 1).collect();
    let extra = |job: &Placed| job.on.len() as i64 - (job.gpus() as f64 / LARGEST as f64).ceil() as i64;
    let hours = |jobs: &[&Placed]| jobs.iter().map(|job| job.gpu_hours()).sum::<f64>();
    let wide: Vec<&Placed> = multi.iter().copied().filter(|job| extra(job) > 0).collect();
    c.count("locality.multi_gpu_jobs", multi.len() as u64);
    c.count("locality.known_jobs", multi.len() as u64);
    c.number("locality.gpus_per_node", LARGEST as f64, 0.0);
    c.flag("locality.gpus_per_node_from_inventory", true);
    c.number("locality.spread_job_share", wide.len() as f64 / multi.len() as f64, SUM);
    c.number("locality.spread_gpu_time_share", hours(&wide) / hours(&multi), SUM);
    let by = |of: &dyn Fn(&Placed) -> i64, value: i64| -> Vec<&Placed> {
        multi.iter().copied().filter(|job| of(job) == value).collect()
    };
    let nodes = |job: &Placed| job.on.len() as i64;
    let by_nodes = vec![("1 node", by(&nodes, 1)), ("2 nodes", by(&nodes, 2))];
    let by_spread = vec![("fewest nodes", by(&extra, 0)), ("1 node more", by(&extra, 1))];
    for (field, classes) in [("by_nodes", by_nodes), ("by_spread", by_spread)] {
        c.list(&format!("locality.{field}"), classes.len());
        for (ix, (class, members)) in classes.iter().enumerate() {
            let path = format!("locality.{field}[{ix}]");
            c.text(&format!("{path}.class"), class);
            c.count(&format!("{path}.jobs"), members.len() as u64);
            c.number(&format!("{path}.job_share"), members.len() as f64 / multi.len() as f64, SUM);
            c.number(&format!("{path}.gpu_hours"), hours(members), SUM);
            let gpus: i64 = members.iter().map(|job| job.gpus()).sum();
            c.number(&format!("{path}.mean_gpus"), gpus as f64 / members.len() as f64, SUM);
            plain::summary(c, &format!("{path}.wait_s"), &members.iter().map(|job| job.wait_s()).collect::<Vec<f64>>());
        }
    }
}

/// The causes of delay at up to 64 moments a job, the middles of equal parts of its wait. No VC's GPUs are known here.
fn delay(c: &mut Checker, jobs: &[Placed]) {
    const CAUSES: [&str; 3] = ["capacity", "fragmentation", "order"];
    let delayed: Vec<&Placed> = jobs.iter().filter(|job| job.wait_s() >= 60.0).collect();
    // Share of a job's moments by cause.
    let causes = |job: &Placed| -> [f64; 3] {
        let moments = (job.start - job.submit).min(64);
        let mut counts = [0.0; 3];
        for nth in 0..moments {
            let middle = (job.start - job.submit) as f64 * (nth as f64 + 0.5) / moments as f64;
            let (mut free, _) = free(jobs, job.submit + middle.floor() as i64);
            free.sort_unstable_by_key(|left| std::cmp::Reverse(*left));
            let fewest = (job.gpus() as f64 / LARGEST as f64).ceil() as usize;
            let cause = if free.iter().sum::<i64>() < job.gpus() {
                0
            } else if free.iter().take(fewest).sum::<i64>() < job.gpus() {
                1
            } else {
                2
            };
            counts[cause] += 1.0 / moments as f64;
        }
        counts
    };
    c.flag("locality.delay.quota_known", false);
    c.flag("locality.delay.nodes_known", true);
    c.count("locality.delay.delayed_jobs", delayed.len() as u64);
    c.count("locality.delay.every", 1);
    c.count("locality.delay.jobs", delayed.len() as u64);
    c.count("locality.delay.jobs_without_quota", delayed.len() as u64);
    let mut rows = |path: &str, members: &[&Placed]| {
        let wait: f64 = members.iter().map(|job| job.wait_s()).sum();
        let gpu_wait: f64 = members.iter().map(|job| job.wait_s() * job.gpus() as f64).sum();
        c.count(&format!("{path}.jobs"), members.len() as u64);
        c.number(&format!("{path}.wait_hours"), wait / 3_600.0, SUM);
        c.number(&format!("{path}.gpu_wait_hours"), gpu_wait / 3_600.0, SUM);
        c.list(&format!("{path}.causes"), CAUSES.len());
        for (ix, name) in CAUSES.iter().enumerate() {
            let part =
                |weight: &dyn Fn(&Placed) -> f64| members.iter().map(|job| weight(job) * causes(job)[ix]).sum::<f64>();
            let own_path = format!("{path}.causes[{ix}]");
            c.text(&format!("{own_path}.cause"), name);
            c.number(&format!("{own_path}.wait_share"), part(&Placed::wait_s) / wait, SUM);
            let gpu_part = part(&|job| job.wait_s() * job.gpus() as f64);
            c.number(&format!("{own_path}.gpu_wait_share"), gpu_part / gpu_wait, SUM);
            // The first cause of the largest part.
            let main = members.iter().filter(|job| {
                let parts = causes(job);
                let most = parts.iter().fold(0.0, |a: f64, b| a.max(*b));
                parts.iter().position(|part| (part - most).abs() < 1e-9) == Some(ix)
            });
            c.count(&format!("{own_path}.jobs"), main.count() as u64);
        }
    };
    rows("locality.delay.all", &delayed);
    let class = |job: &Placed| match job.gpus() {
        1 => 0,
        2..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    for ix in 0..4 {
        let members: Vec<&Placed> = delayed.iter().copied().filter(|job| class(job) == ix).collect();
        rows(&format!("locality.delay.by_size[{ix}]"), &members);
    }
    c.null("locality.delay.all.size");
    c.list("locality.delay.by_size", 4);
    for (ix, size) in ["1", "2-4", "5-8", ">8"].into_iter().enumerate() {
        c.text(&format!("locality.delay.by_size[{ix}].size"), size);
    }
    // Why quota cannot be told may be said in words.
    if c.value("locality.delay_note").is_null() {
        c.null("locality.delay_note");
    }
}
