//! Power caps: energy for a unit of work and slow-down at each cap, as measured elsewhere, applied to the audited GPUs of the same type.
//!
//! **Form.** A folder of `summary_power_<type>.csv` with `dataset, network, batch_size, optimizer, power_limit` (W), `time_per_epoch` (s) and
//! `average_power` (W). A workload is what the first four name. The energy of an epoch is time × power; ratios are against the same workload at
//! the highest cap of its file, a workload without which is left out. Workloads weigh the same; quartiles say how they differ.
//!
//! **Applied.** Energy of GPUs held is multiplied by the ratio. It lies between what they drew above idle and that plus their idle power, as the
//! ledger does not tell idle power of GPUs at work from that of GPUs that wait. The saving is for all of it, at the median ratio; its bounds
//! take quartiles of the ratio and both ends of the energy. Types are met by name: `NVIDIA Tesla V100-SXM2-32GB` is `v100`, `V100S` is not.
//! Another type is taken only where the user says so (`--as`), which is told. Nodes that wait for slower jobs draw longer: that overhead is
//! told beside the saving, for a fleet that would otherwise switch those nodes off.
//!
//! Worked number: 100 s at 200 W are 20 kJ; under a cap 110 s at 150 W are 16.5 kJ: a ratio of 0.825 at a slow-down of 1.1. Of 40 kWh, 7 kWh are
//! saved and 10 % more GPU hours are held.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::account::{Account, Bounded};
use crate::energy::ledger::Use;
use crate::error::{Error, Result};
use crate::ingest::{Delimited, SourceFile};
use crate::quality::{Ledger as Quality, Reason};
use crate::schema::Table;
use crate::stats::quantile::{quantile_sorted, quantiles_in_place};
use crate::stats::sampled::Integrator;
use crate::stats::sum::NeumaierSum;
use crate::trace::Trace;

/// Energy ratios, time ratios and powers of the runs under a cap.
type Ratios = (Vec<f64>, Vec<f64>, Vec<f64>);

/// Prefix and suffix of the name of a file.
const PREFIX: &str = "summary_power_";
const SUFFIX: &str = ".csv";

/// A row that says nothing usable.
const NO_MEASUREMENT: Reason = Reason {
    id: "no_measurement",
    what: "the row lacks a cap, a time or a power above 0",
    remedy: "check the row in the source",
};

/// Quartiles over workloads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Quartiles {
    /// 25 % quantile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75 % quantile.
    pub p75: f64,
}

impl Quartiles {
    fn new(mut values: Vec<f64>) -> Option<Self> {
        match quantiles_in_place(&mut values, &[0.25, 0.5, 0.75]).as_slice() {
            [Some(p25), Some(p50), Some(p75)] => Some(Self { p25: *p25, p50: *p50, p75: *p75 }),
            _ => None,
        }
    }
}

/// One cap of one GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CapLine {
    /// The cap, W.
    pub cap_w: f64,
    /// Workloads measured at it and at the highest.
    pub workloads: u64,
    /// Energy for a unit of work, over that at the highest cap.
    pub energy_ratio: Quartiles,
    /// Time for a unit of work, over that at the highest cap.
    pub slowdown: Quartiles,
    /// Mean power, W, median of workloads.
    pub power_w: f64,
}

/// Measurements of one GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Study {
    /// GPU type, from the name of the file.
    pub gpu_type: String,
    /// The highest cap, W, which all is compared with.
    pub base_w: f64,
    /// Measurements by cap, lowest first.
    pub caps: Vec<CapLine>,
    /// Workloads left out, as they were not measured at the highest cap.
    pub left_out: u64,
    /// Rows that could not be used.
    pub rows_unusable: u64,
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Saving of one cap.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetLine {
    /// The cap, W, of the type measured.
    pub cap_w: f64,
    /// `cap_w` over the highest cap of the measured type, which carries over to other types.
    pub cap_ratio: f64,
    /// IT energy saved, kWh; below 0 where it would cost more.
    pub saved_kwh: Bounded,
    /// Saved energy over all IT energy audited.
    pub saved_share: Option<f64>,
    /// Carbon saved at the mean location-based intensity and the PUE, kg.
    pub saved_kg: Option<f64>,
    /// Time for a unit of work, over that at the highest cap, median.
    pub slowdown: f64,
    /// GPU hours held more.
    pub extra_gpu_hours: f64,
    /// Overhead of nodes for that time, kWh: lost from the saving where nodes would otherwise be off.
    pub extra_overhead_kwh: f64,
}

/// Savings of power caps for the GPUs of one type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fleet {
    /// GPU type of the trace; `null` if it does not tell.
    pub gpu_type: Option<String>,
    /// Type whose measurements are applied; `null` if there are none.
    pub studied_as: Option<String>,
    /// Whether the user named the studied type.
    pub mapped: bool,
    /// Share of the energy of all GPUs that these have, by their power readings; `null` if unknown.
    pub energy_share: Option<f64>,
    /// Savings by cap, lowest first.
    pub caps: Vec<FleetLine>,
    /// Why there is nothing, if so.
    pub why_not: Option<String>,
}

/// Power caps.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PowerCaps {
    /// Measurements by GPU type.
    pub studies: Vec<Study>,
    /// Savings for the audited GPUs.
    pub fleet: Vec<Fleet>,
}

/// Files of a folder in this form, in order of their names.
///
/// # Errors
/// When the folder cannot be read or holds none.
pub fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut result = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io("read", folder, e))? {
        let path = entry.map_err(|e| Error::io("read", folder, e))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        if let Some(gpu_type) = plain.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) {
            result.push((gpu_type.to_owned(), path));
        }
    }
    result.sort();
    if result.is_empty() {
        return Err(Error::Empty {
            source_name: folder.display().to_string(),
            what: format!("it holds no file {PREFIX}<GPU type>{SUFFIX}"),
            remedy: "name the folder with the power summaries of Zeus' trace".to_owned(),
        });
    }
    Ok(result)
}

/// Reads one file.
///
/// # Errors
/// When it cannot be read, lacks a column or holds no workload that was measured at the highest cap.
pub fn read(gpu_type: &str, path: &Path) -> Result<Study> {
    let file = SourceFile::new(path);
    let mut quality = Quality::default();
    let mut table = Delimited::open(&file, b',', &())?;
    let of_workload = [
        table.require("dataset")?,
        table.require("network")?,
        table.require("batch_size")?,
        table.require("optimizer")?,
    ];
    let (cap, time, power) =
        (table.require("power_limit")?, table.require("time_per_epoch")?, table.require("average_power")?);
    // By workload, by cap in milliwatts (so that it can be a key): seconds and watts.
    let mut workloads: BTreeMap<Vec<String>, BTreeMap<i64, (f64, f64)>> = BTreeMap::new();
    while let Some(mut record) = table.next_row(&mut quality) {
        let raw = record.raw();
        let known = |value: Option<f64>| value.filter(|value| *value > 0.0 && *value < 1e9);
        let cap_w = known(record.amount(Some(cap), "power_limit"));
        let seconds = known(record.amount(Some(time), "time_per_epoch"));
        let watts = known(record.amount(Some(power), "average_power"));
        let (Some(cap_w), Some(seconds), Some(watts)) = (cap_w, seconds, watts) else {
            quality.quarantine(&record.audit, NO_MEASUREMENT, "", raw);
            continue;
        };
        let workload = of_workload.iter().map(|at| record.text(Some(*at)).unwrap_or_default().to_owned()).collect();
        workloads.entry(workload).or_default().insert((cap_w * 1_000.0).round() as i64, (seconds, watts));
        quality.keep(record.audit);
    }
    table.finish(&mut quality);
    let base = workloads.values().filter_map(|caps| caps.keys().next_back()).max().copied();
    let Some(base) = base else {
        return Err(Error::format(file.name(), "no row has a cap, a time and a power", "export it again"));
    };
    let mut by_cap: BTreeMap<i64, Ratios> = BTreeMap::new();
    let mut left_out = 0;
    for caps in workloads.values() {
        let Some((base_s, base_w)) = caps.get(&base) else {
            left_out += 1;
            continue;
        };
        for (cap, (seconds, watts)) in caps {
            let (energy, slow, power) = by_cap.entry(*cap).or_default();
            energy.push(seconds * watts / (base_s * base_w));
            slow.push(seconds / base_s);
            power.push(*watts);
        }
    }
    let caps = by_cap.into_iter().filter_map(|(cap, (energy, slow, mut power))| {
        power.sort_by(f64::total_cmp);
        Some(CapLine {
            cap_w: cap as f64 / 1_000.0,
            workloads: energy.len() as u64,
            energy_ratio: Quartiles::new(energy)?,
            slowdown: Quartiles::new(slow)?,
            power_w: quantile_sorted(&power, 0.5)?,
        })
    });
    Ok(Study {
        gpu_type: gpu_type.to_owned(),
        base_w: base as f64 / 1_000.0,
        caps: caps.collect(),
        left_out,
        rows_unusable: quality.quarantined,
        path: path.to_path_buf(),
    })
}

/// The name of a GPU type without its maker, form and memory: `NVIDIA Tesla V100-SXM2-32GB` is `v100`.
pub fn plain_type(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let beside = |word: &str| {
        let memory =
            word.strip_suffix("gb").is_some_and(|size| !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit()));
        memory
            || matches!(
                word,
                "nvidia"
                    | "tesla"
                    | "quadro"
                    | "pcie"
                    | "sxm"
                    | "sxm2"
                    | "sxm3"
                    | "sxm4"
                    | "sxm5"
                    | "hgx"
                    | "dgx"
                    | "gpu"
            )
    };
    words.filter(|word| !beside(word)).collect()
}

/// GPU types of the fleet, each with its share of the energy of GPUs; one type (or none told) has all. The share is `None` where power
/// readings do not tell it: they lack, or a type of the inventory has none.
fn types(trace: &Trace) -> Vec<(Option<String>, Option<f64>)> {
    let (samples, nodes) = (&trace.gpu_samples, &trace.nodes);
    let sampled: BTreeSet<Option<&str>> = samples.gpu_type.iter().collect();
    // A node without GPUs has no type of GPU.
    let with_gpus = (0..nodes.len()).filter(|ix| nodes.gpus.get(*ix).is_none_or(|gpus| gpus > 0.0));
    let installed: BTreeSet<&str> = with_gpus.filter_map(|ix| nodes.gpu_type.get(ix)).collect();
    let plain: BTreeSet<String> = sampled.iter().flatten().map(|name| plain_type(name)).collect();
    let unread: Vec<&str> = installed.iter().copied().filter(|name| !plain.contains(&plain_type(name))).collect();
    let told = sampled.iter().flatten().copied().chain(unread.iter().copied());
    let mut names: BTreeSet<Option<String>> = told.map(|name| Some(name.to_owned())).collect();
    // Readings that do not tell their type are of one that the inventory does, if that is the only one.
    if names.is_empty() || (sampled.contains(&None) && names.len() > 1) {
        names.insert(None);
    }
    if names.len() == 1 {
        return names.into_iter().map(|name| (name, Some(1.0))).collect();
    }
    if !unread.is_empty() {
        return names.into_iter().map(|name| (name, None)).collect();
    }
    let mut energy: BTreeMap<Option<String>, NeumaierSum> =
        names.into_iter().map(|name| (name, NeumaierSum::new())).collect();
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|ix| (samples.node.code(*ix), samples.gpu.code(*ix), samples.ts.get(*ix)));
    let same =
        |a: usize, b: usize| samples.node.code(a) == samples.node.code(b) && samples.gpu.code(a) == samples.gpu.code(b);
    let mut integrator = Integrator::default();
    for gpu in order.chunk_by(|a, b| same(*a, *b)) {
        let mut points: Vec<(i64, f64)> =
            gpu.iter().filter_map(|ix| Some((samples.ts.get(*ix)?, samples.power_w.get(*ix)?))).collect();
        points.dedup_by_key(|point| point.0);
        let name = gpu.iter().find_map(|ix| samples.gpu_type.get(*ix)).map(str::to_owned);
        if let Some(sum) = energy.get_mut(&name) {
            sum.add(integrator.integrate(&points).value);
        }
    }
    let total: f64 = energy.values().map(|sum| sum.value()).sum();
    let shared = energy.into_iter().map(|(name, sum)| (name, (total > 0.0).then(|| sum.value() / total)));
    // Rows without a type that drew nothing are none of the fleet's.
    shared.filter(|(name, share)| name.is_some() || *share != Some(0.0)).collect()
}

/// Applies what was measured to what was audited; `taken_as` is the type the user takes others for.
///
/// # Errors
/// When nothing was measured of the type the user names.
pub fn apply(trace: &Trace, account: &Account, studies: Vec<Study>, taken_as: Option<&str>) -> Result<PowerCaps> {
    let find = |name: &str| studies.iter().find(|study| plain_type(&study.gpu_type) == plain_type(name));
    let known = || studies.iter().map(|study| study.gpu_type.as_str()).collect::<Vec<_>>().join(", ");
    let given = match taken_as {
        None => None,
        Some(name) => Some(find(name).ok_or_else(|| Error::Setting {
            setting: "--as".to_owned(),
            found: format!("nothing was measured of `{name}`"),
            remedy: format!("name one of {}", known()),
        })?),
    };
    let of = |spent_on: Use| {
        let line = account.by_use.iter().find(|line| line.spent_on == spent_on);
        line.map_or(0.0, |line| line.energy_kwh.value)
    };
    // Energy that is work or idle power counts as work once and as idle power once, as idle power does.
    let (active, idle) = (of(Use::Active), of(Use::IdleAllocated) + of(Use::Unsplit));
    let held_modelled: f64 = (account.by_use.iter())
        .filter(|line| [Use::Active, Use::Unsplit, Use::IdleAllocated].contains(&line.spent_on))
        .map(|line| line.energy_kwh.modelled)
        .sum();
    let held_overhead: f64 =
        account.by_vc.iter().filter(|charge| !charge.nobody).map(|charge| charge.overhead_kwh).sum();
    let mean_g = account.location.as_ref().and_then(|carbon| carbon.mean_g_per_kwh);
    let pue = account.pue.as_ref().map_or(1.0, |pue| pue.value);
    let fleet = types(trace).into_iter().map(|(gpu_type, energy_share)| {
        let exact = gpu_type.as_deref().and_then(find);
        let study = exact.or(given);
        let mapped = exact.is_none() && given.is_some();
        let why_not = match (study, energy_share) {
            (None, _) => Some(format!(
                "{}; measured are {}: say --as TYPE to take one of these for it",
                gpu_type.as_deref().map_or_else(
                    || "the trace does not tell the GPU type".to_owned(),
                    |name| format!("nothing was measured of {name}")
                ),
                known()
            )),
            (_, None) => {
                Some("the fleet has several GPU types, and power readings do not tell the energy of each".to_owned())
            }
            _ if active + idle <= 0.0 => Some("no energy of GPUs that jobs held is known".to_owned()),
            _ => None,
        };
        let part = energy_share.unwrap_or(0.0);
        let lines = study.filter(|_| why_not.is_none()).map(|study| {
            let line = |cap: &CapLine| {
                let saved = |ratio: f64, energy: f64| (1.0 - ratio) * energy * part;
                let ends = [cap.energy_ratio.p25, cap.energy_ratio.p75]
                    .into_iter()
                    .flat_map(|ratio| [saved(ratio, active), saved(ratio, active + idle)]);
                let value = saved(cap.energy_ratio.p50, active + idle);
                let saved_kwh = Bounded {
                    value,
                    lower: ends.clone().fold(value, f64::min),
                    upper: ends.fold(value, f64::max),
                    modelled: (1.0 - cap.energy_ratio.p50) * held_modelled * part,
                };
                let longer = (cap.slowdown.p50 - 1.0) * part;
                FleetLine {
                    cap_w: cap.cap_w,
                    cap_ratio: cap.cap_w / study.base_w,
                    saved_share: super::super::account::share(saved_kwh.value, account.it_kwh.value),
                    saved_kg: mean_g.map(|grams| saved_kwh.value * pue * grams / 1_000.0),
                    saved_kwh,
                    slowdown: cap.slowdown.p50,
                    extra_gpu_hours: account.allocated_gpu_hours * longer,
                    extra_overhead_kwh: held_overhead * longer,
                }
            };
            study.caps.iter().map(line).collect()
        });
        Fleet {
            studied_as: study.map(|study| study.gpu_type.clone()),
            mapped,
            energy_share,
            caps: lines.unwrap_or_default(),
            why_not,
            gpu_type,
        }
    });
    let fleet = fleet.collect();
    Ok(PowerCaps { studies, fleet })
}

#[cfg(test)]
#[path = "cap_tests.rs"]
mod tests;
