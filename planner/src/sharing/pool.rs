//! GPUs divided among classes: the job types of a class have GPUs of their own, and all other jobs have the rest.
//!
//! A label of Kubernetes gives a class nodes of its own. So a class cannot use a GPU that others leave idle, nor they its own, and how the GPUs are divided counts.
//!
//! ```text
//! need      of a class = its offered load / the progress that two of its jobs make on a GPU, each pair as likely as both types have load; of all others = their load
//! GPUs      need + β √need, with the one β that uses up all GPUs (square-root staffing); in proportion to need where all together is more than there is
//! rounding  the largest remainders up; a part with job types has at least one GPU
//! replay    each part by itself, with its own jobs and GPUs
//! ```
//!
//! O(kinds²) for sizes, a replay is that of the [`engine`]. Worked number: a class asks for 12 GPUs and makes a progress of 1.5, others ask for 16. The needs are 8 and 16;
//! of 30 GPUs β = 6 / (2.83 + 4) = 0.88, so 10.49 and 19.51, that is 10 and 20.

use super::engine::{self, ALONE, PairSpeeds, SharingRule, SharingTimes};
use crate::error::{Error, Result};
use crate::one_gpu::TypedJobs;

/// GPUs that some kinds of jobs ask for: their runs over the time, or over the longest run if that is more, by kind. Nothing over no time.
pub(super) fn offered(jobs: &TypedJobs, kinds: usize, span_ms: i64) -> Vec<f64> {
    let mut load = vec![0.0; kinds];
    let span_ms = jobs.run_ms.iter().copied().fold(span_ms, i64::max).max(1);
    for (run, kind) in jobs.run_ms.iter().zip(&jobs.kind) {
        if let Some(of) = load.get_mut(usize::from(*kind)) {
            *of += *run as f64 / span_ms as f64;
        }
    }
    load
}

/// How GPUs are divided.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassPools {
    /// Part that a kind belongs to: the place of its class, or the last for those of none.
    part: Vec<usize>,
    /// GPUs that the jobs of each part ask for.
    load: Vec<f64>,
    /// GPUs that each part needs.
    need: Vec<f64>,
}

impl ClassPools {
    /// Parts of some classes, by the load of each kind and how fast two are beside each other.
    pub fn new(classes: &[Vec<usize>], load: &[f64], speeds: &PairSpeeds) -> Self {
        let mut part = vec![classes.len(); load.len()];
        for (place, class) in classes.iter().enumerate() {
            for kind in class {
                if let Some(slot) = part.get_mut(*kind) {
                    *slot = place;
                }
            }
        }
        let mut of_part = vec![0.0; classes.len() + 1];
        for (place, load) in part.iter().zip(load) {
            if let Some(of) = of_part.get_mut(*place) {
                *of += load;
            }
        }
        let progress = |class: &Vec<usize>| {
            let (mut made, mut weight) = (0.0, 0.0);
            for (a, b) in class.iter().flat_map(|a| class.iter().map(move |b| (*a, *b))) {
                let both = load.get(a).zip(load.get(b)).map_or(0.0, |(a, b)| a * b);
                let speed = u16::try_from(a).ok().zip(u16::try_from(b).ok());
                let speed = speed.and_then(|(a, b)| Some(speeds.get(a, b)? + speeds.get(b, a)?));
                made += both * speed.map_or(1.0, |speed| (f64::from(speed) / f64::from(ALONE)).max(1.0));
                weight += both;
            }
            if weight > 0.0 { made / weight } else { 1.0 }
        };
        // All others make what they make alone.
        let progress = classes.iter().map(progress).chain(std::iter::once(1.0));
        let need = of_part.iter().zip(progress).map(|(load, progress)| load / progress).collect();
        Self { part, load: of_part, need }
    }

    /// Parts of other kinds, each told as one of those that these are of. Parts of which none occurs keep their GPUs.
    pub(super) fn of_kinds(&self, kinds: impl Iterator<Item = u16>) -> Self {
        let of_none = self.need.len().saturating_sub(1);
        let part = kinds.map(|kind| self.part.get(usize::from(kind)).copied().unwrap_or(of_none));
        Self { part: part.chain(self.part.iter().copied()).collect(), ..self.clone() }
    }

    /// The class that saves most: its load less the GPUs that it needs. The first of several, and of classes without load.
    pub fn saves_most(&self) -> Option<usize> {
        // The last part is of no class.
        let (_, classes) = self.need.split_last()?;
        let mut best: Option<(usize, f64)> = None;
        for (place, saved) in self.load.iter().zip(classes).map(|(load, need)| load - need).enumerate() {
            if best.is_none_or(|(_, most)| saved > most) {
                best = Some((place, saved));
            }
        }
        best.map(|(place, _)| place)
    }

    /// GPUs of each part of so many, the others' last; `None` if there are fewer than parts with job types.
    pub fn gpus(&self, total: u32) -> Option<Vec<u32>> {
        let needed: f64 = self.need.iter().sum();
        let roots: f64 = self.need.iter().map(|need| need.sqrt()).sum();
        let room = f64::from(total) - needed;
        let exact: Vec<f64> = if room > 0.0 && roots > 0.0 {
            self.need.iter().map(|need| need + room / roots * need.sqrt()).collect()
        } else {
            self.need.iter().map(|need| need * f64::from(total) / needed.max(f64::MIN_POSITIVE)).collect()
        };
        let with_jobs = |part: &usize| self.part.contains(part);
        let parts = self.need.len();
        let mut result: Vec<u32> = exact.iter().map(|gpus| gpus.floor() as u32).collect();
        for (part, gpus) in result.iter_mut().enumerate() {
            *gpus = (*gpus).max(u32::from(with_jobs(&part)));
        }
        let mut order: Vec<usize> = (0..parts).filter(with_jobs).collect();
        // What was raised to one GPU has more than its part already.
        let remainder = |part: usize| exact.get(part).map_or(0.0, |gpus| if *gpus < 1.0 { 0.0 } else { gpus.fract() });
        order.sort_by(|a, b| remainder(*b).total_cmp(&remainder(*a)).then(a.cmp(b)));
        let used: u32 = result.iter().sum();
        for part in order.iter().cycle().take(total.saturating_sub(used) as usize) {
            if let Some(gpus) = result.get_mut(*part) {
                *gpus += 1;
            }
        }
        // Parts that were raised to one GPU are paid for by the largest.
        for _ in total..used {
            let largest = result.iter_mut().max_by_key(|gpus| **gpus)?;
            if *largest <= 1 {
                return None;
            }
            *largest -= 1;
        }
        Some(result)
    }

    /// When each job starts and ends, every part by itself.
    ///
    /// # Errors
    /// If there are fewer GPUs than parts with job types, or the jobs are none that the engine takes.
    pub fn replay(
        &self,
        jobs: &TypedJobs,
        gpus: u32,
        speeds: &PairSpeeds,
        rule: &SharingRule,
    ) -> Result<Vec<SharingTimes>> {
        let divided = self.gpus(gpus).ok_or_else(|| {
            Error::NothingToEvaluate(format!("{gpus} GPUs are too few to give each class of job types one"))
        })?;
        let mut result = vec![None; jobs.submit_ms.len()];
        for (part, gpus) in divided.into_iter().enumerate() {
            let own = |kind: &u16| self.part.get(usize::from(*kind)) == Some(&part);
            let (mut within, mut places) = (TypedJobs::default(), Vec::new());
            let rows = jobs.submit_ms.iter().zip(&jobs.run_ms).zip(&jobs.kind).enumerate();
            for (place, ((submit, run), kind)) in rows.filter(|(_, (_, kind))| own(kind)) {
                within.submit_ms.push(*submit);
                within.run_ms.push(*run);
                within.kind.push(*kind);
                places.push(place);
            }
            if places.is_empty() {
                continue;
            }
            for (place, times) in places.into_iter().zip(engine::replay(&within, gpus, speeds, rule)?) {
                if let Some(slot) = result.get_mut(place) {
                    *slot = Some(times);
                }
            }
        }
        result.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| Error::defect("a job is in no part".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kinds that are three quarters as fast beside each other, and one that shares with nobody.
    fn speeds() -> PairSpeeds {
        let mut speeds = PairSpeeds::new(3);
        for (a, b) in [(0, 0), (0, 1), (1, 1)] {
            speeds.set(a, b, (0.75, 0.75));
        }
        speeds
    }

    #[test]
    fn the_worked_number() {
        let pools = ClassPools::new(&[vec![0, 1]], &[6.0, 6.0, 16.0], &speeds());
        assert!((pools.need[0] - 8.0).abs() < 1e-9 && (pools.need[1] - 16.0).abs() < 1e-9, "{pools:?}");
        assert_eq!(pools.gpus(30), Some(vec![10, 20]));
        // Where there is less than is needed, in proportion.
        assert_eq!(pools.gpus(12), Some(vec![4, 8]));
        assert_eq!((pools.gpus(2), pools.gpus(1)), (Some(vec![1, 1]), None));
    }

    #[test]
    fn the_class_that_saves_most() {
        // Kind 2 makes nothing of a partner, kind 0 saves a third of its load.
        let mut speeds = speeds();
        speeds.set(2, 2, (0.5, 0.5));
        let of = |load: [f64; 3]| ClassPools::new(&[vec![2], vec![0], vec![1]], &load, &speeds).saves_most();
        assert_eq!((of([1.0, 2.0, 90.0]), of([3.0, 2.0, 90.0]), of([0.0, 0.0, 0.0])), (Some(2), Some(1), Some(0)));
        assert_eq!(ClassPools::new(&[], &[1.0], &speeds).saves_most(), None);
    }

    #[test]
    fn all_gpus_are_given_out() {
        let loads = [[0.1, 0.0, 3.0], [5.0, 1.0, 0.0], [0.0, 0.0, 2.0], [40.0, 2.0, 0.01]];
        for load in loads {
            for classes in [vec![vec![0, 1]], vec![vec![0], vec![1]], vec![vec![0, 1, 2]]] {
                let pools = ClassPools::new(&classes, &load, &speeds());
                for total in 3..70 {
                    let gpus = pools.gpus(total).unwrap();
                    assert_eq!(gpus.iter().sum::<u32>(), total, "{load:?} {classes:?} {gpus:?}");
                    // A part whose jobs are yet to come can run them, too.
                    for (part, gpus) in gpus.iter().enumerate() {
                        assert!((*gpus > 0) == pools.part.contains(&part), "{load:?} {classes:?} {total}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_that_was_raised_is_not_raised_again() {
        let pools = ClassPools { part: vec![0, 1, 2], load: vec![0.3, 10.9, 2.4], need: vec![0.3, 10.9, 2.4] };
        assert_eq!(pools.gpus(18), Some(vec![1, 13, 4]));
    }

    #[test]
    fn load_is_over_the_longest_run_where_that_is_more() {
        let jobs = TypedJobs { submit_ms: vec![0, 10], run_ms: vec![400, 100], kind: vec![0, 1] };
        assert_eq!((offered(&jobs, 2, 10), offered(&jobs, 2, 1000)), (vec![1.0, 0.25], vec![0.4, 0.1]));
    }

    #[test]
    fn a_class_cannot_use_what_others_leave_idle() {
        // On two GPUs, one of each part: both jobs of the class share its one, the other stays idle.
        let mut rule = SharingRule::exclusive(3);
        for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            rule.allow(a, b, 0);
        }
        let jobs =
            TypedJobs { submit_ms: vec![0, 0, 100_000], run_ms: vec![60_000, 60_000, 10_000], kind: vec![0, 1, 2] };
        let pools = ClassPools::new(&[vec![0, 1]], &[1.0, 1.0, 1.0], &speeds());
        let apart = pools.replay(&jobs, 2, &speeds(), &rule).unwrap();
        let ends: Vec<i64> = apart.iter().map(|times| times.end_ms).collect();
        assert_eq!(ends, [80_000, 80_000, 110_000]);
        let together = engine::replay(&jobs, 2, &speeds(), &rule).unwrap();
        assert_eq!(together.iter().map(|times| times.end_ms).collect::<Vec<_>>(), [60_000, 60_000, 110_000]);
        assert!(pools.replay(&jobs, 1, &speeds(), &rule).is_err());
    }
}
