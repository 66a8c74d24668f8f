//! The most that sleep could have saved without changing when anything runs: the offline optimum of a replay.
//!
//! While k nodes are busy at least k must be on. The problem separates by level: the k-th node is needed while at least
//! k are busy, and across a gap in which fewer are, it is put to sleep iff the gap is longer than T*
//! ([`Constants::break_even_s`]). As the gap is known, the node boots in time. A node that could sleep is never in the
//! way of another, so this bounds every policy that serves the same busy nodes over time; limits on rates and minimum
//! times are not imposed, canaries are. Nothing has to be booted after the last need, and nothing before the first
//! where the window begins within the replay.
//!
//! O(n log n) in the number of times a node becomes busy or free.
//!
//! Worked example: T* = 360 s. Two nodes; one busy throughout, the other for 0–100 s and 1,000–1,100 s of 1,200 s. The
//! gap of 900 s saves 900 − 360 s of the difference of idle and off power, the rest of 100 s at the end nothing.

use crate::power::score::constants::Constants;
use crate::sim::Schedule;
use crate::sim::power::State;

/// What the optimum saves.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bound {
    /// Above what always on would have drawn, at the nodes, joules.
    pub(super) saved_j: f64,
    /// Node-milliseconds off.
    pub(super) asleep_ms: i64,
    /// Times a node is woken.
    pub(super) wakes: u64,
}

impl Bound {
    pub(super) fn add(&mut self, other: Self) {
        self.saved_j += other.saved_j;
        self.asleep_ms += other.asleep_ms;
        self.wakes += other.wakes;
    }
}

/// Stretches in which a job touches each node, merged, in order. O(n log n).
pub(super) fn busy(schedule: &Schedule, nodes: u32) -> Vec<Vec<(i64, i64)>> {
    let mut busy: Vec<Vec<(i64, i64)>> = vec![Vec::new(); nodes as usize];
    for segment in schedule.segments.iter().filter(|segment| segment.start_ms < segment.end_ms) {
        for piece in schedule.pieces_of(segment) {
            if let Some(node) = busy.get_mut(piece.node as usize) {
                node.push((segment.start_ms, segment.end_ms));
            }
        }
    }
    for node in &mut busy {
        node.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(node.len());
        for (from, to) in node.drain(..) {
            match merged.last_mut() {
                Some((_, end)) if from <= *end => *end = to.max(*end),
                _ => merged.push((from, to)),
            }
        }
        *node = merged;
    }
    busy
}

/// Milliseconds a node's stretches have in a window.
pub(super) fn within(stretches: &[(i64, i64)], from_ms: i64, to_ms: i64) -> i64 {
    stretches.iter().map(|(from, to)| ((*to).min(to_ms) - (*from).max(from_ms)).max(0)).sum()
}

/// A level: the k-th node.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Since when it is not needed.
    free_ms: i64,
    /// Whether it was needed before in the window.
    was_needed: bool,
    /// How long of the gap it was not there, and since when it is not.
    absent_ms: i64,
    absent_since: Option<i64>,
}

/// The optimum of a pool, by node its busy stretches and its states, within a window of a replay on nodes that never sleep.
pub(super) fn optimum(
    busy: &[Vec<(i64, i64)>],
    states: &[Vec<(i64, State)>],
    window: (i64, i64),
    constants: &Constants,
) -> Bound {
    let (from_ms, to_ms) = window;
    let count = busy.len();
    // (when, change of busy nodes, change of nodes there).
    let mut changes: Vec<(i64, i64, i64)> = Vec::new();
    for (from, to) in busy.iter().flatten() {
        let (from, to) = ((*from).max(from_ms), (*to).min(to_ms));
        if from < to {
            changes.extend([(from, 1, 0), (to, -1, 0)]);
        }
    }
    for states in states {
        let ends = states.iter().skip(1).map(|(at, _)| *at).chain([i64::MAX]);
        for ((at, state), end) in states.iter().zip(ends) {
            let (at, end) = ((*at).max(from_ms), end.min(to_ms));
            if *state == State::Out && at < end {
                changes.extend([(at, 0, -1), (end, 0, 1)]);
            }
        }
    }
    changes.sort_unstable();
    let fresh = Level { free_ms: from_ms, was_needed: false, absent_ms: 0, absent_since: None };
    let mut levels = vec![fresh; count];
    let mut bound = Bound::default();
    let (mut needed, mut there) = (constants.canaries as usize, count);
    let (mut busy_now, mut there_now) = (0i64, count as i64);
    for level in levels.iter_mut().take(needed) {
        level.was_needed = true;
    }
    let mut at = 0;
    while let Some((now, ..)) = changes.get(at).copied() {
        while let Some((_, busy, present)) = changes.get(at).filter(|change| change.0 == now) {
            busy_now += busy;
            there_now += present;
            at += 1;
        }
        let is_there = there_now.clamp(0, count as i64) as usize;
        for level in levels.get_mut(is_there..there).unwrap_or_default() {
            level.absent_since = Some(now);
        }
        for level in levels.get_mut(there..is_there).unwrap_or_default() {
            level.absent_ms += level.absent_since.take().map_or(0, |since| now - since);
        }
        there = is_there;
        let is_needed = (busy_now.max(0) as usize).max(constants.canaries as usize).min(count);
        for level in levels.get_mut(is_needed..needed).unwrap_or_default() {
            *level =
                Level { free_ms: now, was_needed: true, absent_ms: 0, absent_since: level.absent_since.map(|_| now) };
        }
        for level in levels.get_mut(needed..is_needed).unwrap_or_default() {
            // A node that was there before time 0 was on; one within the replay may have slept.
            bound.add(gap(*level, now, level.was_needed || from_ms == 0, true, constants));
            level.was_needed = true;
        }
        needed = is_needed;
    }
    for level in levels.get_mut(needed..).unwrap_or_default() {
        bound.add(gap(*level, to_ms, level.was_needed || from_ms == 0, false, constants));
    }
    bound
}

/// What a gap that ends at `now` is worth: put to sleep at its beginning, woken for its end.
fn gap(level: Level, now: i64, sleeps: bool, wakes: bool, constants: &Constants) -> Bound {
    let absent_ms = level.absent_ms + level.absent_since.map_or(0, |since| now - since);
    let length_s = (now - level.free_ms - absent_ms) as f64 / 1000.0;
    let (mut time_s, mut energy_j) = (0.0, 0.0);
    if sleeps {
        (time_s, energy_j) = (time_s + constants.shutdown_s, energy_j + constants.shutdown_j);
    }
    if wakes {
        (time_s, energy_j) = (time_s + constants.boot_s, energy_j + constants.boot_j);
    }
    let off_s = length_s - time_s;
    let saved_j = constants.idle_w * length_s - constants.off_w * off_s - energy_j;
    if off_s <= 0.0 || saved_j <= 0.0 {
        return Bound::default();
    }
    Bound { saved_j, asleep_ms: (off_s * 1000.0).round() as i64, wakes: u64::from(wakes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(nodes: usize) -> Vec<Vec<(i64, State)>> {
        vec![vec![(0, State::Powered)]; nodes]
    }

    /// The example of the module: (900 − 360) s · 1,220 W; asleep 900 − 360 = 540 s. At the end 100 s allow a shutdown
    /// of 60 s: 40 s · 1,220 W.
    #[test]
    fn the_example() {
        let constants = Constants::default();
        let busy = vec![vec![(0, 1_200_000)], vec![(0, 100_000), (1_000_000, 1_100_000)]];
        let result = optimum(&busy, &there(2), (0, 1_200_000), &constants);
        assert_eq!(result, Bound { saved_j: (540.0 + 40.0) * 1220.0, asleep_ms: 580_000, wakes: 1 });
        // With a canary more than ever is busy nothing sleeps.
        let canaries = Constants { canaries: 2, ..constants };
        assert_eq!(optimum(&busy, &there(2), (0, 1_200_000), &canaries), Bound::default());
    }

    /// Levels, not nodes: node 0 is busy 0–500 s, node 1 500–1,000 s: one level is needed throughout, the other never.
    /// From time 0 on it is on and has to shut down.
    #[test]
    fn needs_that_follow_one_another_share_a_level() {
        let constants = Constants::default();
        let busy = vec![vec![(0, 500_000)], vec![(500_000, 1_000_000)]];
        let result = optimum(&busy, &there(2), (0, 1_000_000), &constants);
        assert_eq!(result, Bound { saved_j: 940.0 * 1220.0, asleep_ms: 940_000, wakes: 0 });
    }

    /// The node is away from 300 to 700 s of 1,000: 600 s are left, less a shutdown of 60 s.
    #[test]
    fn who_is_not_there_saves_nothing() {
        let states = vec![vec![(0, State::Powered), (300_000, State::Out), (700_000, State::Powered)]];
        let result = optimum(&[Vec::new()], &states, (0, 1_000_000), &Constants::default());
        assert_eq!(result, Bound { saved_j: 540.0 * 1220.0, asleep_ms: 540_000, wakes: 0 });
    }

    /// Against all on/off choices of every level and gap, on drawn series of a few levels.
    #[test]
    fn no_choice_of_gaps_saves_more() {
        let constants = Constants { boot_j: 700_000.0, ..Constants::default() };
        let mut state = 11u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            // Busy counts of 12 steps of 200 s, on three nodes; x is the number on, which may change at steps.
            let step_ms = 200_000;
            let counts: Vec<usize> = (0..12).map(|_| draw(4) as usize).collect();
            let busy: Vec<Vec<(i64, i64)>> = (0..3)
                .map(|node| {
                    let on = counts.iter().enumerate().filter(|(_, count)| **count > node);
                    on.map(|(at, _)| (at as i64 * step_ms, (at as i64 + 1) * step_ms)).collect()
                })
                .collect();
            let result = optimum(&busy, &there(3), (0, 12 * step_ms), &constants);
            // Dynamic programme over (step, nodes on): energy beyond off power, with switches that cost their energy at
            // once. The time a switch takes is priced at off power, as in the contract of the constants; gaps too short
            // for it are ruled out by T*.
            let (boot_j, shutdown_j) = (
                constants.boot_j - constants.off_w * constants.boot_s,
                constants.shutdown_j - constants.off_w * constants.shutdown_s,
            );
            let idle_j = (constants.idle_w - constants.off_w) * 200.0;
            let mut cost = [f64::INFINITY; 4];
            cost[3] = 0.0;
            for count in &counts {
                let mut next = [f64::INFINITY; 4];
                for (before, spent) in cost.iter().enumerate() {
                    for (on, best) in next.iter_mut().enumerate().skip(*count) {
                        let switched =
                            boot_j * on.saturating_sub(before) as f64 + shutdown_j * before.saturating_sub(on) as f64;
                        *best = best.min(spent + switched + idle_j * on as f64);
                    }
                }
                cost = next;
            }
            let least = cost.iter().copied().fold(f64::INFINITY, f64::min);
            let always = idle_j * 36.0;
            assert!(
                (result.saved_j - (always - least)).abs() < 1e-6,
                "{counts:?}: {} {}",
                result.saved_j,
                always - least
            );
        }
    }
}
