//! Quantities, and the resources that a pod asks for.
//!
//! A quantity is a JSON number or a text: digits with an optional sign and point, then nothing, a decimal suffix (`n`, `u`, `m`,
//! `k`, `M`, `G`, `T`, `P`, `E`), a binary one (`Ki` to `Ei`), or an exponent (`e3`, `E3`). `1E` is 10^18, `1E3` is 1,000.
//!
//! **What counts as a GPU**: `nvidia.com/gpu`, `nvidia.com/gpu.shared` (a share of a GPU in turns), `nvidia.com/mig-*` (a slice),
//! `amd.com/gpu`, `gpu.intel.com/i915` and `gpu.intel.com/xe`. One unit of each is one GPU, unless the nodes' labels say that the units
//! are parts (module `part`). A slice that has a resource of its own is the part of a GPU's compute slices that its name says
//! ([`unit`]), so that slices of one GPU add up to at most one. Other resources whose names look alike are
//! none: `gpu.intel.com/i915_monitoring` watches GPUs, `gpu.intel.com/memory.max` is bytes, `nvidia.com/gpumem` mebibytes.
//!
//! **HAMi** shares GPUs: beside `nvidia.com/gpu` (GPUs to be on) a container asks for `nvidia.com/gpucores` (percent of each), or, where
//! it leaves that out, for `nvidia.com/gpumem-percentage` or `nvidia.com/gpumem` (mebibytes of each); of a GPU it holds that part. What
//! part some mebibytes are is known with the node.
//!
//! Worked example: `"500m"` CPU is 0.5 cores, `"4Gi"` is 4,294,967,296 bytes, `"1e3"` is 1,000, `{"nvidia.com/mig-1g.10gb": "2"}` is
//! 2/7 of a GPU of the type `MIG-1g.10gb`, and `{"nvidia.com/gpu": 2, "nvidia.com/gpucores": 25}` half a GPU.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quality::{RowAudit, reason};
use crate::schema::MOST_NUMBER;

/// GPUs, or what a device plugin hands out in their place.
pub(super) const GPU: &str = "nvidia.com/gpu";
/// Resource that a device plugin hands out in place of GPUs, where it was configured to rename
/// them.
pub(super) const SHARED: &str = "nvidia.com/gpu.shared";
const MIG: &str = "nvidia.com/mig-";
/// Percent of the processors of each GPU that HAMi gives a container.
const CORES: &str = "nvidia.com/gpucores";
/// Memory of each GPU that HAMi gives a container, in percent and in mebibytes.
const MEM_PERCENT: &str = "nvidia.com/gpumem-percentage";
const MEM: &str = "nvidia.com/gpumem";
const CPU: &str = "cpu";
const MEMORY: &str = "memory";

/// The number that a quantity stands for; `None` if it is none, or beyond what any resource can be.
pub fn quantity(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => parse(text.trim())?,
        _ => return None,
    };
    (number.abs() <= MOST_NUMBER).then_some(number)
}

fn parse(text: &str) -> Option<f64> {
    // The split leaves `inf` and `nan`, which Rust reads as numbers, to the suffix.
    let at = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(at);
    let number: f64 = digits.parse().ok()?;
    let binary = |power: i32| number * 1024_f64.powi(power);
    Some(match suffix {
        "" => number,
        // Division rounds correctly where a factor such as 0.001 would not.
        "n" => number / 1e9,
        "u" => number / 1e6,
        "m" => number / 1e3,
        "k" => number * 1e3,
        "M" => number * 1e6,
        "G" => number * 1e9,
        "T" => number * 1e12,
        "P" => number * 1e15,
        "E" => number * 1e18,
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            if power.unsigned_abs() > 30 {
                return None;
            }
            // As one number, so that it is rounded once.
            return format!("{digits}e{power}").parse().ok();
        }
    })
}

/// A sum without what rounding left in it: no resource is given out in less than thousandths, or sevenths of a GPU.
pub(super) fn without_dust(amount: f64) -> f64 {
    (amount * 1e6).round() / 1e6
}

/// Whether a resource is slices of GPUs.
pub fn is_slice(resource: &str) -> bool {
    resource.starts_with(MIG)
}

/// Whether a resource is GPUs.
pub fn is_gpu(resource: &str) -> bool {
    matches!(resource, GPU | SHARED | "amd.com/gpu" | "gpu.intel.com/i915" | "gpu.intel.com/xe") || is_slice(resource)
}

/// Whether a container with these resources shares GPUs by HAMi.
pub(super) fn is_shared(resources: &Value) -> bool {
    let of = |list: &str| {
        [CORES, MEM_PERCENT, MEM].iter().any(|name| resources.get(list).is_some_and(|of| of.get(name).is_some()))
    };
    of("requests") || of("limits")
}

/// GPUs that a unit of a resource is: of a MIG slice its compute slices, of the seven or (A30) four that a GPU has.
pub(super) fn unit(resource: &str) -> f64 {
    let parts = resource.strip_prefix(MIG).and_then(profile);
    parts.map_or(1.0, |(compute, memory)| {
        // The slices of an A30 have 6 GB a compute slice; two and four of an RTX PRO 6000 have 24.
        let of_four = memory == 6.0 * compute || (memory == 24.0 * compute && compute > 1.0);
        compute / if of_four { 4.0 } else { 7.0 }
    })
}

/// Compute slices and gigabytes of a MIG profile: `1g.10gb`, `1g.10gb.me`, `1c.3g.40gb`.
pub(super) fn profile(profile: &str) -> Option<(f64, f64)> {
    let number = |piece: Option<&str>, unit: &str| -> Option<f64> {
        piece?.strip_suffix(unit)?.parse().ok().filter(|number| (1.0..=1e6).contains(number))
    };
    let mut pieces = profile.split(['.', '+']);
    let first = pieces.next();
    // A part of the processors of a slice.
    let part = number(first, "c");
    let compute = if part.is_some() { number(pieces.next(), "g") } else { number(first, "g") };
    let memory = number(pieces.next(), "gb")?;
    Some((part.or(compute)?, memory))
}

/// Amounts of GPUs, CPU cores and memory by the name of the resource; `None` for an amount that is written and unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amounts(BTreeMap<Box<str>, Option<f64>>);

impl Amounts {
    /// Reads a map of resources; those that are neither GPUs, CPU nor memory are passed over. An amount that is no quantity, or
    /// negative, becomes unknown and is noted.
    pub(super) fn read(map: Option<&Value>, row: &mut RowAudit<'_>) -> Self {
        let mut amounts = Self::default();
        for (name, value) in map.and_then(Value::as_object).into_iter().flatten() {
            if !(is_gpu(name) || name == CPU || name == MEMORY) {
                continue;
            }
            let amount = quantity(value);
            let known = amount.filter(|amount| *amount >= 0.0);
            if known.is_none() {
                let reason = if amount.is_some() { reason::NEGATIVE } else { reason::NOT_A_NUMBER };
                row.repair(reason, name, &value.to_string());
            }
            amounts.0.insert(name.as_str().into(), known);
        }
        amounts
    }

    /// Counts the GPUs of a container that shares them by HAMi, which asks for `of(resource)`, as the part that it holds.
    pub(super) fn share(&mut self, of: impl Fn(&str) -> Option<f64>) {
        let some = |name: &str| of(name).filter(|amount| *amount > 0.0);
        let gpus = match self.0.get(GPU) {
            Some(gpus) => *gpus,
            // Asking for a part alone is asking for one of one GPU.
            None => Some(1.0),
        };
        if let Some(percent) = some(CORES).or_else(|| some(MEM_PERCENT)) {
            self.set_gpus(gpus.map(|gpus| gpus * (percent / 100.0).min(1.0)));
        } else if let Some(mebibytes) = some(MEM) {
            self.0.remove(GPU);
            self.0.insert(MEM.into(), gpus.map(|gpus| gpus * mebibytes));
        }
    }

    /// Counts memory of GPUs that is asked for as parts of GPUs with so many mebibytes.
    pub(super) fn settle_memory(&mut self, mebibytes: f64) {
        if let Some(request) = self.0.remove(MEM) {
            let part = request.map(|request| request / mebibytes);
            let gpus = self.0.get(GPU).copied().unwrap_or(Some(0.0));
            self.set_gpus(gpus.zip(part).map(|(gpus, part)| gpus + part));
        }
    }

    /// Adds GPUs that no resource names; `None` if how many is unknown.
    pub(super) fn set_gpus(&mut self, gpus: Option<f64>) {
        self.0.insert(GPU.into(), gpus);
    }

    /// Takes away a resource; gives how much of it there was, where that is known.
    pub(super) fn take(&mut self, resource: &str) -> Option<f64> {
        self.0.remove(resource).flatten()
    }

    /// Has the GPUs of `other`, whatever they were.
    pub(super) fn set_gpus_of(&mut self, other: &Self) {
        self.retain_others();
        let gpus = other.0.iter().filter(|(name, _)| is_gpu(name) || ***name == *MEM);
        self.0.extend(gpus.map(|(name, amount)| (name.clone(), *amount)));
    }

    /// Takes away all GPUs.
    pub(super) fn retain_others(&mut self) {
        self.0.retain(|name, _| !is_gpu(name));
    }

    /// Amount of a resource; 0 where it is not named, or unknown.
    pub(super) fn of(&self, resource: &str) -> f64 {
        self.0.get(resource).copied().flatten().unwrap_or(0.0)
    }

    /// Whether an amount of a resource is named, known or not.
    pub(super) fn asks_for(&self, resource: &str) -> bool {
        self.0.get(resource).is_some_and(|amount| *amount != Some(0.0))
    }

    /// Counts a resource in units of another size: `part` of one each.
    pub(super) fn scale(&mut self, resource: &str, part: f64) {
        if let Some(amount) = self.0.get_mut(resource) {
            *amount = amount.map(|amount| amount * part);
        }
    }

    /// Takes from `other` what is absent here.
    pub(super) fn or(mut self, other: Self) -> Self {
        for (name, amount) in other.0 {
            self.0.entry(name).or_insert(amount);
        }
        self
    }

    /// Adds `other`.
    pub(super) fn add(&mut self, other: &Self) {
        self.merge(other, |a, b| a + b);
    }

    /// Takes the larger of each amount.
    pub(super) fn raise(&mut self, other: &Self) {
        self.merge(other, f64::max);
    }

    /// Replaces what `other` names.
    pub(super) fn replace(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn merge(&mut self, other: &Self, join: fn(f64, f64) -> f64) {
        for (name, amount) in &other.0 {
            let entry = self.0.entry(name.clone()).or_insert(Some(0.0));
            *entry = entry.zip(*amount).map(|(a, b)| join(a, b));
        }
    }

    /// Returns the amounts times `many`.
    pub(super) fn times(mut self, many: f64) -> Self {
        for amount in self.0.values_mut() {
            *amount = amount.map(|amount| amount * many);
        }
        self
    }

    /// GPUs: 0 where none is named, unknown where an amount is.
    pub(super) fn gpus(&self) -> Option<f64> {
        if self.0.contains_key(MEM) {
            return None;
        }
        let mut amounts = self.0.iter().filter(|(name, _)| is_gpu(name));
        amounts.try_fold(0.0, |sum, (name, amount)| Some(sum + (*amount)? * unit(name)))
    }

    /// Profiles of MIG slices that have a resource of their own, and how many there are.
    pub(super) fn slices(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(name, amount)| Some((name.strip_prefix(MIG)?, amount.unwrap_or(0.0))))
    }

    /// Whether a GPU resource is named, even with 0.
    pub(super) fn names_gpus(&self) -> bool {
        self.0.keys().any(|name| is_gpu(name))
    }

    /// Whether GPUs are named, in a known amount or not.
    pub(super) fn has_gpus(&self) -> bool {
        self.gpu_names().next().is_some() || self.0.contains_key(MEM)
    }

    /// Names of the GPU resources of which there is something.
    pub(super) fn gpu_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(name, amount)| is_gpu(name) && **amount != Some(0.0)).map(|(name, _)| &**name)
    }

    /// CPU cores, where they are named.
    pub(super) fn cpus(&self) -> Option<f64> {
        self.0.get(CPU).copied().flatten().map(without_dust)
    }

    /// Memory in bytes, where it is named.
    pub(super) fn mem_bytes(&self) -> Option<i64> {
        self.0.get(MEMORY).copied().flatten().filter(|bytes| *bytes < 9e18).map(|bytes| bytes as i64)
    }
}

/// The type that a GPU resource alone names: a MIG slice names its profile.
pub(super) fn slice(resource: &str) -> Option<String> {
    resource.strip_prefix(MIG).map(|profile| format!("MIG-{profile}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_in_every_spelling() {
        for (value, number) in [
            (json!(2), 2.0),
            (json!("8"), 8.0),
            (json!("500m"), 0.5),
            (json!("4Gi"), 4_294_967_296.0),
            (json!("128Ki"), 131_072.0),
            (json!("1e3"), 1_000.0),
            (json!("1E3"), 1_000.0),
            (json!("1E"), 1e18),
            (json!("12e-1"), 1.2),
            (json!("+.5k"), 500.0),
            (json!("100M"), 1e8),
            (json!("-1"), -1.0),
            (json!("250n"), 2.5e-7),
        ] {
            assert_eq!(quantity(&value), Some(number), "{value}");
        }
        for none in [
            json!(""),
            json!("Gi"),
            json!("1 Gi"),
            json!("inf"),
            json!("1e"),
            json!("1e99"),
            json!("1Ei9"),
            json!(null),
        ] {
            assert_eq!(quantity(&none), None, "{none}");
        }
    }

    #[test]
    fn only_what_can_be_computed_on_is_a_gpu() {
        let mut row = RowAudit::new("f", 1);
        let map = json!({
            "nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu.shared": "1", "amd.com/gpu": "1",
            "gpu.intel.com/i915": "1", "gpu.intel.com/i915_monitoring": "1", "gpu.intel.com/memory.max": "16G",
            "nvidia.com/gpumem": "4000", "rdma/hca": "1"
        });
        let amounts = Amounts::read(Some(&map), &mut row);
        // 1 + 2/7 + 1 + 1 + 1.
        assert_eq!(
            (amounts.gpus().map(without_dust), amounts.cpus(), amounts.mem_bytes()),
            (Some(4.285_714), None, None)
        );
        assert_eq!(slice("nvidia.com/mig-1g.10gb").as_deref(), Some("MIG-1g.10gb"));
        assert!(row.is_clean());
    }

    #[test]
    fn a_slice_is_its_part_of_the_compute_slices_of_a_gpu() {
        for (name, parts) in [
            ("1g.5gb", 1.0 / 7.0),
            ("1g.10gb.me", 1.0 / 7.0),
            ("2g.20gb", 2.0 / 7.0),
            ("3g.71gb", 3.0 / 7.0),
            ("7g.80gb", 1.0),
            ("1c.3g.40gb", 1.0 / 7.0),
            ("1g.6gb", 0.25),
            ("4g.24gb", 1.0),
            ("2g.48gb", 0.5),
            ("1g.24gb", 1.0 / 7.0),
            ("odd", 1.0),
        ] {
            assert_eq!(unit(&format!("{MIG}{name}")), parts, "{name}");
        }
        assert_eq!(unit(GPU), 1.0);
    }

    #[test]
    fn a_container_that_shares_gpus_holds_a_part_of_them() {
        let of = |list: Value| {
            let mut amounts = Amounts::read(Some(&list), &mut RowAudit::new("f", 1));
            amounts.share(|name| list.get(name).and_then(quantity));
            amounts
        };
        for (list, gpus) in [
            (json!({GPU: 1, CORES: 25, MEM_PERCENT: 50}), Some(0.25)),
            (json!({GPU: 2, CORES: 25, MEM: 4_000}), Some(0.5)),
            (json!({GPU: 1, CORES: 0, MEM_PERCENT: 50}), Some(0.5)),
            (json!({CORES: 30}), Some(0.3)),
            (json!({GPU: 2, MEM: 4_096}), None),
        ] {
            let amounts = of(list.clone());
            assert_eq!((amounts.gpus(), amounts.has_gpus()), (gpus, true), "{list}");
        }
        let mut by_memory = of(json!({GPU: 2, MEM: 4_096}));
        by_memory.settle_memory(16_384.0);
        assert_eq!(by_memory.gpus(), Some(0.5));
    }

    #[test]
    fn an_amount_that_is_unknown_stays_so_in_sums() {
        let mut row = RowAudit::new("f", 1);
        let mut sum = Amounts::read(Some(&json!({"nvidia.com/gpu": "two", "cpu": "100m"})), &mut row);
        sum.add(&Amounts::read(Some(&json!({"nvidia.com/gpu": "1", "cpu": "200m", "memory": "-1"})), &mut row));
        assert_eq!((sum.gpus(), sum.cpus(), sum.mem_bytes()), (None, Some(0.3), None));
        assert!(sum.has_gpus() && !row.is_clean());
        assert_eq!(Amounts::default().gpus(), Some(0.0));
    }
}
