//! The jobs of one draw: those of the record, multiplied, and those of teams that join.
//!
//! Jobs are kept together by user and week, so that habits stay: who works at night still does, and what is submitted in a burst comes in a
//! burst. For a factor `f` and a record of `W` whole weeks, each week is there ⌊f⌋ times, and of the `(f − ⌊f⌋)·W` weeks that are due beyond
//! that, as many as there are whole ones, and one more with the probability of the rest, are drawn without repetition. The n-th further copy of a
//! week stands n weeks later (around the end), so that it does not double the original's bursts. Jobs after the last whole week, and those of users
//! that nobody recorded, are drawn one by one in their place. What ran or waited at time 0 stays as it is. A team's jobs are drawn in the same way from
//! those of whom it is like, with the factor that gives its GPU-hours a week.
//!
//! Over draws, GPU time is `f` times what it was; the hour of the week of no job changes. O(jobs × log jobs) a draw.
//!
//! Worked number: a user with 10 whole weeks and f = 1.25 gets all 10, and 2 or 3 of them again, each with even odds.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tracecast_analytics::time::WEEK_MS;

use super::Growth;
use super::team::{Joining, Team};
use crate::error::Result;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::workload::{UNKNOWN_USER, Workload};

/// A record of which draws are made.
pub(super) struct Drawing<'a> {
    record: &'a Workload,
    factor: f64,
    teams: Vec<(&'a Team, Joining)>,
    /// Jobs that stay as they are.
    stays: BTreeSet<u32>,
}

/// The jobs of a draw.
pub(super) struct Grown {
    pub(super) workload: Workload,
    /// By job, the job of the record that it is or is copied from.
    #[cfg(test)]
    pub(super) source: Vec<u32>,
    /// By job, whether a team brings it.
    pub(super) joined: Vec<bool>,
}

/// A job of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Drawn {
    submit_ms: i64,
    job: u32,
    /// Team of the job, an index into the teams; `None` for the record's jobs.
    team: Option<usize>,
}

impl<'a> Drawing<'a> {
    /// # Errors
    /// If a team is like nobody in the record, or cannot be made of so few jobs.
    pub(super) fn new(record: &'a Workload, cluster: &Cluster, growth: &'a Growth) -> Result<Self> {
        let teams = growth.teams.iter().map(|team| Ok((team, team.joining(record, cluster)?)));
        Ok(Self { record, factor: growth.factor, teams: teams.collect::<Result<_>>()?, stays: record.uncounted() })
    }

    /// Whole weeks from time 0 to the last submission.
    pub(super) fn whole_weeks(&self) -> i64 {
        (self.record.submit_ms.last().copied().unwrap_or(0) + 1).div_euclid(WEEK_MS).max(0)
    }

    /// One draw.
    pub(super) fn draw(&self, seed: u64) -> Grown {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let all: Vec<u32> = (0u32..).take(self.record.len()).collect();
        let (stay, others): (Vec<u32>, Vec<u32>) = all.into_iter().partition(|job| self.stays(*job));
        let mut drawn: Vec<Drawn> =
            stay.into_iter().map(|job| Drawn { submit_ms: self.submit_ms(job), job, team: None }).collect();
        self.multiply(&others, self.factor, None, &mut rng, &mut drawn);
        for (at, (_, joining)) in self.teams.iter().enumerate() {
            self.multiply(&joining.jobs, joining.factor, Some(at), &mut rng, &mut drawn);
        }
        // Within a moment: the record's own order, the job before its copies, the record before teams.
        drawn.sort_by_key(|one| (one.submit_ms, one.job, one.submit_ms - self.submit_ms(one.job), one.team));
        let jobs: Vec<u32> = drawn.iter().map(|one| one.job).collect();
        let mut workload = self.record.arranged(&jobs, drawn.iter().map(|one| one.submit_ms).collect());
        self.sign(&drawn, &mut workload);
        Grown {
            workload,
            #[cfg(test)]
            source: jobs,
            joined: drawn.iter().map(|one| one.team.is_some()).collect(),
        }
    }

    fn submit_ms(&self, job: u32) -> i64 {
        self.record.submit_ms.get(job as usize).copied().unwrap_or(0)
    }

    fn stays(&self, job: u32) -> bool {
        self.submit_ms(job) < 0 || self.stays.contains(&job)
    }

    /// Draws `factor` times some jobs, for a team or for the record.
    fn multiply(&self, jobs: &[u32], factor: f64, team: Option<usize>, rng: &mut impl Rng, drawn: &mut Vec<Drawn>) {
        let whole_weeks = self.whole_weeks();
        let mut weeks_of: BTreeMap<u32, BTreeMap<i64, Vec<u32>>> = BTreeMap::new();
        let mut add = |job: u32, weeks: i64| {
            drawn.push(Drawn { submit_ms: self.submit_ms(job) + weeks * WEEK_MS, job, team });
        };
        for job in jobs {
            let user = self.record.user.get(*job as usize).copied().unwrap_or(0);
            let named = self.record.users.get(user as usize).is_some_and(|name| !name.starts_with(UNKNOWN_USER));
            let week = self.submit_ms(*job).div_euclid(WEEK_MS);
            if named && week < whole_weeks {
                weeks_of.entry(user).or_default().entry(week).or_default().push(*job);
            } else {
                (0..times(factor, rng)).for_each(|_| add(*job, 0));
            }
        }
        for weeks in weeks_of.values() {
            for (from, to) in moves(whole_weeks, factor, rng) {
                weeks.get(&from).into_iter().flatten().for_each(|job| add(*job, to - from));
            }
        }
    }

    /// Makes the jobs of teams theirs: by users of their own, in the VC they submit to.
    fn sign(&self, drawn: &[Drawn], workload: &mut Workload) {
        let mut users: BTreeMap<(usize, u32), u32> = BTreeMap::new();
        for (at, one) in drawn.iter().enumerate() {
            let Some((place, (team, joining))) = one.team.and_then(|place| Some((place, self.teams.get(place)?)))
            else {
                continue;
            };
            if let (Some(vc), Some(of)) = (joining.vc, workload.vc.get_mut(at)) {
                *of = vc;
            }
            let Some(user) = workload.user.get_mut(at) else { continue };
            *user = *users.entry((place, *user)).or_insert_with_key(|(_, like)| {
                let like = workload.users.get(*like as usize).map_or("", String::as_str);
                workload.users.push(format!("{}: {like}", team.name));
                u32::try_from(workload.users.len() - 1).unwrap_or(u32::MAX)
            });
        }
    }
}

/// Draws the number of copies of one thing under a factor.
fn times(factor: f64, rng: &mut impl Rng) -> usize {
    factor as usize + usize::from(rng.random_bool(factor.fract()))
}

/// Draws the weeks of a user and the place of each. Weeks without a job are weeks, too: they may be
/// drawn, and copies may come to stand there.
fn moves(whole: i64, factor: f64, rng: &mut impl Rng) -> Vec<(i64, i64)> {
    let all: Vec<i64> = (0..whole).collect();
    let due = factor.fract() * all.len() as f64;
    let further = due as usize + usize::from(rng.random_bool(due.fract()));
    let mut order = all.clone();
    order.shuffle(rng);
    // Each copy by one week further, around the end. Thinned (factor below 1), the drawn weeks are those that stay.
    let copies =
        (0..factor as i64).flat_map(|copy| all.iter().map(move |week| (*week, (week + copy).rem_euclid(whole))));
    let further = order.into_iter().take(further).map(|week| (week, (week + factor as i64).rem_euclid(whole)));
    copies.chain(further).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::time::{DAY_MS, HOUR_MS};

    use super::*;
    use crate::growth::OverDraws;
    use tracecast_sim::workload::{Shape, Warm};

    fn scaled(record: &Workload, factor: f64, seed: u64) -> (Workload, Vec<u32>) {
        let growth = Growth::new(factor, Vec::new(), 2, 1).unwrap();
        let drawn = Drawing::new(record, &Cluster::of_vcs(&[("all", 1, 8)]), &growth).unwrap().draw(seed);
        (drawn.workload, drawn.source)
    }

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
                (0..20).map(|seed| scaled(&record, factor, seed).0.asked_gpu_s() / record.asked_gpu_s()).collect();
            let over = OverDraws::new(&ratios).unwrap();
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
        record.warm.push(Warm { job: 4, start_ms: -5 });
        for (factor, seed) in [(0.1, 1), (3.0, 2)] {
            let (workload, source) = scaled(&record, factor, seed);
            assert_eq!(source.iter().filter(|job| **job == 4).count(), 1);
            let [warm] = workload.warm[..] else { panic!("one runs at time 0") };
            assert_eq!((source[warm.job as usize], warm.start_ms), (4, -5));
        }
    }

    #[test]
    fn a_team_brings_its_hours_with_the_habits_of_whom_it_is_like() {
        let record = jobs();
        let cluster = Cluster::of_vcs(&[("all", 1, 8), ("new", 1, 8)]);
        let team = Team {
            name: "robots".to_owned(),
            gpu_hours_per_week: 300.0,
            like_vc: None,
            like_users: vec!["u3".to_owned(), "u4".to_owned()],
            vc: Some("new".to_owned()),
        };
        let growth = Growth::new(1.0, vec![team], 2, 1).unwrap();
        let drawing = Drawing::new(&record, &cluster, &growth).unwrap();
        let brought: Vec<f64> = (0..20)
            .map(|seed| {
                let Grown { workload, source, joined } = drawing.draw(seed);
                workload.validate(2).unwrap();
                let mut own = Vec::new();
                for (at, was) in source.iter().enumerate() {
                    let name = &workload.users[workload.user[at] as usize];
                    assert_eq!(joined[at], workload.vc[at] == 1);
                    if workload.vc[at] == 1 {
                        assert!(name == "robots: u3" || name == "robots: u4", "{name}");
                        assert_eq!((workload.submit_ms[at] - record.submit_ms[*was as usize]).rem_euclid(WEEK_MS), 0);
                    } else {
                        own.push(*was);
                    }
                }
                // The record is there, whole, as it was.
                assert_eq!(own, (0..record.len() as u32).collect::<Vec<_>>());
                (workload.asked_gpu_s() - record.asked_gpu_s()) / 3600.0 / (73.0 / 7.0)
            })
            .collect();
        let over = OverDraws::new(&brought).unwrap();
        assert!((over.low..=over.high).contains(&300.0), "{over:?}");
    }
}
