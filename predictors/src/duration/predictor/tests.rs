//! Forecasts of jobs that were never seen, of groups, and of those that run already.

use super::*;
use crate::feature::Known;
use crate::model::boosted::Trees;
use crate::timeline::Job;

/// Users whose jobs run about 100 s or 10,000 s.
fn timeline(jobs: u32) -> Timeline {
    let job = |at: u32| {
        // As good as drawn: what came before says nothing.
        let long = (at.wrapping_mul(2_654_435_761) >> 16).is_multiple_of(3);
        let run_s = if long { 10_000.0 } else { 100.0 } * (1.0 + f64::from(at * 7919 % 100) / 200.0);
        // Far apart, so that only who submits tells how long.
        let submit_ms = i64::from(at) * 20_000_000;
        let submission = Submission {
            job_id: format!("j{at}"),
            submit_ms,
            user: Some(if long { "ann" } else { "bob" }.to_owned()),
            gpus: 1.0,
            ..Submission::default()
        };
        Job::without_wait(at, submission, run_s)
    };
    let known = Known { user: true, ..Known::default() };
    Timeline { jobs: (0..jobs).map(job).collect(), known, ..Timeline::default() }
}

fn options() -> BacktestOptions {
    let trees = Trees { trees: 60, leaves: 8, rate: 0.2, rows: 0.8, columns: 0.8, least: 5.0, ..Trees::default() };
    BacktestOptions { settings: Settings { trees, ..Settings::default() }, ..BacktestOptions::default() }
}

fn ask(user: &str, submit_ms: i64) -> Submission {
    Submission {
        job_id: format!("new-{user}"),
        submit_ms,
        user: Some(user.to_owned()),
        gpus: 1.0,
        ..Submission::default()
    }
}

#[test]
fn it_predicts_what_it_saw_learns_and_is_the_same_once_read_again() {
    let mut predictor = Predictor::train(&timeline(800), &options()).unwrap();
    let now_ms = 800 * 20_000_000;
    let said = predictor.predict(&[ask("ann", now_ms), ask("bob", now_ms)], None).unwrap();
    assert!((5000.0..20_000.0).contains(&said[0].p50_s), "{said:?}");
    assert!((80.0..200.0).contains(&said[1].p50_s), "{said:?}");
    assert!(said.iter().all(|prediction| prediction.p05_s <= prediction.p50_s && prediction.p50_s <= prediction.p95_s));
    let read = Predictor::from_bytes("m", &predictor.to_bytes().unwrap()).unwrap();
    assert_eq!(read.to_bytes().unwrap(), predictor.to_bytes().unwrap());
    assert_eq!(read.predict(&[ask("ann", now_ms)], None).unwrap()[0], said[0]);
    // Bob's next job is known at once to run long, and is given more, the longer it runs.
    for at in 0..30 {
        let submit_ms = now_ms + at * 1000;
        let job = Submission { job_id: format!("x{at}"), ..ask("bob", submit_ms) };
        predictor.observe(&Event::Submitted(job)).unwrap();
        predictor.observe(&Event::Started { job_id: format!("x{at}"), time_ms: submit_ms }).unwrap();
    }
    let distribution = |at_s: i64| predictor.law_of_running("x0", now_ms + at_s * 1000).unwrap().quantile_s(0.5);
    assert!(distribution(50) <= distribution(5000) && distribution(5000) >= 5000.0);
    for at in 0..30 {
        let time_ms = now_ms + 9_000_000 + at * 1000;
        let end = Event::Ended { job_id: format!("x{at}"), time_ms, run_s: None, failed: None };
        predictor.observe(&end).unwrap();
        assert!(predictor.observe(&end).is_err(), "an end is told once");
    }
    assert_eq!(predictor.ended_since_training(), 30);
    let after = predictor.predict(&[ask("bob", now_ms + 10_000_000)], None).unwrap();
    assert!(after[0].mean_s > said[1].mean_s, "{} is no more than {}", after[0].mean_s, said[1].mean_s);
    let retrained = predictor.trainer()().unwrap();
    predictor.adopt(retrained);
    assert_eq!(predictor.ended_since_training(), 0);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut predictor = Predictor::train(&timeline(300), &options()).unwrap();
    let before = predictor.to_bytes().unwrap();
    let now_ms = predictor.trained().to_ms;
    let refused = [
        Event::Started { job_id: "nobody".to_owned(), time_ms: 1 },
        Event::Ended { job_id: "nobody".to_owned(), time_ms: 1, run_s: None, failed: None },
        Event::Submitted(Submission { gpus: f64::NAN, ..ask("ann", now_ms) }),
        Event::Submitted(Submission { gpus: -1.0, ..ask("ann", now_ms) }),
    ];
    for event in refused {
        assert!(predictor.observe(&event).is_err());
    }
    assert_eq!(predictor.to_bytes().unwrap(), before);
}

#[test]
fn a_damaged_or_later_file_is_told_and_never_taken() {
    let bytes = Predictor::train(&timeline(300), &options()).unwrap().to_bytes().unwrap();
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let told = |bytes: &[u8]| Predictor::from_bytes("m", bytes).unwrap_err().to_string();
    assert!(told(b"").contains("no model file") && told(b"{}\n").contains("no model file"));
    assert!(told(&bytes[..bytes.len() - 1]).contains("ends within"));
    let mut flipped = bytes.clone();
    flipped[line + 100] ^= 1;
    assert!(told(&flipped).contains("SHA-256"));
    let head = String::from_utf8(bytes[..line].to_vec()).unwrap().replace("\"version\":3", "\"version\":4");
    assert!(told(&[head.as_bytes(), &bytes[line..]].concat()).contains("version 4"));
    assert!(Predictor::from_bytes("m", &bytes).is_ok());
}

/// A long trace, of which only some features are held at a time, trains the same predictor.
#[test]
fn a_trace_that_is_played_in_parts_teaches_the_same() {
    let mut options = options();
    // Each fit learns from the last ones alone, so that rows are forgotten.
    options.settings.most_rows = 150;
    let mut timeline = timeline(800);
    // One of the first and one of the last run on.
    for at in [3, 790] {
        (timeline.jobs[at].end_ms, timeline.jobs[at].run_s) = (None, None);
    }
    let whole = trial::trial(&timeline, &options, false, &()).unwrap();
    let parts = trial::trial_within((1, 1), &timeline, &options, false, &()).unwrap();
    assert_eq!(whole.rows.rows, parts.rows.rows);
    assert_eq!((whole.to_ms, whole.aside.len()), (parts.to_ms, parts.aside.len()));
    assert_eq!(whole.chosen.model, parts.chosen.model);
    let told = |of: &trial::Trial| serde_json::to_string(&of.chosen.calibrator).unwrap();
    assert_eq!(told(&whole), told(&parts));
    let bits = |of: &trial::Trial, at: usize| of.rows.features.row(at).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    // What the last fit learns from is held, and what no fit learns from any more is not.
    assert!((660..800).all(|at| !bits(&whole, at).is_empty() && bits(&whole, at) == bits(&parts, at)));
    assert!(bits(&parts, 100).is_empty());
    let kept: Vec<usize> = [3, 790].into_iter().filter(|at| parts.aside.contains_key(at)).collect();
    assert_eq!(kept, [3, 790]);
}

/// What is said of past jobs is what was known when they were submitted.
#[test]
fn what_happens_later_changes_no_past_prediction() {
    let whole = timeline(800);
    let (split, split_ms) = (600, 600 * 20_000_000);
    let mut other = whole.clone();
    for (at, job) in other.jobs.iter_mut().enumerate().skip(split) {
        let run_s = 50.0 + (at * 31 % 977) as f64;
        job.run_s = Some(run_s);
        job.end_ms = job.start_ms.map(|start| start + (run_s * 1e3) as i64);
        job.submission.user = Some(format!("u{}", at % 5));
    }
    let of = |timeline: &Timeline| predict_past(timeline, i64::MIN, &options(), &()).unwrap();
    let (one, two) = (of(&whole), of(&other));
    let before = |runs: &[PastRun]| -> Vec<PastRun> { runs.iter().copied().filter(|run| run.at < split).collect() };
    assert_eq!(before(&one), before(&two));
    // Neither do fewer jobs that come later.
    let shorter = of(&whole.clone().until(split_ms).unwrap());
    assert!(shorter.iter().zip(&one).all(|(one, other)| one == other) && shorter.len() == before(&one).len());
    // All jobs are predicted once 200 had ended.
    assert_eq!((one.first().map(|run| run.at), one.len()), (Some(201), 599));
    // Who submits tells how long a job runs.
    let long = |run: &PastRun| whole.jobs[run.at].submission.user.as_deref() == Some("ann");
    assert!(one.iter().all(|run| (run.predicted_s > 2_000.0) == long(run)));
    // Training tells of the jobs before those that it chooses the model on by fits of its own.
    let (_, past) = Predictor::train_with_past(&whole, &options(), &()).unwrap();
    assert_eq!((past.first().map(|run| run.at), past.len()), (Some(201), 599));
}
