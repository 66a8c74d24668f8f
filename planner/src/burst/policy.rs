//! Waiting policies: which jobs wait for the pool, and for how long, before they go to the cloud.
//!
//! They are those of The Waiting Game (Ambati, Bashir, Irwin and Shenoy, SC 2020) and some beside them. A scheduling policy says who is served first; a waiting policy says who waits at all.
//!
//! | family | who waits | in the paper |
//! |---|---|---|
//! | nobody | nobody: what does not start at once goes to the cloud | NJW |
//! | everybody | everybody, without limit | AJW |
//! | up to | everybody, for T | AJW with a threshold |
//! | wide, narrow | jobs of at least, or at most, g GPUs | – |
//! | long | jobs that run for L or longer | LJW: long jobs wait |
//! | short | jobs that run for less than L | – |
//! | short waits | jobs whose foreseen wait is at most W | SWW: short *waits* wait, not short jobs |
//! | long or short waits | either | the compound policy |
//!
//! Long jobs wait because they cost most in the cloud and an hour is little beside their run. Each policy but *everybody* sends what has waited for `most` to the cloud, so that nobody
//! waits longer than that. Runs are those predicted at submission, or the recorded ones: what the same policy would do with a perfect prediction.
//!
//! O(jobs). Worked example: *long*, from 4 h on, with `most` 24 h: a job that is predicted to run 5 h waits up to 24 h, one of 3 h goes to the cloud at once.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_MS, MINUTE_MS};

use super::engine::{BurstJobs, JobWait, MILLI};

/// Where runs are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunsFrom {
    /// Predicted when a job is submitted.
    Predicted,
    /// Recorded: a perfect prediction.
    Recorded,
}

/// Kinds of waiting policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFamily {
    /// Nobody waits.
    Nobody,
    /// All wait, without limit.
    Everybody,
    /// All wait, for some time.
    UpTo,
    /// Jobs of many GPUs wait.
    Wide,
    /// Jobs of few GPUs wait.
    Narrow,
    /// Long jobs wait.
    Long,
    /// Short jobs wait.
    Short,
    /// Jobs whose wait is foreseen to be short wait.
    ShortWaits,
    /// Long jobs wait, and jobs whose wait is foreseen to be short.
    LongOrShortWaits,
}

impl WaitingFamily {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Nobody,
        Self::Everybody,
        Self::UpTo,
        Self::Wide,
        Self::Narrow,
        Self::Long,
        Self::Short,
        Self::ShortWaits,
        Self::LongOrShortWaits,
    ];

    /// Whether it looks at runs.
    pub fn needs_runs(self) -> bool {
        matches!(self, Self::Long | Self::Short | Self::ShortWaits | Self::LongOrShortWaits)
    }
}

/// The families that a plan may choose from: those that limit waits, with predicted runs.
pub fn candidates() -> Vec<(WaitingFamily, RunsFrom)> {
    let limited = WaitingFamily::ALL.into_iter().filter(|family| *family != WaitingFamily::Everybody);
    limited.map(|family| (family, RunsFrom::Predicted)).collect()
}

/// A waiting policy with its thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingPolicy {
    /// Nobody waits.
    Nobody,
    /// All wait, without limit.
    Everybody,
    /// All wait so many milliseconds.
    UpTo(i64),
    /// Jobs of at least so many GPUs wait.
    Wide(u32),
    /// Jobs of at most so many GPUs wait.
    Narrow(u32),
    /// Jobs that run at least so many milliseconds wait.
    Long(i64),
    /// Jobs that run less wait.
    Short(i64),
    /// Jobs with a foreseen wait of at most so many milliseconds wait.
    ShortWaits(i64),
    /// Jobs that run at least the first wait, and those with a foreseen wait of at most the second.
    LongOrShortWaits(i64, i64),
}

/// Times that all jobs may wait at most, tried.
const UP_TO_MS: [i64; 6] = [10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS];
/// Runs from which on jobs are long, tried.
const LONG_MS: [i64; 5] = [15 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS];
/// Foreseen waits that are short, tried.
const FORESEEN_MS: [i64; 4] = [10 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS];
/// Runs and foreseen waits that the compound policy tries.
const COMPOUND_MS: ([i64; 3], [i64; 2]) = ([HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS], [10 * MINUTE_MS, HOUR_MS]);
/// GPUs from which on jobs are wide, tried; one fewer are narrow.
const WIDE: [u32; 4] = [2, 4, 8, 16];

impl WaitingPolicy {
    /// The policies of a family that are tried where nobody waits longer than `most_ms`.
    pub fn tried(family: WaitingFamily, most_ms: i64) -> Vec<Self> {
        // What is foreseen to take longer than a job may wait would be waited for in vain.
        let within = |all: &[i64]| all.iter().copied().filter(|at| *at <= most_ms).collect::<Vec<_>>();
        match family {
            WaitingFamily::Nobody => vec![Self::Nobody],
            WaitingFamily::Everybody => vec![Self::Everybody],
            WaitingFamily::UpTo => {
                let mut all = within(&UP_TO_MS);
                if all.last() != Some(&most_ms) {
                    all.push(most_ms);
                }
                all.into_iter().map(Self::UpTo).collect()
            }
            WaitingFamily::Wide => WIDE.map(Self::Wide).to_vec(),
            WaitingFamily::Narrow => WIDE.map(|gpus| Self::Narrow(gpus - 1)).to_vec(),
            WaitingFamily::Long => LONG_MS.map(Self::Long).to_vec(),
            WaitingFamily::Short => LONG_MS.map(Self::Short).to_vec(),
            WaitingFamily::ShortWaits => within(&FORESEEN_MS).into_iter().map(Self::ShortWaits).collect(),
            WaitingFamily::LongOrShortWaits => {
                let short = within(&COMPOUND_MS.1);
                let with = |long: i64| short.clone().into_iter().map(move |short| Self::LongOrShortWaits(long, short));
                COMPOUND_MS.0.into_iter().flat_map(with).collect()
            }
        }
    }

    /// Family of the policy.
    pub fn family(self) -> WaitingFamily {
        match self {
            Self::Nobody => WaitingFamily::Nobody,
            Self::Everybody => WaitingFamily::Everybody,
            Self::UpTo(_) => WaitingFamily::UpTo,
            Self::Wide(_) => WaitingFamily::Wide,
            Self::Narrow(_) => WaitingFamily::Narrow,
            Self::Long(_) => WaitingFamily::Long,
            Self::Short(_) => WaitingFamily::Short,
            Self::ShortWaits(_) => WaitingFamily::ShortWaits,
            Self::LongOrShortWaits(..) => WaitingFamily::LongOrShortWaits,
        }
    }

    /// How long each job waits, by the runs that `jobs` expects of it, at most `most_ms` each but where everybody waits without limit.
    pub fn waits(self, jobs: &BurstJobs, most_ms: i64) -> Vec<JobWait> {
        let up_to = |most_ms: i64| JobWait { most_ms: Some(most_ms), foreseen_ms: None };
        let either = |waits: bool| if waits { up_to(most_ms) } else { JobWait::NEVER };
        let of = |(gpus, run): (&u64, &i64)| match self {
            Self::Nobody => JobWait::NEVER,
            Self::Everybody => JobWait::EVER,
            Self::UpTo(ms) => up_to(ms),
            Self::Wide(from) => either(*gpus >= u64::from(from) * MILLI),
            Self::Narrow(to) => either(*gpus <= u64::from(to) * MILLI),
            Self::Long(from) => either(*run >= from),
            Self::Short(below) => either(*run < below),
            Self::ShortWaits(foreseen) => JobWait { most_ms: Some(most_ms), foreseen_ms: Some(foreseen) },
            Self::LongOrShortWaits(from, foreseen) => {
                JobWait { most_ms: Some(most_ms), foreseen_ms: (*run < from).then_some(foreseen) }
            }
        };
        jobs.milli_gpus.iter().zip(&jobs.expected_ms).map(of).collect()
    }

    /// Describes who waits, where nobody waits longer than `most_ms`.
    pub fn in_words(self, runs: RunsFrom, most_ms: i64) -> String {
        let time = |ms: i64| format::duration(ms as f64 / 1e3);
        let most = time(most_ms);
        let (run, foreseen) = match runs {
            RunsFrom::Predicted => ("predicted to run", "foreseen wait"),
            RunsFrom::Recorded => ("known to run", "foreseen wait, by known runs,"),
        };
        match self {
            Self::Nobody => "nobody waits".to_owned(),
            Self::Everybody => "all jobs wait, without limit".to_owned(),
            Self::UpTo(ms) => format!("all jobs wait up to {}", time(ms)),
            Self::Wide(from) => format!("jobs of at least {from} GPUs wait up to {most}"),
            Self::Narrow(to) => {
                format!("jobs of at most {} wait up to {most}", format::counted(u64::from(to), "GPU", "GPUs"))
            }
            Self::Long(from) => format!("jobs {run} {} or longer wait up to {most}", time(from)),
            Self::Short(below) => format!("jobs {run} less than {} wait up to {most}", time(below)),
            Self::ShortWaits(ms) => format!("jobs whose {foreseen} is at most {} wait up to {most}", time(ms)),
            Self::LongOrShortWaits(from, ms) => format!(
                "jobs {run} {} or longer, and jobs whose {foreseen} is at most {}, wait up to {most}",
                time(from),
                time(ms)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_and_the_others() {
        let (hour, most) = (HOUR_MS, 24 * HOUR_MS);
        let jobs = BurstJobs {
            submit_ms: vec![0, 0, 0],
            run_ms: vec![1, 1, 1],
            milli_gpus: vec![8_000, 1_000, 500],
            expected_ms: vec![5 * hour, 3 * hour, 4 * hour],
        };
        let told = |policy: WaitingPolicy| -> Vec<Option<i64>> {
            policy.waits(&jobs, most).iter().map(|wait| wait.most_ms).collect()
        };
        assert_eq!(told(WaitingPolicy::Long(4 * hour)), [Some(most), Some(0), Some(most)]);
        assert_eq!(told(WaitingPolicy::Short(4 * hour)), [Some(0), Some(most), Some(0)]);
        assert_eq!(told(WaitingPolicy::Wide(2)), [Some(most), Some(0), Some(0)]);
        assert_eq!(told(WaitingPolicy::Narrow(1)), [Some(0), Some(most), Some(most)]);
        assert_eq!(told(WaitingPolicy::UpTo(hour)), [Some(hour); 3]);
        assert_eq!((told(WaitingPolicy::Nobody), told(WaitingPolicy::Everybody)), (vec![Some(0); 3], vec![None; 3]));
        let compound = WaitingPolicy::LongOrShortWaits(4 * hour, hour).waits(&jobs, most);
        let foreseen: Vec<Option<i64>> = compound.iter().map(|wait| wait.foreseen_ms).collect();
        assert_eq!(foreseen, [None, Some(hour), None]);
    }

    #[test]
    fn no_tried_policy_waits_longer_than_it_may() {
        let jobs =
            BurstJobs { submit_ms: vec![0], run_ms: vec![1], milli_gpus: vec![4_000], expected_ms: vec![5 * HOUR_MS] };
        for most in [MINUTE_MS, 2 * HOUR_MS, 48 * HOUR_MS] {
            for family in WaitingFamily::ALL {
                for policy in WaitingPolicy::tried(family, most) {
                    assert_eq!(policy.family(), family);
                    let wait = policy.waits(&jobs, most).first().copied();
                    let bound = wait.and_then(|wait| wait.most_ms);
                    assert!(family == WaitingFamily::Everybody || bound.is_some_and(|ms| ms <= most), "{policy:?}");
                    let told = policy.in_words(RunsFrom::Predicted, most);
                    assert!(told.contains("wait"), "{told}");
                }
            }
        }
    }
}
