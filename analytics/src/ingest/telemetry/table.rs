//! The table of metrics: what the metrics of exporters and tools mean, in what unit, and which labels say what.
//!
//! `analytics/metrics.toml` is part of the program; a file of the same form (`--metrics FILE`) adds to it and goes before
//! it. A metric has a quantity ([`Quantity`]), a unit of that quantity's kind, and, where its labels tell several apart,
//! `where`. Names are compared without regard to case.
//!
//! Worked number: `nvidia_gpu_power_usage_milliwatts 200000` is `gpu_power` with unit `mW`, so 200 W. O(1) to look a name
//! up, done once a series or line.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::label::Labels;
use super::metric::Quantity;
use super::role::Roles;
use crate::error::{Error, Result};
use crate::ingest::options::ReadOptions;
use crate::ingest::unit::factor;

/// The bundled table.
const BUNDLED: &str = include_str!("../../../metrics.toml");
/// Pointer to the manual, for error messages.
const MANUAL: &str = "see cli/guide/formats.md";

static BUNDLED_TABLE: LazyLock<Arc<MetricTable>> = LazyLock::new(|| {
    // A test holds that the bundled table is right.
    Arc::new(MetricTable::parse("metrics.toml", BUNDLED, None).unwrap_or_default())
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    #[serde(default)]
    labels: Roles,
    #[serde(default)]
    exporter: Vec<ExporterSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExporterSpec {
    name: String,
    #[serde(default)]
    labels: Roles,
    /// Prefixes of names, beside those in `metrics`.
    #[serde(default = "no_prefix")]
    prefixes: Vec<String>,
    /// Units as the values themselves write them, and what they are.
    #[serde(default)]
    unit_names: BTreeMap<String, String>,
    no_reading_from: Option<f64>,
    metrics: Vec<MetricSpec>,
}

fn no_prefix() -> Vec<String> {
    vec![String::new()]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricSpec {
    name: String,
    #[serde(default, rename = "where")]
    only: BTreeMap<String, String>,
    quantity: String,
    unit: Option<String>,
    meter: Option<String>,
    #[serde(default)]
    part: bool,
    no_reading_from: Option<f64>,
}

/// A metric, or one of several that its labels tell apart.
#[derive(Debug)]
pub(super) struct Metric {
    /// Name as the table writes it.
    pub(super) name: String,
    /// Quantity measured.
    pub(super) quantity: Quantity,
    /// Roles of the labels.
    pub(super) roles: Arc<Roles>,
    /// Name of the meter, where the labels do not tell it or tell its number.
    pub(super) meter: Option<String>,
    /// Whether the metric is a part of the quantity, to be added to the other parts.
    pub(super) part: bool,
    /// Place in the table: of two metrics of one quantity, the lower counts.
    pub(super) rank: u32,
    /// Values from here on are no readings.
    pub(super) no_reading_from: f64,
    only: Vec<(String, String)>,
    factor: f64,
    /// Units that values may carry, and their factors.
    units: Arc<Vec<(String, String)>>,
}

impl Metric {
    /// Splits `text` into its number and a value's factor: that of the unit which the text carries, else the metric's.
    pub(super) fn number_and_factor<'v>(&self, text: &'v str) -> (&'v str, f64) {
        let text = text.trim();
        let own = |unit: &str| {
            let named = self.units.iter().find(|(written, _)| written == unit).map(|(_, name)| name.as_str());
            factor(self.quantity.column(), named.unwrap_or(unit)).ok()
        };
        let at = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(text.len(), |at| at + 1);
        match text.split_at_checked(at) {
            Some((number, unit)) if !unit.is_empty() => match own(unit.trim()) {
                Some(factor) => (number, factor),
                None => (text, self.factor),
            },
            _ => (text, self.factor),
        }
    }

    /// Whether this is the metric of a series with these labels.
    fn is_of(&self, labels: &Labels) -> bool {
        self.only.iter().all(|(label, value)| labels.get(&[label.as_str()]).unwrap_or_default() == value)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MetricTable {
    metrics: Vec<Metric>,
    by_name: HashMap<String, Vec<usize>>,
    labels: Roles,
    /// The table to look into for what is not here.
    rest: Option<Arc<MetricTable>>,
}

impl MetricTable {
    /// The bundled table.
    pub(super) fn bundled() -> Arc<Self> {
        Arc::clone(&BUNDLED_TABLE)
    }

    /// The bundled table, with what the user's own adds.
    ///
    /// # Errors
    /// When the user's cannot be read or is wrong.
    pub(super) fn load(options: &ReadOptions<'_>) -> Result<Arc<Self>> {
        let bundled = Self::bundled();
        let Some(path) = &options.metrics else { return Ok(bundled) };
        let text = crate::storage::read_text(path)?;
        let mut table = Self::parse(&path.display().to_string(), &text, Some(&bundled.labels))?;
        table.rest = Some(bundled);
        Ok(Arc::new(table))
    }

    /// Checks that the table in `path` is right.
    ///
    /// # Errors
    /// When it is not, or cannot be read.
    pub(super) fn check(path: &Path) -> Result<()> {
        let text = crate::storage::read_text(path)?;
        Self::parse(&path.display().to_string(), &text, Some(&Self::bundled().labels)).map(|_| ())
    }

    fn parse(file: &str, text: &str, general: Option<&Roles>) -> Result<Self> {
        // What a user's table says goes before what the bundled one does.
        let first_rank = if general.is_some() { 0 } else { u32::MAX / 2 };
        let spec: FileSpec = toml::from_str(text).map_err(|e| {
            let before = e.span().and_then(|span| text.get(..span.start));
            Error::Format {
                file: file.to_owned(),
                line: before.map(|before| before.matches('\n').count() as u64 + 1),
                column: None,
                found: e.message().to_owned(),
                remedy: MANUAL.to_owned(),
            }
        })?;
        let labels = general.map_or_else(|| spec.labels.clone(), |general| spec.labels.over(general));
        let mut table = Self { labels: labels.clone(), ..Self::default() };
        for exporter in spec.exporter {
            let roles = Arc::new(exporter.labels.over(&labels));
            let units: Arc<Vec<(String, String)>> = Arc::new(exporter.unit_names.into_iter().collect());
            for metric in exporter.metrics {
                let wrong = |found: String, remedy: String| {
                    Error::format(
                        file,
                        format!("exporter `{}`, metric `{}`: {found}", exporter.name, metric.name),
                        remedy,
                    )
                };
                let quantity = Quantity::named(&metric.quantity).ok_or_else(|| {
                    wrong(
                        format!("there is no quantity `{}`", metric.quantity),
                        format!("use one of {}", Quantity::names()),
                    )
                })?;
                let factor = match (&metric.unit, quantity.has_unit()) {
                    (Some(unit), true) => factor(quantity.column(), unit)
                        .map_err(|known| wrong(format!("unit `{unit}`"), format!("use one of {known}")))?,
                    (None, false) => 1.0,
                    (Some(_), false) => {
                        return Err(wrong(
                            "it has a unit, and its quantity has none".to_owned(),
                            "leave out unit".to_owned(),
                        ));
                    }
                    (None, true) => {
                        let known = factor(quantity.column(), "").err().unwrap_or_default();
                        return Err(wrong("its unit is missing".to_owned(), format!("add unit = one of {known}")));
                    }
                };
                for prefix in &exporter.prefixes {
                    let name = format!("{prefix}{}", metric.name);
                    let ix = table.metrics.len();
                    table.by_name.entry(name.to_lowercase()).or_default().push(ix);
                    table.metrics.push(Metric {
                        name,
                        quantity,
                        roles: Arc::clone(&roles),
                        meter: metric.meter.clone(),
                        part: metric.part,
                        rank: first_rank.saturating_add(u32::try_from(ix).unwrap_or(u32::MAX)),
                        no_reading_from: metric.no_reading_from.or(exporter.no_reading_from).unwrap_or(f64::INFINITY),
                        only: metric.only.clone().into_iter().collect(),
                        factor,
                        units: Arc::clone(&units),
                    });
                }
            }
        }
        Ok(table)
    }

    /// The metric called `name` of a series with these labels.
    pub(super) fn find(&self, name: &str, labels: &Labels) -> Option<&Metric> {
        let result = self.by_name.get(&name.to_lowercase()).into_iter().flatten();
        let here = result.filter_map(|ix| self.metrics.get(*ix)).find(|metric| metric.is_of(labels));
        here.or_else(|| self.rest.as_ref()?.find(name, labels))
    }

    /// Whether some metric is called `name`, whatever its labels.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.by_name.contains_key(&name.to_lowercase()) || self.rest.as_ref().is_some_and(|rest| rest.knows(name))
    }

    /// The name of the metric that stands in `text` (a file name); the longest if several do.
    pub(super) fn within(&self, text: &str) -> Option<&str> {
        let text = text.to_lowercase();
        let is_edge = |next: Option<char>| !next.is_some_and(char::is_alphanumeric);
        let stands = |name: &str| {
            text.match_indices(name).any(|(at, _)| {
                let (before, after) = (text.get(..at), text.get(at + name.len()..));
                is_edge(before.and_then(|before| before.chars().next_back()))
                    && is_edge(after.and_then(|after| after.chars().next()))
            })
        };
        let here = self.metrics.iter().filter(|metric| stands(&metric.name.to_lowercase()));
        let longest = here.max_by_key(|metric| metric.name.len()).map(|metric| metric.name.as_str());
        longest.or_else(|| self.rest.as_ref()?.within(&text))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::metric::GpuField;
    use super::super::role::Role;
    use super::*;

    fn parse(text: &str) -> Result<MetricTable> {
        MetricTable::parse("m.toml", text, Some(&MetricTable::bundled().labels))
    }

    #[test]
    fn the_bundled_table_is_right_and_no_entry_hides_another() {
        let table = MetricTable::parse("metrics.toml", BUNDLED, None).unwrap();
        assert!(table.metrics.len() > 150, "{}", table.metrics.len());
        for (name, result) in &table.by_name {
            let conditions: Vec<_> = result.iter().map(|ix| &table.metrics[*ix].only).collect();
            let last = conditions.len() - 1;
            assert!(conditions[..last].iter().all(|only| !only.is_empty()), "{name} stands twice");
        }
        for role in [Role::Node, Role::Gpu, Role::Job, Role::Pod, Role::Meter, Role::Queue, Role::Cluster] {
            assert!(!table.labels.names(role).is_empty(), "{role:?}");
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_by_their_labels() {
        let table = MetricTable::bundled();
        let labels = |pairs: &[(&str, &str)]| {
            Labels(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let find = |name: &str, pairs: &[(&str, &str)]| table.find(name, &labels(pairs)).map(|metric| metric.quantity);
        assert_eq!(find("dcgm_fi_dev_gpu_util", &[]), Some(Quantity::Gpu(GpuField::Util)));
        assert_eq!(find("AMD_GPU_GFX_ACTIVITY", &[]), Some(Quantity::Gpu(GpuField::Util)));
        assert_eq!(find("slurm_job_pcie_gpu", &[("Direction", "TX")]), Some(Quantity::Gpu(GpuField::PcieSent)));
        assert_eq!(find("slurm_job_pcie_gpu", &[]), None);
        assert!(table.knows("slurm_job_pcie_gpu") && !table.knows("up"));
    }

    #[test]
    fn the_longest_name_in_a_file_name_wins() {
        let table = MetricTable::bundled();
        assert_eq!(table.within("dump_dcgm_fi_dev_power_usage_1.json"), Some("DCGM_FI_DEV_POWER_USAGE"));
        assert_eq!(table.within("DCGM_FI_DEV_POWER_USAGE_INSTANT"), Some("DCGM_FI_DEV_POWER_USAGE_INSTANT"));
        assert_eq!(table.within("power.json"), None);
    }

    #[test]
    fn a_users_table_goes_before_and_mistakes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.toml");
        let text = "[[exporter]]\nname = \"ours\"\nlabels = { gpu = [\"slot\"] }\nmetrics = [\n  \
                    { name = \"rack_power\", quantity = \"node_power\", unit = \"kW\", meter = \"Node Power\" },\n  \
                    { name = \"gpu_power_usage\", quantity = \"gpu_power\", unit = \"mW\" },\n]\n";
        std::fs::write(&path, text).unwrap();
        let options = ReadOptions { metrics: Some(path), ..ReadOptions::default() };
        let table = MetricTable::load(&options).unwrap();
        let none = Labels::default();
        assert_eq!(table.find("RACK_POWER", &none).unwrap().number_and_factor("1.5"), ("1.5", 1e3));
        let ours = table.find("gpu_power_usage", &none).unwrap();
        assert_eq!((ours.number_and_factor("5").1, ours.roles.names(Role::Gpu)), (1e-3, &["slot".to_owned()][..]));
        assert!(!ours.roles.names(Role::Node).is_empty() && table.knows("DCGM_FI_DEV_GPU_UTIL"));
        for (metric, told) in [
            ("quantity = \"power\", unit = \"W\"", "no quantity `power`"),
            ("quantity = \"gpu_power\"", "unit is missing; add unit = one of"),
            ("quantity = \"gpu_power\", unit = \"MiB\"", "unit `MiB`; use one of mW, W, kW"),
            ("quantity = \"gpu_job\", unit = \"W\"", "leave out unit"),
            ("quantity = \"gpu_power\", unti = \"W\"", "line 4"),
        ] {
            let text = format!("[[exporter]]\nname = \"x\"\nmetrics = [\n  {{ name = \"m\", {metric} }},\n]\n");
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_value_may_carry_its_unit() {
        let table = MetricTable::bundled();
        let of = |name: &str| table.find(name, &Labels::default()).unwrap();
        assert_eq!(of("utilization.gpu").number_and_factor(" 12 %"), ("12", 0.01));
        assert_eq!(of("memory.used").number_and_factor("1024 MiB"), ("1024", 1_048_576.0));
        assert_eq!(of("memory.used").number_and_factor("1024"), ("1024", 1_048_576.0));
        assert_eq!(of("mem_usage/used_vram").number_and_factor("3 MB"), ("3", 1_048_576.0));
        assert_eq!(of("energy/total_energy_consumption").number_and_factor("2 kJ"), ("2", 1e3));
        assert_eq!(of("power.draw").number_and_factor("ERR!"), ("ERR!", 1.0));
        assert_eq!(of("power.draw").number_and_factor("12 parsec"), ("12 parsec", 1.0));
    }
}
