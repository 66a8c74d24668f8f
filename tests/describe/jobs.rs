//! Topics that count and add up jobs: summary, size, status, failure, sharing, users, recurrence,
//! lost, repeated, limits.

use std::collections::BTreeMap;

use crate::checker::{Checker, SUM};
use crate::plain;
use crate::world::{Job, World};

/// Names of the size classes in the JSON form, in the order of [`Job::class`].
const CLASSES: [&str; 6] = ["0", "<1", "1", "2-4", "5-8", ">8"];
/// States in the order that reports list them.
const STATES: [&str; 10] = [
    "completed",
    "failed",
    "cancelled",
    "timeout",
    "out_of_memory",
    "node_fail",
    "preempted",
    "running",
    "pending",
    "unknown",
];

pub fn gpu_hours<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> f64 {
    jobs.into_iter().filter_map(Job::gpu_s).sum::<f64>() / 3_600.0
}

/// Distinct known values.
fn distinct(world: &World, of: impl Fn(&Job) -> Option<&String>) -> Option<f64> {
    let names: std::collections::BTreeSet<&String> = world.jobs.iter().filter_map(of).collect();
    (!names.is_empty()).then_some(names.len() as f64)
}

/// A1.
pub fn summary(c: &mut Checker, world: &World) {
    let jobs = &world.jobs;
    let number = |keep: &dyn Fn(&Job) -> bool| jobs.iter().filter(|job| keep(job)).count() as u64;
    let total = gpu_hours(jobs);
    c.count("summary.jobs", jobs.len() as u64);
    c.count("summary.gpu_jobs", number(&Job::is_gpu_job));
    c.count("summary.cpu_jobs", number(&|job| job.gpus == Some(0.0)));
    c.count("summary.unknown_gpu_jobs", number(&|job| job.gpus.is_none()));
    c.number("summary.gpu_hours", total, SUM);
    c.count("summary.gpu_jobs_without_run", number(&|job| job.is_gpu_job() && job.run_s.is_none()));
    c.count("summary.running_jobs", number(&|job| job.running));
    c.option("summary.users", distinct(world, |job| job.user.as_ref()), 0.0);
    c.option("summary.vcs", distinct(world, |job| job.vc.as_ref()), 0.0);
    c.option("summary.nodes", world.inventory.map(|(nodes, _)| nodes as f64), 0.0);
    c.option("summary.gpu_nodes", world.gpu_nodes.map(|nodes| nodes as f64), 0.0);
    let (from, to) = world.window;
    let there = world.capacity().map(|there| plain::area(&there, from, to) / (to - from) as f64);
    c.option("summary.gpus", there, SUM);
    c.number("summary.from_ms", world.window.0 as f64, 0.0);
    c.number("summary.to_ms", world.window.1 as f64, 0.0);
    c.flag("summary.true_dates", world.offset.is_some());
    c.text("summary.zone", world.zone);
    let of = |keep: &dyn Fn(&Job) -> bool, value: &dyn Fn(&Job) -> Option<f64>| -> Vec<f64> {
        jobs.iter().filter(|job| keep(job)).filter_map(value).collect()
    };
    let gpu = |job: &Job| job.is_gpu_job();
    let cpu = |job: &Job| job.gpus == Some(0.0);
    let any = |_: &Job| true;
    let (run, wait) = (Job::ended_run, |job: &Job| job.wait_s);
    plain::summary(c, "summary.gpus_per_gpu_job", &of(&gpu, &|job| job.gpus));
    plain::summary(c, "summary.gpu_job_run_s", &of(&gpu, &run));
    plain::summary(c, "summary.gpu_job_wait_s", &of(&gpu, &wait));
    plain::summary(c, "summary.cpu_job_run_s", &of(&cpu, &run));
    plain::summary(c, "summary.cpu_job_wait_s", &of(&cpu, &wait));
    plain::summary(c, "summary.run_s", &of(&any, &run));
    plain::summary(c, "summary.wait_s", &of(&any, &wait));
    c.count("summary.reported_runs", number(&|job| job.reported_run));
    c.count("summary.assumed_starts", number(&|job| job.assumed_start));
    let assumed = gpu_hours(jobs.iter().filter(|job| job.assumed_start));
    c.option("summary.assumed_gpu_time_share", (total > 0.0).then(|| assumed / total), SUM);
}

/// A2.
pub fn size(c: &mut Checker, world: &World) {
    let gpu_jobs: Vec<&Job> = world.jobs.iter().filter(|job| job.is_gpu_job()).collect();
    let total = gpu_hours(gpu_jobs.iter().copied());
    let mut sizes: Vec<f64> = gpu_jobs.iter().filter_map(|job| job.gpus).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    c.list("size.by_gpus", sizes.len());
    let n = gpu_jobs.len() as f64;
    for (ix, size) in sizes.iter().enumerate() {
        let members: Vec<&Job> = gpu_jobs.iter().copied().filter(|job| job.gpus == Some(*size)).collect();
        let path = format!("size.by_gpus[{ix}]");
        let hours = gpu_hours(members.iter().copied());
        c.number(&format!("{path}.gpus"), *size, SUM);
        c.count(&format!("{path}.jobs"), members.len() as u64);
        c.number(&format!("{path}.job_share"), members.len() as f64 / n, SUM);
        c.number(&format!("{path}.gpu_hours"), hours, SUM);
        c.number(&format!("{path}.gpu_time_share"), hours / total, SUM);
    }
    // Thresholds from 1 GPU (or the smallest size, if that is less) to the first that holds every job.
    let all = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
    let largest = sizes[sizes.len() - 1];
    let mut thresholds: Vec<f64> = all.into_iter().filter(|at| *at >= sizes[0].min(1.0)).collect();
    let end = thresholds.iter().position(|at| *at >= largest).unwrap();
    thresholds.truncate(end + 1);
    c.list("size.at_most", thresholds.len());
    for (ix, at) in thresholds.iter().enumerate() {
        let members: Vec<&Job> = gpu_jobs.iter().copied().filter(|job| job.gpus.unwrap() <= *at).collect();
        let path = format!("size.at_most[{ix}]");
        c.number(&format!("{path}.gpus"), *at, 0.0);
        c.number(&format!("{path}.job_share"), members.len() as f64 / n, SUM);
        c.number(&format!("{path}.gpu_time_share"), gpu_hours(members) / total, SUM);
    }
    c.number("size.gpu_hours", total, SUM);
    let known = gpu_jobs.iter().filter(|job| job.nodes.is_some()).count();
    let several = gpu_jobs.iter().filter(|job| job.nodes.is_some_and(|nodes| nodes > 1)).count();
    c.option("size.multi_node_jobs", (known > 0).then_some(several as f64), 0.0);
    c.count("size.known_node_jobs", known as u64);
    c.count("size.unknown_gpu_jobs", world.jobs.iter().filter(|job| job.gpus.is_none()).count() as u64);
}

/// A6.
pub fn status(c: &mut Checker, world: &World) {
    let occurring: Vec<&str> =
        STATES.into_iter().filter(|state| world.jobs.iter().any(|job| job.state == *state)).collect();
    let n = world.jobs.len() as f64;
    let gpu_jobs = world.jobs.iter().filter(|job| job.is_gpu_job()).count() as f64;
    let total = gpu_hours(&world.jobs);
    c.list("status.by_state", occurring.len());
    for (ix, state) in occurring.iter().enumerate() {
        let members: Vec<&Job> = world.jobs.iter().filter(|job| job.state == *state).collect();
        let own_gpu = members.iter().filter(|job| job.is_gpu_job()).count();
        // What never ran has no GPU time to tell.
        let hours = members.iter().any(|job| job.gpu_s().is_some()).then(|| gpu_hours(members.iter().copied()));
        let path = format!("status.by_state[{ix}]");
        c.text(&format!("{path}.state"), state);
        c.count(&format!("{path}.jobs"), members.len() as u64);
        c.number(&format!("{path}.job_share"), members.len() as f64 / n, SUM);
        c.count(&format!("{path}.gpu_jobs"), own_gpu as u64);
        c.number(&format!("{path}.gpu_job_share"), own_gpu as f64 / gpu_jobs, SUM);
        c.option(&format!("{path}.gpu_hours"), hours, SUM);
        c.option(&format!("{path}.gpu_time_share"), hours.map(|hours| hours / total), SUM);
    }
    let of_class = |class: usize| world.jobs.iter().filter(|job| job.class() == Some(class)).collect::<Vec<&Job>>();
    let classes: Vec<usize> = (0..6).filter(|class| !of_class(*class).is_empty()).collect();
    c.list("status.by_size", classes.len());
    for (ix, class) in classes.iter().enumerate() {
        let members = of_class(*class);
        let path = format!("status.by_size[{ix}]");
        c.text(&format!("{path}.size"), CLASSES[*class]);
        c.count(&format!("{path}.jobs"), members.len() as u64);
        c.list(&format!("{path}.shares"), occurring.len());
        for (at, state) in occurring.iter().enumerate() {
            let number = members.iter().filter(|job| job.state == *state).count();
            c.number(&format!("{path}.shares[{at}]"), number as f64 / members.len() as f64, SUM);
        }
    }
    let mut words: BTreeMap<&str, u64> = BTreeMap::new();
    for word in world.jobs.iter().filter_map(|job| job.said.as_deref()) {
        *words.entry(word).or_default() += 1;
    }
    let mut words: Vec<(&str, u64)> = words.into_iter().collect();
    words.sort_by_key(|(word, jobs)| (std::cmp::Reverse(*jobs), *word));
    c.list("status.reported", words.len());
    for (ix, (word, jobs)) in words.iter().enumerate() {
        c.text(&format!("status.reported[{ix}][0]"), word);
        c.count(&format!("status.reported[{ix}][1]"), *jobs);
    }
}

/// A15.
pub fn failure(c: &mut Checker, world: &World) {
    let kinds = ["failed", "out_of_memory", "node_fail", "timeout"];
    let ended: Vec<&Job> = world.jobs.iter().filter(|job| job.is_over()).collect();
    let failed: Vec<&Job> = ended.iter().copied().filter(|job| kinds.contains(&job.state)).collect();
    let runs = |jobs: &[&Job]| jobs.iter().filter_map(|job| job.run_s).collect::<Vec<f64>>();
    c.count("failure.jobs", world.jobs.len() as u64);
    plain::summary(c, "failure.time_to_failure_s", &runs(&failed));
    c.count("failure.ended", ended.len() as u64);
    c.count("failure.failed", failed.len() as u64);
    let lost = gpu_hours(failed.iter().copied());
    c.number("failure.gpu_hours", lost, SUM);
    c.number("failure.gpu_time_share", lost / gpu_hours(ended.iter().copied()), SUM);
    let occurring: Vec<&str> = kinds.into_iter().filter(|kind| failed.iter().any(|job| job.state == *kind)).collect();
    c.list("failure.by_kind", occurring.len());
    for (ix, kind) in occurring.iter().enumerate() {
        let members: Vec<&Job> = failed.iter().copied().filter(|job| job.state == *kind).collect();
        let path = format!("failure.by_kind[{ix}]");
        c.text(&format!("{path}.state"), kind);
        c.count(&format!("{path}.jobs"), members.len() as u64);
        c.number(&format!("{path}.job_share"), members.len() as f64 / ended.len() as f64, SUM);
        c.number(&format!("{path}.gpu_hours"), gpu_hours(members.iter().copied()), SUM);
        plain::summary(c, &format!("{path}.time_to_failure_s"), &runs(&members));
    }
    let classes: Vec<usize> = (0..6).filter(|class| ended.iter().any(|job| job.class() == Some(*class))).collect();
    c.list("failure.by_size", classes.len());
    for (ix, class) in classes.iter().enumerate() {
        let of = |jobs: &[&Job]| jobs.iter().filter(|job| job.class() == Some(*class)).count();
        let (all, bad) = (of(&ended), of(&failed));
        let path = format!("failure.by_size[{ix}]");
        c.text(&format!("{path}.size"), CLASSES[*class]);
        c.count(&format!("{path}.jobs"), all as u64);
        c.count(&format!("{path}.failed"), bad as u64);
        c.number(&format!("{path}.failed_share"), bad as f64 / all as f64, SUM);
    }
    plain::plain_curve(c, "failure.curve", &runs(&failed), 160);
    let counted: Vec<&Job> = world.jobs.iter().filter(|job| job.attempts.is_some()).collect();
    if counted.is_empty() {
        c.null("failure.retries");
    } else {
        let number = |job: &Job| job.attempts.unwrap();
        c.count("failure.retries.jobs", counted.len() as u64);
        c.count("failure.retries.retried", counted.iter().filter(|job| number(job) > 1).count() as u64);
        c.count("failure.retries.attempts", counted.iter().map(|job| number(job)).sum());
        let mut lost = 0.0;
        for job in &counted {
            for (start, end) in job.held.iter().rev().skip(1) {
                lost += job.gpus.unwrap() * (end - start) as f64 / 3_600_000.0;
            }
        }
        c.number("failure.retries.lost_gpu_hours", lost, SUM);
    }
    let node_failures = failed.iter().filter(|job| job.state == "node_fail").count();
    let between = (node_failures > 0).then(|| gpu_hours(&world.jobs) / node_failures as f64);
    c.option("failure.gpu_hours_per_node_failure", between, SUM);
}

/// A16.
pub fn sharing(c: &mut Checker, world: &World) {
    let gpus: Vec<f64> = world.jobs.iter().filter_map(|job| job.gpus).filter(|gpus| *gpus > 0.0).collect();
    let fractions: Vec<f64> = gpus.iter().copied().filter(|gpus| *gpus < 1.0).collect();
    let n = gpus.len() as f64;
    let one = gpus.iter().filter(|gpus| **gpus == 1.0).count();
    let multi = gpus.iter().filter(|gpus| **gpus > 1.0).count();
    c.count("sharing.gpu_jobs", gpus.len() as u64);
    for (name, number) in [("fractional", fractions.len()), ("one_gpu", one), ("multi_gpu", multi)] {
        c.count(&format!("sharing.{name}_jobs"), number as u64);
        c.number(&format!("sharing.{name}_share"), number as f64 / n, SUM);
    }
    plain::plain_curve(c, "sharing.request_curve", &fractions, 100);
    plain::summary(c, "sharing.request", &fractions);
    let fractional = world.jobs.iter().filter(|job| job.gpus.is_some_and(|gpus| gpus > 0.0 && gpus < 1.0));
    c.number("sharing.fractional_gpu_hours", gpu_hours(fractional), SUM);
    let (from, to) = world.window;
    let mut means = Vec::new();
    for (name, amount) in [("with_sharing", (|gpus| gpus) as fn(f64) -> f64), ("without_sharing", f64::ceil)] {
        let held = plain::held(world, |_| true, amount);
        let mean = plain::area(&held, from, to) / (to - from) as f64;
        let peak = plain::pieces(&held, from, to).iter().map(|(_, _, gpus)| *gpus).fold(0.0, f64::max);
        c.number(&format!("sharing.{name}.mean_gpus"), mean, SUM);
        c.number(&format!("sharing.{name}.peak_gpus"), peak, SUM);
        means.push(mean);
    }
    c.number("sharing.saved_share", 1.0 - means[0] / means[1], SUM);
}

/// A10.
pub fn users(c: &mut Checker, world: &World) {
    let mut of_user: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for job in &world.jobs {
        if let Some(user) = &job.user {
            of_user.entry(user).or_default().push(job);
        }
    }
    let known: usize = of_user.values().map(Vec::len).sum();
    let hours = |jobs: &[&Job]| gpu_hours(jobs.iter().copied());
    let total: f64 = of_user.values().map(|jobs| hours(jobs)).sum();
    c.count("users.users", of_user.len() as u64);
    c.count("users.jobs", known as u64);
    c.count("users.unknown_user_jobs", (world.jobs.len() - known) as u64);
    c.number("users.gpu_hours", total, SUM);
    concentration(c, "users.gpu_time", &of_user.values().map(|jobs| hours(jobs)).collect::<Vec<f64>>());
    c.null("users.cpu_time");
    let waits = |jobs: &[&Job]| jobs.iter().filter_map(|job| job.wait_s).collect::<Vec<f64>>();
    let wait_hours = |jobs: &[&Job]| waits(jobs).iter().sum::<f64>() / 3_600.0;
    let gpu_wait_hours =
        |jobs: &[&Job]| jobs.iter().filter_map(|job| Some(job.gpus? * job.wait_s?)).sum::<f64>() / 3_600.0;
    let waiters: Vec<&Vec<&Job>> = of_user.values().filter(|jobs| !waits(jobs).is_empty()).collect();
    if waiters.is_empty() {
        c.null("users.wait");
        c.null("users.gpu_wait");
    } else {
        concentration(c, "users.wait", &waiters.iter().map(|jobs| wait_hours(jobs)).collect::<Vec<f64>>());
        concentration(c, "users.gpu_wait", &waiters.iter().map(|jobs| gpu_wait_hours(jobs)).collect::<Vec<f64>>());
    }
    let ended = |jobs: &[&Job]| jobs.iter().filter(|job| job.is_over()).count();
    let rate = |jobs: &[&Job]| {
        let completed = jobs.iter().filter(|job| job.state == "completed").count();
        completed as f64 / ended(jobs) as f64
    };
    let rates: Vec<f64> = of_user.values().filter(|jobs| ended(jobs) >= 10).map(|jobs| rate(jobs)).collect();
    plain::summary(c, "users.completed_share", &rates);
    plain::plain_curve(c, "users.completed_share_curve", &rates, 200);
    let mut order: Vec<(&str, Vec<&Job>)> = of_user.into_iter().collect();
    order.sort_by(|a, b| hours(&b.1).total_cmp(&hours(&a.1)));
    order.truncate(20);
    c.list("users.top", order.len());
    for (ix, (user, jobs)) in order.iter().enumerate() {
        let path = format!("users.top[{ix}]");
        c.text(&format!("{path}.user"), user);
        c.count(&format!("{path}.jobs"), jobs.len() as u64);
        c.number(&format!("{path}.gpu_hours"), hours(jobs), SUM);
        c.number(&format!("{path}.gpu_time_share"), hours(jobs) / total, SUM);
        c.null(&format!("{path}.cpu_hours"));
        c.option(&format!("{path}.completed_share"), (ended(jobs) > 0).then(|| rate(jobs)), SUM);
        let waited = !waits(jobs).is_empty();
        let mean_wait = wait_hours(jobs) * 3_600.0 / waits(jobs).len() as f64;
        c.option(&format!("{path}.mean_wait_s"), waited.then_some(mean_wait), SUM);
        c.option(&format!("{path}.gpu_wait_hours"), waited.then(|| gpu_wait_hours(jobs)), SUM);
    }
}

/// Concentration of a total over its holders: fewer than 200 here, so that the Lorenz curve has
/// every point.
fn concentration(c: &mut Checker, path: &str, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (n, total) = (sorted.len(), sorted.iter().sum::<f64>());
    c.count(&format!("{path}.holders"), n as u64);
    c.number(&format!("{path}.total"), total, SUM);
    c.number(&format!("{path}.gini"), plain::gini(values), SUM);
    for percent in [1, 5, 10] {
        let holders = (n * percent).div_ceil(100);
        let held: f64 = sorted[n - holders..].iter().sum();
        c.number(&format!("{path}.top_{percent}_percent_share"), held / total, SUM);
    }
    c.list(&format!("{path}.lorenz"), n + 1);
    for ix in 0..=n {
        c.number(&format!("{path}.lorenz[{ix}].holder_share"), ix as f64 / n as f64, SUM);
        c.number(&format!("{path}.lorenz[{ix}].value_share"), sorted[..ix].iter().sum::<f64>() / total, SUM);
    }
}

/// A14, where names are not recorded: groups of (user, VC, GPUs).
pub fn recurrence(c: &mut Checker, world: &World) {
    let mut groups: BTreeMap<(&str, Option<&str>, String), Vec<&Job>> = BTreeMap::new();
    for job in &world.jobs {
        if let Some(user) = &job.user {
            groups.entry((user, job.vc.as_deref(), format!("{:?}", job.gpus))).or_default().push(job);
        }
    }
    let groups: Vec<Vec<&Job>> = groups.into_values().collect();
    let n: usize = groups.iter().map(Vec::len).sum();
    let hours = |groups: &[&Vec<&Job>]| gpu_hours(groups.iter().flat_map(|jobs| jobs.iter().copied()));
    let total = hours(&groups.iter().collect::<Vec<_>>());
    c.count("recurrence.jobs", n as u64);
    c.count("recurrence.unknown_jobs", (world.jobs.len() - n) as u64);
    c.count("recurrence.groups", groups.len() as u64);
    let at_least = |times: usize| groups.iter().filter(|jobs| jobs.len() >= times).collect::<Vec<_>>();
    let times: Vec<usize> = [1, 2, 5, 10, 50, 100, 1_000].into_iter().filter(|t| !at_least(*t).is_empty()).collect();
    c.list("recurrence.at_least", times.len());
    for (ix, times) in times.iter().enumerate() {
        let big = at_least(*times);
        let jobs: usize = big.iter().map(|jobs| jobs.len()).sum();
        let path = format!("recurrence.at_least[{ix}]");
        c.count(&format!("{path}.times"), *times as u64);
        c.count(&format!("{path}.groups"), big.len() as u64);
        c.count(&format!("{path}.jobs"), jobs as u64);
        c.number(&format!("{path}.job_share"), jobs as f64 / n as f64, SUM);
        c.number(&format!("{path}.gpu_time_share"), hours(&big) / total, SUM);
    }
    c.number("recurrence.recurring_gpu_hours", hours(&at_least(5)), SUM);
    let (mut gaps, mut covs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut within, mut all) = (0.0, Vec::new());
    let squares = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    for jobs in &groups {
        for pair in jobs.windows(2) {
            gaps.push((pair[1].submit - pair[0].submit) as f64 / 1_000.0);
        }
        let runs: Vec<f64> = jobs.iter().filter_map(|job| job.ended_run()).filter(|run| *run > 0.0).collect();
        if runs.len() >= 5 {
            let mean = runs.iter().sum::<f64>() / runs.len() as f64;
            covs.push((squares(&runs) / (runs.len() - 1) as f64).sqrt() / mean);
        }
        let logs: Vec<f64> = runs.iter().filter(|run| **run >= 1.0).map(|run| run.log10()).collect();
        if !logs.is_empty() {
            within += squares(&logs);
        }
        all.extend(logs);
        for (ix, job) in jobs.iter().enumerate() {
            // Of those that had ended when this one was submitted, the one submitted last; ends are places in time here.
            let over =
                |other: &Job| other.ended_run().is_some() && other.held.iter().all(|(_, end)| *end <= job.submit);
            let mut before =
                jobs.iter().enumerate().filter(|(at, other)| *at != ix && over(other)).map(|(_, other)| other);
            let (Some(run), Some(before)) = (job.ended_run(), before.next_back()) else { continue };
            let earlier = before.run_s.unwrap();
            if run > 0.0 && earlier > 0.0 {
                ratios.push((run / earlier).log10().abs());
            }
        }
    }
    plain::summary(c, "recurrence.gap_s", &gaps);
    plain::summary(c, "recurrence.run_cov", &covs);
    c.number("recurrence.between_groups_share", 1.0 - within / squares(&all), SUM);
    c.count("recurrence.compared", ratios.len() as u64);
    let twice = ratios.iter().filter(|ratio| **ratio <= 2f64.log10()).count();
    c.number("recurrence.within_twice_share", twice as f64 / ratios.len() as f64, SUM);
    ratios.sort_by(f64::total_cmp);
    c.number("recurrence.median_log10_ratio", plain::quantile(&ratios, 0.5), SUM);
}

/// A13 of a source whose jobs each run on one node, and that records neither placements nor VCs.
pub fn locality(c: &mut Checker, world: &World) {
    let multi: Vec<&Job> = world.jobs.iter().filter(|job| job.gpus.is_some_and(|gpus| gpus > 1.0)).collect();
    // Only what started ran on a node.
    let placed: Vec<&Job> = multi.iter().copied().filter(|job| job.start.is_some()).collect();
    assert!(placed.iter().all(|job| job.nodes == Some(1)));
    c.count("locality.multi_gpu_jobs", multi.len() as u64);
    c.count("locality.known_jobs", placed.len() as u64);
    c.number("locality.gpus_per_node", world.largest_node.unwrap(), 0.0);
    c.flag("locality.gpus_per_node_from_inventory", true);
    // No job can be on fewer nodes than one.
    c.number("locality.spread_job_share", 0.0, 0.0);
    c.number("locality.spread_gpu_time_share", 0.0, 0.0);
    let waits: Vec<f64> = placed.iter().filter_map(|job| job.wait_s).collect();
    let gpus: f64 = placed.iter().filter_map(|job| job.gpus).sum();
    for (field, class) in [("by_nodes", "1 node"), ("by_spread", "fewest nodes")] {
        c.list(&format!("locality.{field}"), 1);
        let path = format!("locality.{field}[0]");
        c.text(&format!("{path}.class"), class);
        c.count(&format!("{path}.jobs"), placed.len() as u64);
        c.number(&format!("{path}.job_share"), 1.0, 0.0);
        c.number(&format!("{path}.gpu_hours"), gpu_hours(placed.iter().copied()), SUM);
        c.number(&format!("{path}.mean_gpus"), gpus / placed.len() as f64, SUM);
        plain::summary(c, &format!("{path}.wait_s"), &waits);
    }
    c.null("locality.delay");
}

/// A20 of a source without utilisation.
pub fn lost(c: &mut Checker, world: &World) {
    let held: Vec<&Job> = world.jobs.iter().filter(|job| job.gpu_s().is_some_and(|gpu_s| gpu_s > 0.0)).collect();
    c.count("lost.unknown_gpu_time_jobs", world.jobs.iter().filter(|job| job.gpu_s().is_none()).count() as u64);
    row_of_lost(c, "lost.all", &held);
    let mut by = |field: &str, of: fn(&Job) -> &Option<String>| {
        let mut names: Vec<&String> = held.iter().filter_map(|job| of(job).as_ref()).collect();
        names.sort();
        names.dedup();
        c.list(&format!("lost.{field}"), names.len());
        let mut before = f64::INFINITY;
        for ix in 0..names.len() {
            let path = format!("lost.{field}[{ix}]");
            let name = c.value(&format!("{path}.name"));
            let jobs: Vec<&Job> = held.iter().copied().filter(|job| of(job).as_deref() == name.as_str()).collect();
            assert!(!jobs.is_empty(), "{path} is {name}");
            row_of_lost(c, &path, &jobs);
            let lost = c.value(&format!("{path}.lost_gpu_hours")).as_f64().unwrap_or(f64::NEG_INFINITY);
            if lost > before {
                c.mismatch(format!("{path}.lost_gpu_hours: {lost} after {before}"));
            }
            before = lost;
        }
    };
    by("users", |job| &job.user);
    by("vcs", |job| &job.vc);
}

fn row_of_lost(c: &mut Checker, path: &str, jobs: &[&Job]) {
    let hours = |states: &[&str]| gpu_hours(jobs.iter().copied().filter(|job| states.contains(&job.state)));
    let known = jobs.iter().any(|job| job.state != "unknown");
    let failed = hours(&["failed", "out_of_memory", "node_fail", "timeout"]);
    let (cancelled, all) = (hours(&["cancelled"]), gpu_hours(jobs.iter().copied()));
    c.count(&format!("{path}.jobs"), jobs.len() as u64);
    c.number(&format!("{path}.held_gpu_hours"), all, SUM);
    c.option(&format!("{path}.failed_gpu_hours"), known.then_some(failed), SUM);
    c.option(&format!("{path}.cancelled_gpu_hours"), known.then_some(cancelled), SUM);
    c.null(&format!("{path}.idle_gpu_hours"));
    let others =
        jobs.iter().any(|job| !["failed", "out_of_memory", "node_fail", "timeout", "cancelled"].contains(&job.state));
    c.option(&format!("{path}.utilisation_coverage"), others.then_some(0.0), 0.0);
    c.option(&format!("{path}.lost_gpu_hours"), known.then_some(failed + cancelled), SUM);
}

/// A21 of a source without names.
pub fn repeated(c: &mut Checker, world: &World) {
    let failed = |job: &Job| ["failed", "out_of_memory", "timeout"].contains(&job.state);
    let ended: Vec<&Job> = world.jobs.iter().filter(|job| job.is_over()).collect();
    let mut known: Vec<&Job> = ended.iter().copied().filter(|job| job.user.is_some() && job.end.is_some()).collect();
    c.count("repeated.jobs", known.len() as u64);
    c.count("repeated.unknown_jobs", (ended.len() - known.len()) as u64);
    known.sort_by_key(|job| job.end);
    let mut of_user: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for job in known {
        of_user.entry(job.user.as_deref().unwrap()).or_default().push(job);
    }
    let in_a_row = |jobs: &[&Job]| jobs.split(|job| !failed(job)).map(<[_]>::len).max().unwrap_or(0);
    of_user.retain(|_, jobs| in_a_row(jobs) >= 3);
    c.list("repeated.works", of_user.len());
    let hours = |jobs: &[&Job]| gpu_hours(jobs.iter().copied().filter(|job| failed(job)));
    let total: f64 = of_user.values().map(|jobs| hours(jobs)).sum();
    c.option("repeated.lost_gpu_hours", (!of_user.is_empty()).then_some(total), SUM);
    let mut users: Vec<(&str, Vec<&Job>)> = of_user.into_iter().collect();
    users.sort_by(|a, b| hours(&b.1).total_cmp(&hours(&a.1)));
    for (ix, (user, jobs)) in users.iter().enumerate() {
        let path = format!("repeated.works[{ix}]");
        c.text(&format!("{path}.user"), user);
        c.null(&format!("{path}.name"));
        c.count(&format!("{path}.jobs"), jobs.len() as u64);
        c.count(&format!("{path}.failures"), jobs.iter().filter(|job| failed(job)).count() as u64);
        c.count(&format!("{path}.most_in_a_row"), in_a_row(jobs) as u64);
        c.number(&format!("{path}.lost_gpu_hours"), hours(jobs), SUM);
    }
}

/// A22 of a source without limits.
pub fn limits(c: &mut Checker, world: &World) {
    let ran: Vec<&Job> = world.jobs.iter().filter(|job| job.is_gpu_job() && job.run_s.is_some()).collect();
    c.count("limits.jobs", ran.iter().filter(|job| job.ended_run().is_some_and(|run| run > 0.0)).count() as u64);
    c.count("limits.limited_jobs", 0);
    c.null("limits.median_limit_over_run");
    c.null("limits.reserved_gpu_hours");
    c.list("limits.users", 0);
    let (earlier, later) = ran.split_at(ran.len() - ran.len() / 4);
    let split = later[0].submit;
    let over = |job: &&&Job| job.state == "completed" && job.held.iter().all(|(_, end)| *end <= split);
    let mut runs: Vec<(f64, f64)> =
        earlier.iter().filter(over).map(|job| (job.run_s.unwrap(), gpu_hours([*job]))).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The first that 95 of 100, and jobs with 95 of 100 GPU-hours, do not exceed, in whole minutes.
    let of_jobs = runs[(runs.len() * 95).div_ceil(100) - 1].0;
    let total: f64 = runs.iter().map(|(_, hours)| hours).sum();
    let mut sum = 0.0;
    let of_time = runs.iter().find(|(_, hours)| {
        sum += hours;
        sum >= 0.95 * total
    });
    let limit = (of_jobs.max(of_time.map_or(0.0, |(run, _)| *run)) / 60.0).ceil() * 60.0;
    let ended: Vec<&Job> = later.iter().copied().filter(|job| job.run_s.unwrap() > limit).collect();
    let path = "limits.default_limit";
    c.number(&format!("{path}.limit_s"), limit, 0.0);
    c.count(&format!("{path}.chosen_on_jobs"), runs.len() as u64);
    c.count(&format!("{path}.later_jobs"), later.len() as u64);
    c.count(&format!("{path}.ended_jobs"), ended.len() as u64);
    c.count(
        &format!("{path}.ended_completed_jobs"),
        ended.iter().filter(|job| job.state == "completed").count() as u64,
    );
    let (lost, all) = (gpu_hours(ended), gpu_hours(later.to_vec()));
    c.number(&format!("{path}.ended_gpu_hours"), lost, SUM);
    c.number(&format!("{path}.later_gpu_hours"), all, SUM);
    c.flag(&format!("{path}.advised"), lost <= 0.1 * all);
}
