//! What a [study](super) found of one series: its rules, which of them is followed, and what was
//! promised of it.
//!
//! Under a promise the rule that keeps it is followed, and stands beside what the same days would have chosen without one. What a site can hold without a loop (a
//! timeout with a reserve) is followed only where it left no more than was promised, on the days of choice and on those evaluated; where all nodes are to stay on, it keeps
//! them on. Worked example: asked for 3 unserved
//! node-slots a day, a timeout that left 2 a day on the days of choice and 4 on those after them keeps all nodes on.

use super::choice::Because;
use super::promise::Guard;
use crate::plan::forecast::Driven;
use crate::power::rule::Setting;
use crate::power::rule::family::{Family, Scored};
use crate::power::score::SleepOutcome;
use crate::power::score::interval::{Block, Intervals};
use crate::power::score::service::Service;
use tracecast_predictors::demand::reach::Reach;

/// One family: its curve and its choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Kind of rule.
    pub family: Family,
    /// Settings that were tried.
    pub tried: usize,
    /// Settings that were kept.
    pub kept: usize,
    /// The upper edge of what was kept, on the evaluated days, most sleep first.
    pub points: Vec<Scored>,
    /// The chosen setting, on the evaluated days.
    pub chosen: Scored,
    /// What the settings meant that the days of choice would have picked for each of the services that were asked for; `None` where none kept to it there.
    pub for_service: Vec<Option<Scored>>,
    /// Outcome of the chosen setting on the days it was chosen on.
    pub chosen_before: SleepOutcome,
    /// Outcome of the rule there, held out: block by block, with the setting chosen on the other
    /// blocks.
    pub held_out: SleepOutcome,
    /// Confidence intervals of the chosen setting, block-bootstrapped from the weeks evaluated
    /// (days, if there are under four weeks).
    pub intervals: Intervals,
    /// Outcome in each block of the evaluated days.
    pub blocks: Vec<Block>,
    /// What the optimum at a switching cost of two hours means that leaves as much unserved.
    pub optimum_at_service: SleepOutcome,
}

/// The optimum at one switching cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchingOptimum {
    /// Hours of idle power that a wake costs.
    pub switch_h: f64,
    /// Outcome of the optimum.
    pub outcome: SleepOutcome,
}

/// Findings on one series.
#[derive(Debug, Clone)]
pub struct Studied {
    /// Name of the series.
    pub name: String,
    /// Begin of the evaluated days, milliseconds since the epoch.
    pub from_ms: i64,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Largest count of each evaluated slot, nodes.
    pub need: Vec<f64>,
    /// Largest count of each evaluated slot with the nodes that waiting jobs need, up to those
    /// there are.
    pub asked: Vec<f64>,
    /// Nodes there are.
    pub total: Vec<f64>,
    /// Mean count of each evaluated slot, nodes.
    pub active: Vec<f64>,
    /// Slots evaluated in which nothing was counted.
    pub uncounted: usize,
    /// Days learned from, chosen on, evaluated.
    pub days: [f64; 3],
    /// Curves by family.
    pub curves: Vec<Curve>,
    /// Chances that levels are reached, for the rule *reach*, fitted on all days before.
    pub reach: Reach,
    /// Place of the curve of the rule to follow, if nothing is promised.
    pub chosen: usize,
    /// Why what is followed is followed.
    pub because: Because,
    /// By how much more what is followed sleeps, leaves unserved, wakes and saves than the trailing maximum chosen in the same way, if that was studied.
    pub over_trailing: Option<Intervals>,
    /// Outcome of that trailing maximum in each block of the evaluated days: under a promise it has
    /// the same guard.
    pub trailing: Option<Vec<Block>>,
    /// Whether prices or carbon of the past weighed the hours.
    pub weighted: bool,
    /// What was promised, if a service was asked for, and what became of it.
    pub promise: Option<Promise>,
    /// The rule that is to keep it, under guard.
    pub guarded: Option<Curve>,
    /// What that guard knows of the days before those evaluated.
    pub guard: Option<Guard>,
    /// What would be followed if nothing were promised.
    pub unpromised: Option<Curve>,
    /// Orders of what is followed, by evaluated slot.
    pub orders: Vec<f64>,
    /// Energy that the followed rule saved in each slot, kWh at the building's meter.
    pub saved_kwh: Vec<f64>,
    /// Costs of the days evaluated by what drives the plan, in idle node-slots, block by block.
    pub driven: Vec<Driven>,
    /// Optima.
    pub optima: Vec<SwitchingOptimum>,
}

/// A service that was promised for the evaluated days, by a rule under [guard](super::promise), and what came.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Promise {
    /// Limits of the service.
    pub asked: Service,
    /// The service that was realised.
    pub realised: Service,
    /// Whether it was kept.
    pub kept: bool,
    /// The setting followed, and what it meant.
    #[serde(flatten)]
    pub scored: Scored,
}

impl Studied {
    /// What is followed: under a promise the rule that is to keep it, else the chosen one.
    pub fn leads(&self) -> Option<&Curve> {
        self.guarded.as_ref().or_else(|| self.curves.get(self.chosen))
    }

    /// Setting of the rule that is followed.
    pub fn followed(&self) -> Setting {
        self.leads().map_or(Setting::AlwaysOn, |curve| curve.chosen.setting)
    }

    /// The curve of a family, if it was studied.
    pub fn curve(&self, family: Family) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.family == family)
    }

    /// Nodes there are at the end.
    pub fn nodes(&self) -> u32 {
        self.total.last().copied().unwrap_or(0.0) as u32
    }

    /// The chosen trailing maximum as something carries it out that times out and holds a reserve: seconds and nodes.
    pub fn timeout(&self) -> (u32, u32) {
        self.as_timeout(Family::TrailingMaximum)
    }

    /// What `slurm.conf` is to hold: seconds after which an idle node sleeps, and idle nodes that are left powered.
    pub fn slurm(&self) -> (u32, u32) {
        self.as_timeout(Family::SlurmConf)
    }

    /// Whether a rule kept to the service that was asked for, on the days of choice and on those evaluated; `None` if none was asked for.
    pub fn keeps_service(&self, curve: &Curve) -> Option<bool> {
        let [_, choice_days, days] = self.days;
        let asked = self.promise.as_ref()?.asked;
        Some(asked.holds(&curve.chosen_before, choice_days) && asked.holds(&curve.chosen.outcome, days))
    }

    fn as_timeout(&self, family: Family) -> (u32, u32) {
        let curve = self.curve(family);
        let (slots, nodes) = match curve.map(|curve| curve.chosen.setting) {
            Some(Setting::TrailingMaximum { slots, buffer }) => (slots, buffer),
            Some(Setting::IdleTimeout { slots, keep_idle }) => (slots, keep_idle),
            // Nothing is known to keep a promise there.
            _ => (6, if self.promise.is_some() { self.nodes() } else { 0 }),
        };
        // Nothing watches the promise there, so that what has broken it lets no node sleep.
        let broken = curve.and_then(|curve| self.keeps_service(curve)) == Some(false);
        let stays_on = self.followed() == Setting::AlwaysOn;
        let nodes = if broken || stays_on { self.nodes() } else { nodes };
        let idle_s = i64::try_from(slots).unwrap_or(0) * self.slot_ms / 1000;
        (u32::try_from(idle_s).unwrap_or(u32::MAX), nodes)
    }
}
