//! The six answers as they are written out, made from the merged totals.
//!
//! Ratios are shares of the known: of jobs whose GPUs are known for sizes, of all jobs for states. O(sizes × bins +
//! users log users + time range / 10 min).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::totals::{STATES, Sum, TEN_MINUTES_MS, Totals};
use super::value::MICRO;
use crate::quality::Ledger;
use crate::schema::JobState;
use crate::time::HOUR_MS;

/// Version of [`Rollup`] as it is written out.
pub const VERSION: &str = "rollup/1";
/// Number of users listed.
pub const TOP_USERS: usize = 20;

/// Answers about a jobs table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollup {
    /// Version of this document.
    pub schema: String,
    /// Jobs counted: rows read less rows quarantined.
    pub rows: u64,
    /// Rows that could not be used.
    pub quarantined: u64,
    /// Jobs with known GPUs that still ran when the record was taken. Their GPU time counts until the last moment that any
    /// job names.
    #[serde(default)]
    pub running: u64,
    /// Account of every row read, with the first lines of each reason.
    pub ledger: Ledger,
    /// Jobs left out of some answer because a value is unknown.
    pub unknown: UnknownTotals,
    /// Jobs by number of GPUs, smallest first, with cumulative shares.
    pub size: Vec<SizeTotals>,
    /// Largest relative error of the duration quantiles.
    pub duration_error_ratio: f64,
    /// Jobs and GPU time by state; states without jobs are left out.
    pub states: Vec<StateShare>,
    /// The users with most GPU time, most first, ties by name.
    pub users: Vec<UserTotal>,
    /// Users there are.
    pub distinct_users: u64,
    /// Jobs submitted in each hour.
    pub arrivals: Option<ArrivalTotals>,
    /// GPUs in use every ten minutes.
    pub in_use: Option<InUse>,
}

/// Jobs for which something is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownTotals {
    /// No usable submit time: not in `arrivals`.
    pub submit: u64,
    /// No usable number of GPUs: not in `size`.
    pub gpus: u64,
    /// No usable duration, as of jobs still running: not in the duration quantiles.
    pub duration: u64,
    /// GPUs or duration unknown, and not still running: in no GPU time.
    pub gpu_time: u64,
    /// GPUs, start or end unknown, and not still running: not in `in_use`.
    pub interval: u64,
    /// No user named.
    pub user: u64,
    /// State missing or a word we do not know.
    pub state: u64,
}

/// Jobs of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeTotals {
    /// GPUs of each job.
    pub gpus: f64,
    /// Jobs of this size.
    pub jobs: u64,
    /// GPU time of these jobs, hours.
    pub gpu_hours: f64,
    /// Share of jobs with this size or less.
    pub jobs_cdf_ratio: f64,
    /// Share of GPU time in jobs of this size or less; unknown if there is no GPU time.
    pub gpu_time_cdf_ratio: Option<f64>,
    /// Durations of these jobs; unknown if none is known.
    pub duration: Option<DurationQuantiles>,
}

/// Quantiles of job durations, lower order statistics within `duration_error_ratio`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DurationQuantiles {
    /// Jobs whose duration is known.
    pub jobs: u64,
    /// Median, seconds.
    pub p50_s: f64,
    /// 90th percentile, seconds.
    pub p90_s: f64,
    /// 99th percentile, seconds.
    pub p99_s: f64,
}

/// Jobs in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateShare {
    /// The state.
    pub state: JobState,
    /// Jobs in it.
    pub jobs: u64,
    /// GPU time of these jobs, hours.
    pub gpu_hours: f64,
    /// Share of all jobs.
    pub jobs_ratio: f64,
    /// Share of all GPU time; unknown if there is none.
    pub gpu_time_ratio: Option<f64>,
}

/// Totals of one user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserTotal {
    /// The user.
    pub user: String,
    /// Jobs submitted.
    pub jobs: u64,
    /// GPU time, hours.
    pub gpu_hours: f64,
}

/// Jobs submitted in each hour of absolute time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalTotals {
    /// Beginning of the first hour, milliseconds since the epoch.
    pub first_ms: i64,
    /// Milliseconds from one count to the next.
    pub step_ms: i64,
    /// Jobs submitted in each hour, hours without any included.
    pub jobs: Vec<u64>,
}

/// GPUs in use at each grid instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InUse {
    /// The first instant with a GPU in use, milliseconds since the epoch.
    pub first_ms: i64,
    /// Milliseconds from one instant to the next.
    pub step_ms: i64,
    /// GPUs in use; the last is 0.
    pub gpus: Vec<f64>,
}

/// Answers from totals.
pub(super) fn answer(mut totals: Totals, ledger: Ledger) -> Rollup {
    totals.close();
    let mut sizes = totals.sizes;
    sizes.retain(|size| size.states.iter().any(|sum| sum.jobs > 0));
    sizes.sort_by_key(|size| size.micro_gpus);
    let mut by_state = [Sum::default(); STATES];
    let mut all = Sum::default();
    let mut unsized_jobs = 0;
    for size in &sizes {
        for (total, sum) in by_state.iter_mut().zip(&size.states) {
            total.add(*sum);
            all.add(*sum);
            if size.micro_gpus.is_none() {
                unsized_jobs += sum.jobs;
            }
        }
    }
    let gpu_time_ratio = |part: i128| (all.micro_gpu_ms > 0).then(|| part as f64 / all.micro_gpu_ms as f64);
    let sized_jobs = all.jobs - unsized_jobs;
    let mut below = Sum::default();
    let size = sizes
        .iter()
        .filter_map(|size| {
            let gpus = size.micro_gpus? as f64 / MICRO as f64;
            let mut size_sum = Sum::default();
            size.states.iter().for_each(|sum| size_sum.add(*sum));
            below.add(size_sum);
            Some(SizeTotals {
                gpus,
                jobs: size_sum.jobs,
                gpu_hours: gpu_hours(size_sum.micro_gpu_ms),
                jobs_cdf_ratio: below.jobs as f64 / sized_jobs as f64,
                gpu_time_cdf_ratio: gpu_time_ratio(below.micro_gpu_ms),
                duration: quantiles(&size.durations),
            })
        })
        .collect();
    let states = JobState::ALL
        .into_iter()
        .zip(by_state)
        .filter(|(_, sum)| sum.jobs > 0)
        .map(|(state, sum)| StateShare {
            state,
            jobs: sum.jobs,
            gpu_hours: gpu_hours(sum.micro_gpu_ms),
            jobs_ratio: sum.jobs as f64 / all.jobs as f64,
            gpu_time_ratio: gpu_time_ratio(sum.micro_gpu_ms),
        })
        .collect();
    // Names that differ only in bytes that are not UTF-8 become one here.
    let mut by_name: BTreeMap<String, Sum> = BTreeMap::new();
    // A name without jobs was seen in a quarantined row or an unused dictionary value only.
    for (name, sum) in totals.users.words().zip(totals.by_user.iter().skip(1)).filter(|(_, sum)| sum.jobs > 0) {
        by_name.entry(String::from_utf8_lossy(name).into_owned()).or_default().add(*sum);
    }
    let distinct_users = by_name.len() as u64;
    let mut users: Vec<(String, Sum)> = by_name.into_iter().collect();
    // Stable, so ties stay in the order of names.
    users.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.micro_gpu_ms));
    users.truncate(TOP_USERS);
    Rollup {
        schema: VERSION.to_owned(),
        rows: totals.jobs,
        quarantined: ledger.quarantined,
        running: totals.running,
        ledger,
        unknown: UnknownTotals {
            submit: totals.gaps.submit,
            gpus: unsized_jobs,
            duration: totals.gaps.duration,
            gpu_time: totals.gaps.gpu_time,
            interval: totals.gaps.interval,
            user: totals.by_user.first().map_or(0, |sum| sum.jobs),
            state: by_state.last().map_or(0, |sum| sum.jobs),
        },
        size,
        duration_error_ratio: Histogram::ERROR_RATIO,
        states,
        users: users
            .into_iter()
            .map(|(user, sum)| UserTotal { user, jobs: sum.jobs, gpu_hours: gpu_hours(sum.micro_gpu_ms) })
            .collect(),
        distinct_users,
        arrivals: totals.arrivals.cells().map(|(first_ms, cells)| ArrivalTotals {
            first_ms,
            step_ms: HOUR_MS,
            jobs: cells.into_iter().map(i64::cast_unsigned).collect(),
        }),
        in_use: totals.changes.cells().map(|(first_ms, changes)| InUse {
            first_ms,
            step_ms: TEN_MINUTES_MS,
            gpus: running(&changes),
        }),
    }
}

/// Running sum of changes, in GPUs.
fn running(changes: &[i64]) -> Vec<f64> {
    let mut now = 0i64;
    changes
        .iter()
        .map(|change| {
            now = now.wrapping_add(*change);
            now as f64 / MICRO as f64
        })
        .collect()
}

fn gpu_hours(micro_gpu_ms: i128) -> f64 {
    micro_gpu_ms as f64 / (MICRO * HOUR_MS) as f64
}

fn quantiles(durations: &Histogram) -> Option<DurationQuantiles> {
    Some(DurationQuantiles {
        jobs: durations.count(),
        p50_s: durations.quantile_ms(50)? / 1e3,
        p90_s: durations.quantile_ms(90)? / 1e3,
        p99_s: durations.quantile_ms(99)? / 1e3,
    })
}
