//! The constants by which energy is measured, as a reader is shown them.
//!
//! Worked number: a gap of 190 s in readings a minute apart is longer than 3 periods, and so a model's.

use super::counter::SLACK;
use super::{NODE_BLANK_W, NODE_MOST_W};
use crate::energy::constant::Constant;
use crate::energy::model::{GPU_MOST_W, IDLE_BIN, LEAST_IDLE, LEAST_READINGS};
use crate::stats::sampled::BRIDGE;

/// Constants of the method, whatever the devices; `wraps_j` is where counters begin again, joules.
pub(super) fn constants(wraps_j: &[f64]) -> Vec<Constant> {
    let choice = |name: &str, value: String, why: &str| {
        Constant::new(name, value, format!("choice of this program: {why}"), true)
    };
    let wraps: Vec<String> = wraps_j.iter().map(f64::to_string).collect();
    vec![
        choice("Longest gap that is bridged", format!("{BRIDGE} sample periods"), "longer ones are modelled"),
        choice(
            "A GPU is idle at",
            format!("at most {IDLE_BIN} % utilisation"),
            "utilisation is reported in whole percent",
        ),
        choice(
            "Readings that idle power needs",
            format!("{LEAST_IDLE} at idle"),
            "fewer may be of a moment between two kernels",
        ),
        choice(
            "Readings that a power curve needs",
            format!("{LEAST_READINGS} with utilisation and power"),
            "fewer make no curve",
        ),
        choice("No GPU draws more than", format!("{GPU_MOST_W} W"), "readings beyond are none"),
        choice("No node draws more than", format!("{NODE_MOST_W} W"), "readings beyond are none"),
        choice(
            "What a counter may seem to draw",
            format!("{SLACK} times the upper bound"),
            "beyond, a step is in doubt",
        ),
        Constant::new(
            "Counters begin again at",
            format!("{} J", wraps.join(", ")),
            "width and unit of the registers (2^32 of 1 \u{b5}J, of 2^-16 J, of 2^-14 J, of 1 mJ), and what the factor file says",
            false,
        ),
        Constant::new(
            "A node controller without a reading says",
            format!("{NODE_BLANK_W} W"),
            "Harvard FASRC power data of 2025: 255 counts of 100 W, in readings of powered-off days",
            false,
        ),
    ]
}
