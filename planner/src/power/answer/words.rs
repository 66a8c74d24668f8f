//! Rules and their settings in words: `trailing maximum + buffer`, `4 h + 3`.

use tracecast_analytics::report::format;

use crate::power::rule::Setting;
use crate::power::rule::family::Family;
use crate::replay::compare::IntervalEstimate;

/// A change of a wait with its interval: `+1,240 s (+900 to +1,600)`.
pub(in crate::power) fn change_of_wait(of: &IntervalEstimate) -> String {
    let signed = |value: f64| format!("{}{}", if value < 0.0 { "" } else { "+" }, format::float(value, 0));
    format!("{} s ({} to {})", signed(of.value), signed(of.low), signed(of.high))
}

/// Names of rules as a reader meets them.
pub(super) fn spelled(family: Family) -> &'static str {
    match family {
        Family::AlwaysOn => "always on",
        Family::Timeout => "timeout",
        Family::TrailingMaximum => "trailing maximum + buffer",
        Family::LazyProvisioning => "lazy capacity provisioning",
        Family::Newsvendor => "newsvendor quantile",
        Family::CesPerfect => "CES, perfect forecast (not causal)",
        Family::CesPublished => "CES, published forecasts (they leak)",
        Family::CesPersistence => "CES, last value as forecast",
        Family::CesSeasonal => "CES, yesterday as forecast",
        Family::SlurmConf => "timeout node by node, as slurm.conf holds it",
        Family::Reach => "reach (learned chances)",
    }
}

/// A setting in words, with slots as times.
pub(super) fn set(setting: &Setting, slot_s: f64) -> String {
    let time = |slots: &usize| format::duration(*slots as f64 * slot_s);
    match setting {
        Setting::AlwaysOn => "all nodes on".to_owned(),
        Setting::Timeout { slots } => format!("{} idle", time(slots)),
        Setting::TrailingMaximum { slots, buffer } => format!("{} + {buffer}", time(slots)),
        Setting::IdleTimeout { slots, keep_idle } => format!("{} idle, {keep_idle} left idle", time(slots)),
        Setting::Newsvendor { chance, buffer } => format!("chance {chance} + {buffer}"),
        Setting::Lazy { switch_slots, window_slots, buffer } => {
            format!("{}, told {} + {buffer}", time(switch_slots), time(window_slots))
        }
        Setting::Ces { thresholds, .. } => format!("buffer {:.0}", thresholds.buffer),
        Setting::Reach(switches) => format!(
            "wake {}, keep {} over {} + {}",
            switches.wake_chance,
            switches.keep_chance,
            time(&switches.keep_slots),
            switches.buffer
        ),
    }
}
