//! A trained predictor of sharing in one file: the table it learned from, and what it learned.
//!
//! It is asked about two jobs on a GPU type. A job is known by its **job type**; one that was never measured by its **family**, for which a stand-in of each
//! family (with the mean loads of its job types) is trained beside the others; one of which not even the family was measured by a stand-in of which nothing
//! is known. What was seen of the job itself, its loads and its memory, counts in place of that of its type. An unknown GPU type gives the widest interval;
//! one that is known by profiles alone is forecast from the others, and every answer says that no pair was measured there.
//!
//! Of a pair that was **measured** on the GPU type, the answer is moved to what was measured: with m measured, p forecast for the two types, and q forecast for
//! the two jobs under the loads that were seen, it is q + (m − p), and the quantiles move along. So more load still never makes a pair faster. A pair that was measured to fit,
//! or not to, has odds of not fitting that are e⁶ times lower, or higher. The order of the two jobs only swaps the answer.
//!
//! **File**: one line of JSON (format, version, what it was trained on, sections with their sizes and SHA-256), then the sections, each compressed with zstd: the
//! table as JSON, what was learned as numbers of 64 bits, which models forecast what as JSON, how the chance not to fit is calibrated as JSON, and speeds on MIG slices as JSON where these were given. Version 2 has no such choice and is read: all its models forecast everything. Version 3 has no slices, and does not say
//! how far it is off on a GPU type that was left out. Before version 5 the chance that a pair with a new family does not fit is not calibrated, and is answered as it was. An earlier version refuses a later file.
//!
//! O(members) an answer. Worked number: the types were forecast at 0.60 and measured at 0.66; a job that was seen to load the GPU more is forecast at 0.55, and 0.61
//! is answered.

use serde::{Deserialize, Serialize};
use tracecast_analytics::ingest::sha256;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::sum;

use super::alone::LOADS;
use super::backtest::MOST_STEPS;
use super::committee::{Chosen, Committee, PairForecast, Reaches, SLOWEST, SpeedForecast};
use super::memory::logistic;
use super::slice::SlicePredictor;
use super::table::{JobProfile, Quantity, SharedPair, SharingTable, Speeds, distinct, family_of_name};
use crate::error::{Error, Result};
use crate::model_file::Format;

mod group;
mod left_out;

pub use group::{GroupForecast, MOST_TOGETHER};

/// The file.
const FORMAT: Format = Format {
    name: "tracecast-sharing-model",
    version: 5,
    oldest: 2,
    longest: 1 << 30,
    of: "sharing",
    command: "tracecast model train interference",
};
/// The section that says which models forecast what, since version 3.
const CHOICE: &str = "choice";
/// The section that says how the chance not to fit is calibrated, since version 5.
const FITS: &str = "fits";
/// The section with speeds on slices, since version 4, where there are any.
const SLICES: &str = "slices";
/// Name of the stand-in for a job of which nothing is known; a file cannot name a job so, as blanks at the ends are cut off.
const ANYTHING: &str = " anything";
/// Names of stand-ins for a further job type of a family begin so.
const ANOTHER: &str = " another of ";
/// Shift of the log odds of not fitting for a pair that was measured.
const MEASURED: f64 = 6.0;

/// Record that a predictor was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SharingTrained {
    /// Seed of its draws.
    pub seed: u64,
    /// GPU types, those of which only profiles are known as well.
    pub gpu_types: Vec<String>,
    /// GPU types on which some pair was measured.
    #[serde(default)]
    pub measured_gpu_types: Vec<String>,
    /// Job types with at least one measured pair, or a profile.
    pub job_types: usize,
    /// Families of these.
    pub families: usize,
    /// Measured pairs.
    pub pairs: usize,
    /// Measured pairs that did not fit.
    pub did_not_fit: usize,
    /// Known quantities of jobs alone, by column.
    pub features: Vec<String>,
    /// Mean absolute error on families that were left out while it was trained; none where nothing could be left out.
    pub held_back_mae: Option<f64>,
    /// Mean absolute error on GPU types that were left out whole, each once; none where one alone was measured, there was too much to learn, or the file is of an earlier version.
    #[serde(default)]
    pub gpu_type_left_out_mae: Option<f64>,
    /// GPU types on which the chance that a pair with a new family does not fit is calibrated on families that were left out; elsewhere it was no better for that, or there was too little to test it on.
    #[serde(default)]
    pub oom_calibrated_gpu_types: Vec<String>,
    /// GPU type whose MIG slices were measured; none without these.
    #[serde(default)]
    pub slices_of: Option<String>,
    /// SHA-256 of the table as it stands in the file.
    pub table_sha256: String,
}

/// A trained predictor of sharing.
#[derive(Debug, Clone)]
pub struct SharingPredictor {
    table: SharingTable,
    /// Job types before the stand-ins.
    known: usize,
    committee: Committee,
    slices: Option<SlicePredictor>,
    trained: SharingTrained,
}

/// A job that is asked about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SharingJob {
    /// Job type.
    pub job_type: String,
    /// Family, where the name of the job type does not tell it.
    pub family: Option<String>,
    /// Observed quantities of the job, in place of its type's.
    pub seen: JobProfile,
}

impl SharingJob {
    /// A job of which nothing was seen.
    pub fn new(job_type: impl Into<String>) -> Self {
        Self { job_type: job_type.into(), ..Self::default() }
    }
}

/// Basis of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Nothing is known of the GPU type: the answer is a guess between all and nothing.
    Nothing,
    /// No pair was measured on the GPU type: the answer is carried over from others.
    OtherGpuTypes,
    /// Not even the family of one of the two jobs was measured.
    Stranger,
    /// Only other job types of the family were measured, for one of the two jobs or both.
    Family,
    /// Both job types were measured, beside others or on other GPU types.
    JobTypes,
    /// The pair was measured on this GPU type.
    Measured,
}

impl Basis {
    /// Basis in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: GPU type unknown",
            Self::OtherGpuTypes => "other GPU types alone",
            Self::Stranger => "no family measured",
            Self::Family => "family",
            Self::JobTypes => "both job types",
            Self::Measured => "measured pair",
        }
    }
}

/// GPU type, both jobs, and both speeds unless they did not fit.
type StoredPair = (usize, usize, usize, Option<(f64, f64)>);

/// A table as it stands in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    gpu_types: Vec<String>,
    /// Name and family.
    jobs: Vec<(String, String)>,
    /// GPU type, job, and a value for each quantity.
    profiles: Vec<(usize, usize, Vec<Option<f64>>)>,
    pairs: Vec<StoredPair>,
}

impl Stored {
    /// The first job types of a table, and all its pairs.
    fn new(table: &SharingTable, known: usize) -> Self {
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        let jobs = table.jobs().iter().enumerate().take(known);
        let mut profiles = Vec::new();
        for gpu in 0..table.gpu_types().len() {
            for job in 0..known {
                let profile = table.profile(gpu, job);
                if profile != JobProfile::default() {
                    profiles.push((gpu, job, Quantity::ALL.iter().map(|quantity| profile.get(*quantity)).collect()));
                }
            }
        }
        let pair = |pair: &SharedPair| (pair.gpu, pair.a, pair.b, pair.speeds.map(|speeds| (speeds.a, speeds.b)));
        Self {
            gpu_types: table.gpu_types().to_vec(),
            jobs: jobs.map(|(at, job)| (job.clone(), name(table.families(), table.family(at)))).collect(),
            profiles,
            pairs: table.pairs().iter().map(pair).collect(),
        }
    }

    /// The table; what is wrong with it in words.
    fn table(self) -> Result<SharingTable, String> {
        let mut table = SharingTable::new();
        for name in &self.gpu_types {
            table.gpu_type(name);
        }
        for (name, family) in &self.jobs {
            table.job_of_family(name, family);
        }
        let (gpus, jobs) = (self.gpu_types.len(), self.jobs.len());
        if table.gpu_types().len() != gpus || table.jobs().len() != jobs {
            return Err("a job type or a GPU type is named twice".to_owned());
        }
        for (gpu, job, values) in &self.profiles {
            if *gpu >= gpus || *job >= jobs || values.len() > Quantity::ALL.len() {
                return Err("a profile is of a job type or a GPU type that is not there".to_owned());
            }
            let mut profile = JobProfile::default();
            for (quantity, value) in Quantity::ALL.iter().zip(values) {
                profile.set(*quantity, *value);
            }
            table.set_profile(*gpu, *job, &profile);
        }
        let sound = |speed: f64| speed.is_finite() && speed > 0.0;
        let mut pairs = Vec::new();
        for (gpu, a, b, speeds) in self.pairs {
            let whole = speeds.is_none_or(|(a, b)| sound(a) && sound(b));
            if gpu >= gpus || a >= jobs || b >= jobs || !whole {
                return Err("a pair is of a job type or a GPU type that is not there, or has no speed".to_owned());
            }
            pairs.push(SharedPair { gpu, a, b, speeds: speeds.map(|(a, b)| Speeds { a, b }) });
        }
        table.add_pairs(pairs);
        Ok(with_stand_ins(&table.sorted()))
    }
}

/// The table with a stand-in for a further job type of each family, and one for anything else.
fn with_stand_ins(table: &SharingTable) -> SharingTable {
    let mut out = table.clone();
    let known = table.jobs().len();
    let mut loads = LOADS.to_vec();
    loads.push(Quantity::MemoryMb);
    for (at, family) in table.families().iter().enumerate() {
        let job = out.job_of_family(&format!("{ANOTHER}{family}"), family);
        for gpu in 0..table.gpu_types().len() {
            let mut profile = JobProfile::default();
            for quantity in &loads {
                let members = (0..known).filter(|job| table.family(*job) == at);
                let values: Vec<f64> = members.filter_map(|job| table.profile(gpu, job).get(*quantity)).collect();
                profile.set(*quantity, sum::mean(&values));
            }
            out.set_profile(gpu, job, &profile);
        }
    }
    out.job_of_family(ANYTHING, ANYTHING);
    out
}

/// GPU types on which some pair was measured.
fn measured_on(table: &SharingTable) -> Vec<String> {
    let places = distinct(table.pairs().iter().map(|pair| pair.gpu));
    places.iter().filter_map(|gpu| table.gpu_types().get(*gpu).cloned()).collect()
}

/// GPU types on which the chance not to fit is calibrated.
fn calibrated_on(table: &SharingTable, committee: &Committee) -> Vec<String> {
    let shifts = committee.shifts();
    let of = table.gpu_types().iter().zip(shifts);
    of.filter(|(_, shift)| shift.is_some()).map(|(name, _)| name.clone()).collect()
}

/// A pair to measure.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ToMeasure {
    /// GPU type.
    pub gpu_type: String,
    /// Job that little is known of.
    pub job_a: String,
    /// The job type beside which to measure it.
    pub job_b: String,
    /// Root mean square deviation expected between its speeds beside all job types and their
    /// forecasts, with the pairs before this one measured; by the models that forecast job types of
    /// which some pair was measured.
    pub deviation_before: f64,
    /// Root mean square deviation expected with this pair measured, too.
    pub deviation_after: f64,
}

impl SharingPredictor {
    /// Trains on all that a table has.
    ///
    /// # Errors
    /// If there are too few pairs, the model cannot be fitted, or there are more job types than can be fitted in a minute or two.
    pub fn train(table: &SharingTable, seed: u64) -> Result<Self> {
        let known = table.jobs().len();
        let stored = Stored::new(&table.clone().sorted(), known);
        let told = serde_json::to_vec(&stored).map_err(|error| Error::Defect(error.to_string()))?;
        let whole = stored.table().map_err(Error::Defect)?;
        let steps = left_out::steps(&whole);
        if steps > MOST_STEPS {
            let most = (table.jobs().len() as f64 * (MOST_STEPS / steps).cbrt()).floor();
            let reason = format!(
                "{} job types of {} families on {} GPU types take about {:.0} times the two minutes that a training may; measure about {most} job types, or one \
                 GPU type at a time",
                table.jobs().len(),
                table.families().len(),
                table.gpu_types().len(),
                (steps / MOST_STEPS).ceil()
            );
            return Err(Error::Learner { learner: "effects of jobs", reason });
        }
        let committee = Committee::new(&whole, seed)?;
        let is_known = |quantity: &Quantity| {
            (0..table.gpu_types().len())
                .any(|gpu| (0..table.jobs().len()).any(|job| table.profile(gpu, job).get(*quantity).is_some()))
        };
        let trained = SharingTrained {
            seed,
            gpu_types: table.gpu_types().to_vec(),
            measured_gpu_types: measured_on(table),
            job_types: table.jobs().len(),
            families: table.families().len(),
            pairs: table.pairs().len(),
            did_not_fit: table.pairs().iter().filter(|pair| pair.speeds.is_none()).count(),
            features: Quantity::ALL.iter().filter(|of| is_known(of)).map(|of| of.name().to_owned()).collect(),
            held_back_mae: committee.held_back_mae,
            gpu_type_left_out_mae: None,
            oom_calibrated_gpu_types: calibrated_on(&whole, &committee),
            slices_of: None,
            table_sha256: sha256(&told),
        };
        Ok(Self { known, table: whole, committee, slices: None, trained })
    }

    /// Adds the error on GPU types that are left out of its table entirely. It takes about as long
    /// as the training for each of them; where that is too much, nothing is tested.
    #[must_use]
    pub fn tested_elsewhere(mut self, table: &SharingTable) -> Self {
        self.trained.gpu_type_left_out_mae = left_out::mae(table, self.trained.seed);
        self
    }

    /// Adds a predictor of speeds on MIG slices.
    #[must_use]
    pub fn with_slices(mut self, slices: SlicePredictor) -> Self {
        self.trained.slices_of = Some(slices.gpu_type().to_owned());
        self.slices = Some(slices);
        self
    }

    /// Predictor of speeds on MIG slices, if any were measured.
    pub fn slices(&self) -> Option<&SlicePredictor> {
        self.slices.as_ref()
    }

    /// Record that the predictor was trained on.
    pub fn trained(&self) -> &SharingTrained {
        &self.trained
    }

    /// The GPU type as the measurements spell it, if they have it in capitals or not; else as it was asked for.
    pub fn gpu_type<'a>(&'a self, name: &'a str) -> &'a str {
        self.trained.gpu_types.iter().find(|known| known.eq_ignore_ascii_case(name)).map_or(name, String::as_str)
    }

    /// Whether some pair was measured on a GPU type, in capitals or not.
    pub fn is_measured_on(&self, gpu_type: &str) -> bool {
        self.trained.measured_gpu_types.iter().any(|known| known.eq_ignore_ascii_case(gpu_type))
    }

    /// Warning to give before any answer about a GPU type on which no pair was measured; none where
    /// some was.
    pub fn unmeasured(&self, gpu_type: &str) -> Option<String> {
        if self.is_measured_on(gpu_type) {
            return None;
        }
        let known = self.trained.gpu_types.iter().any(|known| known.eq_ignore_ascii_case(gpu_type));
        let how = if known {
            "What is forecast there is carried over by profiles"
        } else {
            "Nothing else is known of it, so its intervals are the widest"
        };
        let missed = self.trained.gpu_type_left_out_mae.filter(|_| known).map_or_else(String::new, |mae| {
            format!(
                " Of GPU types that were left out whole, each once, speeds were missed by {} of the speed alone, and intervals may be too narrow.",
                format::float(mae, 3)
            )
        });
        Some(format!(
            "**No pair was measured on GPU type {gpu_type}**; pairs were measured on {}. {how}.{missed}",
            self.trained.measured_gpu_types.join(", ")
        ))
    }

    /// Adds a sentence about each job type or family that it does not know to `notes`, each once.
    pub fn note_unknown(&self, job: &SharingJob, notes: &mut Vec<String>) {
        let mut note = |text: String| {
            if !notes.contains(&text) {
                notes.push(text);
            }
        };
        match self.place(job).1 {
            Basis::Stranger => note(format!("No pair of job type {} or of its family was measured.", job.job_type)),
            Basis::Family => {
                note(format!("No pair of job type {} was measured, but others of its family were.", job.job_type));
            }
            Basis::Nothing | Basis::OtherGpuTypes | Basis::JobTypes | Basis::Measured => {}
        }
    }

    /// Job types it knows.
    pub fn job_types(&self) -> &[String] {
        self.table.jobs().get(..self.known).unwrap_or_default()
    }

    /// The bytes of its file.
    ///
    /// # Errors
    /// If they cannot be packed.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let wrong = |reason: String| Error::Learner { learner: "predictor of sharing", reason };
        FORMAT.write(&self.trained, self.sections().map_err(wrong)?).map_err(wrong)
    }

    fn sections(&self) -> std::result::Result<Vec<(String, Vec<u8>)>, String> {
        let table = serde_json::to_vec(&Stored::new(&self.table, self.known)).map_err(|error| error.to_string())?;
        let numbers: Vec<u8> = self.committee.numbers().iter().flat_map(|number| number.to_le_bytes()).collect();
        let choice = serde_json::to_vec(&self.committee.choice()).map_err(|error| error.to_string())?;
        let fits = serde_json::to_vec(&self.committee.shifts()).map_err(|error| error.to_string())?;
        let slices = self.slices.as_ref().map(serde_json::to_vec).transpose().map_err(|error| error.to_string())?;
        let all = [
            ("table", Some(table)),
            ("numbers", Some(numbers)),
            (CHOICE, Some(choice)),
            (FITS, Some(fits)),
            (SLICES, slices),
        ];
        Ok(all.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes?))).collect())
    }

    /// The bytes of a file as version 2, 3 or 4 had it.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(super) fn to_bytes_of_version(&self, version: u32) -> Vec<u8> {
        let since = |name: &str| match name {
            CHOICE => 3,
            SLICES => 4,
            FITS => 5,
            _ => 2,
        };
        let sections = self.sections().unwrap().into_iter().filter(|(name, _)| since(name) <= version);
        let mut trained = serde_json::to_value(&self.trained).unwrap();
        let later = [
            (5, "oom_calibrated_gpu_types"),
            (4, "measured_gpu_types"),
            (4, "gpu_type_left_out_mae"),
            (4, "slices_of"),
        ];
        for (_, later) in later.into_iter().filter(|(since, _)| *since > version) {
            trained.as_object_mut().unwrap().remove(later).unwrap();
        }
        Format { version, ..FORMAT }.write(trained, sections).unwrap()
    }

    /// File whose section has other bytes, or is absent.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(super) fn to_bytes_with(&self, section: &str, bytes: Option<&[u8]>) -> Vec<u8> {
        let kept = self.sections().unwrap().into_iter().filter_map(|(name, own)| {
            let told = if name == section { bytes.map(<[u8]>::to_vec) } else { Some(own) };
            Some((name, told?))
        });
        FORMAT.write(&self.trained, kept).unwrap()
    }

    /// The predictor from the bytes of a file; `file` is what to call it in messages.
    ///
    /// # Errors
    /// If they are no such file, a damaged one, or one of a later version.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self> {
        let mut opened = FORMAT.open::<SharingTrained>(file, bytes)?;
        let (told, numbers) = (opened.take("table")?, opened.take("numbers")?);
        let stored: Stored = serde_json::from_slice(&told).map_err(|error| opened.refusal.damaged(error))?;
        let known = stored.jobs.len();
        let table = stored.table().map_err(|result| opened.refusal.damaged(result))?;
        let words = numbers.chunks_exact(8);
        let numbers: Vec<f64> =
            words.filter_map(|word| <[u8; 8]>::try_from(word).ok()).map(f64::from_le_bytes).collect();
        // Version 2 has none.
        let choice = if opened.has(CHOICE) { Some(opened.take_json::<(Chosen, Reaches)>(CHOICE)?) } else { None };
        // Before version 5 there is none.
        let shifts = if opened.version < 5 { Vec::new() } else { opened.take_json::<Vec<Option<f64>>>(FITS)? };
        if opened.version >= 5 && shifts.len() != table.gpu_types().len() {
            return Err(opened.refusal.damaged(format!(
                "it says of {} how the chance not to fit is calibrated, and its table has {}",
                format::counted(shifts.len() as u64, "GPU type", "GPU types"),
                table.gpu_types().len()
            )));
        }
        if shifts.iter().flatten().any(|shift| !shift.is_finite()) {
            return Err(opened.refusal.damaged("its chance not to fit is none".to_owned()));
        }
        let committee = Committee::restore(&table, &numbers, choice, &shifts)
            .ok_or_else(|| opened.refusal.damaged("its numbers are not those of its table".to_owned()))?;
        let slices = if opened.has(SLICES) { Some(opened.take_json::<SlicePredictor>(SLICES)?) } else { None };
        if slices.as_ref().is_some_and(|slices| !slices.is_sound()) {
            return Err(opened.refusal.damaged("its speeds on slices are none".to_owned()));
        }
        // Version 3 does not say it.
        let trained = SharingTrained { measured_gpu_types: measured_on(&table), ..opened.fields };
        Ok(Self { table, known, committee, slices, trained })
    }

    /// The job's place among job types and stand-ins, and how well it is known.
    fn place(&self, job: &SharingJob) -> (usize, Basis) {
        let find = |name: &str| self.table.jobs().iter().position(|known| known == name);
        let measured =
            |counts: &dyn Fn(usize) -> bool| self.table.pairs().iter().any(|of| counts(of.a) || counts(of.b));
        let of_family = |at: usize| {
            let family = self.table.family(at);
            if measured(&|other| self.table.family(other) == family) { Basis::Family } else { Basis::Stranger }
        };
        if let Some(at) = self.job_types().iter().position(|known| *known == job.job_type) {
            return (at, if measured(&|other| other == at) { Basis::JobTypes } else { of_family(at) });
        }
        let family = job.family.as_deref().unwrap_or_else(|| family_of_name(&job.job_type));
        if let Some(at) = find(&format!("{ANOTHER}{family}")) {
            return (at, of_family(at));
        }
        (find(ANYTHING).unwrap_or_default(), Basis::Stranger)
    }

    /// Profile of a job: observed quantities, else those of its type.
    fn profile(&self, gpu: usize, at: usize, job: &SharingJob) -> JobProfile {
        let mut profile = self.table.profile(gpu, at);
        for quantity in Quantity::ALL {
            if let Some(value) = job.seen.get(quantity) {
                profile.set(quantity, Some(value.max(0.0)));
            }
        }
        profile
    }

    /// The forecast for two jobs on a GPU type, and what it rests on.
    pub fn pair(&self, gpu_type: &str, a: &SharingJob, b: &SharingJob) -> (PairForecast, Basis) {
        let ((at_a, known_a), (at_b, known_b)) = (self.place(a), self.place(b));
        let Some(gpu) = self.table.gpu_types().iter().position(|known| known == gpu_type) else {
            // No GPU type has this place.
            return (self.committee.pair(usize::MAX, at_a, at_b), Basis::Nothing);
        };
        let (seen_a, seen_b) = (self.profile(gpu, at_a, a), self.profile(gpu, at_b, b));
        let mut told = self.committee.pair_with(gpu, (at_a, &seen_a), (at_b, &seen_b));
        let (low, high) = (at_a.min(at_b), at_a.max(at_b));
        // Pairs are in this order.
        let pairs = self.table.pairs();
        let result = pairs.binary_search_by(|pair| (pair.gpu, pair.a, pair.b).cmp(&(gpu, low, high)));
        let Some(measured) = result.ok().and_then(|at| pairs.get(at)) else {
            let known = known_a.min(known_b);
            return (told, if self.is_measured_on(gpu_type) { known } else { known.min(Basis::OtherGpuTypes) });
        };
        if let Some(speeds) = measured.speeds {
            let speeds = if at_a <= at_b { (speeds.a, speeds.b) } else { (speeds.b, speeds.a) };
            let types = self.committee.pair(gpu, at_a, at_b);
            self.move_by(&mut told.a, speeds.0 - types.a.mean);
            self.move_by(&mut told.b, speeds.1 - types.b.mean);
        }
        let chance = told.out_of_memory.clamp(1e-9, 1.0 - 1e-9);
        let odds = (chance / (1.0 - chance)).ln();
        told.out_of_memory = logistic(if measured.speeds.is_some() { odds - MEASURED } else { odds + MEASURED });
        (told, Basis::Measured)
    }

    /// The job types beside which to measure a job first, of those that it was not measured with: what they leave unknown is the least.
    ///
    /// # Errors
    /// If no pair was measured on the GPU type.
    pub fn to_measure(&self, gpu_type: &str, job: &SharingJob, count: usize) -> Result<Vec<ToMeasure>> {
        let pairs = self.table.pairs();
        let gpu = self.table.gpu_types().iter().position(|known| known == gpu_type);
        let Some(gpu) = gpu.filter(|gpu| pairs.iter().any(|pair| pair.gpu == *gpu)) else {
            return Err(Error::TooFew(format!(
                "no pair was measured on GPU type {gpu_type}, so none tells more than another; the model knows {}",
                self.trained.gpu_types.join(", ")
            )));
        };
        let (at, _) = self.place(job);
        let here = || pairs.iter().filter(move |pair| pair.gpu == gpu);
        let partners = distinct(here().flat_map(|pair| [pair.a, pair.b]).chain((at < self.known).then_some(at)));
        let is_measured = |partner: usize| here().any(|pair| (pair.a, pair.b) == (at.min(partner), at.max(partner)));
        let open: Vec<usize> = partners.iter().copied().filter(|partner| !is_measured(*partner)).collect();
        let mut wiser = self.committee.clone();
        let spread = |of: &Committee| {
            let squares: Vec<f64> =
                partners.iter().map(|other| of.deviation_once_measured(gpu, at, *other).powi(2)).collect();
            sum::mean(&squares).unwrap_or_default().sqrt()
        };
        let mut before = spread(&wiser);
        let mut result = Vec::new();
        for (_, partner) in self.committee.to_measure(gpu, &[at], &open, count) {
            wiser.looks_at(gpu, at, partner);
            let after = spread(&wiser);
            result.push(ToMeasure {
                gpu_type: gpu_type.to_owned(),
                job_a: job.job_type.clone(),
                job_b: self.table.jobs().get(partner).cloned().unwrap_or_default(),
                deviation_before: before,
                deviation_after: after,
            });
            before = after;
        }
        Ok(result)
    }

    fn move_by(&self, told: &mut SpeedForecast, by: f64) {
        let fastest = self.committee.fastest();
        told.mean = (told.mean + by).clamp(SLOWEST, fastest);
        for quantile in &mut told.quantiles {
            *quantile = (*quantile + by).clamp(0.0, fastest);
        }
    }
}
