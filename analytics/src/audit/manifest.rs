//! The manifest: what an audit was made from, so that a second auditor makes it again, byte for byte, and sees what differs if it does.
//!
//! It holds the inputs with their SHA-256, the options, the factors and the constants that set figures with their sources, the version of the program, the SHA-256 of the answer
//! as JSON and its headline figures. It holds no clock time and no machine name: the same inputs and options give the same manifest. Files are
//! named without their folders in `inputs`, and as they were typed in `options`; only what they hold is compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::factors::FactorRecord;
use super::name::base;
use crate::energy::constant::Constant;
use crate::energy::ledger::Use;
use crate::error::{Error, Result};
use crate::ingest::{SourceFile, sha256};
use crate::trace::SourceRecord;

/// Version of the form.
pub const SCHEMA: &str = "audit-manifest/2";
/// Differences listed, at most.
const MOST_DIFFERENCES: usize = 50;

/// A file that went in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Purpose: `source`, `mapping`, `factors`, `carbon`, `price`, `power_caps`.
    pub role: String,
    /// Name of the file, without its folder.
    pub name: String,
    /// Size on disk, bytes.
    pub size_bytes: u64,
    /// SHA-256 of the file as it lay on disk, hexadecimal.
    pub sha256: String,
}

impl Input {
    /// Reads and hashes a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(role: &str, path: &Path) -> Result<Self> {
        let file = SourceFile::new(path);
        Ok(Self { role: role.to_owned(), name: base(path), size_bytes: file.size_bytes()?, sha256: file.sha256()? })
    }

    /// Input record of a source file that was hashed while it was read.
    pub fn of_source(record: &SourceRecord) -> Self {
        Self {
            role: "source".to_owned(),
            name: base(&record.name),
            size_bytes: record.size_bytes,
            sha256: record.sha256.clone(),
        }
    }

    /// The files of a trace folder, in order of their names.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_folder(folder: &Path) -> Result<Vec<Self>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|e| Error::io("read", folder, e))? {
            let path = entry.map_err(|e| Error::io("read", folder, e))?.path();
            let is_table = path.extension().is_some_and(|extension| extension == "parquet");
            if is_table || path == folder.join("manifest.json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::new("source", path)).collect()
    }
}

/// Options of the audit, as typed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestOptions {
    /// Files, folders or patterns.
    pub sources: Vec<String>,
    /// Reader named.
    pub reader: Option<String>,
    /// Time zone named.
    pub timezone: Option<String>,
    /// Mapping files, each for all sources or as `SOURCE=FILE`.
    pub mapping: Vec<String>,
    /// Table of metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Metrics of series without a name, each of all sources or as `SOURCE=NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric: Vec<String>,
    /// Shards that a GPU holds in Slurm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards_per_gpu: Option<std::num::NonZeroU32>,
    /// Whether sources are of one cluster though years lie between them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_cluster: bool,
    /// Factor file.
    pub factors: Option<String>,
    /// File of carbon intensities.
    pub carbon: Option<String>,
    /// Grid zone.
    pub zone: Option<String>,
    /// File of prices.
    pub price: Option<String>,
    /// PUE.
    pub pue: Option<f64>,
    /// First moment, milliseconds since the epoch.
    pub from_ms: Option<i64>,
    /// Moment after the last, milliseconds since the epoch.
    pub to_ms: Option<i64>,
    /// Folder with measurements under power caps.
    pub power_caps: Option<String>,
    /// GPU type that others are taken for.
    pub taken_as: Option<String>,
    /// Patiences of idle reclaim, minutes.
    pub idle_after_min: Vec<f64>,
}

/// The answer, by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultRecord {
    /// Version of the answer's form.
    pub schema: String,
    /// Bytes of the answer as JSON.
    pub size_bytes: u64,
    /// SHA-256 of these bytes, hexadecimal.
    pub sha256: String,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditManifest {
    /// Version of this form.
    pub schema: String,
    /// Program and version.
    pub written_by: String,
    /// Options of the audit.
    pub options: ManifestOptions,
    /// Files that went in.
    pub inputs: Vec<Input>,
    /// Factors as they were used.
    pub factors: Vec<FactorRecord>,
    /// Constants of the method and of devices that set figures.
    pub constants: Vec<Constant>,
    /// The answer.
    pub result: ResultRecord,
    /// Headline figures.
    pub figures: BTreeMap<String, f64>,
}

/// The figures a reader would compare first.
fn figures(account: &Account) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            figures.insert(name.to_owned(), value);
        }
    };
    put("it_kwh", Some(account.it_kwh.value));
    put("it_kwh_at_least", Some(account.it_kwh.lower));
    put("it_kwh_at_most", Some(account.it_kwh.upper));
    put("it_metered_kwh", Some(account.it_kwh.metered()));
    put("it_modelled_kwh", Some(account.it_kwh.modelled));
    put("node_meters_read_kwh", account.node_meters.map(|meters| meters.read_kwh));
    put("node_meters_filled_kwh", account.node_meters.map(|meters| meters.filled_kwh));
    put("coverage", account.coverage);
    put("facility_kwh", account.facility_kwh.map(|energy| energy.value));
    put("location_based_kg", account.location.as_ref().and_then(|carbon| Some(carbon.kg?.value)));
    put("location_based_covered", account.location.as_ref().and_then(|carbon| carbon.covered));
    put("market_based_kg", account.market.as_ref().and_then(|carbon| Some(carbon.kg?.value)));
    put("cost", account.cost.as_ref().and_then(|cost| cost.total));
    put("cost_covered", account.cost.as_ref().and_then(|cost| cost.covered));
    put("water_l", account.water.as_ref().map(|water| water.litres.value));
    put("sci_g_per_gpu_hour", account.sci.as_ref().map(|sci| sci.g_per_gpu_hour.value));
    put("gpu_hours", Some(account.gpu_hours));
    put("allocated_gpu_hours", Some(account.allocated_gpu_hours));
    for line in &account.by_use {
        let name = match line.spent_on {
            Use::Active => "active_kwh",
            Use::Unsplit => "work_or_idle_kwh",
            Use::IdleAllocated => "idle_allocated_kwh",
            Use::IdleUnallocated => "idle_unallocated_kwh",
            Use::NodeIdleAllocated => "node_idle_allocated_kwh",
            Use::NodeIdleUnallocated => "node_idle_unallocated_kwh",
            Use::Overhead => "overhead_kwh",
            Use::Residual => "residual_kwh",
        };
        put(name, Some(line.energy_kwh.value));
    }
    figures
}

impl AuditManifest {
    /// Manifest of an audit whose answer has the JSON form `answer`.
    pub fn new(
        options: ManifestOptions,
        inputs: Vec<Input>,
        (factors, constants): (Vec<FactorRecord>, Vec<Constant>),
        account: &Account,
        (schema, answer): (&str, &[u8]),
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            written_by: format!("tracecast {}", env!("CARGO_PKG_VERSION")),
            options,
            inputs,
            factors,
            constants,
            result: ResultRecord { schema: schema.to_owned(), size_bytes: answer.len() as u64, sha256: sha256(answer) },
            figures: figures(account),
        }
    }

    /// Encodes the manifest as JSON with a final line end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| Error::Json {
            action: "write",
            path: "manifest".into(),
            source,
        })?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a manifest at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is of another form.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::storage::read_text(path)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a manifest called `file`.
    ///
    /// # Errors
    /// When it is of another form.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let remedy = "name a manifest that `tracecast audit --manifest` wrote";
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let other = |error: &serde_json::Error| Error::Format {
            file: file.to_owned(),
            line: Some(error.line() as u64),
            column: None,
            found: error.to_string(),
            remedy: remedy.to_owned(),
        };
        let head: Head = serde_json::from_str(text).map_err(|error| other(&error))?;
        if head.schema != SCHEMA {
            return Err(Error::format(file, format!("its form is {} and not {SCHEMA}", head.schema), remedy));
        }
        serde_json::from_str(text).map_err(|error| other(&error))
    }

    /// Lists the differences from another audit, one line each; empty if there are none. Options
    /// are not compared: files may lie elsewhere.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.written_by != other.written_by {
            found.push(format!("made by {}, now by {}", self.written_by, other.written_by));
        }
        inputs(&self.inputs, &other.inputs, &mut found);
        records(&self.factors, &other.factors, &mut found);
        constants(&self.constants, &other.constants, &mut found);
        for (name, was) in &self.figures {
            match other.figures.get(name) {
                Some(now) if was == now => {}
                Some(now) => found.push(format!("figure {name}: was {was}, is {now}")),
                None => found.push(format!("figure {name}: was {was}, is not there")),
            }
        }
        for (name, now) in other.figures.iter().filter(|(name, _)| !self.figures.contains_key(*name)) {
            found.push(format!("figure {name}: was not there, is {now}"));
        }
        if self.result != other.result {
            found.push(format!(
                "answer: was {} bytes with SHA-256 {}, is {} bytes with {}",
                self.result.size_bytes, self.result.sha256, other.result.size_bytes, other.result.sha256
            ));
        }
        if found.len() > MOST_DIFFERENCES {
            let more = found.len() - MOST_DIFFERENCES;
            // The last line is the answer's own, which says that it is another.
            let last = found.pop();
            found.truncate(MOST_DIFFERENCES - 1);
            found.push(format!("{more} more"));
            found.extend(last);
        }
        found
    }
}

/// Inputs are the same if there are the same contents for the same roles, wherever they lie and whatever they are called.
fn inputs(before: &[Input], now: &[Input], result: &mut Vec<String>) {
    let key = |input: &Input| (input.role.clone(), input.sha256.clone(), input.size_bytes);
    let mut left: Vec<&Input> = now.iter().collect();
    let mut gone: Vec<&Input> = Vec::new();
    for input in before {
        match left.iter().position(|other| key(other) == key(input)) {
            Some(at) => {
                left.remove(at);
            }
            None => gone.push(input),
        }
    }
    for input in gone {
        // A file of the same name and role is that file, changed.
        let twin = left.iter().position(|other| other.role == input.role && other.name == input.name);
        if let Some(at) = twin {
            let other = left.remove(at);
            result.push(format!(
                "input {} ({}): was {} bytes with SHA-256 {}, is {} bytes with {}",
                input.name, input.role, input.size_bytes, input.sha256, other.size_bytes, other.sha256
            ));
        } else {
            result.push(format!("input {} ({}): is not there", input.name, input.role));
        }
    }
    result.extend(left.iter().map(|input| format!("input {} ({}): was not there", input.name, input.role)));
}

fn records(before: &[FactorRecord], now: &[FactorRecord], result: &mut Vec<String>) {
    for (at, was) in before.iter().enumerate() {
        match now.get(at) {
            Some(is) if was == is => {}
            Some(is) if was.name == is.name && was.value == is.value => {
                result.push(format!("factor {}: the source stated for it has changed", was.name));
            }
            Some(is) if was.name == is.name => {
                result.push(format!("factor {}: was {}, is {}", was.name, was.value, is.value));
            }
            Some(is) => {
                result.push(format!("factor {} ({}): in its place is {} ({})", was.name, was.value, is.name, is.value));
            }
            None => result.push(format!("factor {}: was {}, is not there", was.name, was.value)),
        }
    }
    for is in now.iter().skip(before.len()) {
        result.push(format!("factor {}: was not there, is {}", is.name, is.value));
    }
}

fn constants(before: &[Constant], now: &[Constant], result: &mut Vec<String>) {
    let same = |constants: &[Constant], name: &str| constants.iter().find(|one| one.name == name).cloned();
    for was in before {
        match same(now, &was.name) {
            Some(is) if is == *was => {}
            Some(is) if is.value == was.value => {
                result.push(format!("constant {}: the source stated for it has changed", was.name));
            }
            Some(is) => result.push(format!("constant {}: was {}, is {}", was.name, was.value, is.value)),
            None => result.push(format!("constant {}: was {}, is not there", was.name, was.value)),
        }
    }
    for is in now.iter().filter(|is| same(before, &is.name).is_none()) {
        result.push(format!("constant {}: was not there, is {}", is.name, is.value));
    }
}

/// Inputs of a request: the files of trace folders, and the files that were read beside them.
///
/// # Errors
/// When they cannot be read.
pub fn of_sources(folders: &[PathBuf], read: &[SourceRecord]) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for folder in folders {
        inputs.extend(Input::of_folder(folder)?);
    }
    inputs.extend(read.iter().map(Input::of_source));
    Ok(inputs)
}

/// The JSON Schema of [`AuditManifest`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(AuditManifest).to_value()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::audit::account::account;
    use crate::audit::factors::Loaded;
    use crate::energy::ledger::EnergyLedger;

    fn manifest(answer: &[u8]) -> AuditManifest {
        let input = |role: &str, name: &str, sha: &str| Input {
            role: role.into(),
            name: name.into(),
            size_bytes: 1,
            sha256: sha.into(),
        };
        let factor = FactorRecord { name: "PUE".into(), value: "1.2".into(), source: None };
        let options = ManifestOptions { sources: vec!["a".into()], pue: Some(1.2), ..ManifestOptions::default() };
        let inputs = vec![input("source", "jobs.csv", "aa"), input("carbon", "de.csv", "bb")];
        AuditManifest::new(
            options,
            inputs,
            (vec![factor], vec![Constant::new("Gap", "3 periods", "choice", true)]),
            &account(&EnergyLedger::default(), &Loaded::default()),
            ("audit/1", answer),
        )
    }

    #[test]
    fn what_is_written_is_read_back_and_the_same_is_the_same() {
        let made = manifest(b"abc");
        // SHA-256 of "abc", from FIPS 180-2.
        assert_eq!(made.result.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let back = AuditManifest::parse("m.json", &made.to_json().unwrap()).unwrap();
        assert_eq!(back, made);
        assert!(made.differences(&back).is_empty());
        // Elsewhere, under another name: still the same.
        let mut moved = made.clone();
        moved.options.sources = vec!["/elsewhere/a".into()];
        moved.inputs[0].name = "other.csv".into();
        assert!(made.differences(&moved).is_empty());
    }

    #[test]
    fn each_difference_is_named() {
        let made = manifest(b"abc");
        let mut other = manifest(b"abd");
        other.inputs[0].sha256 = "cc".into();
        other.inputs.remove(1);
        other.factors[0].value = "1.3".into();
        other.figures.insert("it_kwh".into(), 7.0);
        let result = made.differences(&other);
        for part in [
            "input jobs.csv (source): was 1 bytes with SHA-256 aa, is 1 bytes with cc",
            "input de.csv (carbon): is not there",
            "factor PUE: was 1.2, is 1.3",
            "figure it_kwh: was 0, is 7",
            "answer: was 3 bytes",
        ] {
            assert!(result.iter().any(|line| line.starts_with(part)), "{part}: {result:?}");
        }
        assert_eq!(result.len(), 5);
    }

    #[test]
    fn another_file_is_not_a_manifest() {
        let why = AuditManifest::parse("x.json", "{\"schema\": \"trace/1\"}").unwrap_err().to_string();
        assert!(why.contains("trace/1 and not audit-manifest/2") && why.contains("--manifest"), "{why}");
        assert!(AuditManifest::parse("x.json", "{").unwrap_err().to_string().starts_with("x.json, line 1"));
    }
}
