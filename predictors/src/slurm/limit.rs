//! Back-test of time limits from a table: made from a part of the record, and compared with the
//! jobs that came later.
//!
//! The record is cut at [`CUTS`] shares of its jobs. At each cut a predictor is trained on what had happened by then, a table is made as it would have
//! been, and every job submitted from there to the next cut is looked up in it as `job_submit.lua` does, most particular entry first. A limit from an entry
//! known from enough jobs would have **killed** a job that ran longer. An entry of the final table passes if enough jobs were tested under its key and
//! few of them killed ([`TimeLimit::passed`]). Picking entries by their record flatters them, so the share of killed jobs that is told is of the last
//! part alone, under the entries that had passed on the parts before it.
//!
//! Four trainings. Jobs that brought a limit of their own are left out: the script does not touch them. Worked example: user `ann`'s 4-GPU jobs had
//! a limit of 2 h in 40 tests, and one ran 3 h: 1 of 40 killed, 2.5 %, which passes at 5 %.

use std::collections::BTreeMap;

use super::entry::{Key, entries as entries_of, keys_of};
use super::{Entry, Tested, TimeLimit};
use crate::duration::backtest::BacktestOptions;
use crate::duration::predictor::Predictor;
use crate::error::{Error, Result};
use crate::timeline::Timeline;

/// Shares of the jobs at which tables are made.
const CUTS: [f64; 4] = [0.5, 0.65, 0.8, 0.9];

/// Results of a back-test of limits.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct LimitTest {
    /// Jobs looked up in tables made before their submission.
    pub tested: u64,
    /// Entries of the final table that set a limit.
    pub entries: usize,
    /// Jobs of the last tenth that would have got a limit, from entries which had passed before.
    pub limited: u64,
    /// Jobs among these that ran longer than the limit.
    pub killed: u64,
    /// Jobs of the last tenth in all.
    pub last: u64,
}

impl LimitTest {
    /// Share of the limited jobs that would have been killed; `None` if none was limited.
    pub fn killed_share(&self) -> Option<f64> {
        (self.limited > 0).then(|| self.killed as f64 / self.limited as f64)
    }
}

/// Tests limits from tables on the later jobs of `timeline`, and fills what was found into `entries`, the table to be written. Where limits killed a greater
/// share of the last jobs than asked for, or nothing could be tested, no entry is left with a test, so that none sets a limit.
///
/// # Errors
/// If a learner fails.
pub fn back_test(
    entries: &mut [Entry],
    timeline: &Timeline,
    options: &BacktestOptions,
    limit: &TimeLimit,
) -> Result<LimitTest> {
    let mut result: BTreeMap<Key, Tested> = BTreeMap::new();
    let mut test = LimitTest::default();
    let count = timeline.jobs.len();
    let at = |share: f64| ((count as f64 * share) as usize).min(count);
    for (cut, until) in CUTS.iter().zip(CUTS.iter().skip(1).chain(&[1.0])) {
        let (from, to) = (at(*cut), at(*until));
        let Some(now_ms) = timeline.jobs.get(from).map(|job| job.submission.submit_ms) else { continue };
        let known = match timeline.clone().until(now_ms) {
            Ok(known) => known,
            Err(Error::TooFew(_)) => continue,
            Err(other) => return Err(other),
        };
        let predictor = match Predictor::train(&known, options) {
            Ok(predictor) => predictor,
            Err(Error::TooFew(_)) => continue,
            Err(other) => return Err(other),
        };
        let table: BTreeMap<Key, Entry> =
            entries_of(&predictor, &known)?.into_iter().map(|entry| (key_of(&entry), entry)).collect();
        let last = to == count;
        let passed: BTreeMap<Key, bool> =
            result.iter().map(|(key, tested)| (key.clone(), limit.passed(*tested))).collect();
        for job in timeline.jobs.get(from..to).unwrap_or_default() {
            let (Some(run_s), None) = (job.run_s, job.submission.limit_s) else { continue };
            test.last += u64::from(last);
            let hit = keys_of(&job.submission).into_iter().find_map(|key| Some((table.get(&key)?, key)));
            let Some((entry, key)) = hit else { continue };
            if entry.jobs < limit.least_jobs {
                continue;
            }
            let killed = u64::from(run_s > limit.limit_s(entry.p95_s));
            test.tested += 1;
            if last && passed.get(&key) == Some(&true) {
                test.limited += 1;
                test.killed += killed;
            }
            *result.entry(key).or_default() += Tested { jobs: 1, killed };
        }
    }
    // Limits that did not hold where they had not been tried before are not handed out.
    let holds = test.killed_share().is_some_and(|share| share <= limit.most_killed);
    for entry in entries.iter_mut() {
        entry.tested = if holds { result.get(&key_of(entry)).copied().unwrap_or_default() } else { Tested::default() };
        test.entries += usize::from(entry.jobs >= limit.least_jobs && limit.passed(entry.tested));
    }
    Ok(test)
}

fn key_of(entry: &Entry) -> Key {
    let level = match (&entry.user, &entry.name_stem, &entry.vc, entry.gpus) {
        (Some(_), Some(_), _, _) => 0,
        (Some(_), None, _, _) => 1,
        (None, _, Some(_), _) => 2,
        (None, _, None, Some(_)) => 3,
        (None, _, None, None) => 4,
    };
    (level, entry.user.clone(), entry.name_stem.clone(), entry.vc.clone(), entry.gpus)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::duration::forecast::Settings;
    use crate::feature::Known;
    use crate::job::Submission;
    use crate::model::boosted::Trees;
    use crate::timeline::Job;

    /// Two users, one of whom runs 100 s and the other 100,000 s, by turns that look drawn; from `step` on all runs are `longer` times as long.
    fn timeline(jobs: u32, step: u32, longer: f64) -> Timeline {
        let job = |at: u32| {
            let long = (at.wrapping_mul(2_654_435_761) >> 16).is_multiple_of(2);
            let noise = 1.0 + f64::from(at * 7919 % 100) / 500.0;
            let run_s = if long { 100_000.0 } else { 100.0 } * noise * if at >= step { longer } else { 1.0 };
            let submit_ms = 1_600_000_000_000 + i64::from(at) * 3_600_000;
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
        let trees = Trees { trees: 40, rate: 0.2, least: 5.0, ..Trees::default() };
        BacktestOptions { settings: Settings { trees, ..Settings::default() }, ..BacktestOptions::default() }
    }

    fn tested(timeline: &Timeline) -> (Vec<Entry>, LimitTest) {
        let predictor = Predictor::train(timeline, &options()).unwrap();
        let mut entries = entries_of(&predictor, timeline).unwrap();
        let test = back_test(&mut entries, timeline, &options(), &TimeLimit::default()).unwrap();
        (entries, test)
    }

    #[test]
    fn two_users_of_a_hundred_and_a_hundred_thousand_seconds() {
        let (entries, test) = tested(&timeline(1000, u32::MAX, 1.0));
        let of = |key: &str| entries.iter().find(|entry| entry.key().as_deref() == Some(key)).unwrap();
        // Half of all jobs run 100,000 s: 95 % stay under that, and not under the mean of the users' own quantiles, some 50,000 s.
        for shared in ["a", "g 1"] {
            assert!(of(shared).p95_s > 100_000.0, "{shared}: {:?}", of(shared));
        }
        assert!(of("u bob 1").p95_s < 1000.0 && of("u ann 1").p95_s > 100_000.0, "{entries:?}");
        // Both users' limits hold, and nobody else was there to look up the wider entries.
        assert_eq!(test.entries, 2, "{test:?} {entries:?}");
        assert!(test.limited > 90 && test.killed_share().unwrap() <= 0.05, "{test:?}");
        assert_eq!(of("a").tested, Tested::default());
    }

    #[test]
    fn limits_that_would_have_killed_the_last_jobs_are_not_handed_out() {
        // All goes well up to nine tenths of the jobs; then all run four times as long.
        let (entries, test) = tested(&timeline(1000, 900, 4.0));
        assert!(test.killed_share().unwrap() > 0.3, "{test:?}");
        assert_eq!(test.entries, 0);
        assert!(entries.iter().all(|entry| entry.tested == Tested::default()));
    }
}
