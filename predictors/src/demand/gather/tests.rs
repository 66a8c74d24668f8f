#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use tracecast_analytics::schema::{ActivityRow, CapacityRow, JobRow, NodeRow};

use super::*;

const MINUTE: i64 = 60_000;

fn sample(
    scope: &'static str,
    name: &'static str,
    minute: i64,
    used: f64,
    pending: f64,
    total: f64,
) -> ActivityRow<'static> {
    ActivityRow {
        scope: Some(scope.into()),
        name: Some(name.into()),
        ts: Some(minute * MINUTE),
        gpus_running: Some(used),
        gpus_pending: Some(pending),
        gpus_total: Some(total),
        ..ActivityRow::default()
    }
}

fn options(minutes: i64) -> GatherOptions {
    GatherOptions { slot_ms: minutes * MINUTE, ..GatherOptions::default() }
}

#[test]
fn a_slot_is_its_largest_last_and_mean_count_and_a_gap_carries_the_last_one_on() {
    let mut trace = Trace::default();
    for (minute, used) in [(0, 3.0), (1, 5.0), (2, 4.0), (9, 1.0), (10, 2.0), (11, 2.0)] {
        trace.activity.push(sample("vc", "a", minute, used, 0.0, 8.0));
    }
    let result = series(&trace, &options(3)).unwrap();
    let slots = &result[0].slots;
    let plain = |slot: &Slot| (slot.peak, slot.last, slot.mean, slot.counted);
    // 3, 5, 4: mean 4; nothing in minutes 3 to 8, which carry on 4; 1, 2, 2: mean 5/3.
    let expected = [(5.0, 4.0, 4.0, true), (4.0, 4.0, 4.0, false), (4.0, 4.0, 4.0, false), (2.0, 2.0, 5.0 / 3.0, true)];
    assert_eq!(slots.iter().map(plain).collect::<Vec<_>>(), expected);
    assert_eq!((result.len(), result[0].start_ms, result[0].unit), (1, 0, Unit::Gpus));
}

#[test]
fn the_pool_is_the_sum_at_each_moment_and_not_of_the_peaks() {
    let mut trace = Trace::default();
    for (minute, a, b) in [(0, 6.0, 0.0), (1, 0.0, 5.0), (2, 1.0, 1.0)] {
        trace.activity.push(sample("vc", "a", minute, a, 2.0, 8.0));
        trace.activity.push(sample("vc", "b", minute, b, 1.0, 8.0));
    }
    let result = series(&trace, &options(3)).unwrap();
    let named: Vec<(&str, f64)> = result.iter().map(|each| (each.name.as_str(), each.slots[0].peak)).collect();
    assert_eq!(named, [("a", 6.0), ("b", 5.0), (POOL, 6.0)]);
    assert_eq!((result[2].slots[0].pending, result[2].slots[0].total), (3.0, 16.0));
    // With what waits: 6 + 0 + 3; capped at 16 nothing changes, VC a is capped at 8.
    let asked = |asked| series(&trace, &GatherOptions { asked, ..options(3) }).unwrap();
    assert_eq!(asked(Asked::WithPending)[2].slots[0].peak, 9.0);
    assert_eq!(asked(Asked::WithPendingUpToTotal)[0].slots[0].peak, 8.0);
    let one = series(&trace, &GatherOptions { vcs: vec!["b".to_owned()], ..options(3) }).unwrap();
    assert_eq!(one.iter().map(|each| each.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(
        series(&trace, &GatherOptions { vcs: vec!["c".to_owned()], ..options(3) })
            .unwrap_err()
            .to_string()
            .contains("a, b")
    );
}

#[test]
fn a_cluster_that_falls_to_zero_has_an_outage_and_a_vc_has_not() {
    let counts = [60.0, 61.0, 0.0, 1.0, 0.0, 62.0];
    let of = |scope| {
        let mut trace = Trace::default();
        for (minute, used) in (0..).zip(counts) {
            trace.activity.push(sample(scope, "x", minute, used, 0.0, 100.0));
        }
        trace
    };
    let result = gather(&of("cluster"), &options(2)).unwrap();
    let peaks: Vec<(f64, bool)> = result.series[0].slots.iter().map(|slot| (slot.peak, slot.counted)).collect();
    // Minutes 2, 3 and 4 are left out: the second slot carries on 61, the third has minute 5.
    assert_eq!(peaks, [(61.0, true), (61.0, false), (62.0, true)]);
    assert!(result.notes.iter().any(|note| note.contains("3 samples are in 1 stretch")), "{:?}", result.notes);
    let idle = series(&of("cluster"), &GatherOptions { outages_are_idle: true, ..options(2) }).unwrap();
    let vc = series(&of("vc"), &options(2)).unwrap();
    for each in [&idle[0], &vc[0]] {
        assert_eq!(each.slots.iter().map(|slot| slot.peak).collect::<Vec<_>>(), [61.0, 1.0, 62.0]);
    }
}

#[test]
fn slots_begin_on_the_local_clock_and_slots_covered_in_part_are_left_out() {
    let mut trace = Trace { zone: "Asia/Kolkata".to_owned(), ..Trace::default() };
    // Kolkata is 5 h 30 min ahead: local hours begin on the half hour of UTC.
    for minute in 10..100 {
        trace.activity.push(sample("vc", "a", minute, 1.0, 0.0, 8.0));
    }
    let result = series(&trace, &options(60)).unwrap();
    assert_eq!((result[0].start_ms, result[0].slots.len()), (30 * MINUTE, 1));
}

fn job(key: &'static str, vc: &'static str, gpus: f64, submit: i64, start: i64, end: i64) -> JobRow<'static> {
    JobRow {
        job_key: Some(key.into()),
        vc: (!vc.is_empty()).then(|| vc.into()),
        alloc_gpus: Some(gpus),
        state: Some("COMPLETED".into()),
        submit: Some(submit * MINUTE),
        start: Some(start * MINUTE),
        end: Some(end * MINUTE),
        run_s: Some((end - start) as f64 * 60.0),
        ..JobRow::default()
    }
}

#[test]
fn jobs_give_what_runs_and_waits_in_each_vc_and_nodes_rounded_up_by_vc() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 12.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 3.0, 0, 10, 20));
    trace.jobs.push(job("3", "", 1.0, 0, 0, 5));
    let result = gather(&trace, &options(10)).unwrap();
    let peaks = |of: &[Series]| -> Vec<(String, Vec<f64>)> {
        of.iter().map(|each| (each.name.clone(), each.slots.iter().map(|slot| slot.peak).collect())).collect()
    };
    let expect = |name: &str, peaks: [f64; 2]| (name.to_owned(), peaks.to_vec());
    assert_eq!(peaks(&result.series), [expect("a", [12.0, 12.0]), expect("b", [0.0, 3.0]), expect(POOL, [13.0, 15.0])]);
    // The pool's mean over the first slot: 12 + 1 for half of it.
    assert_eq!((result.series[2].slots[0].mean, result.series[1].slots[0].pending), (12.5, 3.0));
    let nodes = series(&trace, &GatherOptions { unit: Some(Unit::Nodes), ..options(10) }).unwrap();
    // 12 / 8 → 2, 3 / 8 → 1, and the job without a VC takes one for five minutes.
    assert_eq!(peaks(&nodes), [expect("a", [2.0, 2.0]), expect("b", [0.0, 1.0]), expect(POOL, [3.0, 3.0])]);
}

#[test]
fn after_two_days_at_zero_a_cluster_is_idle_and_later_samples_change_no_earlier_slot() {
    let of = |hours: i64| {
        let mut trace = Trace::default();
        for hour in 0..hours {
            trace.activity.push(sample("cluster", "x", 60 * hour, if hour < 3 { 80.0 } else { 0.0 }, 0.0, 100.0));
        }
        series(&trace, &options(60)).unwrap().remove(0).slots
    };
    // Busy at hours 0 to 2; 0 from hour 3 on, which is believed from hour 51 on.
    let slots = of(60);
    assert!(slots[3..51].iter().all(|slot| slot.peak == 80.0 && !slot.counted));
    assert!(slots[51..].iter().all(|slot| slot.peak == 0.0 && slot.counted));
    for hours in 4..60usize {
        assert_eq!(of(hours as i64), slots[..hours], "{hours}");
    }
}

#[test]
fn when_all_vcs_fall_to_zero_none_of_them_is_idle_and_one_alone_may_be() {
    let mut trace = Trace::default();
    for (minute, a, b) in [(0, 5.0, 4.0), (1, 0.0, 4.0), (2, 5.0, 4.0), (3, 0.0, 0.0), (4, 0.0, 1.0)] {
        trace.activity.push(sample("vc", "a", minute, a, 0.0, 8.0));
        trace.activity.push(sample("vc", "b", minute, b, 0.0, 8.0));
    }
    let result = gather(&trace, &options(1)).unwrap();
    let peaks = |at: usize| result.series[at].slots.iter().map(|slot| (slot.peak, slot.counted)).collect::<Vec<_>>();
    // In minute 1 only a is at 0; in minute 3 all are; in minute 4 one of 16 runs, more than 2 %.
    assert_eq!(peaks(0), [(5.0, true), (0.0, true), (5.0, true), (5.0, false), (0.0, true)]);
    assert_eq!(peaks(2), [(9.0, true), (4.0, true), (9.0, true), (9.0, false), (1.0, true)]);
    assert!(result.notes[0].contains("all VCs: 1 sample is in 1 stretch"), "{:?}", result.notes);
}

#[test]
fn memory_follows_the_rows_and_not_the_span_of_their_times() {
    // Two jobs a century apart, which are too few to tell which is wrong: 100 years of 10 minutes are 5.3 million slots for each
    // of the VC and the pool, and two rows allow 4,000,200. Without a beginning, the newest slots alone are gathered.
    let all = |minutes| GatherOptions { from_ms: Some(0), ..options(minutes) };
    let mut trace = Trace::default();
    trace.jobs.push(job("early", "a", 1.0, 0, 0, 20));
    let century = 100 * 366 * 24 * 60;
    trace.jobs.push(job("late", "a", 1.0, century, century, century + 20));
    assert_eq!(series(&trace, &options(10)).unwrap()[0].slots.len(), 30_010);
    let refused = series(&trace, &all(10)).unwrap_err().to_string();
    for part in ["job early", "job late", "at most 4,000,200", "--slot"] {
        assert!(refused.contains(part), "{part} is missing in {refused}");
    }
    // Slots of a day are some 36,600 a series.
    assert!(series(&trace, &all(24 * 60)).unwrap()[0].slots.len() > 36_000);
    let mut counted = Trace::default();
    counted.activity.push(sample("cluster", "x", 0, 1.0, 0.0, 8.0));
    counted.activity.push(sample("cluster", "x", century, 1.0, 0.0, 8.0));
    let refused = series(&counted, &all(10)).unwrap_err().to_string();
    assert!(refused.contains("last of x"), "{refused}");
}

#[test]
fn of_few_rows_over_decades_the_newest_slots_are_gathered_and_told() {
    let decades = 20 * 365 * 24 * 60;
    let mut trace = Trace::default();
    for (key, minute) in [("early", 0), ("late", decades), ("later", decades + 60)] {
        trace.jobs.push(job(key, "a", 1.0, minute, minute, minute + 20));
        trace.activity.push(sample("vc", if key == "early" { "b" } else { "a" }, minute, 1.0, 0.0, 8.0));
    }
    let of = |options: GatherOptions| gather(&trace, &options).unwrap();
    let jobs = GatherOptions { source: Source::Jobs, ..options(10) };
    let result = of(jobs.clone());
    assert_eq!(result.series[0].slots.len(), 30_015);
    assert_eq!(result.series[0].slots.last().map(|slot| slot.peak), Some(1.0));
    let told = result.notes.iter().find(|note| note.contains("gathered from")).unwrap();
    assert!(told.contains("newest 208 of the 7,300 days") && told.contains("2 of its 3 jobs"), "{told}");
    // Where less than half of the jobs lie there, that is to be known first.
    let before = |minute: i64| of(GatherOptions { before_ms: Some(minute * 60_000), ..jobs.clone() });
    assert!(result.cautions.is_empty());
    assert_eq!(before(decades / 2).series[0].slots.len(), 30_015 + (decades / 20) as usize + 8);
    // From a moment that is named on, all of them.
    let all = of(GatherOptions { from_ms: Some(0), ..jobs });
    assert!(all.series[0].slots.len() > 1_000_000 && !all.notes.iter().any(|note| note.contains("gathered from")));
    // A VC that was counted long ago alone is left out, and told.
    let counted = of(GatherOptions { source: Source::Activity, ..options(10) });
    let names: Vec<&str> = counted.series.iter().map(|series| series.name.as_str()).collect();
    assert!(!names.contains(&"b") && counted.notes.iter().any(|note| note.starts_with("b: left out")), "{names:?}");
    assert!(counted.series.iter().all(|series| series.slots.len() <= 16_416));
}

fn capacity(scope: &'static str, name: &'static str, gpus: f64) -> CapacityRow<'static> {
    CapacityRow {
        scope: Some(scope.into()),
        name: Some(name.into()),
        from: Some(0),
        gpus: Some(gpus),
        state: Some("up".into()),
        ..CapacityRow::default()
    }
}

fn in_nodes(trace: &Trace, nodes: Option<GivenNodes>) -> Gathered {
    gather(trace, &GatherOptions { unit: Some(Unit::Nodes), gpus_per_node: Some(8.0), nodes, ..options(10) }).unwrap()
}

fn totals(result: &Gathered) -> Vec<(&str, f64)> {
    result.series.iter().map(|each| (each.name.as_str(), each.slots[0].total)).collect()
}

/// Regression test: given the jobs of two VCs and the nodes of all 25, the nodes of the others were
/// planned to sleep.
#[test]
fn nodes_of_vcs_without_any_job_are_not_idle_but_left_out() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 12.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 3.0, 0, 10, 20));
    for (scope, name, gpus) in [("vc", "a", 24.0), ("vc", "b", 8.0), ("vc", "c", 80.0), ("cluster", "all", 112.0)] {
        trace.capacity.push(capacity(scope, name, gpus));
    }
    let result = in_nodes(&trace, None);
    assert_eq!(totals(&result), [("a", 3.0), ("b", 1.0), (POOL, 4.0)]);
    let said = "1 of 3 VCs have no job in the source, so that 10 of 14 nodes are left out** (c)";
    assert!(result.cautions.iter().any(|caution| caution.contains(said)), "{:?}", result.cautions);
    assert!(result.notes.contains(&result.cautions[0]));
    // In GPUs it is the same.
    let gpus = gather(&trace, &options(10)).unwrap();
    assert_eq!(totals(&gpus), [("a", 24.0), ("b", 8.0), (POOL, 32.0)]);
    // Where much GPU time names no VC, it may be of any, so all count.
    trace.jobs.push(job("3", "", 16.0, 0, 0, 20));
    let result = in_nodes(&trace, None);
    assert_eq!(totals(&result), [("a", 3.0), ("b", 1.0), (POOL, 14.0)]);
    assert!(result.cautions.is_empty(), "{:?}", result.cautions);
}

/// Regression test: with the nodes of one of two VCs known, the jobs of both were planned on these.
#[test]
fn nodes_of_some_vcs_are_not_those_of_all() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 64.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 3.0, 0, 10, 20));
    trace.capacity.push(capacity("vc", "b", 8.0));
    let result = in_nodes(&trace, None);
    // The most in use at once so far: eight nodes of a, and from minute 10 on one of b.
    assert_eq!((totals(&result)[1], totals(&result)[2]), (("b", 1.0), (POOL, 8.0)));
    assert_eq!(result.series[2].slots[1].total, 9.0);
    assert!(result.totals_unknown.iter().any(|name| name == POOL), "{:?}", result.totals_unknown);
    assert!(result.cautions[0].starts_with("**What 1 VC has is not recorded** (a)"), "{:?}", result.cautions);
    // Where the whole is recorded, it stands.
    trace.capacity.push(capacity("cluster", "all", 120.0));
    assert_eq!(totals(&in_nodes(&trace, None))[2], (POOL, 15.0));
}

/// Regression test: nodes recorded of the cluster and of no VC were dropped with those of VCs
/// without jobs.
#[test]
fn nodes_of_no_vc_stay_where_those_of_vcs_without_jobs_go() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 12.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 3.0, 0, 0, 20));
    for (scope, name, gpus) in [("vc", "a", 24.0), ("vc", "b", 8.0), ("vc", "c", 80.0), ("cluster", "all", 152.0)] {
        trace.capacity.push(capacity(scope, name, gpus));
    }
    // Of 19 nodes 10 are c's, and 5 of no VC.
    assert_eq!(totals(&in_nodes(&trace, None)), [("a", 3.0), ("b", 1.0), (POOL, 9.0)]);
}

/// Regression test: a size of 0 GPUs was taken for an unrecorded one.
#[test]
fn a_vc_that_is_recorded_without_a_gpu_is_told_as_that() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 12.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 3.0, 0, 10, 20));
    trace.capacity.push(capacity("vc", "a", 24.0));
    trace.capacity.push(capacity("vc", "b", 0.0));
    let result = in_nodes(&trace, None);
    assert!(
        result.cautions[0].starts_with("**What 1 VC has is recorded as 0 at all times, though jobs ran there** (b)"),
        "{:?}",
        result.cautions
    );
}

/// Regression test: with a size file of months before, no node was ever there, and the plan's error
/// could not be understood.
#[test]
fn sizes_of_before_the_first_job_are_carried_on_with_a_doubt() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 12.0, 1_000, 1_000, 1_020));
    trace.capacity.push(CapacityRow { to: Some(500 * MINUTE), ..capacity("vc", "a", 24.0) });
    let result = in_nodes(&trace, None);
    assert_eq!(totals(&result), [("a", 3.0)]);
    assert!(result.doubts[0].contains("of another time than the jobs"), "{:?}", result.doubts);
    assert_eq!(
        (&result.cautions[0], result.notes.iter().filter(|note| **note == result.doubts[0]).count()),
        (&result.doubts[0], 1)
    );
}

/// Regression test: a file that names one VC of the trace by chance was planned for as if it were
/// of this cluster.
#[test]
fn a_file_of_which_most_of_the_gpu_time_is_not_is_a_doubt() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 1.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 9.0, 0, 0, 20));
    let always = vec![(i64::MIN / 4, i64::MAX / 4, 5.0)];
    let given = GivenNodes {
        of: "cluster.toml".to_owned(),
        by_vc: [("a".to_owned(), Some(always.clone()))].into(),
        pool: always,
        gpus_per_node: 8.0,
        gpus_range: (8, 8),
        left_out: Vec::new(),
    };
    let result = in_nodes(&trace, Some(given));
    let said = "**What follows is of 10.0 % of the GPU time alone**: 1 of 2 jobs with GPUs are left out, as cluster.toml does not name their VCs (b).";
    assert!(result.doubts[0].starts_with(said) && result.cautions[0] == result.doubts[0], "{:?}", result.cautions);
}

#[test]
fn nodes_without_gpus_are_no_nodes_for_gpu_jobs() {
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "", 12.0, 0, 0, 20));
    for gpus in [8.0, 8.0, 2.0, 0.0, 0.0] {
        trace.nodes.push(NodeRow { gpus: Some(gpus), ..NodeRow::default() });
    }
    let result = in_nodes(&trace, None);
    assert_eq!(totals(&result), [(POOL, 3.0)]);
    assert!(result.cautions[0].contains("2 of 5 nodes have no GPU and are left out"), "{:?}", result.cautions);
}

#[test]
fn nodes_that_are_given_go_before_those_that_are_recorded() {
    let always = |nodes: f64| vec![(i64::MIN / 4, i64::MAX / 4, nodes)];
    let given = |vcs: &[(&str, Option<f64>)], pool: f64| GivenNodes {
        of: "cluster.toml".to_owned(),
        by_vc: vcs.iter().map(|(vc, nodes)| ((*vc).to_owned(), nodes.map(always))).collect(),
        pool: always(pool),
        gpus_per_node: 8.0,
        gpus_range: (8, 8),
        left_out: Vec::new(),
    };
    let mut trace = Trace::default();
    trace.jobs.push(job("1", "a", 12.0, 0, 0, 20));
    trace.jobs.push(job("2", "b", 3.0, 0, 10, 20));
    trace.capacity.push(capacity("vc", "a", 80.0));
    trace.capacity.push(capacity("vc", "b", 80.0));
    let result = in_nodes(&trace, Some(given(&[("a", Some(5.0)), ("b", Some(2.0))], 7.0)));
    assert_eq!((totals(&result), result.totals_unknown.len()), (vec![("a", 5.0), ("b", 2.0), (POOL, 7.0)], 0));
    // VCs that share nodes have none of their own: the most in use so far stands for them.
    let result = in_nodes(&trace, Some(given(&[("a", None), ("b", None)], 7.0)));
    assert_eq!((totals(&result)[2], result.totals_unknown.len()), ((POOL, 7.0), 2));
    // Jobs of a VC that the file does not name are left out, and counted.
    let result = in_nodes(&trace, Some(given(&[("a", Some(5.0))], 5.0)));
    assert_eq!(totals(&result), [("a", 5.0)]);
    assert!(result.cautions[0].starts_with("**1 of 2 jobs with GPUs are left out, with "), "{:?}", result.cautions);
    // So it is with counts.
    let mut counted = Trace::default();
    for minute in 0..10 {
        counted.activity.push(sample("vc", "a", minute, 12.0, 0.0, 80.0));
        counted.activity.push(sample("vc", "b", minute, 3.0, 0.0, 80.0));
    }
    let result = in_nodes(&counted, Some(given(&[("a", Some(5.0)), ("b", Some(2.0))], 7.0)));
    assert_eq!(totals(&result), [("a", 5.0), ("b", 2.0), (POOL, 7.0)]);
    let result = in_nodes(&counted, Some(given(&[("a", Some(5.0))], 5.0)));
    assert_eq!(totals(&result), [("a", 5.0)]);
    // The pool of VCs that are asked for has their nodes alone, and what waits asks for no more than these.
    for minute in 0..10 {
        counted.activity.push(sample("vc", "c", minute, 3.0, 800.0, 8_000.0));
    }
    let of_two = |vcs: [&str; 2]| GatherOptions {
        unit: Some(Unit::Nodes),
        gpus_per_node: Some(8.0),
        asked: Asked::WithPendingUpToTotal,
        vcs: vcs.map(str::to_owned).to_vec(),
        nodes: Some(given(&[("a", Some(5.0)), ("b", Some(2.0)), ("c", Some(20.0))], 27.0)),
        ..options(10)
    };
    let result = gather(&counted, &of_two(["a", "b"])).unwrap();
    assert_eq!(totals(&result), [("a", 5.0), ("b", 2.0), (POOL, 7.0)]);
    let result = gather(&counted, &of_two(["a", "c"])).unwrap();
    let asked: Vec<f64> = result.series.iter().map(|each| each.slots[0].peak).collect();
    assert_eq!((totals(&result), asked), (vec![("a", 5.0), ("c", 20.0), (POOL, 25.0)], vec![2.0, 20.0, 25.0]));
}

/// 65 GPUs on 15 nodes of 13/3: the quotient is more than 15 by rounding alone.
#[test]
fn nodes_of_a_mean_size_hold_what_they_hold() {
    let each = 13.0 / 3.0;
    assert_eq!((65.0_f64 / each).ceil(), 16.0);
    assert_eq!([65.0, 65.1, 0.0].map(|gpus| totals::nodes_of(gpus, each)), [15.0, 16.0, 0.0]);
}
