//! Eight VCs of Helios' Earth cluster, minute by minute: what an activity series without jobs says, against plain loops
//! over the minutes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::checker::{Checker, SUM};
use crate::plain;
use crate::world::{DAY, HOUR, moment, rows};

const MINUTE: i64 = 60_000;

/// One VC: a value a minute, none left out.
struct Vc {
    name: String,
    /// Minutes since the beginning that are counted.
    minute: Vec<i64>,
    total: Vec<f64>,
    running: Vec<f64>,
    pending: Vec<f64>,
    idle: Vec<f64>,
    reported: Vec<f64>,
}

impl Vc {
    fn read(path: &Path, from: i64) -> Self {
        let rows = rows(path);
        for (ix, row) in rows.iter().enumerate() {
            assert_eq!(moment(&row["time"]), from + ix as i64 * MINUTE, "a sample every minute");
        }
        let column = |name: &str| rows.iter().map(|row| row[name].parse().unwrap()).collect::<Vec<f64>>();
        Self {
            name: path.file_name().unwrap().to_str().unwrap().replace(".csv.gz", ""),
            minute: (0..rows.len() as i64).collect(),
            total: column("total_gpu_num"),
            running: column("running_gpu_num"),
            pending: column("pending_gpu_num"),
            idle: column("idle_gpu_num"),
            reported: column("gpu_utilization"),
        }
    }

    fn utilisation(&self) -> Vec<f64> {
        self.running.iter().zip(&self.total).map(|(running, total)| running / total).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn share_where(values: &[f64], test: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|value| test(**value)).count() as f64 / values.len() as f64
}

fn spread(c: &mut Checker, path: &str, values: &[f64]) {
    c.number(&format!("{path}.mean"), mean(values), SUM);
    let pairs: Vec<(f64, f64)> = values.iter().map(|value| (*value, 1.0)).collect();
    for (field, q) in [("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95)] {
        c.number(&format!("{path}.{field}"), plain::weighted_quantile(&pairs, q), SUM);
    }
}

/// Largest flow from pending to idle GPUs of other VCs, by augmenting paths through source, VCs, VCs, sink.
fn largest_flow(pending: &[i64], idle: &[i64]) -> i64 {
    let n = pending.len();
    let (source, sink) = (2 * n, 2 * n + 1);
    let mut room = vec![vec![0i64; 2 * n + 2]; 2 * n + 2];
    for v in 0..n {
        room[source][v] = pending[v];
        room[n + v][sink] = idle[v];
        for w in (0..n).filter(|w| *w != v) {
            room[v][n + w] = i64::MAX / 4;
        }
    }
    let mut flow = 0;
    loop {
        let mut from = vec![usize::MAX; 2 * n + 2];
        let mut open = vec![source];
        while let Some(node) = open.pop() {
            for next in 0..2 * n + 2 {
                if room[node][next] > 0 && from[next] == usize::MAX && next != source {
                    from[next] = node;
                    open.push(next);
                }
            }
        }
        if from[sink] == usize::MAX {
            return flow;
        }
        let mut path = vec![sink];
        while path[path.len() - 1] != source {
            path.push(from[path[path.len() - 1]]);
        }
        let least = path.windows(2).map(|pair| room[pair[1]][pair[0]]).min().unwrap();
        for pair in path.windows(2) {
            room[pair[1]][pair[0]] -= least;
            room[pair[0]][pair[1]] += least;
        }
        flow += least;
    }
}

#[test]
fn flow_by_hand() {
    // 4 pending and 1 idle, 5 pending, 6 idle: the 6 serve either, the 1 only the second VC.
    assert_eq!(largest_flow(&[4, 5, 0], &[1, 0, 6]), 7);
    assert_eq!(largest_flow(&[4], &[9]), 0, "a VC does not borrow from itself");
}

/// Every number of the description of the eight files.
pub fn check(c: &mut Checker, files: &[PathBuf]) {
    let local = moment("2020-05-01 00:00:00");
    let mut vcs: Vec<Vc> = files.iter().map(|path| Vc::read(path, local)).collect();
    let minutes = vcs[0].total.len();
    assert!(vcs.iter().all(|vc| vc.total.len() == minutes));
    let from = local - 8 * HOUR;
    let to = from + minutes as i64 * MINUTE;
    // A minute of at most a fiftieth of all GPUs right after one of at least a fifth begins an outage, until the next of more.
    let (mut before, mut down) = (0.0, false);
    let mut keep = Vec::new();
    for minute in 0..minutes {
        let sum = |of: &dyn Fn(&Vc) -> f64| vcs.iter().map(of).sum::<f64>();
        let share = sum(&|vc| vc.running[minute]) / sum(&|vc| vc.total[minute]);
        down = share <= 0.02 && (down || before >= 0.2);
        before = if down { before } else { share };
        keep.push(!down);
    }
    let outage_h = keep.iter().filter(|keep| !**keep).count() as f64 / 60.0;
    assert!(outage_h > 24.0 && outage_h < 48.0, "{outage_h} h");
    for vc in &mut vcs {
        for column in [&mut vc.total, &mut vc.running, &mut vc.pending, &mut vc.idle, &mut vc.reported] {
            let mut kept = keep.iter();
            column.retain(|_| *kept.next().unwrap());
        }
        vc.minute.retain(|minute| keep[*minute as usize]);
    }
    for path in ["vc", "pool", "calendar.gpus_in_use"] {
        c.number(&format!("{path}.outage_hours"), outage_h, SUM);
    }
    // Counted as idle, the same use is spread over all minutes.
    let whole = c.read("calendar.gpus_in_use.utilisation_with_outages");
    assert!(whole < 0.72 && whole > 0.69, "{whole}");
    pool(c, &mut vcs, from, to);
    vc(c, &mut vcs);
    calendar(c, &vcs, from, to);
}

/// A8: each sample holds for a minute, so means over time are means over samples.
fn vc(c: &mut Checker, vcs: &mut [Vc]) {
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    vcs.sort_by(|a, b| sum(&b.running).total_cmp(&sum(&a.running)));
    c.list("vc.vcs", vcs.len());
    for (ix, vc) in vcs.iter().enumerate() {
        let path = format!("vc.vcs[{ix}]");
        c.text(&format!("{path}.vc"), &vc.name);
        c.text(&format!("{path}.source"), "activity");
        c.number(&format!("{path}.mean_capacity_gpus"), mean(&vc.total), SUM);
        spread(c, &format!("{path}.gpus_in_use"), &vc.running);
        spread(c, &format!("{path}.utilisation"), &vc.utilisation());
        // The shared VCs' mean utilisation is what their gpu_utilization columns average to: the plain mean of the
        // column exactly, and the one derived from the counts to within the column's rounding to three digits.
        let reported = mean(&vc.reported);
        c.number(&format!("{path}.reported_utilisation_mean"), reported, SUM);
        let derived = c.read(&format!("{path}.utilisation.mean"));
        if (derived - reported).abs() > 0.0005 {
            c.mismatch(format!("{path}: {derived} derived, {reported} reported"));
        }
        c.count(&format!("{path}.reported_utilisation_samples"), vc.reported.len() as u64);
        let over: Vec<f64> = vc.running.iter().zip(&vc.total).map(|(running, total)| running - total).collect();
        c.number(&format!("{path}.over_capacity_time_share"), share_where(&over, |over| over > 0.0), SUM);
        c.number(&format!("{path}.mean_pending_gpus"), mean(&vc.pending), SUM);
        c.number(&format!("{path}.pending_time_share"), share_where(&vc.pending, |gpus| gpus > 0.0), SUM);
        c.null(&format!("{path}.jobs"));
        c.number(&format!("{path}.gpu_hours"), sum(&vc.running) / 60.0, SUM);
        c.null(&format!("{path}.mean_request_gpus"));
    }
    let means: Vec<f64> = vcs.iter().map(|vc| mean(&vc.utilisation())).collect();
    let n = means.len() as f64;
    let centre = mean(&means);
    let deviation = (means.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / n).sqrt();
    let squares: f64 = means.iter().map(|value| value * value).sum();
    let (least, most) = means.iter().fold((f64::MAX, 0.0), |(a, b), value| (value.min(a), value.max(b)));
    c.count("vc.imbalance.parts", means.len() as u64);
    c.number("vc.imbalance.cov", deviation / centre, SUM);
    c.number("vc.imbalance.max_min_ratio", most / least, SUM);
    c.number("vc.imbalance.jain", sum(&means).powi(2) / (n * squares), SUM);
    c.number("vc.utilisation_gini", plain::gini(&means), SUM);
    let used: f64 = vcs.iter().map(|vc| sum(&vc.running)).sum();
    let there: f64 = vcs.iter().map(|vc| sum(&vc.total)).sum();
    c.number("vc.pooled_utilisation", used / there, SUM);
    c.number("vc.gpu_hours", used / 60.0, SUM);
    c.count("vc.unknown_vc_jobs", 0);
    c.null("vc.unknown_vc_gpu_time_share");
}

/// Sums of one VC in the pool, GPU-minutes.
#[derive(Default)]
struct Served {
    pending: f64,
    poolable: f64,
    covered: f64,
}

/// A9.
fn pool(c: &mut Checker, vcs: &mut [Vc], from: i64, to: i64) {
    let minutes = vcs[0].total.len();
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    vcs.sort_by(|a, b| sum(&b.pending).total_cmp(&sum(&a.pending)));
    let mut served: Vec<Served> = vcs.iter().map(|_| Served::default()).collect();
    let mut flows: BTreeMap<(Vec<i64>, Vec<i64>), i64> = BTreeMap::new();
    let mut together = 0;
    for minute in 0..minutes {
        for (place, vc) in vcs.iter().enumerate() {
            let elsewhere: f64 =
                vcs.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, vc)| vc.idle[minute]).sum();
            let pending = vc.pending[minute];
            served[place].pending += pending;
            served[place].poolable += pending.min(elsewhere);
            served[place].covered += if elsewhere >= pending { pending } else { 0.0 };
        }
        let whole = |of: &dyn Fn(&Vc) -> f64| vcs.iter().map(|vc| of(vc) as i64).collect::<Vec<i64>>();
        let key = (whole(&|vc| vc.pending[minute]), whole(&|vc| vc.idle[minute]));
        let flow = flows.entry(key).or_insert_with_key(|(pending, idle)| largest_flow(pending, idle));
        together += *flow;
    }
    c.text("pool.source", "activity");
    c.list("pool.vcs", vcs.len());
    for (ix, (vc, served)) in vcs.iter().zip(&served).enumerate() {
        let path = format!("pool.vcs[{ix}]");
        c.text(&format!("{path}.vc"), &vc.name);
        c.number(&format!("{path}.pending_gpu_hours"), served.pending / 60.0, SUM);
        c.number(&format!("{path}.pending_time_share"), share_where(&vc.pending, |gpus| gpus > 0.0), SUM);
        let waited = served.pending > 0.0;
        c.option(&format!("{path}.poolable_share"), waited.then(|| served.poolable / served.pending), SUM);
        c.option(&format!("{path}.covered_share"), waited.then(|| served.covered / served.pending), SUM);
        c.number(&format!("{path}.mean_idle_gpus"), mean(&vc.idle), SUM);
        c.number(&format!("{path}.over_capacity_time_share"), share_where(&vc.idle, |gpus| gpus < 0.0), SUM);
    }
    let total = |of: &dyn Fn(&Served) -> f64| served.iter().map(of).sum::<f64>();
    let pending = total(&|served| served.pending);
    c.number("pool.pending_gpu_hours", pending / 60.0, SUM);
    c.number("pool.poolable_share", total(&|served| served.poolable) / pending, SUM);
    c.number("pool.covered_share", total(&|served| served.covered) / pending, SUM);
    c.number("pool.jointly_poolable_share", together as f64 / pending, SUM);
    c.number("pool.idle_gpu_hours", vcs.iter().map(|vc| sum(&vc.idle)).sum::<f64>() / 60.0, SUM);
    c.count("pool.vcs_without_capacity", 0);
    c.number("pool.over_capacity_time_share", 0.0, SUM);
    c.null("pool.unknown_vc_gpu_time_share");
    c.number("pool.from_ms", from as f64, 0.0);
    c.number("pool.to_ms", to as f64, 0.0);
    let step = (to - from) / 600;
    let (pending, idle) = (held(vcs, |vc| &vc.pending, from), held(vcs, |vc| &vc.idle, from));
    let buckets = buckets(&pending, from, to, step);
    c.list("pool.curve", buckets.len());
    for (ix, (start, end, seen)) in buckets.into_iter().enumerate() {
        let path = format!("pool.curve[{ix}]");
        c.number(&format!("{path}.ms"), start as f64, 0.0);
        c.number(&format!("{path}.pending_gpus"), plain::area(&pending, start, end) / seen as f64, SUM);
        c.number(&format!("{path}.idle_gpus"), plain::area(&idle, start, end) / seen as f64, SUM);
    }
}

/// Points of a curve: `(start, end, what of it was counted)`, those of which nothing was left out.
fn buckets(held: &plain::Stretches, from: i64, to: i64, step: i64) -> Vec<(i64, i64, i64)> {
    let mut out = Vec::new();
    let mut start = from;
    while start < to {
        let end = (start + step).min(to);
        let seen: i64 = held.iter().map(|(s, e, _)| ((*e).min(end) - (*s).max(start)).max(0)).sum();
        if seen > 0 {
            out.push((start, end, seen));
        }
        start = end;
    }
    out
}

/// Each minute's sum over the VCs, held for that minute.
fn held(vcs: &[Vc], of: impl Fn(&Vc) -> &Vec<f64>, from: i64) -> plain::Stretches {
    let minutes = 0..vcs[0].total.len();
    let sum = |minute: usize| vcs.iter().map(|vc| of(vc)[minute]).sum::<f64>();
    minutes
        .map(|ix| {
            let start = from + vcs[0].minute[ix] * MINUTE;
            (start, start + MINUTE, sum(ix))
        })
        .collect()
}

/// A7: there are no submissions; GPUs in use are the running ones of all VCs.
fn calendar(c: &mut Checker, vcs: &[Vc], from: i64, to: i64) {
    c.text("calendar.zone", "Asia/Shanghai");
    c.flag("calendar.has_calendar", true);
    c.list("calendar.by_hour", 24);
    c.list("calendar.submissions_by_weekday", 7);
    c.list("calendar.submissions_by_weekday_hour", 0);
    c.list("calendar.by_month", 0);
    for day in 0..7 {
        c.null(&format!("calendar.submissions_by_weekday[{day}]"));
    }
    let running = held(vcs, |vc| &vc.running, from);
    let there = held(vcs, |vc| &vc.total, from);
    for hour in 0..24 {
        // Local days begin with the series, so minute m of the series is in hour (m / 60) mod 24.
        let of_hour = running.iter().enumerate().filter(|(ix, _)| vcs[0].minute[*ix] * MINUTE % DAY / HOUR == hour);
        let values: Vec<f64> = of_hour.map(|(_, (_, _, gpus))| *gpus).collect();
        let path = format!("calendar.by_hour[{hour}]");
        c.count(&format!("{path}.hour"), hour as u64);
        c.null(&format!("{path}.submissions"));
        c.number(&format!("{path}.gpus_in_use"), mean(&values), SUM);
    }
    // 1 May 2020 was a Friday, the fifth day of a week that begins on Monday.
    c.list("calendar.gpus_in_use_by_weekday", 7);
    for day in 0..7 {
        let of_day = running.iter().enumerate().filter(|(ix, _)| (4 + vcs[0].minute[*ix] * MINUTE / DAY) % 7 == day);
        let values: Vec<f64> = of_day.map(|(_, (_, _, gpus))| *gpus).collect();
        c.number(&format!("calendar.gpus_in_use_by_weekday[{day}]"), mean(&values), SUM);
    }
    let time = (running.len() as i64 * MINUTE) as f64;
    let (used, capacity) = (plain::area(&running, from, to) / time, plain::area(&there, from, to) / time);
    let path = "calendar.gpus_in_use";
    c.number(&format!("{path}.mean_gpus"), used, SUM);
    c.number(&format!("{path}.peak_gpus"), running.iter().map(|(_, _, gpus)| *gpus).fold(0.0, f64::max), SUM);
    c.number(&format!("{path}.capacity_gpus"), capacity, SUM);
    c.number(&format!("{path}.utilisation"), used / capacity, SUM);
    c.number(&format!("{path}.oversubscribed_time_share"), 0.0, SUM);
    c.null(&format!("{path}.assumed_gpu_time_share"));
    c.null("calendar.nodes_in_use");
    let points = buckets(&running, from, to, (to - from) / 600);
    c.list(&format!("{path}.curve"), points.len());
    for (ix, (start, end, seen)) in points.into_iter().enumerate() {
        c.number(&format!("{path}.curve[{ix}][0]"), start as f64, 0.0);
        c.number(&format!("{path}.curve[{ix}][1]"), plain::area(&running, start, end) / seen as f64, SUM);
    }
}
