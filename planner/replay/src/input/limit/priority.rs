//! How Slurm's multifactor plugin accounts usage and weighs jobs, from `scontrol show config` or the same keys in TOML.
//!
//! ```toml
//! PriorityFlags = "NO_FAIR_TREE"     # left out: fair tree
//! PriorityDecayHalfLife = "7-0"      # 0: usage does not decay; the default is Slurm's, as of all that follow
//! PriorityCalcPeriod = "00:05:00"    # from one reckoning of the factors to the next
//! FairShareDampeningFactor = 1       # without fair tree
//! PriorityWeightFairshare = 10000    # weights of an order multifactor that names none itself
//! PriorityWeightAge = 1000
//! PriorityWeightQOS = 1000
//! PriorityWeightTRES = "GRES/gpu=100"
//! PriorityMaxAge = "7-0"
//! ```
//!
//! Of `PriorityWeightTRES` the GPUs count, as the size of a job; where it has none, `PriorityWeightJobSize` does, turned round by `PriorityFavorSmall`. (Slurm's job size is of nodes and processors.)
//!
//! Worked number: `PriorityCalcPeriod = 00:05:00` and `PriorityWeightFairShare = 10000`, as a Slurm prints them, make a job of the user ranked first worth 10,000, and that is so for the next 300,000 ms.

use super::value;
use tracecast_sim::Weights;
use tracecast_sim::limit::{Accounting, Algorithm};

/// Keys that are read, in small letters.
pub(super) const KEYS: [&str; 15] = [
    "fairsharedampeningfactor",
    "prioritycalcperiod",
    "prioritydecayhalflife",
    "priorityfavorsmall",
    "priorityflags",
    "prioritymaxage",
    "prioritytype",
    "priorityusageresetperiod",
    "priorityweightage",
    "priorityweightassoc",
    "priorityweightfairshare",
    "priorityweightjobsize",
    "priorityweightpartition",
    "priorityweightqos",
    "priorityweighttres",
];
/// Flags that change nothing here.
const FLAGS: [&str; 3] = ["", "fair_tree", "accrue_always"];

/// Settings of the multifactor priority plugin.
#[derive(Debug, Clone, Default)]
pub(super) struct Priority {
    pub(super) accounting: Accounting,
    weights: Weights,
    /// Weight of the job's size, and of its GPUs.
    size: f64,
    gpus: f64,
    favor_small: bool,
    is_weighed: bool,
    is_basic: bool,
    /// Whether a job is billed for the dearest of its resources, and not for all.
    pub(super) bills_most: bool,
    /// Settings that are known and not replayed.
    pub(super) unheeded: Vec<String>,
}

/// A number of 0 or more.
fn number(text: &str) -> Result<f64, String> {
    let parsed = text.trim().parse::<f64>().ok().filter(|number| (0.0..=1e12).contains(number));
    parsed.ok_or_else(|| format!("`{text}` is no number of 0 or more"))
}

/// Whether a value says that there is none.
pub(super) fn is_none(text: &str) -> bool {
    ["", "(null)", "none", "n/a"].contains(&text.trim().to_ascii_lowercase().as_str())
}

impl Priority {
    /// Takes a key in small letters, if it is one of [`KEYS`].
    ///
    /// # Errors
    /// What is wrong with the value.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, String> {
        if !KEYS.contains(&key) {
            return Ok(false);
        }
        let weight = || if is_none(value) { Ok(0.0) } else { number(value) };
        self.is_weighed |= key.starts_with("priorityweight");
        match key {
            "prioritytype" => self.is_basic = value.eq_ignore_ascii_case("priority/basic"),
            "priorityweightfairshare" => self.weights.fair_share = weight()?,
            "priorityweightage" => self.weights.age = weight()?,
            "priorityweightqos" => self.weights.qos = weight()?,
            "priorityweightjobsize" => self.size = weight()?,
            "priorityweighttres" if is_none(value) => {}
            "priorityweighttres" => {
                for (name, weight) in pairs(value)? {
                    match name.as_str() {
                        "gres/gpu" => self.gpus = weight,
                        _ => self.unheeded.push(format!("PriorityWeightTRES of {name}")),
                    }
                }
            }
            "priorityweightpartition" | "priorityweightassoc" => {
                if weight()? > 0.0 {
                    let name = if key.ends_with("assoc") { "PriorityWeightAssoc" } else { "PriorityWeightPartition" };
                    self.unheeded.push(name.to_owned());
                }
            }
            "prioritymaxage" => self.weights.max_age_ms = value::minutes(value)?.unwrap_or(0).max(1),
            "priorityfavorsmall" => self.favor_small = ["yes", "true", "1"].contains(&value.to_lowercase().as_str()),
            "prioritydecayhalflife" => {
                self.accounting.half_life_ms = value::minutes(value)?.filter(|half_life| *half_life > 0);
            }
            "prioritycalcperiod" => {
                let period = value::minutes(value)?.filter(|period| *period > 0);
                self.accounting.period_ms = period.ok_or_else(|| format!("`{value}` is no length of time above 0"))?;
            }
            "priorityusageresetperiod" => {
                if !is_none(value) {
                    self.unheeded.push(format!("PriorityUsageResetPeriod={value}"));
                }
            }
            "fairsharedampeningfactor" => {
                let factor = value.trim().parse::<u32>().ok().filter(|factor| *factor > 0);
                self.accounting.dampening = factor.ok_or_else(|| format!("`{value}` is no whole number above 0"))?;
            }
            _ => {
                self.accounting.algorithm = Algorithm::Tree;
                for flag in value.split(',').map(str::trim).filter(|flag| !is_none(flag)) {
                    match flag.to_ascii_lowercase().as_str() {
                        "no_fair_tree" => self.accounting.algorithm = Algorithm::Classic,
                        "max_tres" => self.bills_most = true,
                        known if FLAGS.contains(&known) => {}
                        _ => self.unheeded.push(format!("PriorityFlags={flag}")),
                    }
                }
            }
        }
        Ok(true)
    }

    /// Weights of an order that names none; `None` where the file has none, or Slurm weighs nothing.
    pub(super) fn weights(&self) -> Option<Weights> {
        let by_gpus = self.gpus > 0.0;
        let weights = Weights {
            size: if by_gpus { self.gpus } else { self.size },
            favor_small: self.favor_small && !by_gpus,
            ..self.weights
        };
        (self.is_weighed && !self.is_basic).then_some(weights)
    }

    /// Returns the weights in a sentence, if an order without weights takes them.
    pub(super) fn told(&self, file: &str) -> Option<String> {
        let Weights { age, fair_share, size, qos, .. } = self.weights()?;
        Some(format!(
            "An order `multifactor` that names no weights has those of {file}: age={age}, fair_share={fair_share}, size={size}, qos={qos}."
        ))
    }
}

/// `GRES/gpu=2,CPU=0.25,Mem=0.1G` as small names and numbers; a unit behind a number is left out.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, f64)>, String> {
    let of = |part: &str| {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}`: write GRES/gpu=1"))?;
        let value = value.trim().trim_end_matches(|last: char| last.is_ascii_alphabetic());
        Ok((name.trim().to_ascii_lowercase(), number(value)?))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(of).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The settings as a Slurm 22.05 prints them.
    #[test]
    fn what_a_slurm_prints() {
        let mut result = Priority::default();
        for line in [
            "FairShareDampeningFactor = 3",
            "PriorityDecayHalfLife   = 00:10:00",
            "PriorityCalcPeriod      = 00:01:00",
            "PriorityFavorSmall      = No",
            "PriorityFlags           = NO_FAIR_TREE",
            "PriorityMaxAge          = 7-00:00:00",
            "PriorityUsageResetPeriod = NONE",
            "PriorityType            = priority/multifactor",
            "PriorityWeightAge       = 10",
            "PriorityWeightFairShare = 100000",
            "PriorityWeightJobSize   = 5",
            "PriorityWeightPartition = 7",
            "PriorityWeightTRES      = CPU=1,GRES/gpu=320",
        ] {
            let (key, value) = line.split_once('=').unwrap();
            assert!(result.take(&key.trim().to_ascii_lowercase(), value.trim()).unwrap(), "{line}");
        }
        let Accounting { algorithm, half_life_ms, period_ms, dampening, .. } = result.accounting;
        assert_eq!((algorithm, half_life_ms), (Algorithm::Classic, Some(600_000)));
        assert_eq!((period_ms, dampening), (60_000, 3));
        let weights = result.weights().unwrap();
        assert_eq!([weights.age, weights.fair_share, weights.size, weights.qos], [10.0, 100_000.0, 320.0, 0.0]);
        assert_eq!(result.unheeded, ["PriorityWeightPartition", "PriorityWeightTRES of cpu"]);
        assert!(result.take("prioritycalcperiod", "0").is_err() && result.take("priorityweightage", "-1").is_err());
        result.take("prioritydecayhalflife", "0").unwrap();
        result.take("prioritytype", "priority/basic").unwrap();
        assert_eq!((result.accounting.half_life_ms, result.weights()), (None, None));
    }
}
