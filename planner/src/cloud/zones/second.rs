//! The zone that comes second to the one that is chosen, and whether the two can be told apart.
//!
//! A saving against the mean of all zones may rest on one zone without hope, while two others cost the same. So the second is told as well, and how much more it is expected to cost.
//!
//! **Noise.** How much more the second zone is expected to cost is held against how such differences came out: at each later window, what the second of then cost more than the first, less what it was expected to cost more. The mean of that, with its interval (windows drawn anew, and wider by the root of
//! windows over those without overlap), is added to what is expected now. Where that reaches down to 0, either zone will do, and the answer says so.
//!
//! O(windows × draws). Worked example: the second zone is expected to cost 2 points more. On four later windows without overlap such differences came out 3 points higher or lower by turns: 0 on the mean, −3 to 3. So it is −1 to 5 points: either will do.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use crate::cloud::zones::seen::{FEW, ZoneSeen};
use crate::plan::interval::mean;
use crate::replay::compare::IntervalEstimate;

/// The zone that comes second, and whether the first is told apart from it. Shares are those of `shares_of`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SecondZone {
    /// Name of the trace of the zone that is chosen.
    pub first: String,
    /// Name of its trace.
    pub trace: String,
    /// By how much more a job is expected to cost there, from the end of the data on; nothing where that is not known, or spot was not there for a day.
    pub expected_more: Option<f64>,
    /// The least of that by how such differences came out on the later windows; nothing where too few of them do not overlap.
    pub expected_more_low: Option<f64>,
    /// The most of it, likewise.
    pub expected_more_high: Option<f64>,
    /// What the zone chosen for each of the later windows saved of the one that was second then, with its interval: windows drawn anew.
    pub saving: IntervalEstimate,
    /// Zones that cannot be told from the one that is chosen: each of them will do.
    pub alike: Vec<String>,
}

/// The zone that comes second now, by the order and scores of now, and those at each of the later windows. `cost` is that of a zone on one of these.
pub(in crate::cloud) fn second(
    zones: &[ZoneSeen],
    (order, scores): (&[usize], &[f64]),
    orders: &[(Vec<usize>, Vec<f64>)],
    disjoint: usize,
    cost: &dyn Fn(usize, usize) -> f64,
) -> Option<SecondZone> {
    let (first, place) = (*order.first()?, *order.get(1)?);
    let (windows, score) = (orders.len(), |zone: usize| scores.get(zone).copied().unwrap_or(f64::INFINITY));
    let gone = |zone: usize, at: usize| zones.get(zone).is_some_and(|of| of.is_gone(at));
    let pairs = |(at, (order, scores)): (usize, &(Vec<usize>, Vec<f64>))| {
        let (first, second) = (*order.first()?, *order.get(1)?);
        let expected = scores.get(second)? - scores.get(first)?;
        // A zone that was away for a day is second by that, and what is expected of it says nothing.
        let off = if gone(first, at) == gone(second, at) { expected } else { f64::NAN };
        Some((cost(second, at) - cost(first, at), off))
    };
    let pairs: Vec<(f64, f64)> = orders.iter().enumerate().filter_map(pairs).collect();
    let saving = mean(&pairs.iter().map(|(came, _)| *came).collect::<Vec<_>>());
    let off: Vec<f64> = pairs.iter().map(|(came, expected)| came - expected).filter(|off| off.is_finite()).collect();
    let off = (disjoint >= FEW && off.len() == windows).then(|| {
        let IntervalEstimate { value, low, high } = mean(&off);
        let wider = (windows as f64 / disjoint as f64).sqrt();
        [value - wider * (value - low), value + wider * (high - value)]
    });
    // Spot that was away for a day is ranked by that, and not by what is expected.
    let is_away = |zone: usize| gone(zone, windows) != gone(first, windows);
    let more = |zone: usize| Some(score(zone) - score(first)).filter(|more| more.is_finite() && !is_away(zone));
    let is_alike = |zone: &usize| more(*zone).zip(off).is_some_and(|(more, [low, _])| more + low <= 0.0);
    let name = |zone: usize| zones.get(zone).map(|of| of.trace.clone());
    let expected_more = more(place);
    let ends = expected_more.zip(off).map(|(more, off)| off.map(|off| more + off));
    Some(SecondZone {
        first: name(first)?,
        trace: name(place)?,
        expected_more,
        expected_more_low: ends.map(|[low, _]| low),
        expected_more_high: ends.map(|[_, high]| high),
        saving,
        alike: order.iter().copied().skip(1).filter(is_alike).filter_map(name).collect(),
    })
}

/// `1.5` of 0.015.
pub(in crate::cloud) fn figure(share: f64) -> String {
    format::float(100.0 * share, 1)
}

/// `1.5 points` of 0.015.
pub(in crate::cloud) fn points(share: f64) -> String {
    format!("{} points", figure(share))
}

impl SecondZone {
    /// How much more the second zone costs, and whether that is noise, in a sentence.
    pub(in crate::cloud) fn in_words(&self) -> String {
        let Self { trace, saving, .. } = self;
        let more = match (self.expected_more, self.expected_more_low.zip(self.expected_more_high)) {
            (Some(more), Some((low, high))) => format!(
                "{} more are expected there now; corrected by how far such expectations were off on the later windows, {} to {}",
                points(more),
                figure(low),
                figure(high)
            ),
            (Some(more), None) => format!("{} more are expected there now", points(more)),
            (None, _) => "it is not known how much more it costs, or it had no spot for a day".to_owned(),
        };
        let (than, value, low, high) = if saving.value < 0.0 {
            ("more", -saving.value, -saving.high, -saving.low)
        } else {
            ("less", saving.value, saving.low, saving.high)
        };
        let came = format!(
            "The zone chosen for each later window cost {} {than} ({} to {}) than the one that was second then.",
            points(value),
            figure(low),
            figure(high)
        );
        let named: Vec<String> =
            std::iter::once(&self.first).chain(&self.alike).map(|zone| format!("`{zone}`")).collect();
        let either = match self.alike.len() {
            0 => String::new(),
            1 => format!(" That is within noise: **either will do** of {}.", format::names(&named, 8)),
            _ => format!(" That is within noise: **any will do** of {}.", format::names(&named, 8)),
        };
        format!("**Second** comes `{trace}`: {more}.{either} {came}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn zone(trace: &str, gone: bool) -> ZoneSeen {
        ZoneSeen {
            trace: trace.to_owned(),
            shares: Vec::new(),
            expected: Vec::new(),
            gone: vec![gone; 5],
            on_demand: None,
        }
    }

    /// Expected 2 points apart, and off by 3 points this way and that on four windows.
    #[test]
    fn the_worked_example() {
        let zones = [zone("a", false), zone("b", false), zone("c", false)];
        let orders = vec![(vec![0, 1, 2], vec![0.40, 0.42, 0.9]); 4];
        let cost = |zone: usize, at: usize| if zone == 1 { 0.42 + [0.03, -0.03][at % 2] } else { 0.40 };
        let of = |more: f64, disjoint: usize| {
            second(&zones, (&[0, 1, 2], &[0.40, 0.40 + more, 0.9]), &orders, disjoint, &cost).unwrap()
        };
        let result = of(0.02, 4);
        let near = |value: Option<f64>, of: f64| value.is_some_and(|value| (value - of).abs() < 1e-9);
        assert!(near(result.expected_more, 0.02) && near(result.expected_more_low, -0.01), "{result:?}");
        assert!(near(result.expected_more_high, 0.05) && result.alike == ["b"], "{result:?}");
        assert!(result.in_words().contains("**either will do** of `a`, `b`"), "{}", result.in_words());
        // 10 points are no noise, unless the four windows are but one moment that is told four times, which says nothing.
        assert!(of(0.10, 4).alike.is_empty() && !of(0.10, 4).in_words().contains("will do"));
        let one = of(0.02, 1);
        assert_eq!((one.expected_more_low, one.alike.len(), one.trace.as_str()), (None, 0, "b"));
    }

    /// A zone without spot for a day is second by that, whatever is expected of it.
    #[test]
    fn a_zone_that_is_gone_is_not_alike() {
        let zones = [zone("here", false), zone("gone", true)];
        let orders = vec![(vec![0, 1], vec![0.4, 0.4]); 4];
        let result = second(&zones, (&[0, 1], &[0.4, 0.4]), &orders, 4, &|_, _| 0.4).unwrap();
        assert_eq!((result.expected_more, result.alike.len()), (None, 0), "{result:?}");
        // Where one was gone at a later window only, how far off the difference was there is not known, and nothing is told by it.
        let mut back = zone("back", false);
        back.gone[1] = true;
        let zones = [zone("here", false), back];
        let result = second(&zones, (&[0, 1], &[0.4, 0.4]), &orders, 4, &|_, _| 0.4).unwrap();
        assert_eq!(
            (result.expected_more, result.expected_more_low, result.alike.len()),
            (Some(0.0), None, 0),
            "{result:?}"
        );
        assert!(second(&zones[..1], (&[0], &[0.4]), &orders, 4, &|_, _| 0.4).is_none());
    }
}
