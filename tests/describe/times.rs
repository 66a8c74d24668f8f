//! Topics about lengths and moments: duration, wait, calendar, arrival, VCs.

use std::collections::BTreeMap;

use crate::checker::{Checker, SUM};
use crate::jobs::gpu_hours;
use crate::world::{DAY, HOUR, Job, World, moment, month_of};
use crate::{law, plain};

/// Names of the size classes for people, in the order of [`Job::class`].
const CLASSES: [&str; 6] = ["no GPU", "under 1 GPU", "1 GPU", "2–4 GPUs", "5–8 GPUs", "over 8 GPUs"];

/// A3.
pub fn duration(c: &mut Checker, world: &World) {
    let all: Vec<&Job> = world.jobs.iter().collect();
    runs(c, "duration.all", "all jobs", &all);
    let gpu: Vec<&Job> = all.iter().copied().filter(|job| job.is_gpu_job()).collect();
    runs(c, "duration.gpu", "GPU jobs", &gpu);
    let of_class = |class: usize| all.iter().copied().filter(|job| job.class() == Some(class)).collect::<Vec<_>>();
    // Classes without a known run are left out.
    let classes: Vec<usize> = (0..6).filter(|class| of_class(*class).iter().any(|job| job.run_s.is_some())).collect();
    assert!(all.iter().all(|job| job.gpus.is_some()), "every job here has a GPU count");
    c.list("duration.by_size", classes.len());
    for (ix, class) in classes.iter().enumerate() {
        runs(c, &format!("duration.by_size[{ix}]"), CLASSES[*class], &of_class(*class));
    }
    let pairs: Vec<(f64, f64)> = all.iter().filter_map(|job| Some((job.run_s?, job.gpu_s()?))).collect();
    plain::curve(c, "duration.gpu_time_curve", &pairs, 160);
    c.number("duration.gpu_time_median_s", plain::weighted_quantile(&pairs, 0.5), 0.0);
}

/// Runs of one class. Without a running job, Kaplan-Meier is the plain share of jobs that ran at most so long.
fn runs(c: &mut Checker, path: &str, class: &str, jobs: &[&Job]) {
    let runs: Vec<f64> = jobs.iter().filter_map(|job| job.ended_run()).collect();
    let running = jobs.iter().filter(|job| job.running).count();
    c.text(&format!("{path}.class"), class);
    c.count(&format!("{path}.ended"), runs.len() as u64);
    c.count(&format!("{path}.running"), running as u64);
    c.count(&format!("{path}.unknown"), jobs.iter().filter(|job| job.run_s.is_none()).count() as u64);
    plain::summary(c, &format!("{path}.ended_s"), &runs);
    if running == 0 {
        let ones: Vec<(f64, f64)> = runs.iter().map(|run| (*run, 1.0)).collect();
        c.number(&format!("{path}.kaplan_meier_median_s"), plain::weighted_quantile(&ones, 0.5), 0.0);
        c.number(&format!("{path}.kaplan_meier_p90_s"), plain::weighted_quantile(&ones, 0.9), 0.0);
        plain::plain_curve(c, &format!("{path}.curve"), &runs, 160);
    } else {
        let seen: Vec<(f64, bool)> = jobs.iter().filter_map(|job| Some((job.run_s?, !job.running))).collect();
        let curve = plain::ended_by(&seen);
        let reached = |share: f64| curve.iter().find(|(_, ended)| *ended >= share - 1e-12).map(|(run, _)| *run);
        c.option(&format!("{path}.kaplan_meier_median_s"), reached(0.5), 0.0);
        c.option(&format!("{path}.kaplan_meier_p90_s"), reached(0.9), 0.0);
        // Few enough that the curve is not thinned.
        c.list(&format!("{path}.curve"), curve.len());
        for (ix, (run, ended)) in curve.iter().enumerate() {
            c.number(&format!("{path}.curve[{ix}].x"), *run, 0.0);
            c.number(&format!("{path}.curve[{ix}].fraction"), *ended, SUM);
        }
    }
    c.number(&format!("{path}.gpu_hours"), gpu_hours(jobs.iter().copied()), SUM);
    if runs.len() < 50 {
        c.list(&format!("{path}.fits"), 0);
        c.null(&format!("{path}.pareto_tail"));
        c.list(&format!("{path}.not_fitted"), 0);
        return;
    }
    law::fits(c, &format!("{path}.fits"), &runs, Some(&format!("{path}.not_fitted")));
    law::tail(c, &format!("{path}.pareto_tail"), &runs);
}

/// A4 and A5.
pub fn wait<'w>(c: &mut Checker, world: &'w World) {
    let all: Vec<&'w Job> = world.jobs.iter().collect();
    let known: Vec<&Job> = all.iter().copied().filter(|job| job.wait_s.is_some()).collect();
    c.count("wait.unknown", (all.len() - known.len()) as u64);
    waits(c, "wait.all", "all jobs", &known);
    // What is told by VC, run and user is of GPU jobs.
    let gpu: Vec<&Job> = known.iter().copied().filter(|job| job.is_gpu_job()).collect();
    waits(c, "wait.gpu", "GPU jobs", &gpu);
    c.count("wait.gpu_unknown", (all.iter().filter(|job| job.is_gpu_job()).count() - gpu.len()) as u64);
    let without: Vec<(usize, usize)> = (0..6)
        .map(|class| (class, all.iter().filter(|job| job.class() == Some(class)).collect::<Vec<_>>()))
        .filter(|(_, jobs)| !jobs.is_empty() && jobs.iter().all(|job| job.wait_s.is_none()))
        .map(|(class, jobs)| (class, jobs.len()))
        .collect();
    c.list("wait.without", without.len());
    for (ix, (class, jobs)) in without.iter().enumerate() {
        c.text(&format!("wait.without[{ix}].class"), CLASSES[*class]);
        c.count(&format!("wait.without[{ix}].jobs"), *jobs as u64);
    }
    let groups = |jobs: &[&'w Job], of: &dyn Fn(&Job) -> Option<usize>, names: &[&str]| {
        let mut out: Vec<(String, Vec<&'w Job>)> = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        for job in jobs {
            if let Some(ix) = of(job) {
                out[ix].1.push(job);
            }
        }
        out.retain(|(_, jobs)| !jobs.is_empty());
        out
    };
    let by_run = |job: &Job| {
        let run = job.run_s?;
        Some([60.0, 3_600.0, 86_400.0].into_iter().filter(|edge| run >= *edge).count())
    };
    let lengths = ["ran under 1 min", "1 min to 1 h", "1 h to 1 day", "over 1 day"];
    let mut by_vc: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for job in &gpu {
        if let Some(vc) = &job.vc {
            by_vc.entry(vc).or_default().push(job);
        }
    }
    let mut by_vc: Vec<(String, Vec<&Job>)> = by_vc.into_iter().map(|(vc, jobs)| (vc.to_owned(), jobs)).collect();
    by_vc.sort_by(|a, b| gpu_wait(&b.1).total_cmp(&gpu_wait(&a.1)));
    for (field, groups) in [
        ("by_size", groups(&known, &Job::class, &CLASSES)),
        ("by_run", groups(&gpu, &by_run, &lengths)),
        ("by_vc", by_vc),
    ] {
        c.list(&format!("wait.{field}"), groups.len());
        for (ix, (name, jobs)) in groups.iter().enumerate() {
            waits(c, &format!("wait.{field}[{ix}]"), name, jobs);
        }
    }
    let mut of_user: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for job in &gpu {
        if let Some(user) = &job.user {
            of_user.entry(user).or_default().extend(job.wait_s);
        }
    }
    let means: Vec<f64> = of_user.values().map(|waits| waits.iter().sum::<f64>() / waits.len() as f64).collect();
    plain::summary(c, "wait.user_mean_s", &means);
    deciles(c, &gpu);
    let long: Vec<f64> = gpu.iter().filter_map(|job| job.wait_s).filter(|wait| *wait >= 1.0).collect();
    if long.len() < 50 {
        c.list("wait.fits", 0);
    } else {
        law::fits(c, "wait.fits", &long, None);
    }
}

/// GPUs × wait, hours.
fn gpu_wait(jobs: &[&Job]) -> f64 {
    jobs.iter().filter_map(|job| Some(job.gpus? * job.wait_s?)).sum::<f64>() / 3_600.0
}

fn waits(c: &mut Checker, path: &str, class: &str, jobs: &[&Job]) {
    let waits: Vec<f64> = jobs.iter().filter_map(|job| job.wait_s).collect();
    c.text(&format!("{path}.class"), class);
    plain::summary(c, &format!("{path}.started_s"), &waits);
    c.count(&format!("{path}.waiting"), 0);
    let long = waits.iter().filter(|wait| **wait >= 60.0).count();
    c.number(&format!("{path}.over_a_minute_share"), long as f64 / waits.len() as f64, SUM);
    plain::plain_curve(c, &format!("{path}.curve"), &waits, 160);
    c.number(&format!("{path}.gpu_wait_hours"), gpu_wait(jobs), SUM);
}

/// Tenths of the jobs by run, ties by wait.
fn deciles(c: &mut Checker, known: &[&Job]) {
    let mut jobs: Vec<(f64, f64)> = known.iter().filter_map(|job| Some((job.ended_run()?, job.wait_s?))).collect();
    jobs.retain(|(run, wait)| run + wait > 0.0);
    jobs.sort_by(|a, b| a.partial_cmp(b).unwrap());
    c.list("wait.share_by_run_decile", 10);
    for decile in 0..10 {
        let bounds = |tenth: usize| tenth * jobs.len() / 10;
        let part = &jobs[bounds(decile)..bounds(decile + 1)];
        let n = part.len() as f64;
        let path = format!("wait.share_by_run_decile[{decile}]");
        c.count(&format!("{path}.decile"), decile as u64 + 1);
        c.number(&format!("{path}.from_s"), part[0].0, 0.0);
        c.number(&format!("{path}.to_s"), part[part.len() - 1].0, 0.0);
        c.count(&format!("{path}.jobs"), part.len() as u64);
        let share: f64 = part.iter().map(|(run, wait)| wait / (run + wait)).sum();
        c.number(&format!("{path}.mean_share"), share / n, SUM);
        c.number(&format!("{path}.mean_wait_s"), part.iter().map(|(_, wait)| wait).sum::<f64>() / n, SUM);
    }
}

/// Weekday (0 is Monday) and hour of a local time.
fn weekday_hour(local: i64) -> (usize, usize) {
    // 1970-01-01 was a Thursday.
    ((local.div_euclid(DAY) + 3).rem_euclid(7) as usize, (local.rem_euclid(DAY) / HOUR) as usize)
}

/// A7.
pub fn calendar(c: &mut Checker, world: &World) {
    let (from, to) = world.window;
    c.text("calendar.zone", world.zone);
    c.flag("calendar.has_calendar", world.offset.is_some());
    let held = plain::held(world, |_| true, |gpus| gpus);
    match world.offset {
        Some(offset) => hours(c, world, &held, offset),
        None => {
            let empty = ["by_hour", "submissions_by_weekday", "submissions_by_weekday_hour", "by_month"];
            for field in empty.into_iter().chain(["gpus_in_use_by_weekday"]) {
                c.list(&format!("calendar.{field}"), 0);
            }
        }
    }
    let mean = plain::area(&held, from, to) / (to - from) as f64;
    let pieces = plain::pieces(&held, from, to);
    let peak = pieces.iter().map(|(_, _, gpus)| *gpus).fold(0.0, f64::max);
    let there = world.capacity();
    let capacity = there.as_ref().map(|there| plain::area(there, from, to) / (to - from) as f64);
    c.null("calendar.nodes_in_use");
    let path = "calendar.gpus_in_use";
    c.number(&format!("{path}.mean_gpus"), mean, SUM);
    c.number(&format!("{path}.peak_gpus"), peak, SUM);
    c.option(&format!("{path}.capacity_gpus"), capacity, SUM);
    if capacity.is_none() {
        c.null(&format!("{path}.capacity_source"));
    }
    c.option(&format!("{path}.utilisation"), capacity.map(|gpus| mean / gpus), SUM);
    let assumed = gpu_hours(world.jobs.iter().filter(|job| job.assumed_start));
    c.number(&format!("{path}.assumed_gpu_time_share"), assumed / gpu_hours(&world.jobs), SUM);
    // What is used less what is there, while it is there.
    let over = there.map(|mut balance| {
        balance.iter_mut().for_each(|(_, _, gpus)| *gpus = -*gpus);
        balance.extend(held.iter().copied());
        let over = plain::pieces(&balance, from, to);
        let time: i64 = over.iter().filter(|(_, _, gpus)| *gpus > 0.0).map(|(start, end, _)| end - start).sum();
        time as f64 / (to - from) as f64
    });
    c.option(&format!("{path}.oversubscribed_time_share"), over, SUM);
    // Jobs are recorded one by one, so that no count of them fails.
    c.number(&format!("{path}.outage_hours"), 0.0, 0.0);
    c.null(&format!("{path}.utilisation_with_outages"));
    plain::buckets(c, &format!("{path}.curve"), &held, world.window);
}

fn hours(c: &mut Checker, world: &World, held: &plain::Stretches, offset: fn(i64) -> i64) {
    let (from, to) = world.window;
    let local = |ms: i64| weekday_hour(ms + offset(ms));
    // Both zones differ from UTC by whole hours, so the pieces between full hours of UTC have one local hour each.
    let by_hours = |start: i64, end: i64, visit: &mut dyn FnMut(usize, usize, i64)| {
        let mut at = start;
        while at < end {
            let next = (at.div_euclid(HOUR) * HOUR + HOUR).min(end);
            let (weekday, hour) = local(at);
            visit(weekday, hour, next - at);
            at = next;
        }
    };
    let mut observed = [[0i64; 24]; 7];
    by_hours(from, to, &mut |weekday, hour, ms| observed[weekday][hour] += ms);
    let mut counts = [[0u64; 24]; 7];
    for job in &world.jobs {
        let (weekday, hour) = local(job.submit);
        counts[weekday][hour] += 1;
    }
    let (mut used, mut used_by_day) = ([0.0; 24], [0.0; 7]);
    for (start, end, gpus) in held {
        by_hours((*start).max(from), (*end).min(to), &mut |weekday, hour, ms| {
            used[hour] += gpus * ms as f64;
            used_by_day[weekday] += gpus * ms as f64;
        });
    }
    c.list("calendar.by_hour", 24);
    for hour in 0..24 {
        let time = (0..7).map(|day| observed[day][hour]).sum::<i64>() as f64;
        let submitted = (0..7).map(|day| counts[day][hour]).sum::<u64>() as f64;
        let path = format!("calendar.by_hour[{hour}]");
        c.count(&format!("{path}.hour"), hour as u64);
        c.number(&format!("{path}.submissions"), submitted / (time / HOUR as f64), SUM);
        c.number(&format!("{path}.gpus_in_use"), used[hour] / time, SUM);
    }
    c.list("calendar.submissions_by_weekday", 7);
    c.list("calendar.gpus_in_use_by_weekday", 7);
    c.list("calendar.submissions_by_weekday_hour", 7);
    for day in 0..7 {
        let days = observed[day].iter().sum::<i64>() as f64 / DAY as f64;
        let used = (days > 0.0).then(|| used_by_day[day] / (days * DAY as f64));
        c.option(&format!("calendar.gpus_in_use_by_weekday[{day}]"), used, SUM);
        let submitted = counts[day].iter().sum::<u64>() as f64;
        c.option(&format!("calendar.submissions_by_weekday[{day}]"), (days > 0.0).then(|| submitted / days), SUM);
        c.list(&format!("calendar.submissions_by_weekday_hour[{day}]"), 24);
        for (hour, submitted) in counts[day].iter().enumerate() {
            c.count(&format!("calendar.submissions_by_weekday_hour[{day}][{hour}]"), *submitted);
        }
    }
    let mut months: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for job in &world.jobs {
        let day = (job.submit + offset(job.submit)).div_euclid(DAY);
        let kind = match job.gpus {
            Some(gpus) if gpus > 1.0 => 1,
            Some(gpus) if gpus > 0.0 => 0,
            _ => 2,
        };
        months.entry(month_of(day)).or_default()[kind] += 1;
    }
    // Hour by hour: what of the month was observed, and the GPU time in it.
    let mut of_month: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut at = from;
    while at < to {
        let next = (at.div_euclid(HOUR) * HOUR + HOUR).min(to);
        of_month.entry(month_of((at + offset(at)).div_euclid(DAY))).or_default().1 += (next - at) as f64;
        at = next;
    }
    for (start, end, gpus) in held {
        let (mut at, end) = ((*start).max(from), (*end).min(to));
        while at < end {
            let next = (at.div_euclid(HOUR) * HOUR + HOUR).min(end);
            of_month.entry(month_of((at + offset(at)).div_euclid(DAY))).or_default().0 += gpus * (next - at) as f64;
            at = next;
        }
    }
    c.list("calendar.by_month", months.len());
    for (ix, (month, jobs)) in months.iter().enumerate() {
        let path = format!("calendar.by_month[{ix}]");
        c.text(&format!("{path}.month"), month);
        let (used, observed) = of_month[month];
        c.number(&format!("{path}.gpus_in_use"), used / observed, SUM);
        for (field, jobs) in ["single_gpu_jobs", "multi_gpu_jobs", "other_jobs"].iter().zip(jobs) {
            c.count(&format!("{path}.{field}"), *jobs);
        }
    }
}

/// Nodes in use as a series counts them by local Pacific time: each sample holds until the next, the last for one median
/// gap between samples.
pub fn node_series(c: &mut Checker, rows: &[BTreeMap<String, String>]) {
    let mut samples: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    // Clocks went back at 2 am; the hour before happened twice, and the first is meant.
    let back = moment("2017-11-05 02:00:00");
    for row in rows {
        let local = moment(&row["time"]);
        let utc = local + if local < back { 7 } else { 8 } * HOUR;
        samples.entry(utc).or_insert((row["active"].parse().unwrap(), row["total"].parse().unwrap()));
    }
    let times: Vec<i64> = samples.keys().copied().collect();
    let mut gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let (from, to) = (times[0], times[times.len() - 1] + gaps[gaps.len() / 2]);
    // A sample of at most a fiftieth of the nodes that follows one of at least a fifth begins an outage, which lasts until the
    // next sample of more, or two days.
    let ends = times.iter().skip(1).copied().chain([to]);
    let (mut active, mut total) = (plain::Stretches::new(), plain::Stretches::new());
    let (mut down, mut down_ms, mut before) = (None::<i64>, 0, 0.0);
    for ((start, (used, there)), end) in samples.iter().zip(ends) {
        let share = used / there;
        match down {
            _ if share > 0.02 => down = None,
            None if before >= 0.2 => down = Some(*start),
            _ => {}
        }
        if let Some(since) = down.filter(|since| *start - since < 2 * DAY) {
            assert!(end <= since + 2 * DAY, "no outage here is cut at two days");
            down_ms += end - start;
            continue;
        }
        before = share;
        active.push((*start, end, *used));
        total.push((*start, end, *there));
    }
    let time = (to - from - down_ms) as f64;
    let (mean, there) = (plain::area(&active, from, to) / time, plain::area(&total, from, to) / time);
    let path = "calendar.nodes_in_use";
    c.number(&format!("{path}.from_ms"), from as f64, 0.0);
    c.number(&format!("{path}.to_ms"), to as f64, 0.0);
    c.number(&format!("{path}.mean_nodes"), mean, SUM);
    c.number(&format!("{path}.peak_nodes"), active.iter().map(|(_, _, nodes)| *nodes).fold(0.0, f64::max), 0.0);
    c.number(&format!("{path}.total_nodes"), there, SUM);
    c.number(&format!("{path}.utilisation"), mean / there, SUM);
    c.number(&format!("{path}.outage_hours"), down_ms as f64 / HOUR as f64, SUM);
    assert!((18 * HOUR..20 * HOUR).contains(&down_ms), "its outages are 18.9 hours together, not {down_ms} ms");
    // Each sample by how long it holds, the zeros included.
    let lengths = times.iter().zip(times.iter().skip(1).chain([&to])).map(|(start, end)| (end - start) as f64);
    let (used, there) = samples
        .values()
        .zip(lengths)
        .fold((0.0, 0.0), |sum, ((used, there), length)| (sum.0 + used * length, sum.1 + there * length));
    c.number(&format!("{path}.utilisation_with_outages"), used / there, SUM);
    // Points of the curve are means over what of them was observed; those with nothing are left out.
    let step = (to - from) / 600;
    let (mut start, mut ix) = (from, 0);
    while start < to {
        let end = (start + step).min(to);
        let seen: i64 = active.iter().map(|(s, e, _)| ((*e).min(end) - (*s).max(start)).max(0)).sum();
        if seen > 0 {
            c.number(&format!("{path}.curve[{ix}][0]"), start as f64, 0.0);
            c.number(&format!("{path}.curve[{ix}][1]"), plain::area(&active, start, end) / seen as f64, SUM);
            ix += 1;
        }
        start = end;
    }
    c.list(&format!("{path}.curve"), ix);
}

/// A18.
pub fn arrival(c: &mut Checker, world: &World) {
    let times: Vec<i64> = world.jobs.iter().map(|job| job.submit).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let path = "arrival.arrivals";
    c.count(&format!("{path}.jobs"), times.len() as u64);
    c.number(&format!("{path}.first_ms"), first as f64, 0.0);
    c.number(&format!("{path}.last_ms"), last as f64, 0.0);
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    plain::summary(c, &format!("{path}.gap_ms"), &gaps);
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / (gaps.len() - 1) as f64;
    c.number(&format!("{path}.gap_cov_squared"), variance / mean / mean, SUM);
    // Counts of every whole window between the first and the last arrival, empty ones included.
    let counts = |window: i64| {
        let begin = (first + window - 1).div_euclid(window);
        let end = (last + 1).div_euclid(window);
        let mut counts = vec![0.0; (end - begin).max(0) as usize];
        for time in &times {
            let ix = time.div_euclid(window) - begin;
            if ix >= 0 && (ix as usize) < counts.len() {
                counts[ix as usize] += 1.0;
            }
        }
        counts
    };
    let lengths = [60_000, 600_000, HOUR, DAY];
    c.list(&format!("{path}.dispersion"), lengths.len());
    for (ix, window) in lengths.into_iter().enumerate() {
        let counts = counts(window);
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let path = format!("{path}.dispersion[{ix}]");
        c.number(&format!("{path}.window_ms"), window as f64, 0.0);
        c.count(&format!("{path}.windows"), counts.len() as u64);
        c.number(&format!("{path}.mean_jobs"), mean, SUM);
        c.number(&format!("{path}.index"), variance / mean, SUM);
    }
    let hourly = counts(HOUR);
    let mean = hourly.iter().sum::<f64>() / hourly.len() as f64;
    let squares: f64 = hourly.iter().map(|count| (count - mean).powi(2)).sum();
    c.list(&format!("{path}.hourly_correlation"), 3);
    for (ix, lag) in [1usize, 24, 168].into_iter().enumerate() {
        let products: f64 = (lag..hourly.len()).map(|at| (hourly[at] - mean) * (hourly[at - lag] - mean)).sum();
        c.count(&format!("{path}.hourly_correlation[{ix}].lag_h"), lag as u64);
        let correlation = (lag < hourly.len()).then(|| products / squares);
        c.option(&format!("{path}.hourly_correlation[{ix}].correlation"), correlation, 1e-8);
    }
    let mut seconds: BTreeMap<i64, u64> = BTreeMap::new();
    for time in &times {
        *seconds.entry(time.div_euclid(1_000)).or_default() += 1;
    }
    let shared: u64 = seconds.values().filter(|jobs| **jobs > 1).sum();
    c.number(&format!("{path}.same_second_share"), shared as f64 / times.len() as f64, SUM);
    let most = *seconds.values().max().unwrap();
    let (second, _) = seconds.iter().find(|(_, jobs)| **jobs == most).unwrap();
    c.number(&format!("{path}.biggest_burst.start_ms"), *second as f64 * 1_000.0, 0.0);
    c.count(&format!("{path}.biggest_burst.jobs"), most);
    queue(c, world);
}

/// Null where the wait of more than a tenth of the jobs is unknown.
fn queue(c: &mut Checker, world: &World) {
    let known = world.jobs.iter().filter(|job| job.wait_s.is_some()).count();
    if 10 * known < 9 * world.jobs.len() {
        c.null("arrival.queue");
        return;
    }
    let (from, to) = world.window;
    let time = (to - from) as f64;
    let waiting: plain::Stretches =
        world.jobs.iter().filter_map(Job::waited).map(|(submit, start)| (submit, start, 1.0)).collect();
    let pieces = plain::pieces(&waiting, from, to);
    let empty: i64 = pieces.iter().filter(|(_, _, jobs)| *jobs == 0.0).map(|(start, end, _)| end - start).sum();
    c.number("arrival.queue.mean_jobs", plain::area(&waiting, from, to) / time, SUM);
    c.number("arrival.queue.peak_jobs", pieces.iter().map(|(_, _, jobs)| *jobs).fold(0.0, f64::max), 0.0);
    c.number("arrival.queue.empty_time_share", empty as f64 / time, SUM);
    plain::buckets(c, "arrival.queue.curve", &waiting, world.window);
}

/// A8 of a source whose jobs name VCs.
pub fn vc(c: &mut Checker, world: &World) {
    let (from, to) = world.window;
    let time = (to - from) as f64;
    let mut of_vc: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for job in &world.jobs {
        if let Some(vc) = &job.vc {
            of_vc.entry(vc).or_default().push(job);
        }
    }
    let hours = |jobs: &[&Job]| gpu_hours(jobs.iter().copied());
    let mut vcs: Vec<(&str, Vec<&Job>)> = of_vc.into_iter().collect();
    vcs.sort_by(|a, b| hours(&b.1).total_cmp(&hours(&a.1)));
    // Pending GPUs are told only where at most a tenth of the GPU jobs of VCs have an unknown wait.
    let asking: Vec<&Job> = world.jobs.iter().filter(|job| job.vc.is_some() && job.is_gpu_job()).collect();
    let known = asking.iter().filter(|job| job.waited().is_some()).count();
    let waits_known = known > 0 && 10 * (asking.len() - known) <= asking.len();
    let mut loads = Vec::new();
    c.list("vc.vcs", vcs.len());
    for (ix, (name, jobs)) in vcs.iter().enumerate() {
        let path = format!("vc.vcs[{ix}]");
        c.text(&format!("{path}.vc"), name);
        c.text(&format!("{path}.source"), "jobs");
        let held = plain::held(world, |job| job.vc.as_deref() == Some(*name), |gpus| gpus);
        c.number(&format!("{path}.gpus_in_use.mean"), plain::area(&held, from, to) / time, SUM);
        let values: Vec<(f64, f64)> =
            plain::pieces(&held, from, to).into_iter().map(|(start, end, gpus)| (gpus, (end - start) as f64)).collect();
        for (field, q) in [("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95)] {
            c.number(&format!("{path}.gpus_in_use.{field}"), plain::weighted_quantile(&values, q), SUM);
        }
        c.null(&format!("{path}.reported_utilisation_mean"));
        match world.quotas.get(*name) {
            Some(quota) => loads.push(vc_quota(c, &path, &held, quota, world.window)),
            None => {
                for field in ["mean_capacity_gpus", "utilisation", "over_capacity_time_share"] {
                    c.null(&format!("{path}.{field}"));
                }
            }
        }
        c.count(&format!("{path}.reported_utilisation_samples"), 0);
        let asked: plain::Stretches =
            jobs.iter().filter_map(|job| job.waited().map(|(s, e)| (s, e, job.gpus.unwrap()))).collect();
        let mean = plain::area(&asked, from, to) / time;
        let busy: i64 = plain::pieces(&asked, from, to)
            .iter()
            .filter(|(_, _, gpus)| *gpus > 0.0)
            .map(|(start, end, _)| end - start)
            .sum();
        c.option(&format!("{path}.mean_pending_gpus"), waits_known.then_some(mean), SUM);
        c.option(&format!("{path}.pending_time_share"), waits_known.then(|| busy as f64 / time), SUM);
        c.count(&format!("{path}.jobs"), jobs.len() as u64);
        c.number(&format!("{path}.gpu_hours"), hours(jobs), SUM);
        let gpus: Vec<f64> = jobs.iter().filter(|job| job.is_gpu_job()).filter_map(|job| job.gpus).collect();
        c.number(&format!("{path}.mean_request_gpus"), gpus.iter().sum::<f64>() / gpus.len() as f64, SUM);
    }
    imbalance(c, &loads);
    c.number("vc.gpu_hours", vcs.iter().map(|(_, jobs)| hours(jobs)).sum(), SUM);
    let unknown: Vec<&Job> = world.jobs.iter().filter(|job| job.vc.is_none()).collect();
    c.count("vc.unknown_vc_jobs", unknown.len() as u64);
    c.number("vc.unknown_vc_gpu_time_share", hours(&unknown) / gpu_hours(&world.jobs), SUM);
    c.number("vc.outage_hours", 0.0, 0.0);
}

/// Mean utilisation, GPU time used and GPU time there was.
struct Load {
    mean: f64,
    used: f64,
    there: f64,
}

/// Use of a VC against its quota.
fn vc_quota(
    c: &mut Checker,
    path: &str,
    held: &plain::Stretches,
    quota: &plain::Stretches,
    (from, to): (i64, i64),
) -> Load {
    let quotas = plain::pieces(quota, from, to);
    let (mut ratios, mut over) = (Vec::new(), 0);
    for (start, end, used) in plain::pieces(held, from, to) {
        for (since, until, gpus) in &quotas {
            let time = (end.min(*until) - start.max(*since)).max(0);
            if time > 0 && *gpus > 0.0 {
                ratios.push((used / gpus, time as f64));
            }
            over += if used > *gpus { time } else { 0 };
        }
    }
    let time: f64 = ratios.iter().map(|(_, time)| time).sum();
    let mean = ratios.iter().map(|(ratio, time)| ratio * time).sum::<f64>() / time;
    let span = (to - from) as f64;
    c.number(&format!("{path}.mean_capacity_gpus"), plain::area(quota, from, to) / span, SUM);
    c.number(&format!("{path}.utilisation.mean"), mean, SUM);
    for (field, q) in [("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95)] {
        c.number(&format!("{path}.utilisation.{field}"), plain::weighted_quantile(&ratios, q), SUM);
    }
    c.number(&format!("{path}.over_capacity_time_share"), over as f64 / span, SUM);
    Load { mean, used: plain::area(held, from, to), there: plain::area(quota, from, to) }
}

/// Inequality of the mean utilisations; two VCs with a quota at least.
fn imbalance(c: &mut Checker, loads: &[Load]) {
    if loads.len() < 2 {
        for field in ["imbalance", "utilisation_gini", "pooled_utilisation"] {
            c.null(&format!("vc.{field}"));
        }
        return;
    }
    let means: Vec<f64> = loads.iter().map(|load| load.mean).collect();
    let n = means.len() as f64;
    let sum: f64 = means.iter().sum();
    let squares: f64 = means.iter().map(|mean| mean * mean).sum();
    let deviation = (means.iter().map(|mean| (mean - sum / n).powi(2)).sum::<f64>() / n).sqrt();
    let (least, most) = means.iter().fold((f64::MAX, 0.0), |(least, most), mean| (mean.min(least), mean.max(most)));
    c.count("vc.imbalance.parts", means.len() as u64);
    c.number("vc.imbalance.cov", deviation / (sum / n), SUM);
    c.number("vc.imbalance.max_min_ratio", most / least, SUM);
    c.number("vc.imbalance.jain", sum * sum / (n * squares), SUM);
    c.number("vc.utilisation_gini", plain::gini(&means), SUM);
    let total = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
    c.number("vc.pooled_utilisation", total(|load| load.used) / total(|load| load.there), SUM);
}
