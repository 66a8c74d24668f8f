//! The time that a figure rests on: a span, less the outages of what counted in it.
//!
//! A cluster that is counted at zero because it was off, or because its counting failed, is not idle. The time in which that
//! was so is left out of means, shares and charts; [`super::outage`] says when it was.
//!
//! Complexity: that of the queries of [`Steps`], times the number of outages plus one.
//!
//! Worked number: 4 nodes in use over [0 h, 1 h), an outage over [1 h, 3 h), 2 nodes over [3 h, 4 h): observed are 2 h, and
//! the mean over them is 3 nodes.

use super::occupancy::{Steps, walk};
use super::outage::Outages;
use crate::stats::sum::NeumaierSum;

/// A span less the outages in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Beginning, ms.
    pub from: i64,
    /// End (exclusive), ms.
    pub to: i64,
    /// Parts outside outages, in order of time.
    parts: Vec<(i64, i64)>,
}

impl Observed {
    /// [from, to) without any outage.
    pub(crate) fn whole(from: i64, to: i64) -> Self {
        Self { from, to, parts: vec![(from, to)] }
    }

    /// [from, to) less `outages`; all of it where nothing else would be left.
    pub(crate) fn less(from: i64, to: i64, outages: &Outages) -> Self {
        let mut parts = Vec::new();
        let mut at = from;
        for (down, up) in outages.stretches.iter().copied().filter(|(down, up)| *down < to && *up > from) {
            if down > at {
                parts.push((at, down));
            }
            at = at.max(up);
        }
        if at < to {
            parts.push((at, to));
        }
        if parts.is_empty() { Self::whole(from, to) } else { Self { from, to, parts } }
    }

    /// Parts of the span outside outages, `(from, to)`, in order of time.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.parts.iter().copied()
    }

    /// Observed time, ms.
    pub(crate) fn length(&self) -> i64 {
        self.parts().map(|(from, to)| to - from).sum()
    }

    /// Hours of the span that are left out.
    pub(crate) fn outage_hours(&self) -> f64 {
        (self.to - self.from - self.length()) as f64 / crate::time::HOUR_MS as f64
    }

    /// Value times seconds.
    pub(crate) fn integral_s(&self, steps: &Steps) -> f64 {
        NeumaierSum::from_iter(self.parts().map(|(from, to)| steps.integral_s(from, to))).value()
    }

    /// Mean of a quantity; `None` if no time was observed.
    pub(crate) fn mean(&self, steps: &Steps) -> Option<f64> {
        let length = self.length();
        (length > 0).then(|| self.integral_s(steps) * 1_000.0 / length as f64)
    }

    /// Largest value of a quantity.
    pub(crate) fn max(&self, steps: &Steps) -> f64 {
        self.parts().map(|(from, to)| steps.max(from, to)).fold(0.0, f64::max)
    }

    /// Stretches of constant value: `(start, end, value)`.
    pub(crate) fn stretches<'s>(&'s self, steps: &'s Steps) -> impl Iterator<Item = (i64, i64, f64)> + 's {
        self.parts().flat_map(|(from, to)| steps.stretches(from, to))
    }

    /// Calls [`walk`] on each observed part.
    pub(crate) fn walk(&self, quantities: &[&Steps], mut visit: impl FnMut(i64, i64, &[f64])) {
        for (from, to) in self.parts() {
            walk(quantities, from, to, &mut visit);
        }
    }

    /// `(start, mean over what of it was observed)` of about `points` equal stretches of the span; those in an outage
    /// are left out.
    pub(crate) fn curve(&self, steps: &Steps, points: i64) -> Vec<(i64, f64)> {
        let step = ((self.to - self.from) / points).max(1);
        if self.length() == self.to - self.from {
            return steps.bucket_means(self.from, self.to, step);
        }
        let mut out = Vec::new();
        let mut start = self.from;
        while start < self.to {
            let end = start.saturating_add(step).min(self.to);
            let seen = self.parts().map(|(from, to)| (from.max(start), to.min(end))).filter(|(from, to)| from < to);
            let (mut area, mut length) = (0.0, 0);
            for (from, to) in seen {
                area += steps.integral_s(from, to) * 1_000.0;
                length += to - from;
            }
            if length > 0 {
                out.push((start, area / length as f64));
            }
            start = end;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_worked_number() {
        let steps = Steps::of_samples([(0, 4.0), (HOUR, 0.0), (3 * HOUR, 2.0), (4 * HOUR, 0.0)]);
        let outages = Outages { stretches: vec![(HOUR, 3 * HOUR)], samples: 2 };
        let observed = Observed::less(0, 4 * HOUR, &outages);
        assert_eq!((observed.length(), observed.outage_hours(), observed.mean(&steps)), (2 * HOUR, 2.0, Some(3.0)));
        assert_eq!(observed.curve(&steps, 4), [(0, 4.0), (3 * HOUR, 2.0)]);
        assert_eq!(observed.curve(&steps, 2), [(0, 4.0), (2 * HOUR, 2.0)]);
        // Outages outside of the span, and one that is all of it, leave nothing out.
        for (from, to) in [(5 * HOUR, 6 * HOUR), (HOUR, 2 * HOUR)] {
            assert_eq!(Observed::less(from, to, &outages), Observed::whole(from, to));
        }
    }
}
