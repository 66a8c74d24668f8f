//! Amount in use at each moment: an exact sweep over half-open intervals.
//!
//! A job that runs from `start` to `end` counts at every moment t with start ≤ t < end, so a job that ends when another
//! starts never counts twice (counting both ends, as some published analyses do, biases use upwards). Amounts are added
//! as whole millionths, so that the order of the additions cannot change the result and use returns to exactly zero.
//!
//! Complexity: O(n log n) for n intervals; a query over m steps is O(log n + m).
//!
//! Worked number: 2 GPUs over [0 s, 10 s) and 1 GPU over [5 s, 20 s): 2 until 5 s, 3 until 10 s, 1 until 20 s; the mean
//! over [0 s, 20 s) is (10 + 15 + 10) / 20 = 1.75.

/// Millionths in one unit of an amount.
const MICRO: f64 = 1e6;

/// A quantity over time that changes in steps: value `i` holds from `times[i]` until `times[i + 1]`, the last for ever.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps {
    times: Vec<i64>,
    /// Millionths.
    values: Vec<i64>,
}

/// An amount in whole millionths, beyond what they can count cut to the most they can; NaN counts as nothing.
fn micros(amount: f64) -> i64 {
    (amount * MICRO).round() as i64
}

impl Steps {
    /// The sum of `amount` over all intervals `(start, end, amount)` in force at each moment. Times in ms; intervals
    /// that do not end after they start are passed over.
    pub fn of_intervals(intervals: impl IntoIterator<Item = (i64, i64, f64)>) -> Self {
        let mut changes: Vec<(i64, i64)> = Vec::new();
        for (start, end, amount) in intervals {
            // No further down than it can be taken back up.
            let amount = micros(amount).max(-i64::MAX);
            if end > start && amount != 0 {
                changes.push((start, amount));
                changes.push((end, -amount));
            }
        }
        Self::of_changes(changes)
    }

    fn of_changes(mut changes: Vec<(i64, i64)>) -> Self {
        changes.sort_unstable();
        let mut steps = Self::default();
        // Wider than an amount, so that no sum of amounts overflows and use still returns to exactly zero.
        let mut total = 0i128;
        let mut rest = changes.as_slice();
        while let Some((time, _)) = rest.first().copied() {
            let same = rest.partition_point(|(other, _)| *other == time);
            let (now, later) = rest.split_at(same);
            total += now.iter().map(|(_, change)| i128::from(*change)).sum::<i128>();
            let value = i64::try_from(total).unwrap_or(if total < 0 { i64::MIN } else { i64::MAX });
            rest = later;
            if steps.values.last().copied().unwrap_or(0) != value {
                steps.times.push(time);
                steps.values.push(value);
            }
        }
        steps
    }

    /// The quantity that was seen to be `value` at each `(time, value)`, held until the next. Times must rise.
    pub fn of_samples(samples: impl IntoIterator<Item = (i64, f64)>) -> Self {
        let mut steps = Self::default();
        for (time, value) in samples {
            if steps.times.last().is_none_or(|last| *last < time) {
                steps.times.push(time);
                steps.values.push(micros(value));
            }
        }
        steps
    }

    /// Whether the quantity never changes from zero.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The value at `time`.
    pub fn at(&self, time: i64) -> f64 {
        let after = self.times.partition_point(|step| *step <= time);
        let value = after.checked_sub(1).and_then(|ix| self.values.get(ix)).copied().unwrap_or(0);
        value as f64 / MICRO
    }

    /// Stretches of constant value that cover [from, to): `(start, end, value)`.
    pub fn stretches(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, f64)> + '_ {
        let mut next = self.times.partition_point(|step| *step <= from);
        let mut start = from;
        std::iter::from_fn(move || {
            if start >= to {
                return None;
            }
            let value = next.checked_sub(1).and_then(|ix| self.values.get(ix)).copied().unwrap_or(0);
            let end = self.times.get(next).copied().unwrap_or(to).min(to);
            let stretch = (start, end, value as f64 / MICRO);
            start = end;
            next += 1;
            Some(stretch)
        })
    }

    /// Value times seconds over [from, to): GPU-seconds where the value is GPUs.
    pub fn integral_s(&self, from: i64, to: i64) -> f64 {
        crate::stats::sum::NeumaierSum::from_iter(
            self.stretches(from, to).map(|(start, end, value)| value * (end - start) as f64 / 1_000.0),
        )
        .value()
    }

    /// Mean over [from, to); `None` if the interval is empty.
    pub fn mean(&self, from: i64, to: i64) -> Option<f64> {
        (to > from).then(|| self.integral_s(from, to) * 1_000.0 / (to - from) as f64)
    }

    /// Largest value within [from, to).
    pub fn max(&self, from: i64, to: i64) -> f64 {
        self.stretches(from, to).map(|(_, _, value)| value).fold(0.0, f64::max)
    }

    /// Mean over each of the consecutive buckets of `step` ms from `from`, the last cut at `to`: `(start, mean)`.
    pub fn bucket_means(&self, from: i64, to: i64, step: i64) -> Vec<(i64, f64)> {
        let mut out = Vec::new();
        if step <= 0 {
            return out;
        }
        let mut start = from;
        let mut stretches = self.stretches(from, to);
        let mut current = stretches.next();
        while start < to {
            let end = start.saturating_add(step).min(to);
            let mut area = 0.0;
            while let Some((stretch_start, stretch_end, value)) = current {
                let overlap = stretch_end.min(end) - stretch_start.max(start);
                area += value * overlap.max(0) as f64;
                if stretch_end > end {
                    break;
                }
                current = stretches.next();
            }
            out.push((start, area / (end - start) as f64));
            start = end;
        }
        out
    }

    /// Quantiles of the value over time within [from, to): the value that is not exceeded for the share `q` of the time.
    pub fn quantiles(&self, from: i64, to: i64, levels: &[f64]) -> Vec<Option<f64>> {
        let mut values = Vec::new();
        let mut weights = Vec::new();
        for (start, end, value) in self.stretches(from, to) {
            values.push(value);
            weights.push((end - start) as f64);
        }
        crate::stats::quantile::weighted_quantiles(&values, &weights, levels)
    }

    /// The moments at which the value changes.
    pub fn times(&self) -> &[i64] {
        &self.times
    }
}

/// Walks several quantities at once over [from, to): `visit(start, end, values)` for each stretch in which none of them
/// changes. O((n + k·m) log n) for n steps in all, k quantities and m stretches.
pub fn walk(quantities: &[&Steps], from: i64, to: i64, mut visit: impl FnMut(i64, i64, &[f64])) {
    let mut edges: Vec<i64> = quantities
        .iter()
        .flat_map(|steps| steps.times.iter().copied())
        .filter(|time| *time > from && *time < to)
        .collect();
    edges.push(from);
    edges.push(to);
    edges.sort_unstable();
    edges.dedup();
    let mut cursors: Vec<usize> =
        quantities.iter().map(|steps| steps.times.partition_point(|time| *time <= from)).collect();
    let mut values = vec![0.0; quantities.len()];
    for pair in edges.windows(2) {
        let &[start, end] = pair else { continue };
        for ((steps, cursor), value) in quantities.iter().zip(&mut cursors).zip(&mut values) {
            while steps.times.get(*cursor).is_some_and(|time| *time <= start) {
                *cursor += 1;
            }
            let held = cursor.checked_sub(1).and_then(|ix| steps.values.get(ix)).copied().unwrap_or(0);
            *value = held as f64 / MICRO;
        }
        visit(start, end, &values);
    }
}

/// Returns `all` less `part` over [from, to), never below zero. O(steps of both).
pub fn beyond(all: &Steps, part: &Steps, (from, to): (i64, i64)) -> Steps {
    let mut left = Vec::new();
    walk(&[all, part], from, to, |start, end, values| {
        if let &[all, part] = values {
            left.push((start, end, (all - part).max(0.0)));
        }
    });
    Steps::of_intervals(left)
}

/// The sum of several quantities.
pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Steps>) -> Steps {
    let parts: Vec<&Steps> = parts.into_iter().collect();
    let first = parts.iter().filter_map(|steps| steps.times().first()).min().copied();
    let last = parts.iter().filter_map(|steps| steps.times().last()).max().copied();
    let (Some(first), Some(last)) = (first, last) else { return Steps::default() };
    let mut samples = Vec::new();
    walk(&parts, first, last.saturating_add(1), |start, _, values| {
        samples.push((start, values.iter().sum()));
    });
    Steps::of_samples(samples)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_number() {
        let steps = Steps::of_intervals([(0, 10_000, 2.0), (5_000, 20_000, 1.0)]);
        assert_eq!(
            [steps.at(-1), steps.at(0), steps.at(5_000), steps.at(10_000), steps.at(20_000)],
            [0.0, 2.0, 3.0, 1.0, 0.0]
        );
        assert_eq!(steps.mean(0, 20_000), Some(1.75));
        assert_eq!(steps.max(0, 20_000), 3.0);
        // Buckets of 8 s: (2·5 + 3·3)/8, (3·2 + 1·6)/8, and the last 4 s at 1.
        assert_eq!(steps.bucket_means(0, 20_000, 8_000), [(0, 2.375), (8_000, 1.5), (16_000, 1.0)]);
        // 1 for half of the time, 2 for a quarter, 3 for a quarter.
        assert_eq!(steps.quantiles(0, 20_000, &[0.5, 0.75, 1.0]), [Some(1.0), Some(2.0), Some(3.0)]);
    }

    #[test]
    fn a_job_that_ends_as_another_starts_does_not_count_twice() {
        let steps = Steps::of_intervals([(0, 10, 8.0), (10, 20, 8.0), (5, 5, 1.0)]);
        assert_eq!(steps.max(0, 20), 8.0);
        assert_eq!(steps.times(), [0, 20]);
    }

    #[test]
    fn several_quantities_are_walked_together() {
        let (a, b) = (Steps::of_intervals([(0, 10, 1.0)]), Steps::of_intervals([(5, 15, 2.0)]));
        let mut seen = Vec::new();
        walk(&[&a, &b], 0, 20, |start, end, values| seen.push((start, end, values.to_vec())));
        assert_eq!(
            seen,
            [(0, 5, vec![1.0, 0.0]), (5, 10, vec![1.0, 2.0]), (10, 15, vec![0.0, 2.0]), (15, 20, vec![0.0, 0.0])]
        );
    }

    proptest! {
        /// The sweep equals counting at every millisecond, and area is conserved.
        #[test]
        fn equals_the_naive_count(intervals in prop::collection::vec((0i64..60, 0i64..60, 1u8..9), 0..40)) {
            let intervals: Vec<(i64, i64, f64)> =
                intervals.into_iter().map(|(start, length, amount)| (start, start + length, f64::from(amount) * 0.22)).collect();
            let steps = Steps::of_intervals(intervals.iter().copied());
            for t in 0..130 {
                let naive: f64 = intervals.iter().filter(|(s, e, _)| *s <= t && t < *e).map(|(_, _, a)| a).sum();
                prop_assert!((steps.at(t) - naive).abs() < 1e-4);
            }
            let area: f64 = intervals.iter().map(|(s, e, a)| a * (e - s) as f64 / 1_000.0).sum();
            prop_assert!((steps.integral_s(-10, 500) - area).abs() < 1e-3);
            let buckets: f64 = steps.bucket_means(0, 130, 7).iter().map(|(start, mean)| mean * 7f64.min((130 - start) as f64)).sum();
            prop_assert!((buckets / 1_000.0 - area).abs() < 1e-3);
        }
    }
}
