//! What if there were more (or less) work: the jobs of a record multiplied, and the replays of several draws.
//!
//! Jobs are kept together by user and week, so that habits stay: who works at night still does, and what is submitted in a burst comes in a
//! burst. For a factor `f` and a record of `W` whole weeks, each week is there ⌊f⌋ times, and of the `(f − ⌊f⌋)·W` weeks that are due beyond
//! that, as many as there are whole ones, and one more with the probability of the rest, are drawn without repetition. The n-th further copy of a
//! week stands n weeks later (around the end), so that it does not double the original's bursts. Jobs after the last whole week, and those of users
//! that nobody recorded, are drawn one by one in their place. What ran or waited at time 0 stays as it is.
//!
//! Over draws, GPU time is `f` times what it was; the hour of the week of no job changes. O(jobs) a draw.
//!
//! Worked number: a user with 10 whole weeks and f = 1.25 gets all 10, and 2 or 3 of them again, each with even odds.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};
use tracecast_analytics::stats::sum;
use tracecast_analytics::time::DAY_MS;

use super::metric::evaluate;
use crate::error::{Error, Result};
use crate::sim::cluster::Cluster;
use crate::sim::policy::Policy;
use crate::sim::workload::Workload;

/// A week, milliseconds.
const WEEK_MS: i64 = 7 * DAY_MS;
/// How users are called that the record does not name.
const UNKNOWN: &str = "unknown user of ";
/// Least and most a record can be multiplied by.
pub const FACTORS: std::ops::RangeInclusive<f64> = 0.05..=20.0;

/// How much more work, in how many draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// By what the work is multiplied, within [`FACTORS`].
    pub factor: f64,
    /// Draws, at least 2.
    pub draws: u64,
    /// Of all draws.
    pub seed: u64,
}

impl Growth {
    /// Checks it.
    ///
    /// # Errors
    /// If the factor or the number of draws makes no sense.
    pub fn new(factor: f64, draws: u64, seed: u64) -> Result<Self> {
        if !FACTORS.contains(&factor) {
            return Err(Error::Policy(format!(
                "--scale {factor}: write a factor from {} to {}",
                FACTORS.start(),
                FACTORS.end()
            )));
        }
        if draws < 2 {
            return Err(Error::Policy("--draws: an interval needs at least 2 draws".to_owned()));
        }
        Ok(Self { factor, draws, seed })
    }
}

/// The mean of a figure over draws, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OverDraws {
    /// Mean.
    pub mean: f64,
    /// The mean's 95 % interval (Student's t), from here.
    pub low: f64,
    /// To here.
    pub high: f64,
    /// Least of all draws.
    pub least: f64,
    /// Greatest of all draws.
    pub greatest: f64,
}

impl OverDraws {
    /// Of at least two values; `None` otherwise.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = sum::mean(values)?;
        let n = values.len() as f64;
        if n < 2.0 {
            return None;
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
        let half = t * (variance / n).sqrt();
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        // None of the figures can be negative.
        Some(Self { mean, low: (mean - half).max(0.0), high: mean + half, least, greatest })
    }
}

/// One policy under more work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrownReplay {
    /// What the policy is called.
    pub name: String,
    /// Mean wait, seconds; `null` where a draw finished no job.
    pub mean_wait_s: Option<OverDraws>,
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: Option<OverDraws>,
    /// Share of the GPU time in service that jobs held.
    pub utilisation: Option<OverDraws>,
    /// Mean wait without growth, seconds.
    pub mean_wait_now_s: Option<f64>,
    /// 95 % quantile of the wait without growth, seconds.
    pub p95_wait_now_s: Option<f64>,
    /// Utilisation without growth.
    pub utilisation_now: Option<f64>,
}

/// What more work would do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrowthAnswer {
    /// By what the work was multiplied.
    pub factor: f64,
    /// Draws.
    pub draws: u64,
    /// Whole weeks in the record; without one, jobs are drawn one by one.
    pub whole_weeks: u64,
    /// GPU time asked for, over that of the record.
    pub gpu_time_ratio: OverDraws,
    /// Jobs, over those of the record.
    pub jobs_ratio: OverDraws,
    /// The policies, in the order in which they were asked for.
    pub policies: Vec<GrownReplay>,
}

/// The jobs of one draw, and of each the job it is a copy of (or is).
pub fn scaled(workload: &Workload, factor: f64, seed: u64) -> (Workload, Vec<u32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let stays = workload.uncounted();
    let whole_weeks = whole_weeks(workload);
    let mut weeks_of: BTreeMap<u32, BTreeMap<i64, Vec<u32>>> = BTreeMap::new();
    // (job, by how many weeks it is moved)
    let mut drawn: Vec<(u32, i64)> = Vec::new();
    for job in 0..u32::try_from(workload.len()).unwrap_or(u32::MAX) {
        let at = job as usize;
        let submit = workload.submit_ms.get(at).copied().unwrap_or(0);
        let user = workload.user.get(at).copied().unwrap_or(0);
        let named = workload.users.get(user as usize).is_some_and(|name| !name.starts_with(UNKNOWN));
        let week = submit.div_euclid(WEEK_MS);
        if stays.contains(&job) || submit < 0 {
            drawn.push((job, 0));
        } else if named && week < whole_weeks {
            weeks_of.entry(user).or_default().entry(week).or_default().push(job);
        } else {
            drawn.extend(std::iter::repeat_n((job, 0), times(factor, &mut rng)));
        }
    }
    for weeks in weeks_of.values() {
        add_weeks(weeks, whole_weeks, factor, &mut rng, &mut drawn);
    }
    let key = |(job, moved): &(u32, i64)| workload.submit_ms.get(*job as usize).copied().unwrap_or(0) + moved * WEEK_MS;
    // Stable within a moment: the record's own order, the job before its copies.
    drawn.sort_by_key(|one| (key(one), one.0, one.1));
    (rearranged(workload, &drawn, key), drawn.into_iter().map(|(job, _)| job).collect())
}

/// Whole weeks from time 0 to the last submission.
fn whole_weeks(workload: &Workload) -> i64 {
    (workload.submit_ms.last().copied().unwrap_or(0) + 1).div_euclid(WEEK_MS).max(0)
}

/// How often one thing is there under a factor.
fn times(factor: f64, rng: &mut impl Rng) -> usize {
    factor as usize + usize::from(rng.random_bool(factor.fract()))
}

/// The weeks of one user. Weeks without a job are weeks, too: they may be drawn, and copies may come to stand there.
fn add_weeks(
    weeks: &BTreeMap<i64, Vec<u32>>,
    whole: i64,
    factor: f64,
    rng: &mut impl Rng,
    drawn: &mut Vec<(u32, i64)>,
) {
    let mut add = |from: i64, to: i64| {
        drawn.extend(weeks.get(&from).into_iter().flatten().map(|job| (*job, to - from)));
    };
    let all: Vec<i64> = (0..whole).collect();
    let due = factor.fract() * all.len() as f64;
    let further = due as usize + usize::from(rng.random_bool(due.fract()));
    let mut order = all.clone();
    order.shuffle(rng);
    let further: Vec<i64> = order.into_iter().take(further).collect();
    if factor < 1.0 {
        // Thinned: the drawn weeks are those that stay.
        further.iter().for_each(|week| add(*week, *week));
        return;
    }
    for copy in 0..factor as usize {
        for week in &all {
            // Each copy by one week further, around the end.
            add(*week, (week + copy as i64).rem_euclid(whole));
        }
    }
    for week in further {
        add(week, (week + factor as i64).rem_euclid(whole));
    }
}

/// The workload of the drawn jobs, which are in order of their submission.
fn rearranged(workload: &Workload, drawn: &[(u32, i64)], submit: impl Fn(&(u32, i64)) -> i64) -> Workload {
    fn column<T: Copy>(values: &[T], drawn: &[(u32, i64)]) -> Vec<T> {
        drawn.iter().filter_map(|(job, _)| values.get(*job as usize).copied()).collect()
    }
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    for (now, (job, _)) in (0u32..).zip(drawn) {
        first.entry(*job).or_insert(now);
    }
    let flagged = |jobs: &[u32]| -> Vec<u32> {
        let set: std::collections::BTreeSet<u32> = jobs.iter().copied().collect();
        (0u32..).zip(drawn).filter(|(_, (job, _))| set.contains(job)).map(|(now, _)| now).collect()
    };
    let warm = workload.warm.iter().filter_map(|warm| {
        let job = first.get(&warm.job)?;
        Some(crate::sim::workload::Warm { job: *job, ..*warm })
    });
    Workload {
        origin_ms: workload.origin_ms,
        submit_ms: drawn.iter().map(submit).collect(),
        run_ms: column(&workload.run_ms, drawn),
        requested_ms: column(&workload.requested_ms, drawn),
        predicted_s: column(&workload.predicted_s, drawn),
        shape: column(&workload.shape, drawn),
        vc: column(&workload.vc, drawn),
        user: column(&workload.user, drawn),
        score: column(&workload.score, drawn),
        shapes: workload.shapes.clone(),
        users: workload.users.clone(),
        gpu_types: workload.gpu_types.clone(),
        warm: warm.collect(),
        history_gpu_s: workload.history_gpu_s.clone(),
        unfinished: flagged(&workload.unfinished),
        once: flagged(&workload.once),
    }
}

/// GPU time that jobs ask for, GPU-seconds.
fn asked_s(workload: &Workload) -> f64 {
    let jobs = workload.run_ms.iter().enumerate();
    jobs.map(|(job, run)| workload.shape_of(job).as_gpus() * *run as f64 / 1000.0).sum()
}

/// The figures of one policy in one draw.
#[derive(Debug, Clone, Copy)]
struct Figures {
    mean_wait_s: Option<f64>,
    p95_wait_s: Option<f64>,
    utilisation: Option<f64>,
}

/// One draw.
struct Draw {
    asked_s: f64,
    jobs: f64,
    found: Vec<Figures>,
}

fn figures(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<Figures> {
    let schedule = crate::sim::simulate(workload, cluster, policy)?;
    let overall = evaluate(workload, cluster, &schedule, 0)?.metrics.overall;
    let wait = overall.group.wait;
    Ok(Figures {
        mean_wait_s: wait.map(|wait| wait.mean_s),
        p95_wait_s: wait.map(|wait| wait.p95_s),
        utilisation: overall.utilisation,
    })
}

/// Replays policies, each with its name, on several draws of more work. Draws run side by side; the answer does not depend on threads. `done` is called after
/// each replay.
///
/// # Errors
/// As [`crate::sim::simulate`].
pub fn grow(
    (record, cluster): (&Workload, &Cluster),
    policies: &[(&str, &Policy)],
    growth: Growth,
    done: impl Fn() + Sync,
) -> Result<GrowthAnswer> {
    let all = |workload: &Workload| -> Result<Vec<Figures>> {
        let found = policies.par_iter().map(|(_, policy)| figures(workload, cluster, policy).inspect(|_| done()));
        found.collect()
    };
    if asked_s(record) <= 0.0 {
        let what = "no job of the record holds GPUs for any time, so there is no work to multiply";
        return Err(Error::NoJobs(what.to_owned()));
    }
    let of_record = all(record)?;
    let draws: Vec<Draw> = (0..growth.draws)
        .into_par_iter()
        .map(|draw| {
            let (workload, _) = scaled(record, growth.factor, growth.seed.wrapping_mul(1_000_003).wrapping_add(draw));
            Ok(Draw { asked_s: asked_s(&workload), jobs: workload.len() as f64, found: all(&workload)? })
        })
        .collect::<Result<_>>()?;
    let ratio = |value: &dyn Fn(&Draw) -> f64, of: f64| {
        let ratios: Vec<f64> = draws.iter().map(|draw| value(draw) / of).collect();
        OverDraws::of(&ratios).ok_or_else(|| Error::Defect("there are fewer than two draws".to_owned()))
    };
    let replays = policies.iter().zip(&of_record).enumerate().map(|(at, ((name, _), now))| {
        let over = |figure: &dyn Fn(&Figures) -> Option<f64>| {
            let values: Option<Vec<f64>> = draws.iter().map(|draw| draw.found.get(at).and_then(figure)).collect();
            values.and_then(|values| OverDraws::of(&values))
        };
        GrownReplay {
            name: (*name).to_owned(),
            mean_wait_s: over(&|found| found.mean_wait_s),
            p95_wait_s: over(&|found| found.p95_wait_s),
            utilisation: over(&|found| found.utilisation),
            mean_wait_now_s: now.mean_wait_s,
            p95_wait_now_s: now.p95_wait_s,
            utilisation_now: now.utilisation,
        }
    });
    Ok(GrowthAnswer {
        factor: growth.factor,
        draws: growth.draws,
        whole_weeks: u64::try_from(whole_weeks(record)).unwrap_or(0),
        gpu_time_ratio: ratio(&|draw| draw.asked_s, asked_s(record))?,
        jobs_ratio: ratio(&|draw| draw.jobs, record.len() as f64)?,
        policies: replays.collect(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::workload::Shape;
    use tracecast_analytics::time::HOUR_MS;

    /// Thirty users over 10 whole weeks and three days, each at hours of the week of their own.
    fn jobs() -> Workload {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut all: Vec<(i64, i64, u32, u32)> = Vec::new();
        for user in 0..30u32 {
            for _ in 0..rng.random_range(20..120) {
                let day = rng.random_range(0..73);
                let submit = day * DAY_MS + i64::from(user % 24) * HOUR_MS + rng.random_range(0..HOUR_MS);
                all.push((submit, rng.random_range(60_000..20_000_000), 1 << rng.random_range(0..4), user));
            }
        }
        // The end of the record, so that the weeks are those of 73 days.
        all.push((73 * DAY_MS, 1, 1, 0));
        all.sort_unstable();
        let mut jobs = Workload::default();
        for (submit, run, gpus, user) in all {
            jobs.push(submit, run, Shape::whole(gpus));
            *jobs.user.last_mut().unwrap() = user;
        }
        jobs.users = (0..30).map(|user| format!("u{user}")).collect();
        jobs
    }

    #[test]
    fn a_factor_of_one_is_the_record() {
        let record = jobs();
        let (same, source) = scaled(&record, 1.0, 3);
        assert_eq!(source, (0..record.len() as u32).collect::<Vec<_>>());
        assert_eq!(
            (&same.submit_ms, &same.run_ms, &same.user, &same.shape),
            (&record.submit_ms, &record.run_ms, &record.user, &record.shape)
        );
    }

    #[test]
    fn gpu_time_grows_by_the_factor_and_hours_of_the_week_stay() {
        let record = jobs();
        for factor in [0.5, 1.2, 2.7] {
            let ratios: Vec<f64> =
                (0..20).map(|seed| asked_s(&scaled(&record, factor, seed).0) / asked_s(&record)).collect();
            let over = OverDraws::of(&ratios).unwrap();
            assert!((over.low..=over.high).contains(&factor), "{factor}: {over:?}");
            let (workload, source) = scaled(&record, factor, 7);
            workload.validate(1).unwrap();
            for (now, was) in source.iter().enumerate() {
                let (now, was) = (workload.submit_ms[now], record.submit_ms[*was as usize]);
                assert_eq!((now - was).rem_euclid(WEEK_MS), 0);
                assert!((0..=73 * DAY_MS).contains(&now));
            }
        }
    }

    #[test]
    fn weeks_of_a_user_stay_together() {
        let record = jobs();
        let (_, source) = scaled(&record, 0.5, 1);
        let kept: std::collections::BTreeSet<u32> = source.iter().copied().collect();
        let mut by_week: BTreeMap<(u32, i64), Vec<bool>> = BTreeMap::new();
        for job in 0..record.len() as u32 {
            let week = record.submit_ms[job as usize].div_euclid(WEEK_MS);
            if week < 10 {
                by_week.entry((record.user[job as usize], week)).or_default().push(kept.contains(&job));
            }
        }
        assert!(by_week.values().all(|week| week.iter().all(|kept| *kept == week[0])));
        assert!(by_week.values().any(|week| week[0]) && by_week.values().any(|week| !week[0]));
    }

    #[test]
    fn what_ran_at_time_0_stays() {
        let mut record = jobs();
        record.warm.push(crate::sim::workload::Warm { job: 4, start_ms: -5 });
        for (factor, seed) in [(0.1, 1), (3.0, 2)] {
            let (workload, source) = scaled(&record, factor, seed);
            assert_eq!(source.iter().filter(|job| **job == 4).count(), 1);
            let [warm] = workload.warm[..] else { panic!("one runs at time 0") };
            assert_eq!((source[warm.job as usize], warm.start_ms), (4, -5));
        }
    }

    #[test]
    fn the_interval_of_a_mean_by_hand() {
        // Mean 2, s = 1, t(0.975, 2) = 4.3027: 2 ± 4.3027 / √3.
        let over = OverDraws::of(&[1.0, 2.0, 3.0]).unwrap();
        assert!(
            (over.high - (2.0 + 4.302_652_73 / 3f64.sqrt())).abs() < 1e-6 && over.least == 1.0 && over.greatest == 3.0
        );
        assert_eq!(OverDraws::of(&[1.0]), None);
    }
}
