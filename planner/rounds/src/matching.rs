//! `AlloX`: which job goes to which GPU, and which next, so that the sum of completion times is least.
//!
//! A job that is the k-th last on a GPU delays itself and the k − 1 behind it: its run counts k times. So jobs are matched with pairs of a GPU and a place from
//! the end, at the cost k × (steps left / speed), and the matching of least cost is the schedule of least total completion time (Le et al., EuroSys 2020; all weights of their aging
//! term left out). The first job of each free GPU begins; who runs goes on. It is of jobs of one GPU.
//!
//! It sees the GPUs that are free and no others. One free GPU goes to the shortest job. Of more than 256 jobs that wait, and more than two for each free GPU, those are matched that are the shortest on their fastest free type. Fleets have at most 256 GPUs.
//!
//! The matching is found by shortest augmenting paths with potentials (the Hungarian method): O(jobs² × places). Places from the end that are beyond four times
//! the mean queue and four are left out, so where one type is many times as fast as another the matching may miss the least.
//!
//! Worked example: one V100 and one K80; a job runs 1 h or 4 h, another 2 h or 3 h. Apart, the first on the V100 and the second on the K80, they end at 1 and 3 h, together 4; both on the V100, at 1 and 3 h, 4 as well.

use super::active::ActiveJob;

/// Most GPUs of a fleet.
pub const MOST_GPUS: usize = 256;
/// Most jobs that are matched at once, or two for each free GPU if that is more.
const MOST_WAITING: usize = 256;

/// The column of each row, so that the sum of costs is least; there are at least as many columns as rows. Costs are finite, or infinite where a pair may not be.
pub fn least_cost(costs: &[Vec<f64>]) -> Vec<usize> {
    let (rows, columns) = (costs.len(), costs.first().map_or(0, Vec::len));
    // A pair that may not be costs more than all others together.
    let finite = costs.iter().flatten().copied().filter(|cost| cost.is_finite()).fold(0.0, f64::max);
    let never = (finite + 1.0) * (rows as f64 + 1.0);
    let cost = |row: usize, column: usize| {
        let found = costs.get(row).and_then(|row| row.get(column)).copied().unwrap_or(f64::INFINITY);
        if found.is_finite() { found } else { never }
    };
    // Potentials and matches are counted from 1; 0 is the row that is being matched.
    let (mut of_row, mut of_column) = (vec![0.0; rows + 1], vec![0.0; columns + 1]);
    let mut matched = vec![0usize; columns + 1];
    for row in 1..=rows {
        matched[0] = row;
        let mut at = 0;
        let mut least = vec![f64::INFINITY; columns + 1];
        let mut from = vec![0usize; columns + 1];
        let mut seen = vec![false; columns + 1];
        loop {
            seen[at] = true;
            let current = matched[at];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for column in 1..=columns {
                if seen[column] {
                    continue;
                }
                let reduced = cost(current - 1, column - 1) - of_row[current] - of_column[column];
                if reduced < least[column] {
                    least[column] = reduced;
                    from[column] = at;
                }
                if least[column] < step {
                    step = least[column];
                    next = column;
                }
            }
            for column in 0..=columns {
                if seen[column] {
                    of_row[matched[column]] += step;
                    of_column[column] -= step;
                } else {
                    least[column] -= step;
                }
            }
            at = next;
            if matched[at] == 0 || at == 0 {
                break;
            }
        }
        while at != 0 {
            let before = from[at];
            matched[at] = matched[before];
            at = before;
        }
    }
    let mut found = vec![0; rows];
    for (column, row) in matched.iter().enumerate().skip(1).filter(|(_, row)| **row > 0) {
        found[row - 1] = column - 1;
    }
    found
}

/// The type that each job has now, if any: who runs keeps its own, and the free GPUs go to the first of their queues.
pub fn matched(active: &[ActiveJob<'_>], gpus: &[f64]) -> Vec<Option<usize>> {
    let mut result: Vec<Option<usize>> = active.iter().map(|job| job.on).collect();
    let mut free: Vec<usize> = gpus.iter().map(|gpus| *gpus as usize).collect();
    for on in active.iter().filter_map(|job| job.on) {
        if let Some(free) = free.get_mut(on) {
            *free = free.saturating_sub(1);
        }
    }
    let mut waiting: Vec<usize> =
        (0..active.len()).filter(|at| active.get(*at).is_some_and(|job| job.on.is_none())).collect();
    let all: usize = free.iter().sum();
    if all == 0 || waiting.is_empty() {
        return result;
    }
    let run = |at: usize, on: usize| {
        active.get(at).map_or(f64::INFINITY, |job| job.remaining / job.kind.steps_per_s.get(on).copied().unwrap_or(0.0))
    };
    let shortest = |at: usize| {
        free.iter().enumerate().filter(|(_, free)| **free > 0).map(|(on, _)| run(at, on)).fold(f64::INFINITY, f64::min)
    };
    let most = if all == 1 { 1 } else { MOST_WAITING.max(2 * all) };
    if waiting.len() > most {
        waiting.sort_by(|a, b| shortest(*a).total_cmp(&shortest(*b)).then(a.cmp(b)));
        waiting.truncate(most);
    }
    free.iter_mut().for_each(|free| *free = (*free).min(waiting.len()));
    let all: usize = free.iter().sum();
    // Columns: a GPU of a type, and a place from the end of its queue.
    let machines: Vec<usize> = free.iter().enumerate().flat_map(|(at, free)| std::iter::repeat_n(at, *free)).collect();
    let deep = waiting.len().min(4 * waiting.len().div_ceil(all) + 4);
    let slots: Vec<(usize, usize, usize)> = (1..=deep)
        .flat_map(|place| machines.iter().enumerate().map(move |(machine, at)| (machine, *at, place)))
        .collect();
    let costs: Vec<Vec<f64>> = waiting
        .iter()
        .filter_map(|at| active.get(*at))
        .map(|job| {
            let run = |at: usize| job.remaining / job.kind.steps_per_s.get(at).copied().unwrap_or(0.0);
            slots.iter().map(|(_, at, place)| *place as f64 * run(*at)).collect()
        })
        .collect();
    // The first of a queue is the one that is furthest from its end.
    let mut first: Vec<Option<(usize, usize)>> = vec![None; machines.len()];
    for (column, at) in least_cost(&costs).into_iter().zip(&waiting) {
        let Some((machine, on, place)) = slots.get(column).copied() else { continue };
        let runs = active.get(*at).is_some_and(|job| job.kind.steps_per_s.get(on).is_some_and(|speed| *speed > 0.0));
        if let Some(slot) = first.get_mut(machine).filter(|slot| runs && slot.is_none_or(|(_, than)| place > than)) {
            *slot = Some((*at, place));
        }
    }
    for ((at, _), on) in first.into_iter().zip(machines).filter_map(|(first, on)| Some((first?, on))) {
        if let Some(slot) = result.get_mut(at) {
            *slot = Some(on);
        }
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(costs: &[Vec<f64>], result: &[usize]) -> f64 {
        result.iter().enumerate().map(|(row, column)| costs[row][*column]).sum()
    }

    /// The least sum by trying all.
    fn by_trying(costs: &[Vec<f64>], row: usize, taken: &mut Vec<usize>) -> f64 {
        if row == costs.len() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..costs[row].len() {
            if !taken.contains(&column) {
                taken.push(column);
                best = best.min(costs[row][column] + by_trying(costs, row + 1, taken));
                taken.pop();
            }
        }
        best
    }

    #[test]
    fn the_worked_example() {
        // Columns: last on the V100, last on the K80, last but one on the V100 and on the K80.
        let costs = vec![vec![1.0, 4.0, 2.0, 8.0], vec![2.0, 3.0, 4.0, 6.0]];
        assert!((sum(&costs, &least_cost(&costs)) - 4.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn no_matching_costs_less(costs in (1usize..6, 0usize..3).prop_flat_map(|(rows, more)| {
            proptest::collection::vec(proptest::collection::vec(0.0f64..100.0, rows + more), rows)
        })) {
            let result = least_cost(&costs);
            let mut once = result.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), costs.len());
            prop_assert!((sum(&costs, &result) - by_trying(&costs, 0, &mut Vec::new())).abs() < 1e-9);
        }
    }
}
