//! The generator as a whole: same seed same bytes, calibration of the bundled sample, the bundled folder, and what holds
//! for any trace it makes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracecast_analytics::storage;

use super::spec::SchedulerSpec;
use super::*;
use crate::replay::fidelity::{Fidelity, Verdict};
use crate::replay::input::{Options, load};
use crate::sim::simulate;

/// The seed of the bundled sample.
const SEED: u64 = 3;

fn datasets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets")
}

fn spec(name: &str) -> Spec {
    Spec::load(&datasets().join("specs").join(name)).unwrap()
}

/// A quick one: VCs of two and three nodes for five days.
fn small() -> Spec {
    let text = r#"
        name = "small"
        [[vc]]
        name = "a"
        nodes = 2
        [[vc]]
        name = "b"
        nodes = 3
        [[change]]
        day = 2
        from = "b"
        to = "a"
        nodes = 1
        [cluster]
        name = "tiny"
        start = "2024-01-01"
        days = 5
        [users]
        count = 8
        [arrivals]
        jobs_per_day = 120
        cpu_share = 0.3
        [sizes]
        gpus = [{ size = 1, share = 0.7 }, { size = 8, share = 0.25 }, { size = 12, share = 0.05 }]
        [gpu_runs]
        median_s = 300
        mean_s = 2000
        max_s = 86400
        [gpu_states]
        cancelled = 0.2
        failed = 0.1
        [failures]
        mtbf_days = 3
    "#;
    Spec::parse(text, "small.toml").unwrap()
}

/// Every file of the folder a trace makes, by name.
fn files(trace: &Trace) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("trace");
    storage::save(trace, &folder).unwrap();
    read_files(&folder)
}

fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        files.insert(path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap());
    }
    files
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let one = files(&generate(&small(), 5).unwrap());
    assert!(one == files(&generate(&small(), 5).unwrap()));
    assert_ne!(one["jobs.parquet"], files(&generate(&small(), 6).unwrap())["jobs.parquet"]);
}

#[test]
fn telemetry_and_market_do_not_disturb_the_jobs() {
    let full = spec("sample.toml");
    let mut bare = full.clone();
    (bare.telemetry, bare.carbon, bare.price) = (None, None, Vec::new());
    let (full, bare) = (generate(&full, 3).unwrap(), generate(&bare, 3).unwrap());
    assert!(full.jobs.end.iter().eq(bare.jobs.end.iter()));
    assert!(full.placements.gpu_ids.iter().eq(bare.placements.gpu_ids.iter()));
    assert!(full.gpu_samples.power_w.known_count() > 0 && bare.gpu_samples.power_w.known_count() == 0);
}

#[test]
fn the_bundled_sample_reproduces_the_published_totals() {
    let spec = spec("sample.toml");
    let results = calibrate::check(&generate(&spec, SEED).unwrap(), &spec);
    assert_eq!(results.len(), 22);
    let off: Vec<_> = results.iter().filter(|result| !result.within).collect();
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn the_bundled_sample_is_what_the_generator_makes() {
    let made = files(&generate(&spec("sample.toml"), SEED).unwrap());
    let bundled = read_files(&datasets().join("sample"));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&made), names(&bundled));
    for (name, bytes) in &made {
        assert!(bundled[name] == *bytes, "{name} differs: run `tracecast synth datasets/specs/sample.toml --seed 3`");
    }
    let size: usize = bundled.values().map(Vec::len).sum();
    assert!(size <= 1_500_000, "{size} bytes");
}

#[test]
fn a_synthetic_trace_says_so() {
    let trace = generate(&small(), 1).unwrap();
    assert!(trace.notes.iter().any(|note| note.starts_with("Synthetic:")));
    assert!(trace.ledger.balances());
}

/// GPUs in use never exceed what a node or a VC has, at any instant, as the tables tell it.
#[test]
fn no_gpu_is_given_twice_and_no_vc_exceeds_its_quota() {
    let trace = generate(&spec("sample.toml"), SEED).unwrap();
    let jobs = &trace.jobs;
    let end_of_record = trace.capacity.to.iter().flatten().max().unwrap();
    let rows: BTreeMap<&str, usize> = (0..jobs.job_key.len()).map(|ix| (jobs.job_key.get(ix).unwrap(), ix)).collect();
    let mut attempts: BTreeMap<(&str, i64), (i64, i64)> = BTreeMap::new();
    for ix in 0..trace.attempts.job_key.len() {
        let end = trace.attempts.end.get(ix).unwrap_or(end_of_record);
        let key = (trace.attempts.job_key.get(ix).unwrap(), trace.attempts.attempt.get(ix).unwrap());
        attempts.insert(key, (trace.attempts.start.get(ix).unwrap(), end));
    }
    assert!(!attempts.is_empty(), "some jobs were requeued");
    // Spans of each GPU, and changes of each VC's use.
    let mut spans: BTreeMap<(String, u32), Vec<(i64, i64)>> = BTreeMap::new();
    let mut steps: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
    let placements = &trace.placements;
    for ix in 0..placements.job_key.len() {
        let key = placements.job_key.get(ix).unwrap();
        let row = rows[key];
        let whole = || (jobs.start.get(row).unwrap(), jobs.end.get(row).unwrap_or(end_of_record));
        let (start, end) = attempts.get(&(key, placements.attempt.get(ix).unwrap())).copied().unwrap_or_else(whole);
        let ids: Vec<u32> = placements.gpu_ids.get(ix).unwrap().split(',').map(|id| id.parse().unwrap()).collect();
        assert_eq!(ids.len() as f64, placements.gpus.get(ix).unwrap());
        let vc = steps.entry(jobs.vc.get(row).unwrap().to_owned()).or_default();
        vc.extend([(start, ids.len() as f64), (end, -(ids.len() as f64))]);
        for id in ids {
            assert!(id < 8);
            spans.entry((placements.node.get(ix).unwrap().to_owned(), id)).or_default().push((start, end));
        }
    }
    for ((node, gpu), spans) in &mut spans {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[1].0 >= pair[0].1, "GPU {gpu} of {node} is given twice: {pair:?}");
        }
    }
    for ix in 0..trace.capacity.scope.len() {
        if trace.capacity.scope.get(ix) == Some("vc") {
            let steps = steps.get_mut(trace.capacity.name.get(ix).unwrap()).unwrap();
            let gpus = trace.capacity.gpus.get(ix).unwrap();
            // What is quota before the change at its instant: a release is a change of −1 sorted first.
            steps.push((trace.capacity.from.get(ix).unwrap(), -gpus));
            steps.push((trace.capacity.to.get(ix).unwrap(), gpus));
        }
    }
    let moved = trace.capacity.scope.iter().filter(|scope| *scope == Some("vc")).count();
    assert!(moved > 6, "quotas change");
    for (vc, steps) in &mut steps {
        steps.sort_by_key(|a| a.0);
        let mut over = 0.0;
        for instant in steps.chunk_by(|a, b| a.0 == b.0) {
            over += instant.iter().map(|(_, gpus)| gpus).sum::<f64>();
            assert!(over <= 0.0, "{vc} uses {over} GPUs more than it has at {}", instant[0].0);
        }
    }
}

/// Replays the trace of `spec` as a user would, from its tables alone, under its own policy; how near it comes, and jobs compared.
fn replayed(spec: &Spec, seed: u64) -> Fidelity {
    let trace = generate(spec, seed).unwrap();
    let loaded = load(&trace, None, &Options::default()).unwrap();
    let schedule = simulate(&loaded.workload, &loaded.cluster, &spec.scheduler.policy().unwrap()).unwrap();
    // Where, too: the GPUs of each job's first run.
    let mut first: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let placements = &trace.placements;
    for row in 0..placements.job_key.len() {
        if placements.attempt.get(row) == Some(1) {
            let gpus = placements.gpu_ids.get(row).unwrap().to_owned();
            first.entry(placements.job_key.get(row).unwrap()).or_default().push(gpus);
        }
    }
    let mut seen = vec![false; loaded.workload.len()];
    for segment in &schedule.segments {
        let job = segment.job as usize;
        let Some(recorded) = first.get(loaded.keys[job].as_str()) else { continue };
        if !std::mem::replace(&mut seen[job], true) {
            let ids = |bits: u64| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(|bit: u32| bit.to_string());
            let gpus: Vec<String> =
                schedule.pieces_of(segment).iter().map(|piece| ids(piece.gpus).collect::<Vec<_>>().join(",")).collect();
            assert_eq!(gpus, *recorded, "job {}", loaded.keys[job]);
        }
    }
    Fidelity::new(&loaded.workload, &schedule, &loaded.recorded_start_ms).unwrap()
}

#[test]
fn the_bundled_sample_is_what_the_simulator_does() {
    let spec = spec("sample.toml");
    let result = replayed(&spec, SEED);
    // All GPU jobs that started but those that still ran at the end.
    assert!(result.jobs > 8_000, "{result:?}");
    assert_eq!((result.verdict.clone(), result.max_abs_error_s), (Verdict::Exact, Some(0.0)), "{result:?}");
    assert!(result.recorded_mean_wait_s > Some(60.0), "jobs wait: {result:?}");
}

/// With failures every three days of a node, a quota change and waits, under policies that look at different things.
#[test]
fn whatever_the_policy_the_replay_is_exact() {
    let policies = [
        (None, None, None),
        (None, Some("skip"), None),
        (Some("fewest-gpus"), Some("strict"), None),
        (Some("fair-share:2d"), Some("skip"), None),
        (Some("multifactor:age=1000,fair_share=500,size=100"), Some("skip"), Some("first-fit")),
        (None, Some("skip"), Some("spread")),
    ];
    let text = |name: Option<&str>| name.map(str::to_owned);
    for (at, (order, scan, place)) in (0..).zip(policies) {
        let mut spec = small();
        spec.scheduler =
            SchedulerSpec { order: text(order), scan: text(scan), place: text(place), ..SchedulerSpec::default() };
        for load in [120.0, 400.0] {
            spec.arrivals.jobs_per_day = load;
            let result = replayed(&spec, 1 + at);
            assert_eq!(result.verdict, Verdict::Exact, "{order:?} {scan:?} {place:?} {load}: {result:?}");
        }
    }
}

#[test]
fn a_policy_that_needs_more_than_jobs_is_refused() {
    let refused = |order: &str| {
        let mut spec = small();
        spec.scheduler.order = Some(order.to_owned());
        generate(&spec, 1).unwrap_err().to_string()
    };
    assert!(refused("lottery").starts_with("scheduler: policy: `lottery` is no order; there are fifo"));
    assert!(refused("gittins").starts_with("scheduler: a policy that needs a history"));
    let options = SchedulerSpec { scan: Some("skip".into()), tenants: Some("vc".into()), ..SchedulerSpec::default() };
    assert_eq!(options.options(), "--recorded fifo/skip --site tenants=vc");
}

#[test]
fn jobs_are_whole() {
    let trace = generate(&small(), 2).unwrap();
    let jobs = &trace.jobs;
    assert_eq!(jobs.job_key.len(), 600, "120 a day for 5 days");
    let cpu = jobs.req_gpus.iter().filter(|gpus| *gpus == Some(0.0)).count();
    assert!((cpu as f64 / 600.0 - 0.3).abs() < 0.05, "{cpu}");
    for ix in 0..600 {
        let state = JobState::from_id(jobs.state.get(ix).unwrap());
        assert_eq!(jobs.censored.get(ix), Some(i64::from(!state.is_final())));
        assert_eq!(jobs.end.get(ix).is_some(), state.is_final());
        assert_eq!(jobs.run_s.get(ix).is_some(), state.is_final());
        if let (Some(start), Some(submit)) = (jobs.start.get(ix), jobs.submit.get(ix)) {
            assert!(start >= submit);
        }
        if let (Some(run), Some(limit)) = (jobs.run_s.get(ix), jobs.time_limit_s.get(ix))
            && jobs.attempts.get(ix) == Some(1)
        {
            assert!(run <= limit, "job {ix} ran {run} s under a limit of {limit} s");
            assert_eq!(state == JobState::Timeout, run == limit, "at its limit means timeout");
        }
    }
}

#[test]
fn presets_are_sound() {
    for name in ["helios_like.toml", "acme_like.toml", "philly_like.toml"] {
        let spec = spec(name);
        spec.check().unwrap();
        assert!(spec.target.len() >= 8, "{name}");
    }
}

#[test]
#[ignore = "makes a million jobs; run with --ignored"]
fn presets_reproduce_the_published_totals() {
    for name in ["helios_like.toml", "acme_like.toml", "philly_like.toml"] {
        let spec = spec(name);
        let results = calibrate::check(&generate(&spec, 1).unwrap(), &spec);
        let off: Vec<_> = results.iter().filter(|result| !result.within).collect();
        assert!(off.is_empty(), "{name}: {off:#?}");
    }
}

#[test]
fn specifications_that_make_no_sense_are_refused_with_the_key() {
    let refused = |change: fn(&mut Spec)| {
        let mut spec = small();
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    };
    assert!(refused(|spec| spec.cluster.start = "yesterday".to_owned()).starts_with("cluster.start: yesterday"));
    assert!(refused(|spec| spec.change[0].nodes = 3).starts_with("change.nodes: 3"));
    // VC b always has 2 nodes (3 − 1), as many as VC a: 16 GPUs.
    assert!(refused(|spec| spec.sizes.gpus[2].size = 17).contains("ask for 1 to 16"));
    assert!(refused(|spec| spec.arrivals.hourly = vec![1.0]).contains("give 24 rates"));
    let unknown = Spec::parse("name = 'x'\nnonsense = 1\n", "x.toml").unwrap_err().to_string();
    assert!(unknown.contains("x.toml, line 2") && unknown.contains("nonsense"), "{unknown}");
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicTraces {
    trace: Vec<PublicTrace>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct PublicTrace {
    name: String,
    cluster: String,
    what: String,
    url: String,
    licence: String,
    readers: Vec<String>,
    note: Option<String>,
    #[serde(default)]
    tested: Vec<TestedFile>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TestedFile {
    file: String,
    form: String,
    sha256: String,
}

#[test]
fn the_manifest_of_public_traces_is_sound() {
    let text = std::fs::read_to_string(datasets().join("manifest.toml")).unwrap();
    let traces: PublicTraces = toml::from_str(&text).unwrap();
    let mut names: Vec<&str> = traces.trace.iter().map(|trace| trace.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "names are unique");
    for trace in &traces.trace {
        assert!(trace.url.starts_with("https://"), "{}", trace.name);
        assert!(!trace.readers.is_empty() || trace.note.is_some(), "{} has a reader or says why not", trace.name);
        for file in &trace.tested {
            assert!(["published", "derived"].contains(&file.form.as_str()), "{}", file.file);
            assert!(file.sha256.len() == 64 && file.sha256.bytes().all(|b| b.is_ascii_hexdigit()), "{}", file.file);
        }
    }
}
