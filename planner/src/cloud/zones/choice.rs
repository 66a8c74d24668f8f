//! In which zone a job begins that stays in one: chosen by what was known at a moment, and what that choice was worth later.
//!
//! A zone is **scored** by what the programme expects (module `outlook`) of a job that begins in it at that moment, which knows how long spot has been there or away; where it cannot say, by the mean of what the policy cost on windows that had
//! ended by then. The zone of the least score is chosen, of those that had spot within the last `GONE_H` hours, or of all where none had: a programme that never saw spot go for good expects it back soon. Costs are shares of all on-demand in each zone; where all have prices, they are compared as money, by what on-demand costs in each.
//!
//! The **test** chooses anew at each of the later windows, with what came before it alone, and follows the policy in that zone. Beside it stand the zone of the least mean over all windows that had ended by then; that over the windows of choice, once, at the
//! split; the mean of all zones, which is what a zone drawn by lot costs; and the best zone of each window, known in hindsight. The windows begin at the same moments (module `moments`) in all zones.
//!
//! O(zones × windows²). Worked example: two zones cost 0.4 and 0.6 on windows that ended long ago, and 0.7 and 0.5 on those of yesterday; the programme expects 0.7 and 0.5. The mean of all windows is even, the score is for the second.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Section, format};

use crate::cloud::policy::CloudPolicy;
use crate::cloud::zones::second::{SecondZone, figure, points, second};
use crate::cloud::zones::seen::{FEW, ZoneSeen};
use crate::plan::interval::{average, mean};
use crate::plan::{Confidence, tell};
use crate::replay::compare::IntervalEstimate;

/// Hours without spot after which a zone is taken only where all are so.
pub(in crate::cloud) const GONE_H: f64 = 24.0;

/// How a zone is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ZoneRule {
    /// Anew at each moment, by what is expected of what holds then.
    Anew,
    /// Anew at each moment, by the mean of all windows that had ended.
    Ended,
    /// Once, at the split, by the mean of all windows before it.
    Earlier,
    /// A zone drawn by lot.
    AnyZone,
    /// The best of each window, which nobody can know.
    Hindsight,
}

impl ZoneRule {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Anew => "chosen anew at each moment, by what is expected of what holds then",
            Self::Ended => "chosen anew at each moment, by the mean of all windows that had ended",
            Self::Earlier => "chosen once, by the mean of the windows before the split",
            Self::AnyZone => "drawn by lot: the mean of all zones",
            Self::Hindsight => "the best zone of each window, known in hindsight",
        }
    }
}

/// All on-demand of which place a cost is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareOf {
    /// All on-demand in the zone whose cost is given.
    OwnZone,
    /// All on-demand in the zone where it is cheapest, as dollars are compared: prices are known in
    /// all zones.
    CheapestZone,
}

impl ShareOf {
    /// In words, behind `all on-demand`.
    fn in_words(self) -> &'static str {
        match self {
            Self::OwnZone => "in the zone itself",
            Self::CheapestZone => "where that is cheapest",
        }
    }
}

/// A way to choose, on the later windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ZoneRuleLater {
    /// Rule that chooses the zone.
    pub rule: ZoneRule,
    /// Mean cost, as a share of all on-demand (which, `shares_of` says), with its interval: windows drawn anew.
    pub cost_ratio: IntervalEstimate,
}

/// A zone, on the later windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZoneLater {
    /// Name of the trace.
    pub trace: String,
    /// Mean cost of the policy on the windows of choice, as a share of all on-demand in this zone.
    pub choose_cost_ratio: f64,
    /// Mean cost on the later windows, likewise, with its interval: windows drawn anew.
    pub cost_ratio: IntervalEstimate,
    /// The dearest of them.
    pub worst: f64,
    /// Dollars an hour of on-demand, where all zones have prices; costs are compared by them then.
    pub on_demand_usd_per_h: Option<f64>,
    /// Later windows for which it was chosen.
    pub chosen_for: usize,
    /// Later windows in which it was the cheapest.
    pub cheapest_in: usize,
    /// Expected cost by the programme of a job that begins at the end of the data, as a share of
    /// all on-demand in this zone; nothing where it cannot say.
    pub expected_now: Option<f64>,
    /// Whether spot was not there in the last 24 h of the data, so that other zones go first.
    pub gone_now: bool,
    /// By what it is ranked at the end of the data, as a share of what `shares_of` says: the less, the better.
    pub score: f64,
}

/// The job over all zones together, on the same later windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZonesTogetherLater {
    /// The policy, chosen on those windows of choice that have as much past as they are long; on all if none has.
    pub policy: CloudPolicy,
    /// Mean cost, as a share of all on-demand in the zone cheapest for it, with its interval: windows drawn anew.
    pub cost_ratio: IntervalEstimate,
    /// What it saves of the zone that is chosen, on the same windows, as a share of what `shares_of` says; above 0 it is cheaper.
    pub saving: IntervalEstimate,
    /// Deadlines missed.
    pub misses: usize,
}

/// How the zones compare.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZonesCompared {
    /// The policy that was followed in all of them.
    pub policy: CloudPolicy,
    /// Later windows.
    pub windows: usize,
    /// How many of them do not overlap.
    pub disjoint: usize,
    /// What costs that are compared between zones are shares of: `rules`, `saving`, `second`, `score`. Those of a zone (`zones`) are of all on-demand in it.
    pub shares_of: ShareOf,
    /// Ways to choose.
    pub rules: Vec<ZoneRuleLater>,
    /// What choosing so saves of the mean of all zones, with its interval. One zone without hope makes it great.
    pub saving: IntervalEstimate,
    /// The zone that comes second; nothing where there is one alone.
    pub second: Option<SecondZone>,
    /// Zones, the cheapest on the later windows first.
    pub zones: Vec<ZoneLater>,
    /// The job over all of them together; nothing where it cannot be one.
    pub together: Option<ZonesTogetherLater>,
    /// Why it cannot be one.
    pub together_why_not: Option<String>,
    /// How sure the choice among the zones is.
    pub confidence: Confidence,
    /// Why, in a sentence without an end.
    pub confidence_why: String,
}

/// What windows are of, hours from the first common moment: their beginnings and how long each is; how many are of choice, and where the data end.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cloud) struct WindowTimes {
    pub(in crate::cloud) begins_h: Vec<f64>,
    pub(in crate::cloud) length_h: f64,
    pub(in crate::cloud) early: usize,
    pub(in crate::cloud) end_h: f64,
}

/// The mean of what the policy cost on windows that had ended at a moment; nothing where none had.
fn ended(zone: &ZoneSeen, times: &WindowTimes, at_h: f64) -> Option<f64> {
    // A hair for what is rounded.
    let of = |begins_h: f64| begins_h + times.length_h <= at_h + 1e-6;
    let costs = zone.shares.iter().zip(&times.begins_h).filter(|(_, begins_h)| of(**begins_h)).map(|(share, _)| *share);
    let costs: Vec<f64> = costs.collect();
    (!costs.is_empty()).then(|| average(costs.into_iter()))
}

/// The zones in the order of choice, by position: those that are gone last, then by score; of equals the one that is named first. And all scores. `scales` make shares comparable between zones.
fn ranked(
    zones: &[ZoneSeen],
    times: &WindowTimes,
    at_h: f64,
    expected_at: usize,
    scales: &[f64],
) -> (Vec<usize>, Vec<f64>) {
    let scores: Vec<f64> = zones
        .iter()
        .zip(scales)
        .map(|(zone, scale)| {
            let expected = zone.expected.get(expected_at).copied().flatten();
            expected.or_else(|| ended(zone, times, at_h)).map_or(f64::INFINITY, |share| scale * share)
        })
        .collect();
    let order = |zone: &usize| {
        let gone = zones.get(*zone).is_some_and(|of| of.is_gone(expected_at));
        (gone, scores.get(*zone).copied().unwrap_or(f64::INFINITY))
    };
    let mut places: Vec<usize> = (0..zones.len()).collect();
    places.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    (places, scores)
}

/// The position of the least; of equals the first.
fn least(of: &[f64]) -> usize {
    (0..of.len()).min_by(|a, b| of[*a].total_cmp(&of[*b]).then(a.cmp(b))).unwrap_or(0)
}

/// Outcome of the choice.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cloud) struct Picked {
    /// The zone chosen at the end of the data, by position.
    pub(in crate::cloud) now: usize,
    /// Zone chosen for each of the later windows.
    pub(in crate::cloud) later: Vec<usize>,
    /// How the zones compare.
    pub(in crate::cloud) compared: ZonesCompared,
}

/// Chooses among zones, now and for each of the later windows, of which so many do not overlap. `together` is the job over all of them on the windows of choice and the later ones, or why there is none.
pub(in crate::cloud) fn choose(
    zones: &[ZoneSeen],
    times: &WindowTimes,
    policy: CloudPolicy,
    disjoint: usize,
    together: std::result::Result<(CloudPolicy, Vec<f64>, usize), String>,
) -> Picked {
    let on_demand: Option<Vec<f64>> = zones.iter().map(|zone| zone.on_demand).collect();
    let cheapest = on_demand.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let scales: Vec<f64> = match &on_demand {
        Some(prices) => prices.iter().map(|usd| usd / cheapest).collect(),
        None => vec![1.0; zones.len()],
    };
    let windows = times.begins_h.len().saturating_sub(times.early);
    let begins_h = |at: usize| times.begins_h.get(times.early + at).copied().unwrap_or(0.0);
    let orders: Vec<(Vec<usize>, Vec<f64>)> =
        (0..windows).map(|at| ranked(zones, times, begins_h(at), at, &scales)).collect();
    let later: Vec<usize> = orders.iter().map(|(order, _)| order.first().copied().unwrap_or(0)).collect();
    let (order, scores) = ranked(zones, times, times.end_h, windows, &scales);
    let now = order.first().copied().unwrap_or(0);
    // Costs on a window, as shares of all on-demand where that is cheapest.
    let cost = |zone: usize, at: usize| {
        let share = zones.get(zone).and_then(|zone| zone.shares.get(at)).copied().unwrap_or(f64::NAN);
        share * scales.get(zone).copied().unwrap_or(1.0)
    };
    let of_choice: Vec<f64> = (0..zones.len()).map(|zone| average((0..times.early).map(|at| cost(zone, at)))).collect();
    let earlier = least(&of_choice);
    // The zone of the least mean so far, or at the split where no window has ended.
    let by_mean: Vec<usize> = (0..windows)
        .map(|at| {
            let means: Option<Vec<f64>> = zones
                .iter()
                .zip(&scales)
                .map(|(zone, scale)| Some(scale * ended(zone, times, begins_h(at))?))
                .collect();
            means.map_or(earlier, |means| least(&means))
        })
        .collect();
    let each = |rule: ZoneRule| -> Vec<f64> {
        (0..windows)
            .map(|at| {
                let all = || (0..zones.len()).map(|zone| cost(zone, times.early + at));
                match rule {
                    ZoneRule::Anew => cost(later.get(at).copied().unwrap_or(0), times.early + at),
                    ZoneRule::Ended => cost(by_mean.get(at).copied().unwrap_or(0), times.early + at),
                    ZoneRule::Earlier => cost(earlier, times.early + at),
                    ZoneRule::AnyZone => average(all()),
                    ZoneRule::Hindsight => all().fold(f64::INFINITY, f64::min),
                }
            })
            .collect()
    };
    let rules = [ZoneRule::Anew, ZoneRule::Ended, ZoneRule::Earlier, ZoneRule::AnyZone, ZoneRule::Hindsight];
    let less =
        |from: &[f64], what: &[f64]| mean(&from.iter().zip(what).map(|(from, what)| from - what).collect::<Vec<_>>());
    let (anew, any) = (each(ZoneRule::Anew), each(ZoneRule::AnyZone));
    let best: Vec<usize> = (0..windows)
        .map(|at| least(&(0..zones.len()).map(|zone| cost(zone, times.early + at)).collect::<Vec<_>>()))
        .collect();
    let mut told: Vec<ZoneLater> = zones
        .iter()
        .enumerate()
        .map(|(place, zone)| {
            let late = zone.shares.get(times.early..).unwrap_or_default();
            let times_of = |picked: &[usize]| picked.iter().filter(|of| **of == place).count();
            ZoneLater {
                trace: zone.trace.clone(),
                choose_cost_ratio: average(zone.shares.iter().take(times.early).copied()),
                cost_ratio: mean(late),
                worst: late.iter().copied().fold(0.0, f64::max),
                on_demand_usd_per_h: on_demand.as_ref().and(zone.on_demand),
                chosen_for: times_of(&later),
                cheapest_in: times_of(&best),
                expected_now: zone.expected.get(windows).copied().flatten(),
                gone_now: zone.is_gone(windows),
                score: scores.get(place).copied().unwrap_or(f64::INFINITY),
            }
        })
        .collect();
    let means: Vec<f64> =
        (0..zones.len()).map(|zone| average((0..windows).map(|at| cost(zone, times.early + at)))).collect();
    let mut places: Vec<usize> = (0..zones.len()).collect();
    places.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
    told = places.into_iter().filter_map(|place| told.get(place).cloned()).collect();
    let saving = less(&any, &anew);
    let second = second(zones, (&order, &scores), &orders, disjoint, &|zone, at| cost(zone, times.early + at));
    let lost = average(anew.iter().copied()) - average(each(ZoneRule::Hindsight).into_iter());
    let (confidence, confidence_why) = sure(saving, disjoint, lost, second.as_ref());
    let (together, together_why_not) = match together {
        Ok((policy, costs, misses)) => {
            let found = ZonesTogetherLater { policy, cost_ratio: mean(&costs), saving: less(&anew, &costs), misses };
            (Some(found), None)
        }
        Err(why) => (None, Some(why)),
    };
    let compared = ZonesCompared {
        policy,
        windows,
        disjoint,
        shares_of: if on_demand.is_some() { ShareOf::CheapestZone } else { ShareOf::OwnZone },
        second,
        rules: rules.map(|rule| ZoneRuleLater { rule, cost_ratio: mean(&each(rule)) }).to_vec(),
        saving,
        zones: told,
        together,
        together_why_not,
        confidence,
        confidence_why,
    };
    Picked { now, later, compared }
}

/// How sure a choice among zones is that saved so much of the mean of all zones, and cost so much more than the best zone of each window; and why.
fn sure(saving: IntervalEstimate, disjoint: usize, lost: f64, second: Option<&SecondZone>) -> (Confidence, String) {
    let saved = if saving.value < 0.0 {
        format!("cost {} more than the mean of all zones, and {}", points(-saving.value), points(lost))
    } else {
        format!("saved {} of the mean of all zones, and cost {}", points(saving.value), points(lost))
    };
    let shown = format!("it {saved} more than the best zone of each window");
    if disjoint < FEW {
        let fit = format::counted(disjoint as u64, "later window", "later windows");
        return (Confidence::Low, format!("no more than {fit} without overlap could be tried; {shown}"));
    }
    if saving.low <= 0.0 {
        return (Confidence::Low, format!("on the later windows it is not shown to be cheaper than any zone: {shown}"));
    }
    if let Some(second) = second.filter(|second| !second.alike.is_empty()) {
        let named: Vec<String> = second.alike.iter().map(|zone| format!("`{zone}`")).collect();
        let will_do = format!("it cannot be told from {}", format::names(&named, 8));
        return (Confidence::Low, format!("{will_do}; {shown}"));
    }
    (Confidence::Medium, shown)
}

impl ZonesCompared {
    fn rule(&self, rule: ZoneRule) -> Option<IntervalEstimate> {
        self.rules.iter().find(|of| of.rule == rule).map(|of| of.cost_ratio)
    }

    /// How the zones compared, and how sure the choice is, in sentences.
    pub(in crate::cloud) fn summary(&self) -> Vec<String> {
        let percent = |rule: ZoneRule| self.rule(rule).map_or_else(String::new, |cost| format::percent(cost.value));
        let mut said = vec![format!(
            "**Which zone**: on the same {}, as shares of all on-demand {}, a zone drawn by lot cost {}, the zone of the least mean before the split {}, that of the least mean so far {}, and the best of each window, known in hindsight, {}; this plan chose anew for each, by what its programme expected then, and cost **{}**.",
            format::counted(self.windows as u64, "later window", "later windows"),
            self.shares_of.in_words(),
            percent(ZoneRule::AnyZone),
            percent(ZoneRule::Earlier),
            percent(ZoneRule::Ended),
            percent(ZoneRule::Hindsight),
            percent(ZoneRule::Anew)
        )];
        let zones: Vec<String> = self
            .zones
            .iter()
            .map(|zone| format!("`{}` {}", zone.trace, format::percent(zone.cost_ratio.value)))
            .collect();
        said.push(format!(
            "By zone, with the {}, as shares of all on-demand in each: {}.",
            self.policy.in_words(),
            format::names(&zones, 12)
        ));
        said.extend(self.second.iter().map(SecondZone::in_words));
        said.push(format!("Confidence in the zone: {}: {}.", self.confidence.in_words(), self.confidence_why));
        said.extend(self.together.as_ref().map(ZonesTogetherLater::in_words));
        said
    }

    /// Returns the comparison as a section of a report.
    pub(in crate::cloud) fn section(&self) -> Section {
        let mut zones = tell::table(
            format!(
                "Zones on the same {}, with the {}",
                format::counted(self.windows as u64, "later window", "later windows"),
                self.policy.in_words()
            ),
            "Trace | #Windows of choice, % of own on-demand | #Later windows, % of own | 95 % interval | #Dearest, % of own | #Chosen for | #Cheapest in | #Expected now, % of own | Gone",
        );
        for zone in &self.zones {
            zones.rows.push(vec![
                zone.trace.as_str().into(),
                Cell::float(100.0 * zone.choose_cost_ratio, 1),
                Cell::float(100.0 * zone.cost_ratio.value, 1),
                format!("{:.1} to {:.1}", 100.0 * zone.cost_ratio.low, 100.0 * zone.cost_ratio.high).into(),
                Cell::float(100.0 * zone.worst, 1),
                Cell::Int(zone.chosen_for as i64),
                Cell::Int(zone.cheapest_in as i64),
                Cell::opt(zone.expected_now, |share| Cell::float(100.0 * share, 1)),
                if zone.gone_now { "yes" } else { "" }.into(),
            ]);
        }
        zones.note = Some(format!(
            "Costs are shares of all on-demand in the zone of the row. The windows overlap: {} of {} do not, so the intervals are too narrow. The zone of which least is expected now is chosen, in money where all prices are known: it is what the semi-Markov programme expects of a job that begins at the last sample. Zones without spot for a day (gone) come after all others.",
            self.disjoint, self.windows
        ));
        let of = match self.shares_of {
            ShareOf::OwnZone => "own",
            ShareOf::CheapestZone => "cheapest",
        };
        let mut rules = tell::table(
            "What choosing the zone was worth on them",
            &format!("Zone | #Cost, % of {of} on-demand | 95 % interval"),
        );
        let row = |what: &str, cost: IntervalEstimate| {
            let span = format!("{:.1} to {:.1}", 100.0 * cost.low, 100.0 * cost.high);
            vec![what.into(), Cell::float(100.0 * cost.value, 1), span.into()]
        };
        rules.rows = self.rules.iter().map(|of| row(of.rule.in_words(), of.cost_ratio)).collect();
        if let Some(together) = &self.together {
            rules.rows.push(row("all zones together, the job moves", together.cost_ratio));
        }
        let share = match self.shares_of {
            ShareOf::OwnZone => "Costs are shares of all on-demand in the zone that each window was run in.",
            ShareOf::CheapestZone => {
                "Costs are dollars, as shares of all on-demand where that is cheapest; the table below has shares of all on-demand in each zone."
            }
        };
        let alone = self.together_why_not.as_ref();
        let alone = alone.map(|why| format!(" Over all zones together the job was not tried: {why}"));
        rules.note = Some(format!("{share}{}", alone.unwrap_or_default()));
        Section::new("cloud-which-zone", "Which zone?").with_table(rules).with_table(zones)
    }
}

impl ZonesTogetherLater {
    fn in_words(&self) -> String {
        let IntervalEstimate { value, low, high } = self.saving;
        let beside = match value {
            value if value > 0.0 => format!("{} less ({} to {})", points(value), figure(low), figure(high)),
            value => format!("{} more ({} to {})", points(-value), figure(-high), figure(-low)),
        };
        let advice =
            if low > 0.0 { " If the job can move its checkpoint, ask again with `--regions together`." } else { "" };
        format!(
            "One job over all these zones, which moves between them (the {}), cost **{}** on the same windows, {beside}.{advice}",
            self.policy.in_words(),
            format::percent(self.cost_ratio.value)
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn zone(trace: &str, shares: &[f64], expected: &[f64]) -> ZoneSeen {
        ZoneSeen {
            trace: trace.to_owned(),
            shares: shares.to_vec(),
            expected: expected.iter().copied().map(Some).collect(),
            gone: Vec::new(),
            on_demand: None,
        }
    }

    /// Regression test: a choice among zones had "saved −0.2 points".
    #[test]
    fn a_choice_that_saved_nothing_cost_more() {
        let told =
            |value: f64| sure(IntervalEstimate { value, low: value - 0.01, high: value + 0.01 }, 9, 0.004, None).1;
        assert!(
            told(-0.002)
                .contains("it cost 0.2 points more than the mean of all zones, and 0.4 points more than the best")
        );
        assert!(
            told(0.002)
                .contains("it saved 0.2 points of the mean of all zones, and cost 0.4 points more than the best")
        );
    }

    fn times(begins_h: &[f64], early: usize, end_h: f64) -> WindowTimes {
        WindowTimes { begins_h: begins_h.to_vec(), length_h: 10.0, early, end_h }
    }

    /// Even by the mean of two windows; the later one is of yesterday and the outlook agrees with it.
    #[test]
    fn the_worked_example() {
        let zones = [zone("old", &[0.4, 0.7, 0.6], &[0.7, 0.7]), zone("new", &[0.6, 0.5, 0.3], &[0.5, 0.5])];
        let times = times(&[0.0, 500.0, 520.0], 2, 540.0);
        let result = choose(&zones, &times, CloudPolicy::Greedy, 1, Err("none".to_owned()));
        assert_eq!((result.now, result.later.as_slice()), (1, [1].as_slice()));
        let cost = |rule: ZoneRule| result.compared.rule(rule).unwrap().value;
        assert!((cost(ZoneRule::Anew) - 0.3).abs() < 1e-12 && (cost(ZoneRule::AnyZone) - 0.45).abs() < 1e-12);
        // 0.55 each, of which the first is taken.
        assert!((cost(ZoneRule::Earlier) - 0.6).abs() < 1e-12 && (cost(ZoneRule::Hindsight) - 0.3).abs() < 1e-12);
        assert_eq!(result.compared.zones[0].trace, "new");
        assert_eq!((result.compared.zones[0].chosen_for, result.compared.zones[0].cheapest_in), (1, 1));
        assert_eq!(result.compared.confidence, Confidence::Low);
        assert!(result.compared.confidence_why.contains("no more than 1 later window without overlap"));
    }

    /// What came of a window, or what is expected later, is in no choice that was made before it had ended.
    #[test]
    fn the_future_is_in_no_choice() {
        let zones = |last: f64, expected: f64| {
            [
                zone("a", &[0.5, 0.5, 0.4, last], &[0.5, 0.5, expected]),
                zone("b", &[0.6, 0.4, 0.5, 0.5], &[0.4, 0.45, 0.5]),
            ]
        };
        // The third window begins when the second ends, and the fourth before the third does.
        let times = times(&[0.0, 10.0, 20.0, 25.0], 2, 35.0);
        let of = |last: f64, expected: f64| {
            choose(&zones(last, expected), &times, CloudPolicy::Greedy, 1, Err(String::new()))
        };
        let (one, other) = (of(0.0, 0.0), of(9.0, 9.0));
        assert_eq!(one.later, other.later);
        assert_eq!((one.now, other.now), (0, 1));
    }

    /// Spot that has been away for a day is not waited for, whatever is expected, unless it is away everywhere.
    #[test]
    fn a_zone_that_is_gone_comes_last() {
        let times = times(&[0.0, 10.0, 20.0], 2, 40.0);
        let with = |trace: &str, expected: f64, gone: bool| ZoneSeen {
            gone: vec![gone; 2],
            ..zone(trace, &[0.5; 3], &[expected; 2])
        };
        let of = |other: bool| {
            let zones = [with("gone", 0.4, true), with("other", 0.7, other)];
            choose(&zones, &times, CloudPolicy::Greedy, 1, Err(String::new()))
        };
        assert_eq!((of(false).now, of(false).later), (1, vec![1]));
        assert_eq!(of(true).now, 0);
        assert!(of(false).compared.zones.iter().any(|zone| zone.trace == "gone" && zone.gone_now));
    }

    /// Zones whose on-demand costs other amounts are compared by money: 0.5 of 4 dollars is more than 0.6 of 3.
    #[test]
    fn money_is_compared_where_it_is_known() {
        let with = |trace: &str, share: f64, usd: f64| ZoneSeen {
            on_demand: Some(usd),
            ..zone(trace, &[share; 4], &[share; 3])
        };
        let times = times(&[0.0, 10.0, 20.0, 30.0], 2, 40.0);
        let told = |zones: &[ZoneSeen]| {
            choose(zones, &times, CloudPolicy::Greedy, 2, Ok((CloudPolicy::Greedy, vec![0.5, 0.5], 0)))
        };
        let result = told(&[with("dear", 0.5, 4.0), with("cheap", 0.6, 3.0)]);
        assert_eq!((result.now, result.compared.zones[0].trace.as_str()), (1, "cheap"));
        let together = result.compared.together.as_ref().unwrap();
        assert!((together.saving.value - 0.1).abs() < 1e-12 && together.in_words().contains("10.0 points less"));
        // Where one is unknown the shares alone count.
        let blind = told(&[with("dear", 0.5, 4.0), zone("cheap", &[0.6; 4], &[0.6; 3])]);
        assert_eq!((blind.now, blind.compared.zones[0].on_demand_usd_per_h), (0, None));
    }
}
