//! A recording: the jobs of [`crate::workload`] run by a real Slurm under backfill, as `sacct` has them.
//!
//! Times in `sacct` are whole seconds, the backfill looks at the queue every 2 s, and decisions feed on each other: two seconds more or less
//! for one of the first jobs give another schedule. So that a recording says which look was the first to see a job, bursts are
//! submitted between two looks, [`AFTER_A_LOOK`] after `sdiag` shows a new one: the second of the submission is then later than that of the
//! look before, and not later than that of the look that follows. The main scheduler is off, as it starts jobs between looks.
//!
//! On a busy machine a burst may still be under way at the look that follows. Whole seconds then do not say which of its jobs that look saw, and
//! the recording counts such bursts. A look may come late as well, and then some starts are at the second of no look. Both say that a recording is
//! disturbed, and neither says whether a replay agrees with it: disturbed, the jobs are recorded again. (Undisturbed, the replay meets every
//! start second; beside a build on both cores, with 24 starts at no look, the order of starts agreed to a Kendall τ of 0.95.)
//!
//! Two jobs that fill the cluster come first, for the looks to begin, and have ended before the recorded jobs are submitted.

use std::path::Path;
use std::time::{Duration, Instant};

use tracecast_analytics::Trace;

use crate::lab::Lab;
use crate::workload::Asked;

/// How often the lab's backfill looks at the queue (`bf_interval`): the scheduling interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);
/// The backfill alone: the main scheduler, which starts jobs in between, is off.
pub(crate) const SCHEDULER: &str = "bf_interval=2,sched_interval=-1";
/// How often jobs are recorded, at most, until nothing disturbs it.
const RECORDINGS: usize = 2;
/// From a look to a burst.
const AFTER_A_LOOK: Duration = Duration::from_millis(1_080);
/// Jobs that are submitted first.
pub(crate) const WARM_UP: [&str; 2] = ["warm-up 1", "warm-up 2"];

/// Runs `jobs` in `lab` and gives the accounting of them and of [`WARM_UP`], which is written to `file`, and how many bursts ran into a look.
pub(crate) fn record(lab: &Lab, jobs: &[Asked], file: &Path) -> (Trace, usize) {
    record_bursts(lab, jobs, |job| job.at_s, |job| submit(lab, job), file)
}

/// The same of any jobs, in order of the seconds `at` which their bursts come.
pub(crate) fn record_bursts<T>(
    lab: &Lab,
    jobs: &[T],
    at: impl Fn(&T) -> u64,
    submit: impl Fn(&T),
    file: &Path,
) -> (Trace, usize) {
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
    (lab.accounting(file), into_a_look)
}

/// The recording into whose looks the fewest bursts ran, of at most [`RECORDINGS`]: the first with none, if there is one. `None` where there is no lab.
pub(crate) fn least_disturbed(record: impl Fn() -> Option<(Trace, usize)>) -> Option<Trace> {
    let mut least: Option<(Trace, usize)> = None;
    for _ in 0..RECORDINGS {
        let (trace, disturbed) = record()?;
        println!("{disturbed} bursts ran into a look");
        if least.as_ref().is_none_or(|(_, least)| disturbed < *least) {
            least = Some((trace, disturbed));
        }
        if disturbed == 0 {
            break;
        }
    }
    least.map(|(trace, _)| trace)
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

/// When the backfill last looked at the queue, seconds since the Unix epoch; 0 if it never did.
fn last_look(lab: &Lab) -> i64 {
    let text = lab.output("sdiag", &[]);
    let (_, after) = text.split_once("Last cycle when: ").unwrap();
    let line = after.lines().next().unwrap_or_default();
    let inside = line.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inside.map_or(0, |(seconds, _)| seconds.parse().unwrap())
}
