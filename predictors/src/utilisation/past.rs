//! Usage of a job's groups known from telemetry by a moment: the recurring group (user and stem of
//! the name), the user, the size, and all jobs.
//!
//! Of a job whose user is not known, the recurring group is all jobs with the stem of its name, whoever submitted them. A user who is known, but had no job yet, has no recurring group:
//! what is of others is told by size and by all jobs.
//!
//! Moments come in order of time, and nothing later can be asked about: a job that still runs counts with what was read of it so far. Of each group are kept the mean over its
//! jobs, each job with the same weight, and the value of the job that started last; values are ln(1 + mean utilisation) and ln(1 + peak memory). Jobs of unknown size are
//! one group of sizes.
//!
//! The **group estimate** draws each group's mean towards the wider one, as if three jobs more had that. O(log n + groups) a moment. Worked number: of
//! jobs at ln 3.0 on average, a group of one at 4.0 is estimated at (4.0 + 3 × 3.0) / 4 = 3.25.

use std::collections::BTreeMap;

use super::history::{AskedJob, SampledJob, Usage};
use crate::feature::name::stem;
use tracecast_analytics::facts::SizeClass;

/// Jobs of the wider group's mean that a group's own is drawn towards. With three, a group of one keeps a quarter of its own, and one of ten three quarters.
const SHRINK: f64 = 3.0;
/// Number of levels of groups.
const LEVELS: usize = 4;

/// The narrowest group of a job of which something was known when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// Jobs of the same user and name; where the user is not known, all jobs of the name.
    Recurring,
    /// Jobs of the same user.
    User,
    /// Jobs of its size.
    Size,
    /// All jobs.
    All,
}

impl KnownBy {
    /// All, the narrowest first.
    pub const EACH: [Self; LEVELS] = [Self::Recurring, Self::User, Self::Size, Self::All];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recurring => "its recurring group",
            Self::User => "its user",
            Self::Size => "its size",
            Self::All => "all jobs",
        }
    }
}

/// Tally of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    sum: f64,
    jobs: u32,
    last: Option<usize>,
}

/// Readings of a job so far.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    sum: f64,
    moments: u32,
    peak: f64,
}

impl Seen {
    /// Usage on the log scale; `None` before the first moment.
    fn value(&self, usage: Usage) -> Option<f64> {
        let value = match usage {
            Usage::GpuUtilPct => self.sum / f64::from(self.moments),
            Usage::MemoryMb => self.peak,
        };
        (self.moments > 0).then(|| value.ln_1p())
    }
}

/// Usage of one level of groups of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OfGroup {
    pub(super) mean: f64,
    /// Usage of the job of the group that started last.
    pub(super) last: f64,
    pub(super) jobs: u32,
}

/// Usage of a job's groups, the narrowest first.
pub(super) type Known = [Option<OfGroup>; LEVELS];

/// The past of one usage, moment by moment.
#[derive(Debug)]
pub(super) struct Past<'h> {
    usage: Usage,
    /// Moments of all jobs in order of time: when, job, value.
    events: Vec<(i64, u32, f64)>,
    next: usize,
    seen: Vec<Seen>,
    groups_of: Vec<[Option<usize>; LEVELS]>,
    /// Index of the group of all jobs of its name, for each job with a user: the job counts in it
    /// but is not forecast from it.
    of_name: Vec<Option<usize>>,
    tallies: Vec<Tally>,
    jobs: &'h [SampledJob],
}

impl<'h> Past<'h> {
    /// Before the first moment. `jobs` are in order of their starts; those of `open`, of which nothing is read, have the places after them.
    pub(super) fn new(jobs: &'h [SampledJob], open: &[AskedJob], usage: Usage) -> Self {
        let mut events: Vec<(i64, u32, f64)> = Vec::new();
        let mut places: BTreeMap<(KnownBy, Option<String>, String), usize> = BTreeMap::new();
        let mut groups_of = Vec::with_capacity(jobs.len() + open.len());
        let mut of_name = Vec::with_capacity(jobs.len() + open.len());
        for (job, at) in jobs.iter().zip(0u32..) {
            events.extend(job.moments.iter().filter_map(|moment| Some((moment.ts_ms, at, moment.get(usage)?))));
        }
        for job in jobs.iter().map(|job| &job.known).chain(open.iter().map(|job| &job.known)) {
            let mut place = |level: KnownBy, user: &Option<String>, name: String| {
                let next = places.len();
                *places.entry((level, user.clone(), name)).or_insert(next)
            };
            let stem = job.name.as_deref().map(stem);
            let size = job.gpus.map_or("", |gpus| SizeClass::new(gpus).id()).to_owned();
            groups_of.push([
                stem.clone().map(|stem| place(KnownBy::Recurring, &job.user, stem)),
                job.user.is_some().then(|| place(KnownBy::User, &job.user, String::new())),
                Some(place(KnownBy::Size, &None, size)),
                Some(place(KnownBy::All, &None, String::new())),
            ]);
            of_name.push(stem.filter(|_| job.user.is_some()).map(|stem| place(KnownBy::Recurring, &None, stem)));
        }
        // By job where times are the same.
        events.sort_by_key(|(ts_ms, job, _)| (*ts_ms, *job));
        let tallies = vec![Tally::default(); places.len()];
        Self { usage, events, next: 0, seen: vec![Seen::default(); jobs.len()], groups_of, of_name, tallies, jobs }
    }

    /// Goes on to a moment: what was read before it is known then. Going back changes nothing.
    pub(super) fn advance(&mut self, now_ms: i64) {
        while let Some((_, job, value)) = self.events.get(self.next).copied().filter(|event| event.0 < now_ms) {
            self.next += 1;
            let at = job as usize;
            let Some(seen) = self.seen.get_mut(at) else { continue };
            let before = seen.value(self.usage);
            seen.sum += value;
            seen.moments += 1;
            seen.peak = seen.peak.max(value);
            let now = seen.value(self.usage).unwrap_or_default();
            for group in self.groups_of.get(at).into_iter().flatten().chain(self.of_name.get(at)).flatten() {
                let Some(tally) = self.tallies.get_mut(*group) else { continue };
                tally.sum += now - before.unwrap_or_default();
                tally.jobs += u32::from(before.is_none());
                tally.last = tally.last.max(Some(at));
            }
        }
    }

    /// Usage of the groups of a job. Of the job itself nothing may have been read yet.
    pub(super) fn known(&self, job: usize) -> Known {
        let groups = self.groups_of.get(job).copied().unwrap_or_default();
        groups.map(|group| {
            let tally = self.tallies.get(group?)?;
            let last = self.seen.get(tally.last?)?.value(self.usage)?;
            Some(OfGroup { mean: tally.sum / f64::from(tally.jobs), last, jobs: tally.jobs })
        })
    }

    /// Usage of a job so far, on the log scale; `None` if fewer than `least` moments were read and
    /// its record does not state it.
    pub(super) fn so_far(&self, job: usize, least: usize) -> Option<f64> {
        let seen = self.seen.get(job)?;
        let enough = seen.moments as usize >= least || self.jobs.get(job)?.reported;
        seen.value(self.usage).filter(|_| enough)
    }
}

/// The narrowest level of which something is known.
pub(super) fn narrowest(known: &Known) -> Option<(KnownBy, OfGroup)> {
    KnownBy::EACH.into_iter().zip(known).find_map(|(level, of)| Some((level, (*of)?)))
}

/// The group estimate; `None` where nothing is known.
pub(super) fn estimate(known: &Known) -> Option<f64> {
    known.iter().rev().flatten().fold(None, |wider, of| {
        let jobs = f64::from(of.jobs);
        Some(wider.map_or(of.mean, |wider: f64| (of.mean * jobs + wider * SHRINK) / (jobs + SHRINK)))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    use super::super::history::{JobKnown, UsageMoment};
    use super::*;

    /// A job of `user` that starts at `start_s` and is read every second from then on.
    pub(in super::super) fn job(user: &str, name: &str, start_s: i64, utils: &[f64]) -> SampledJob {
        let start_ms = start_s * 1000;
        let moments: Vec<UsageMoment> = (0i64..)
            .zip(utils)
            .map(|(at, util)| UsageMoment {
                ts_ms: start_ms + at * 1000,
                util_pct: Some(*util),
                memory_mb: Some(util * 10.0),
            })
            .collect();
        SampledJob {
            key: Some(name.to_owned()),
            submit_ms: start_ms,
            known: JobKnown {
                name: Some(name.to_owned()),
                user: Some(user.to_owned()),
                gpus: Some(1.0),
                ..JobKnown::default()
            },
            start_ms,
            done_ms: start_ms + utils.len() as i64 * 1000,
            reported: false,
            moments,
        }
    }

    #[test]
    fn what_was_read_before_counts_and_what_comes_does_not() {
        let jobs = [
            job("ann", "train_1", 0, &[20.0, 40.0, 90.0]),
            job("ben", "eval", 1, &[60.0, 60.0]),
            job("ann", "train_2", 2, &[10.0]),
        ];
        let mut past = Past::new(&jobs, &[], Usage::GpuUtilPct);
        assert_eq!(narrowest(&past.known(0)), None);
        past.advance(jobs[2].start_ms);
        // Of train_1 20 and 40 were read by 2 s, of eval 60.
        let known = past.known(2);
        let (level, own) = narrowest(&known).unwrap();
        assert_eq!((level, own.jobs), (KnownBy::Recurring, 1));
        assert!((own.mean - 31f64.ln()).abs() < 1e-12 && (own.last - 31f64.ln()).abs() < 1e-12);
        let all = known[3].unwrap();
        assert_eq!(all.jobs, 2);
        assert!((all.mean - f64::midpoint(31f64.ln(), 61f64.ln())).abs() < 1e-12);
        assert!((all.last - 61f64.ln()).abs() < 1e-12, "eval started last");
        assert_eq!((past.so_far(0, 3), past.so_far(0, 2).map(|value| value.exp().round())), (None, Some(31.0)));
        // Memory is the peak and not the mean.
        let mut memory = Past::new(&jobs, &[], Usage::MemoryMb);
        memory.advance(jobs[2].start_ms);
        assert!((memory.known(2)[0].unwrap().mean - 401f64.ln()).abs() < 1e-12);
    }

    /// ann's jobs train_1 and train_2 and ben's train_3 read 20, 40 and 60 %.
    #[test]
    fn a_name_alone_is_known_by_the_jobs_of_that_name_whoever_submitted_them() {
        let jobs = [
            job("ann", "train_1", 0, &[20.0]),
            job("ann", "train_2", 1, &[40.0]),
            job("ben", "train_3", 2, &[60.0]),
            job("ben", "eval", 3, &[90.0]),
        ];
        let request = |user: Option<&str>, name: &str| AskedJob {
            id: None,
            known: JobKnown { name: Some(name.to_owned()), user: user.map(str::to_owned), ..jobs[0].known.clone() },
        };
        let open = [
            request(None, "train_7"),
            request(Some("ann"), "train_7"),
            request(Some("zoe"), "train_7"),
            request(None, "x"),
        ];
        let mut past = Past::new(&jobs, &open, Usage::GpuUtilPct);
        past.advance(i64::MAX);
        let told = |at: usize| narrowest(&past.known(jobs.len() + at)).map(|(level, of)| (level, of.jobs, of.mean));
        let mean = |utils: &[f64]| utils.iter().map(|util: &f64| util.ln_1p()).sum::<f64>() / utils.len() as f64;
        for (at, level, utils) in [
            (0, KnownBy::Recurring, &[20.0, 40.0, 60.0][..]),
            (1, KnownBy::Recurring, &[20.0, 40.0]),
            (2, KnownBy::Size, &[20.0, 40.0, 60.0, 90.0]),
            (3, KnownBy::Size, &[20.0, 40.0, 60.0, 90.0]),
        ] {
            let (result, count, of) = told(at).unwrap();
            assert_eq!((result, count as usize), (level, utils.len()), "{at}");
            assert!((of - mean(utils)).abs() < 1e-12, "{at}");
        }
    }

    #[test]
    fn a_group_of_one_leans_on_the_wider_one() {
        let of = |mean: f64, jobs: u32| Some(OfGroup { mean, last: mean, jobs });
        let result = estimate(&[of(4.0, 1), None, None, of(3.0, 50)]).unwrap();
        assert!((result - 3.25).abs() < 1e-12);
        assert_eq!(estimate(&[None; 4]), None);
    }
}
