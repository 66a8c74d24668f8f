//! A recording: the jobs of [`crate::workload`] run by a real Slurm under backfill, as `sacct` has them.
//!
//! Times in `sacct` are whole seconds, the backfill looks at the queue every 2 s, and decisions feed on each other: two seconds more or less
//! for one of the first jobs give another schedule. So that a recording says which look was the first to see a job, bursts are
//! submitted between two looks, [`AFTER_A_LOOK`] after `sdiag` shows a new one: the second of the submission is then later than that of the
//! look before, and not later than that of the look that follows. The main scheduler is off, as it starts jobs between looks.
//!
//! On a busy machine a burst may still be under way at the look that follows. Whole seconds then do not say which of its jobs that look saw, and
//! the recording counts such bursts. A look may come late as well, and then some starts are at the second of no look, which are counted too. Both say
//! that a recording is disturbed, and neither says whether a replay agrees with it: disturbed, the jobs are recorded again. (Undisturbed, the replay
//! meets every start second; beside a build on both cores, with 24 starts at no look, the order of starts agreed to a Kendall τ of 0.95.)
//!
//! Two jobs that fill the cluster come first, for the looks to begin, and have ended before the recorded jobs are submitted.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracecast_analytics::Trace;

use crate::lab::Lab;
use crate::workload::Asked;

/// Interval between the looks of the lab's backfill at the queue (`bf_interval`): the scheduling
/// interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);
/// The backfill alone: the main scheduler, which starts jobs in between, is off.
pub(crate) const SCHEDULER: &str = "bf_interval=2,sched_interval=-1";
/// Most recordings of jobs that are tried, until nothing disturbs one.
const RECORDINGS: usize = 3;
/// Time from a look to a burst.
const AFTER_A_LOOK: Duration = Duration::from_millis(1_080);
/// Jobs that are submitted first.
pub(crate) const WARM_UP: [&str; 2] = ["warm-up 1", "warm-up 2"];

/// Jobs as a real Slurm ran them.
pub(crate) struct Recording {
    /// The accounting of them and of [`WARM_UP`].
    pub(crate) trace: Trace,
    /// Recording as `sacct` printed it, and where it is kept.
    text: Vec<u8>,
    file: PathBuf,
    jobs: usize,
    /// Bursts that ran into a look, and starts at the second of no look.
    disturbed: (usize, usize),
}

impl Recording {
    fn is_disturbed(&self) -> bool {
        let (bursts, starts) = self.disturbed;
        // The looks are found to a twentieth of a second, so a few starts may seem to be at none.
        bursts > 0 || starts > self.jobs / 20
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bursts, starts) = self.disturbed;
        write!(f, "{bursts} bursts ran into a look, {starts} of {} starts are at the second of no look", self.jobs)
    }
}

/// Runs `jobs` in `lab` and keeps the accounting in `file`.
pub(crate) fn record(lab: &Lab, jobs: &[Asked], file: &Path) -> Recording {
    record_bursts(lab, jobs, |job| job.at_s, |job| submit(lab, job), file)
}

/// Records any jobs, in order of the seconds `at` which their bursts come.
pub(crate) fn record_bursts<T>(
    lab: &Lab,
    jobs: &[T],
    at: impl Fn(&T) -> u64,
    submit: impl Fn(&T),
    file: &Path,
) -> Recording {
    for (name, script) in WARM_UP.iter().zip(["sleep 5", "sleep 1"]) {
        lab.submit("u1", name, &["-N", &lab.nodes().to_string(), "--gres=gpu:8", "-t", "1"], script);
    }
    // The second waits for the first, and the backfill looks while something waits.
    let mut look = next_look(lab, Instant::now());
    lab.run(&["wait", "60"]);
    let began = Instant::now();
    let mut into_a_look = 0;
    for burst in jobs.chunk_by(|a, b| at(a) == at(b)) {
        let at = Duration::from_secs(burst.first().map_or(0, &at));
        std::thread::sleep(at.saturating_sub(began.elapsed()));
        if at > Duration::ZERO {
            look = next_look(lab, look);
        }
        while look + AFTER_A_LOOK < Instant::now() {
            look += INTERVAL;
        }
        std::thread::sleep((look + AFTER_A_LOOK).saturating_duration_since(Instant::now()));
        burst.iter().for_each(&submit);
        into_a_look += usize::from(look.elapsed() >= INTERVAL);
    }
    lab.run(&["wait", "300"]);
    let trace = lab.accounting(file);
    let disturbed = (into_a_look, at_no_look(&trace));
    let recording =
        Recording { text: std::fs::read(file).unwrap(), file: file.to_owned(), jobs: jobs.len(), trace, disturbed };
    println!("{recording}");
    recording
}

/// The first of at most [`RECORDINGS`] that nothing disturbed, or else the least disturbed, whose file is the one kept. `None` where there is no lab.
pub(crate) fn least_disturbed(mut record: impl FnMut() -> Option<Recording>) -> Option<Trace> {
    let mut least = record()?;
    for _ in 1..RECORDINGS {
        if !least.is_disturbed() {
            break;
        }
        let next = record()?;
        if next.disturbed < least.disturbed {
            least = next;
        }
    }
    std::fs::write(&least.file, &least.text).unwrap();
    Some(least.trace)
}

/// Number of recorded starts at a second without a look of the backfill.
fn at_no_look(trace: &Trace) -> usize {
    let jobs = &trace.jobs;
    let recorded = |ix: &usize| jobs.name.get(*ix).is_some_and(|name| !WARM_UP.contains(&name));
    let starts_ms: Vec<i64> = (0..jobs.start.len()).filter(recorded).filter_map(|ix| jobs.start.get(ix)).collect();
    let first_ms = starts_ms.iter().copied().min().unwrap_or_default();
    let starts_s: Vec<i64> = starts_ms.iter().map(|start| (start - first_ms) / 1000).collect();
    starts_s.len() - looks(&starts_s).2
}

/// Phase and period of the backfill's looks that explain most of these start seconds (the middle one of equals), milliseconds, and how many.
pub(crate) fn looks(starts_s: &[i64]) -> (i64, i64, usize) {
    let explains = |phase: i64, period: i64| {
        let is_look = |second: &&i64| {
            let after = (**second * 1000 - phase).div_euclid(period)
                + i64::from((**second * 1000 - phase).rem_euclid(period) > 0);
            (phase + period * after) / 1000 == **second
        };
        starts_s.iter().filter(is_look).count()
    };
    let interval_ms = INTERVAL.as_millis() as i64;
    let grid: Vec<(i64, i64)> = (interval_ms..=interval_ms + 30)
        .flat_map(|period| (0..interval_ms).step_by(50).map(move |phase| (phase, period)))
        .collect();
    let hits: Vec<usize> = grid.iter().map(|(phase, period)| explains(*phase, *period)).collect();
    let most = *hits.iter().max().unwrap();
    let best: Vec<(i64, i64)> =
        grid.into_iter().zip(&hits).filter(|(_, hits)| **hits == most).map(|(at, _)| at).collect();
    let (phase, period) = best[best.len() / 2];
    (phase, period, most)
}

/// A recording made before, whose file this variable of the environment names.
pub(crate) fn made_before(variable: &str) -> Option<Trace> {
    let Some(file) = std::env::var_os(variable) else {
        println!("skipped: {variable} names no recording");
        return None;
    };
    Some(tracecast_tests::read(&[Path::new(&file).to_owned()]).unwrap())
}

/// The moment of the next look of the backfill; where none comes, as nothing waits, one it would have had, reckoned from `known`.
fn next_look(lab: &Lab, known: Instant) -> Instant {
    let before = last_look(lab);
    let until = Instant::now() + 3 * INTERVAL / 2;
    while Instant::now() < until {
        if last_look(lab) != before {
            return Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    known
}

fn submit(lab: &Lab, job: &Asked) {
    let (nodes, limit) = (job.nodes().to_string(), job.limit_min.to_string());
    let gpus = format!("--gres=gpu:{}", job.gpus_a_node());
    lab.submit(&job.user, &job.name, &["-N", &nodes, &gpus, "-t", &limit], &format!("sleep {}", job.run_s));
}

/// Time of the backfill's last look at the queue, seconds since the Unix epoch; 0 if there was
/// none.
fn last_look(lab: &Lab) -> i64 {
    let text = lab.output("sdiag", &[]);
    let (_, after) = text.split_once("Last cycle when: ").unwrap();
    let line = after.lines().next().unwrap_or_default();
    let inside = line.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inside.map_or(0, |(seconds, _)| seconds.parse().unwrap())
}
