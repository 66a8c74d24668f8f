//! Promised against realised, on every window of time that the data allow.
//!
//! Each series is cut into [windows](crate::plan::window) of so many days, back from its end. For
//! each, all is fitted and chosen on what came before it, for each service asked for; then the
//! window tells whether the promise was kept, and how much slept. Beside what is recommended stand,
//! chosen in the same way: the trailing maximum and `reach` under the same
//! [guard](crate::power::study::promise), the same two without it (the setting that slept most
//! within the service on the days of choice), all nodes on, and the optimum that knows the window
//! and keeps to the service.
//!
//! What is recommended, **promise**, is the guarded trailing maximum, unless guarded `reach`,
//! chosen on the earlier half of the days of choice, was [clearly](crate::power::study::choice)
//! better on the later half and that half is as long as the window.
//!
//! [`PowerBacktestAnswer`] is the same as JSON and as a report. Worked example: asked for 15 unserved node-slots in a fortnight, a rule that leaves 12 has kept its promise, one that leaves 16 has not, however
//! much it slept.

mod answer;

pub use answer::{PowerBacktestAnswer, SCHEMA, json_schema};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::time::{DAY_MS, format_rfc3339};
use tracecast_predictors::demand::Series;

use crate::error::{Error, Result};
use crate::plan::interval::average;
use crate::plan::window::{Window, rolling};
use crate::power::rule::Setting;
use crate::power::rule::family::Family;
use crate::power::score::Sums;
use crate::power::score::service::Service;
use crate::power::study::promise;
use crate::power::study::{LEAST_DAYS, Request, Survey};
use tracecast_analytics::watch::{self, Watch};

/// A rule of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The recommended rule, under guard of a promise.
    Promise,
    /// The trailing maximum under the same guard.
    TrailingMaximum,
    /// Chances of levels, learned, under the same guard.
    Reach,
    /// The trailing maximum without a guard.
    TrailingMaximumUnguarded,
    /// Chances of levels without a guard.
    ReachUnguarded,
    /// All nodes on.
    AlwaysOn,
}

impl Rule {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Promise => "recommended",
            Self::TrailingMaximum => "trailing maximum, guarded",
            Self::Reach => "reach, guarded",
            Self::TrailingMaximumUnguarded => "trailing maximum, unguarded",
            Self::ReachUnguarded => "reach, unguarded",
            Self::AlwaysOn => "all nodes on",
        }
    }
}

/// Result of a rule in a window that it knew nothing of.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Tested {
    /// Name of the rule.
    pub name: Rule,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Whether the service was kept over the window.
    pub kept: bool,
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: f64,
    /// Service realised in the window.
    pub realised: Service,
    /// Setting of the rule.
    pub setting: Setting,
}

/// One service asked for in one window.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Promised {
    /// Limits of the service.
    pub asked: Service,
    /// Results of the rules; the first is the recommended one.
    pub policies: Vec<Tested>,
    /// Mean number of nodes asleep of the optimum that knows the window and keeps to the service.
    pub optimum_asleep: f64,
}

/// One window of one series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Window")]
pub struct TriedWindow {
    /// VC or pool.
    pub series: String,
    /// Begin, UTC; of a trace without dates the day and hour since it began.
    pub from: String,
    /// End, in the same way.
    pub to: String,
    /// Days that came before.
    pub learned_days: f64,
    /// Nodes there are, mean.
    pub nodes: f64,
    /// Nodes demanded, mean of the largest counts of the slots.
    pub demanded: f64,
    /// Results by service asked for.
    pub services: Vec<Promised>,
}

/// Promises of one rule, added up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Tally {
    /// Name of the rule.
    pub name: Rule,
    /// Promises made: windows times services.
    pub promises: usize,
    /// Promises kept.
    pub kept: usize,
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: f64,
}

/// One series, added up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfSeries {
    /// VC or pool.
    pub series: String,
    /// Tallies by rule.
    pub policies: Vec<Tally>,
    /// Mean number of nodes asleep of the optimum.
    pub optimum_asleep: f64,
}

/// Promised against realised, all in all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rolled {
    /// Window by window, series by series.
    pub windows: Vec<TriedWindow>,
    /// Share of the promises that the recommended rule kept.
    pub kept_share: f64,
    /// Nodes that sleep on average under the recommended rule, less those under the trailing maximum chosen and guarded in the same way.
    pub asleep_over_trailing_maximum: f64,
    /// Tallies by rule, over all windows and services.
    pub policies: Vec<Tally>,
    /// Results by series.
    pub by_series: Vec<OfSeries>,
    /// Series that were left out, and why.
    pub left_out: Vec<String>,
}

/// Tries the promises of `services` on every window of `window_ms` of each series, which count nodes. `like` says what nodes draw, how long they
/// boot, and of which families there may be trailing maximum and `reach`; its slots and services do not count. `watch` is told of every window.
///
/// # Errors
/// If no series is long enough for one window, or a learner fails.
pub fn roll(all: &[Series], like: &Request, window_ms: i64, services: &[Service], watch: &dyn Watch) -> Result<Rolled> {
    let mut tasks: Vec<(&Series, Window)> = Vec::new();
    let mut left_out = Vec::new();
    for series in all {
        let slots = |ms: f64| (ms / series.slot_ms.max(1) as f64).round() as usize;
        let windows = rolling(series.slots.len(), slots(window_ms as f64), slots(LEAST_DAYS * DAY_MS as f64));
        if windows.is_empty() {
            left_out.push(format!(
                "{}: {:.1} days are too few for a window of {:.1} days and as many before it",
                series.name,
                series.slots.len() as f64 * series.slot_ms as f64 / DAY_MS as f64,
                window_ms as f64 / DAY_MS as f64
            ));
        }
        tasks.extend(windows.into_iter().map(|window| (series, window)));
    }
    if tasks.is_empty() {
        return Err(Error::NothingToEvaluate(format!(
            "no window can be tried: {}; name shorter ones with --windows",
            left_out.join("; ")
        )));
    }
    watch.more(tasks.len());
    let plan = |(series, window): &(&Series, Window)| watch::part(watch, || tried(series, window, like, services));
    let windows: Vec<TriedWindow> = tasks.par_iter().map(plan).collect::<Result<_>>()?;
    let mut by_series = Vec::new();
    for series in all {
        let of: Vec<&TriedWindow> = windows.iter().filter(|window| window.series == series.name).collect();
        if !of.is_empty() {
            by_series.push(OfSeries {
                series: series.name.clone(),
                policies: tallies(&of),
                optimum_asleep: average(
                    of.iter().flat_map(|window| &window.services).map(|request| request.optimum_asleep),
                ),
            });
        }
    }
    let policies = tallies(&windows.iter().collect::<Vec<_>>());
    let of = |rule: Rule| policies.iter().find(|tally| tally.name == rule);
    let asleep = |rule: Rule| of(rule).map_or(0.0, |tally| tally.nodes_asleep_mean);
    Ok(Rolled {
        kept_share: of(Rule::Promise).map_or(0.0, |tally| tally.kept as f64 / tally.promises.max(1) as f64),
        asleep_over_trailing_maximum: asleep(Rule::Promise) - asleep(Rule::TrailingMaximum),
        windows,
        policies,
        by_series,
        left_out,
    })
}

/// Promises by rule, in the order of the first.
fn tallies(windows: &[&TriedWindow]) -> Vec<Tally> {
    let mut result: Vec<Tally> = Vec::new();
    for tested in windows.iter().flat_map(|window| &window.services).flat_map(|service| &service.policies) {
        let place = result.iter().position(|tally| tally.name == tested.name).unwrap_or_else(|| {
            result.push(Tally { name: tested.name, promises: 0, kept: 0, nodes_asleep_mean: 0.0 });
            result.len() - 1
        });
        if let Some(tally) = result.get_mut(place) {
            tally.promises += 1;
            tally.kept += usize::from(tested.kept);
            tally.nodes_asleep_mean += tested.nodes_asleep_mean;
        }
    }
    for tally in &mut result {
        tally.nodes_asleep_mean /= tally.promises.max(1) as f64;
    }
    result
}

fn tried(series: &Series, window: &Window, like: &Request, services: &[Service]) -> Result<TriedWindow> {
    let request = Request {
        fit: window.past.clone(),
        eval: window.ahead.clone(),
        families: [Family::TrailingMaximum, Family::Reach]
            .into_iter()
            .filter(|of| like.families.contains(of))
            .collect(),
        budget: None,
        services: services.to_vec(),
        ..like.clone()
    };
    let survey = Survey::of(series, &request)?;
    let evaluating = survey.evaluating();
    let demand = &evaluating.demand;
    let of = |family: Family| survey.rule_of(family);
    let tested = |name: Rule, setting: Setting, whole: &Sums, service: &Service| {
        let outcome = demand.outcome(whole);
        Tested {
            name,
            causal: true,
            kept: service.holds(&outcome, demand.days()),
            nodes_asleep_mean: outcome.nodes_asleep_mean,
            realised: Service::of(&outcome, demand.days()),
            setting,
        }
    };
    let asked = |(place, service): (usize, &Service)| {
        let followed = survey.follow(service);
        let mut policies = Vec::new();
        let guarded = [
            (Rule::Promise, followed.setting),
            (Rule::TrailingMaximum, followed.plain),
            (Rule::Reach, followed.learned),
        ];
        for (name, setting) in guarded {
            if let Some(setting) = setting {
                let kept = promise::keep(&evaluating, &setting, service);
                policies.push(tested(name, setting, &kept.whole(), service));
            }
        }
        let bare = [(Rule::TrailingMaximumUnguarded, Family::TrailingMaximum), (Rule::ReachUnguarded, Family::Reach)];
        for (name, family) in bare {
            if let Some(setting) = of(family).and_then(|rule| rule.within(place)) {
                let whole = Sums::new(&evaluating.try_in_blocks(&setting, usize::MAX).blocks);
                policies.push(tested(name, setting, &whole, service));
            }
        }
        let on = Sums::new(&evaluating.try_in_blocks(&Setting::AlwaysOn, usize::MAX).blocks);
        policies.push(tested(Rule::AlwaysOn, Setting::AlwaysOn, &on, service));
        let optimum = demand.optimum_within(service.unserved_per_day * demand.days(), service.node_wakes_per_day);
        Promised { asked: *service, policies, optimum_asleep: optimum.nodes_asleep_mean }
    };
    let at = |slot: usize| format_rfc3339(series.time_ms(slot));
    Ok(TriedWindow {
        series: series.name.clone(),
        from: at(window.ahead.start),
        to: at(window.ahead.end),
        learned_days: window.past.len() as f64 * series.slot_ms as f64 / DAY_MS as f64,
        nodes: average(demand.total.iter().copied()),
        demanded: average(demand.need.iter().copied()),
        services: services.iter().enumerate().map(asked).collect(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::power::made;
    use crate::power::rule::ces::Thresholds;
    use crate::power::score::Worth;
    use crate::power::score::constants::Constants;
    use crate::power::score::tariff::Rates;

    /// Twenty nodes over some days: quiet nights, busy days, and now and then a jump.
    fn series(days: usize) -> Series {
        let slot = |at: usize| {
            let busy = if at % 24 > 8 { 6.0 } else { 0.0 };
            (5.0 + busy + (at * 11 % 4) as f64 + if at % 61 == 60 { 3.0 } else { 0.0 }, 20.0)
        };
        made::series((0..24 * days).map(slot))
    }

    fn like() -> Request {
        Request {
            fit: 0..0,
            eval: 0..0,
            families: vec![Family::TrailingMaximum],
            boot_slots: 0.0,
            rates: Rates::default(),
            constants: Constants::default(),
            worth: Worth::default(),
            ces: Thresholds::EARTH,
            budget: None,
            services: Vec::new(),
        }
    }

    /// What came after a window, and another series, change nothing of it.
    #[test]
    fn a_window_knows_nothing_of_what_comes_after_it() {
        let services = [Service { unserved_per_day: 1.0, node_wakes_per_day: 10.0 }];
        let whole = series(28);
        let early = Series { slots: whole.slots[..21 * 24].to_vec(), ..whole.clone() };
        let result = roll(&[whole], &like(), 7 * DAY_MS, &services, &()).unwrap();
        let before = roll(&[early], &like(), 7 * DAY_MS, &services, &()).unwrap();
        assert_eq!((result.windows.len(), before.windows.len()), (3, 2));
        assert_eq!(result.windows[..2], before.windows[..]);
    }

    #[test]
    fn promises_are_counted_and_beside_them_stands_doing_nothing_and_the_optimum() {
        let services = [
            Service { unserved_per_day: 0.5, node_wakes_per_day: 10.0 },
            Service { unserved_per_day: 5.0, node_wakes_per_day: 40.0 },
        ];
        let result = roll(&[series(28)], &like(), 7 * DAY_MS, &services, &()).unwrap();
        let promise = &result.policies[0];
        assert_eq!((promise.name, promise.promises), (Rule::Promise, 6));
        assert!((result.kept_share - promise.kept as f64 / 6.0).abs() < 1e-12);
        for promised in result.windows.iter().flat_map(|window| &window.services) {
            let of = |rule: Rule| promised.policies.iter().find(|tested| tested.name == rule).unwrap();
            let on = of(Rule::AlwaysOn);
            assert!(on.kept && on.nodes_asleep_mean == 0.0);
            for tested in &promised.policies {
                let within = tested.realised.unserved_per_day <= promised.asked.unserved_per_day + 1e-9
                    && tested.realised.node_wakes_per_day <= promised.asked.node_wakes_per_day + 1e-6;
                assert_eq!(tested.kept, within, "{tested:?}");
                assert!(!tested.kept || tested.nodes_asleep_mean <= promised.optimum_asleep + 1e-6, "{tested:?}");
            }
        }
        // The guard lets some sleep, keeps no fewer promises than the rule without it, and never wakes more than was promised.
        let of = |rule: Rule| result.policies.iter().find(|tally| tally.name == rule).unwrap();
        assert!(promise.nodes_asleep_mean > 0.0 && promise.kept >= of(Rule::TrailingMaximumUnguarded).kept);
        for promised in result.windows.iter().flat_map(|window| &window.services) {
            let followed = &promised.policies[0];
            assert!(followed.realised.node_wakes_per_day <= promised.asked.node_wakes_per_day + 1e-6, "{followed:?}");
        }
        // A day is no window of a week.
        let told = roll(&[series(9)], &like(), 7 * DAY_MS, &services, &()).unwrap_err().to_string();
        assert!(told.contains("--windows"), "{told}");
    }
}
