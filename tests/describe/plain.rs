//! Plain loops for what every topic needs: summaries, distribution curves, quantities over time.

use std::collections::BTreeMap;

use crate::checker::{Checker, SUM};
use crate::world::World;

/// Quantile of sorted values: with h = q (n - 1), a straight line between the values at its floor and its ceiling.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let h = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[h.floor() as usize], sorted[h.ceil() as usize]);
    low + (h - h.floor()) * (high - low)
}

/// The summary at `path` is that of `values`; null if there are none.
pub fn summary(c: &mut Checker, path: &str, values: &[f64]) {
    if values.is_empty() {
        c.null(path);
        return;
    }
    let n = values.len() as f64;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    c.count(&format!("{path}.count"), values.len() as u64);
    c.number(&format!("{path}.mean"), mean, SUM);
    c.option(&format!("{path}.std"), (n > 1.0).then(|| (squares / (n - 1.0)).sqrt()), SUM);
    for (name, q) in [
        ("min", 0.0),
        ("p5", 0.05),
        ("p10", 0.1),
        ("p25", 0.25),
        ("p50", 0.5),
        ("p75", 0.75),
        ("p90", 0.9),
        ("p95", 0.95),
        ("p99", 0.99),
        ("max", 1.0),
    ] {
        c.number(&format!("{path}.{name}"), quantile(&sorted, q), SUM);
    }
}

/// The curve at `path`: at most `most` points, each on the distribution of the weight over the values, from the smallest
/// value to the largest; all of them where they are few enough.
pub fn curve(c: &mut Checker, path: &str, weighted: &[(f64, f64)], most: usize) {
    let mut sorted: Vec<(f64, f64)> = weighted.iter().copied().filter(|(_, weight)| *weight > 0.0).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps: Vec<(f64, f64)> = Vec::new();
    let mut below = 0.0;
    for (value, weight) in sorted {
        below += weight;
        match steps.last_mut() {
            Some(last) if last.0 == value => last.1 = below,
            _ => steps.push((value, below)),
        }
    }
    let found = c.length(path);
    if found > most || (steps.len() <= most && found != steps.len()) || (found < 2 && steps.len() >= 2) {
        c.mismatch(format!("{path}: {found} points of {}", steps.len()));
    }
    let mut previous = f64::NEG_INFINITY;
    for ix in 0..found {
        let x = c.read(&format!("{path}[{ix}].x"));
        match steps.iter().find(|(value, _)| *value == x) {
            Some((_, mass)) if x > previous => c.number(&format!("{path}[{ix}].fraction"), mass / below, SUM),
            _ => c.mismatch(format!("{path}[{ix}].x: {x} is no value, or not above the one before")),
        }
        let end = if ix == 0 {
            steps.first()
        } else if ix + 1 == found {
            steps.last()
        } else {
            continue;
        };
        if end.is_none_or(|(value, _)| *value != x) {
            c.mismatch(format!("{path}[{ix}].x: {x} is not the end of the curve"));
        }
        previous = x;
    }
}

/// The product-limit estimate of `(value, whether it ended there)`: at each value the share that has ended by it. Of those
/// observed as long as a value, the ones that end there leave; one cut off at a value was observed until it.
pub fn ended_by(observations: &[(f64, bool)]) -> Vec<(f64, f64)> {
    let mut ends: Vec<f64> = observations.iter().filter(|(_, ended)| *ended).map(|(value, _)| *value).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let mut lasting = 1.0;
    let step = |value: f64| {
        let as_long = observations.iter().filter(|(other, _)| *other >= value).count() as f64;
        let here = observations.iter().filter(|(other, ended)| *ended && *other == value).count() as f64;
        lasting *= 1.0 - here / as_long;
        (value, 1.0 - lasting)
    };
    ends.into_iter().map(step).collect()
}

/// Checks a [`curve`] in which each value counts once.
pub fn plain_curve(c: &mut Checker, path: &str, values: &[f64], most: usize) {
    let pairs: Vec<(f64, f64)> = values.iter().map(|value| (*value, 1.0)).collect();
    curve(c, path, &pairs, most);
}

/// Smallest value at which the weight of the values up to it reaches a share of the whole.
pub fn weighted_quantile(pairs: &[(f64, f64)], q: f64) -> f64 {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in &sorted {
        below += weight;
        if below >= q * total * (1.0 - 1e-12) {
            return *value;
        }
    }
    sorted[sorted.len() - 1].0
}

/// Gini coefficient by its definition over all pairs: mean absolute difference over twice the mean.
pub fn gini(values: &[f64]) -> f64 {
    let mut differences = 0.0;
    for a in values {
        for b in values {
            differences += (a - b).abs();
        }
    }
    differences / (2.0 * values.len() as f64 * values.iter().sum::<f64>())
}

/// Stretches `(start, end, amount)`, times in ms.
pub type Stretches = Vec<(i64, i64, f64)>;

/// Σ overlap × amount over [from, to), amount-ms.
pub fn area(stretches: &Stretches, from: i64, to: i64) -> f64 {
    stretches.iter().map(|(start, end, amount)| ((*end).min(to) - (*start).max(from)).max(0) as f64 * amount).sum()
}

/// Pieces of [from, to) in which nothing changes: `(start, end, amount in force)`. Amounts are whole ten-thousandths.
pub fn pieces(stretches: &Stretches, from: i64, to: i64) -> Stretches {
    let mut changes: BTreeMap<i64, i64> = BTreeMap::from([(from, 0), (to, 0)]);
    for (start, end, amount) in stretches {
        let (start, end) = ((*start).max(from), (*end).min(to));
        if start < end {
            let tenths = (amount * 1e4).round() as i64;
            *changes.entry(start).or_default() += tenths;
            *changes.entry(end).or_default() -= tenths;
        }
    }
    let mut out = Vec::new();
    let mut now = 0;
    let mut before: Option<i64> = None;
    for (time, change) in changes {
        if let Some(before) = before {
            out.push((before, time, now as f64 / 1e4));
        }
        now += change;
        before = Some(time);
    }
    out
}

/// The curve of means at `path`, `(ms, mean until the next)` in buckets of a 600th of the observation, each by summing
/// the overlaps of all stretches.
pub fn buckets(c: &mut Checker, path: &str, stretches: &Stretches, (from, to): (i64, i64)) {
    let step = ((to - from) / 600).max(1);
    let mut ix = 0;
    let mut start = from;
    while start < to {
        let end = (start + step).min(to);
        c.number(&format!("{path}[{ix}][0]"), start as f64, 0.0);
        c.number(&format!("{path}[{ix}][1]"), area(stretches, start, end) / (end - start) as f64, SUM);
        start = end;
        ix += 1;
    }
    c.list(path, ix);
}

/// GPUs held by the jobs that `keep` keeps.
pub fn held(world: &World, keep: impl Fn(&crate::world::Job) -> bool, amount: impl Fn(f64) -> f64) -> Stretches {
    let mut out = Vec::new();
    for job in world.jobs.iter().filter(|job| keep(job)) {
        let Some(gpus) = job.gpus else { continue };
        out.extend(job.held.iter().map(|(start, end)| (*start, *end, amount(gpus))));
    }
    out
}

#[test]
fn by_hand() {
    // h = 0.9 · 3 = 2.7: 3 + 0.7 · (4 - 3).
    assert!((quantile(&[1.0, 2.0, 3.0, 4.0], 0.9) - 3.7).abs() < 1e-12);
    // 2 over [0, 10), 1 over [5, 20): pieces 2, 3, 1; area over [0, 20) is 20 + 15.
    let stretches = vec![(0, 10, 2.0), (5, 20, 1.0)];
    assert_eq!(pieces(&stretches, 0, 20), [(0, 5, 2.0), (5, 10, 3.0), (10, 20, 1.0)]);
    assert_eq!((area(&stretches, 0, 20), area(&stretches, 8, 12)), (35.0, 8.0));
    // Ends at 1, 2, 4 and one cut off at 3: 3/4 last beyond 1, 3/4 · 2/3 beyond 2, none beyond 4.
    let ended = ended_by(&[(1.0, true), (2.0, true), (3.0, false), (4.0, true)]);
    assert!(ended.iter().zip([0.25, 0.5, 1.0]).all(|((_, share), expected)| (share - expected).abs() < 1e-12));
    // Differences of 1, 1, 1, 5: six of 4, over 2 · 4 · 8.
    assert_eq!(gini(&[1.0, 1.0, 1.0, 5.0]), 24.0 / 64.0);
    assert_eq!(weighted_quantile(&[(5.0, 7.0), (1.0, 1.0), (2.0, 2.0)], 0.3), 2.0);
}
