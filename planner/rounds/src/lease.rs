//! Chronus: jobs with deadlines are admitted if the programme says that they can be in time, and get GPUs lease by lease; all others run in the gaps.
//!
//! After Chronus (Gao et al., `SoCC` 2021), whose authors publish their scheduler; what is ours is said. The contract:
//!
//! 1. A **lease** is a fixed number of rounds. Leases begin at whole multiples of their length from time 0; after a time with nobody there, one begins with the first job and ends with the others, though the programme counts it whole. Who holds one has GPUs of one type until it ends, or the job does.
//! 2. When a lease begins, jobs with deadlines that came since the last one are looked at, in order of submission. A job is **admitted** if the programme below leaves no more work undone at deadlines with it than without it. What is refused stays refused. A programme holds at most [`MOST_TASKS`] jobs; who comes beyond is looked at when a later lease begins. A refused job, a job that waits to be looked at, and an admitted one whose
//!    deadline has passed are **best effort**, as jobs without a deadline are.
//! 3. The programme then says which admitted job has which type for the lease that begins. For this it aims a lease before each deadline, or as near to it as the job alone on its fastest type can be (ours, as gangs fit in parts and not whole).
//! 4. In every round, what is not leased goes to admitted jobs without a lease, the nearest deadline first, and then to best-effort jobs in order of submission, each onto the fastest type with room. Who does not fit is passed over. (Ours: in the original the gaps are for best effort.)
//!
//! The **programme** is of admitted jobs i with r_i steps left, n_i GPUs, a speed of T_it steps a lease on type t (less what a restart takes), and D_i leases until the deadline. Time is cut into the lease that begins (p = 0) and at most [`PERIODS`] periods
//! after it, which end at deadlines:
//!
//! ```text
//! x_itp  leases that job i has of type t in period p, 0 or 1 in p = 0       u_i  share of its steps that is undone at its deadline       L_p  length of p in leases
//! minimise  10,000 · Σ u_i + ½ · Σ n_i·x_it0 + Σ_{p>0} n_i·x_itp
//! so that   Σ_tp T_it·x_itp + r_i·u_i ≥ r_i     Σ_t x_itp ≤ min(L_p, what is left until D_i)     Σ_i n_i·x_itp ≤ N_t·L_p     x, u ≥ 0
//! ```
//!
//! So deadlines come first, then little GPU time, and GPU time now costs half of GPU time later, so that little is put off. Time after this lease is counted as parts of leases and in periods (ours: the original has one binary for each job and lease, which the solver here is not made for). The binaries of the lease that begins are found by diving: the relaxation is solved, the largest part of a
//! lease is made a whole one if there is room and none if there is not, and so on. That is no proof of an optimum. Gangs may fit in parts and not whole, so an admitted job may be late all the same; the answer says how many are.
//!
//! O(programmes): about one for all who come together, log many for each who is refused, and a few a lease. Worked example: one GPU, leases of 1 h. a needs 2 h and has 3; b needs 1 h and has 2. Both are admitted: a + b need the GPU for 3 h, b by the second, a by the third. c needs 1 h within 3 and is refused, as 4 h of work do not fit in 3 h.

use std::collections::{BTreeMap, BTreeSet};

use good_lp::{Expression, Solution as _, Variable, constraint, variable, variables};

use super::active::ActiveJob;
use super::room::GangRoom;
use tracecast_plan::Result;
use tracecast_plan::programme::solved_if_possible;

/// Most periods after the lease that begins.
pub const PERIODS: usize = 8;
/// Cost of undone work beside a lease of a GPU.
const BIG: f64 = 1e4;
/// Cost of a lease of a GPU now beside one later.
const NOW: f64 = 0.5;
/// How far before deadlines the programme aims, leases.
const SPARE: f64 = 1.0;
/// A part of a lease, or of a job's steps, that is none.
const NONE: f64 = 1e-6;
/// A speed more than this many times what a job has left is as good as one this large.
const FAST: f64 = 1e4;
/// Most jobs in a programme.
pub const MOST_TASKS: usize = 96;
/// Most programmes of one dive.
const DIVES: usize = 48;

/// A job in the programme.
#[derive(Debug, Clone, PartialEq)]
struct Task {
    gpus: f64,
    /// Share of its remaining steps that a lease of each type makes, 0 where it does not run.
    gains: Vec<f64>,
    /// Leases until its deadline.
    due: f64,
}

/// Solution of the programme.
struct Found {
    /// Shares of steps that are undone at deadlines, of all jobs.
    undone: f64,
    /// By job, the part of the first lease of each type.
    first: Vec<Vec<f64>>,
}

/// Admitted jobs, and the leases held.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    /// Length of a lease, seconds.
    lease_s: f64,
    /// Part of a lease that a restart takes, seconds.
    restart_s: f64,
    lease: Option<i64>,
    seen: BTreeSet<usize>,
    admitted: BTreeSet<usize>,
    held: BTreeMap<usize, usize>,
    programmes: u64,
}

impl Leases {
    /// Nobody yet; leases of a length, and what a restart takes, seconds.
    pub fn new(lease_s: f64, restart_s: f64) -> Self {
        Self { lease_s, restart_s, ..Self::default() }
    }

    /// Jobs that were admitted so far, by number.
    pub fn admitted(&self) -> &BTreeSet<usize> {
        &self.admitted
    }

    /// Programmes solved so far.
    pub fn programmes(&self) -> u64 {
        self.programmes
    }

    /// The type of each job in the round that begins, `now_s` seconds from time 0.
    ///
    /// # Errors
    /// If the solver fails, which no input should bring about.
    pub fn round(&mut self, now_s: f64, active: &[ActiveJob<'_>], room: &GangRoom) -> Result<Vec<Option<usize>>> {
        // Rounds begin on whole milliseconds, so a lease that begins now is not missed for a sum of floats.
        let lease = ((now_s + 1e-4) / self.lease_s).floor() as i64;
        if self.lease.replace(lease) != Some(lease) {
            self.begin(active, room)?;
        }
        Ok(self.place(active, room))
    }

    /// Admits jobs and gives leases.
    fn begin(&mut self, active: &[ActiveJob<'_>], room: &GangRoom) -> Result<()> {
        let gpus: Vec<f64> = room.gpus.iter().copied().map(f64::from).collect();
        let in_time = |job: &&ActiveJob<'_>| job.due_s.is_some_and(|due_s| due_s > 0.0);
        let mut tasks: Vec<(usize, Task)> = active
            .iter()
            .filter(in_time)
            .filter(|job| self.admitted.contains(&job.job))
            .map(|job| (job.job, self.task(job)))
            .collect();
        let new: Vec<&ActiveJob<'_>> =
            active.iter().filter(in_time).filter(|job| !self.seen.contains(&job.job)).collect();
        let mut hopeful = Vec::new();
        for job in new.into_iter().take(MOST_TASKS.saturating_sub(tasks.len())) {
            self.seen.insert(job.job);
            let task = self.task(job);
            let alone = task.gains.iter().copied().fold(0.0, f64::max) * task.due;
            hopeful.extend((alone >= 1.0 - NONE).then_some((job.job, task)));
        }
        self.admit(&mut tasks, &hopeful, &gpus)?;
        for (_, task) in &mut tasks {
            let alone = 1.0 / task.gains.iter().copied().fold(0.0, f64::max);
            task.due = task.due.min((task.due - SPARE).max(alone));
        }
        self.held = self.dive(&tasks, &gpus)?;
        Ok(())
    }

    /// Adds to `tasks` whom of `new` the programme has room for. What it has room for together it has room for one by one, so halves are looked at only where the whole does not fit.
    fn admit(&mut self, tasks: &mut Vec<(usize, Task)>, new: &[(usize, Task)], gpus: &[f64]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let mut undone = self.solve(tasks, gpus, &[])?.map_or(0.0, |result| result.undone);
        let mut blocks = vec![new];
        while let Some(block) = blocks.pop() {
            let before = tasks.len();
            tasks.extend_from_slice(block);
            let with = self.solve(tasks, gpus, &[])?.map_or(f64::INFINITY, |result| result.undone);
            if with <= undone + NONE {
                undone = with;
                self.admitted.extend(block.iter().map(|(job, _)| *job));
                continue;
            }
            tasks.truncate(before);
            if block.len() > 1 {
                let (first, second) = block.split_at(block.len() / 2);
                blocks.extend([second, first]);
            }
        }
        Ok(())
    }

    fn task(&self, job: &ActiveJob<'_>) -> Task {
        let useful_s = self.lease_s - self.restart_s;
        let gain = |speed: &f64| (speed * useful_s / job.remaining).min(FAST);
        Task {
            gpus: job.gpus(),
            gains: job.kind.steps_per_s.iter().map(gain).collect(),
            due: job.due_s.unwrap_or(0.0) / self.lease_s,
        }
    }

    /// Rounds parts to whole leases of one type each.
    fn dive(&mut self, tasks: &[(usize, Task)], gpus: &[f64]) -> Result<BTreeMap<usize, usize>> {
        // Of pairs of a job's place and a type, whether it has the lease; who has one of a type has none of another.
        let mut fixed: Vec<(usize, usize, bool)> = Vec::new();
        let mut free = gpus.to_vec();
        for _ in 0..DIVES {
            if tasks.is_empty() {
                break;
            }
            let Some(result) = self.solve(tasks, gpus, &fixed)? else { break };
            let open = |place: usize, at: usize| {
                !fixed.iter().any(|(p, a, has)| (*p, *a) == (place, at) || (*has && *p == place))
            };
            let parts = result
                .first
                .iter()
                .enumerate()
                .flat_map(|(place, parts)| parts.iter().enumerate().map(move |(at, part)| (place, at, *part)));
            let parts: Vec<(usize, usize, f64)> =
                parts.filter(|(place, at, part)| *part > NONE && open(*place, *at)).collect();
            let mut whole = parts.iter().filter(|(.., part)| *part > 1.0 - NONE).copied().collect::<Vec<_>>();
            let all_whole = whole.len() == parts.len();
            if whole.is_empty() {
                whole.extend(parts.into_iter().reduce(|a, b| if b.2 > a.2 { b } else { a }));
            }
            for (place, at, _) in whole {
                let needs = tasks.get(place).map_or(0.0, |(_, task)| task.gpus);
                let left = free.get_mut(at).filter(|free| **free >= needs - NONE);
                fixed.push((place, at, left.is_some()));
                if let Some(left) = left {
                    *left -= needs;
                }
            }
            if all_whole {
                break;
            }
        }
        let has = |(place, at, has): (usize, usize, bool)| Some((tasks.get(place).filter(|_| has)?.0, at));
        Ok(fixed.into_iter().filter_map(has).collect())
    }

    /// The relaxation, with some pairs of a job's place and a type fixed in the first lease.
    fn solve(
        &mut self,
        tasks: &[(usize, Task)],
        gpus: &[f64],
        fixed: &[(usize, usize, bool)],
    ) -> Result<Option<Found>> {
        let mut result = Found { undone: 0.0, first: vec![vec![0.0; gpus.len()]; tasks.len()] };
        if tasks.is_empty() {
            return Ok(Some(result));
        }
        self.programmes += 1;
        let periods = periods(tasks);
        let mut vars = variables!();
        let mut objective = Expression::default();
        let mut rows = Vec::new();
        let mut used = vec![vec![Expression::default(); gpus.len()]; periods.len()];
        let mut first: Vec<Vec<Option<Variable>>> = vec![vec![None; gpus.len()]; tasks.len()];
        let mut undone = Vec::new();
        for ((place, (_, task)), first) in tasks.iter().enumerate().zip(&mut first) {
            let left = vars.add(variable().min(0.0).max(1.0));
            objective.add_mul(BIG, left);
            let mut done = Expression::default();
            done.add_mul(1.0, left);
            for (period, ((from, to), used)) in periods.iter().zip(&mut used).enumerate() {
                let there = to.min(task.due) - from;
                if there <= NONE {
                    break;
                }
                // In the first lease a part of it counts, and who is due within it makes steps until then alone.
                let (most, length) = if period == 0 { (1.0, there.min(1.0)) } else { (there, 1.0) };
                let mut time = Expression::default();
                for ((at, gain), used) in task.gains.iter().enumerate().zip(used).filter(|((_, gain), _)| **gain > 0.0)
                {
                    let pair = fixed.iter().find(|(p, a, _)| period == 0 && (*p, *a) == (place, at));
                    let (least, most) = match pair {
                        Some((.., true)) => (1.0, 1.0),
                        Some((.., false)) => (0.0, 0.0),
                        None => (0.0, most),
                    };
                    let share = vars.add(variable().min(least).max(most));
                    objective.add_mul(task.gpus * if period == 0 { NOW } else { 1.0 }, share);
                    done.add_mul(gain * length, share);
                    time.add_mul(1.0, share);
                    used.add_mul(task.gpus, share);
                    if let Some(slot) = first.get_mut(at).filter(|_| period == 0) {
                        *slot = Some(share);
                    }
                }
                rows.push(constraint!(time <= most));
            }
            rows.push(constraint!(done >= 1.0));
            undone.push(left);
        }
        for ((from, to), used) in periods.iter().zip(used) {
            rows.extend(used.into_iter().zip(gpus).map(|(used, gpus)| constraint!(used <= gpus * (to - from))));
        }
        let Some(solution) = solved_if_possible(vars.minimise(objective), rows, "leases")? else { return Ok(None) };
        result.undone = undone.iter().map(|left| solution.value(*left).max(0.0)).sum();
        for (parts, first) in result.first.iter_mut().zip(&first) {
            for (part, share) in parts.iter_mut().zip(first) {
                *part = share.map_or(0.0, |share| solution.value(share));
            }
        }
        Ok(Some(result))
    }

    /// Leases, and then the gaps: to those who were promised to be in time, and then to the others.
    fn place(&self, active: &[ActiveJob<'_>], room: &GangRoom) -> Vec<Option<usize>> {
        let mut open = room.open();
        let mut result = vec![None; active.len()];
        for (job, slot) in active.iter().zip(&mut result) {
            *slot = self.held.get(&job.job).copied().filter(|at| open.take(*at, job.gang(*at, false)));
        }
        let waits = |job: &ActiveJob<'_>| job.due_s.filter(|due_s| *due_s > 0.0 && self.admitted.contains(&job.job));
        let mut order: Vec<(f64, usize)> =
            active.iter().enumerate().map(|(at, job)| (waits(job).unwrap_or(f64::INFINITY), at)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, at) in order {
            let (Some(job), Some(slot)) = (active.get(at), result.get_mut(at)) else { continue };
            if slot.is_none() {
                let types = open.types(&job.kind.steps_per_s, true);
                *slot = types.into_iter().find(|at| open.take(*at, job.gang(*at, false)));
            }
        }
        result
    }
}

/// The lease that begins, and periods after it that end at deadlines: the nearest ones, and then every so many.
fn periods(tasks: &[(usize, Task)]) -> Vec<(f64, f64)> {
    let mut ends: Vec<f64> = tasks.iter().map(|(_, task)| task.due).filter(|due| *due > 1.0 + NONE).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup_by(|a, b| (*a - *b).abs() < NONE);
    let near = PERIODS / 2;
    if ends.len() > PERIODS {
        let far = ends.split_off(near);
        let (count, last) = (PERIODS - near, far.len());
        ends.extend((1..=count).filter_map(|part| far.get(part * last / count - 1)).copied());
    }
    let mut result = vec![(0.0, 1.0)];
    for end in ends {
        result.push((result.last().map_or(1.0, |(_, to)| *to), end));
    }
    result
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
