//! `tracecast audit`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use tracecast_analytics::audit::account::account;
use tracecast_analytics::audit::answer::{Answer, Beside, SCHEMA};
use tracecast_analytics::audit::factors::{self, Factors, Location, Method, Price, Pue, Values};
use tracecast_analytics::audit::ledger::Ledger;
use tracecast_analytics::audit::manifest::{self, Input, Manifest, Options};
use tracecast_analytics::audit::whatif::cap;
use tracecast_analytics::audit::whatif::reclaim::{self, Reclaim};
use tracecast_analytics::audit::{meter, stream};
use tracecast_analytics::describe::HolderSource;
use tracecast_analytics::ingest;
use tracecast_analytics::report::Section;
use tracecast_analytics::time::{MINUTE_MS, Zone};
use tracecast_analytics::{Trace, storage};

use crate::args::{Reading, duration, moment};
use crate::cmd::answer::Answering;
use crate::cmd::describe;
use crate::{output, source};

/// How to name what a factor file holds.
const FACTOR_FILE: &str = "\
A factor file (TOML) says what turns energy into carbon and money. All of it is optional; a figure
without its factor is left out and says so. Every table takes source = \"...\", for the manifest.
  [pue]              value = 1.25, category = 1|2|3, period = \"annual\"|\"interim\"
  [carbon.location]  file = \"grid.csv\" with zone and method = \"direct\"|\"lca\";
                     or g_per_kwh = 380; or trace = true
  [carbon.market]    residual_g_per_kwh = 450 or rest_as_location = true,
                     contracts = [{ kind = \"ppa\", share = 0.6, g_per_kwh = 0 }]
                     (kinds: ppa, certificate, supplier)
  [price]            file = \"price.csv\", or per_kwh = 0.12 with currency = \"EUR\";
                     add_per_kwh = 0.03
  [demand_charge]    per_kw_month = 9.5, interval = \"hour\"|\"quarter_hour\",
                     timezone = \"Europe/Berlin\"
  [water]            l_per_kwh = 1.8
  [embodied]         kg_per_gpu = 164, kg_per_node = 1200, gpus_per_node = 8, lifetime_years = 5
  [meter]            node_overhead_w = 450, assumed_util = 0.6, period_s = 60
  [meter.power.A100] idle_w = 55, tdp_w = 400
  [site]             name, operator, installed_it_kw, water_m3 ...
                     (fields of Delegated Regulation (EU) 2024/1364)

Exit codes: 0 done, or identical under --verify; 1 failed, or different; 2 wrong usage; 3 rows quarantined or a file damaged under --strict; 4 format not recognised.";

#[derive(Debug, Args)]
#[command(after_help = FACTOR_FILE)]
pub(crate) struct Audit {
    /// Files, folders or patterns; or one trace folder. With --verify: where the manifest's sources lie now [default: where they lay]
    #[arg(required_unless_present = "verify", value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Audit from here on (UTC, such as 2017-10-03 or 2017-10-03T12:00:00Z) [default: from the first reading]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, help_heading = "Time")]
    pub(crate) from: Option<i64>,
    /// Audit up to here [default: to the last reading]
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, help_heading = "Time")]
    pub(crate) to: Option<i64>,
    /// Factor file: PUE, carbon intensity, price, water, embodied carbon, site (see below)
    #[arg(long, value_name = "TOML", help_heading = "Factors")]
    pub(crate) factors: Option<PathBuf>,
    /// Facility energy over IT energy, for the factor file's
    #[arg(long, value_name = "RATIO", value_parser = pue, help_heading = "Factors")]
    pub(crate) pue: Option<f64>,
    /// Carbon intensity by the hour (Electricity Maps CSV), for the factor file's [default: the trace's own, if of one zone]
    #[arg(long, value_name = "CSV", help_heading = "Factors")]
    pub(crate) carbon: Option<PathBuf>,
    /// Grid zone, where the intensities have several
    #[arg(long, value_name = "ZONE", help_heading = "Factors")]
    pub(crate) zone: Option<String>,
    /// Price of electricity by the hour (CSV with `Datetime (UTC)` and `Price (EUR/MWh)`), for the factor file's
    #[arg(long, value_name = "CSV", help_heading = "Factors")]
    pub(crate) price: Option<PathBuf>,
    /// What would power caps save: folder with files summary_power_TYPE.csv, one a GPU type (form of Zeus' trace)
    #[arg(long, value_name = "FOLDER", help_heading = "What if")]
    pub(crate) whatif_power_cap: Option<PathBuf>,
    /// Take GPUs of types that were not measured under caps for this type
    #[arg(long = "as", value_name = "TYPE", requires = "whatif_power_cap", help_heading = "What if")]
    pub(crate) taken_as: Option<String>,
    /// GPUs that a job leaves idle are handed back after these times
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = duration, default_value = "5m,15m,60m", help_heading = "What if")]
    pub(crate) idle_after: Vec<i64>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
    /// Write what every job is charged with (CSV)
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) jobs: Option<PathBuf>,
    /// Write the manifest: inputs and answer with SHA-256, factors with sources, options, version
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) manifest: Option<PathBuf>,
    /// Audit again as a manifest says and tell whether the answer is the same, byte for byte
    #[arg(long, value_name = "FILE", help_heading = "Answer", conflicts_with_all = ["from", "to", "pue", "zone", "taken_as", "idle_after", "format", "out", "charts", "jobs", "manifest", "reader", "timezone"])]
    pub(crate) verify: Option<PathBuf>,
}

fn pue(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|pue| (1.0..=10.0).contains(pue))
        .ok_or("not a PUE; write a number from 1 to 10, such as 1.25")
}

/// An audit with its manifest.
struct Made {
    answer: Answer,
    text: String,
    manifest: Manifest,
}

pub(crate) fn run(request: &Audit, quiet: bool) -> Result<()> {
    if let Some(path) = &request.verify {
        return verify(request, path, quiet);
    }
    let made = make(options(request), request.reading.strict, quiet)?;
    if let Some(path) = &request.jobs {
        output::write(path, &made.answer.jobs_csv()?)?;
    }
    if let Some(path) = &request.manifest {
        output::write(path, made.manifest.to_json()?.as_bytes())?;
    }
    request.answering.write(request.charts.as_deref(), quiet, || made.answer.report(), || Ok(made.text))
}

/// What a report on a trace says of energy, with what the trace itself holds of factors: its headline and its sections.
pub(crate) fn sections(trace: &Trace) -> Result<(Option<String>, Vec<Section>)> {
    let metering = meter::Options { threads: rayon::current_num_threads(), ..meter::Options::default() };
    // Without power nothing can be audited, which the catalogue says already.
    let Ok(ledger) = meter::measure(trace, &metering) else { return Ok((None, Vec::new())) };
    if ledger.entries.is_empty() {
        return Ok((None, Vec::new()));
    }
    let factors = Factors::default();
    let used = factors::load(factors, trace)?;
    let account = account(&ledger, &used.loaded);
    let beside =
        Beside { title: String::new(), factors: used.records, notes: used.notes, power_caps: None, reclaim: None };
    let mut report = Answer::of(trace, &ledger, account, beside).report();
    let headline = report.summary.drain(..).next();
    let own = |section: Section| Section { id: format!("audit-{}", section.id), ..section };
    let told = report.sections.into_iter().filter(|section| section.unavailable.is_none());
    let sections = told.filter(|section| !["eu", "factors"].contains(&section.id.as_str())).map(own).collect();
    Ok((headline, sections))
}

/// How a path was typed.
fn typed(path: &Path) -> String {
    path.display().to_string()
}

/// What was asked for, as a manifest keeps it.
fn options(request: &Audit) -> Options {
    let named = |path: &Option<PathBuf>| path.as_deref().map(typed);
    Options {
        sources: request.sources.iter().map(|path| typed(path)).collect(),
        reader: request.reading.reader.clone(),
        timezone: request.reading.timezone.as_ref().map(|zone| zone.name().to_owned()),
        mapping: named(&request.reading.mapping),
        factors: named(&request.factors),
        carbon: named(&request.carbon),
        zone: request.zone.clone(),
        price: named(&request.price),
        pue: request.pue,
        from_ms: request.from,
        to_ms: request.to,
        power_caps: named(&request.whatif_power_cap),
        taken_as: request.taken_as.clone(),
        idle_after_min: request.idle_after.iter().map(|ms| *ms as f64 / MINUTE_MS as f64).collect(),
    }
}

/// The factor file.
struct FactorFile {
    path: PathBuf,
    text: String,
}

impl FactorFile {
    fn read(path: &str) -> Result<Self> {
        let path = PathBuf::from(path);
        let text = source::text(&path)?;
        Ok(Self { path, text })
    }

    fn parse(&self, zone: &Zone) -> Result<Factors> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        Ok(Factors::parse(&typed(&self.path), &self.text, folder, zone)?)
    }
}

/// The factors of the file, with what was typed in place of them.
fn all_factors(file: Option<&FactorFile>, options: &Options, zone: &Zone) -> Result<Factors> {
    let mut factors = file.map(|file| file.parse(zone)).transpose()?.unwrap_or_default();
    if let Some(value) = options.pue {
        factors.pue = Some(Pue { value, category: None, period: None, source: Some("--pue".to_owned()) });
    }
    if let Some(file) = &options.carbon {
        let method = factors.location.as_ref().map_or(Method::Direct, |location| location.method);
        let source = Some("--carbon".to_owned());
        let values = Values::File(PathBuf::from(file));
        factors.location = Some(Location { values, zone: options.zone.clone(), method, source });
    } else if let Some(zone) = &options.zone {
        match &mut factors.location {
            Some(Location { values: Values::Constant(_), .. }) => {
                bail!("--zone chooses among the rows of a file, and the factor file has a constant carbon intensity")
            }
            Some(location) => location.zone = Some(zone.clone()),
            None => {
                let source = Some("the trace's own carbon table".to_owned());
                let zone = Some(zone.clone());
                factors.location = Some(Location { values: Values::Trace, zone, method: Method::Direct, source });
            }
        }
    }
    if let Some(file) = &options.price {
        let add_per_kwh = factors.price.as_ref().map_or(0.0, |price| price.add_per_kwh);
        let values = Values::File(PathBuf::from(file));
        factors.price = Some(Price { values, currency: None, add_per_kwh, source: Some("--price".to_owned()) });
    }
    Ok(factors)
}

/// Audits.
fn make(options: Options, strict: bool, quiet: bool) -> Result<Made> {
    let file = options.factors.as_deref().map(FactorFile::read).transpose()?;
    // A mistake in the factor file is told before a long read begins.
    let early = all_factors(file.as_ref(), &options, &Zone::utc())?;
    let studies = studies(&options)?;
    let sources: Vec<PathBuf> = options.sources.iter().map(PathBuf::from).collect();
    let reading = Reading {
        reader: options.reader.clone(),
        timezone: options.timezone.as_deref().map(Zone::named).transpose()?,
        mapping: options.mapping.as_deref().map(PathBuf::from),
        strict,
        max_expansion: tracecast_analytics::ingest::MOST_EXPANSION,
    };
    let metering = meter::Options {
        from_ms: options.from_ms,
        to_ms: options.to_ms,
        threads: rayon::current_num_threads(),
        ..early.meter.options()
    };
    let (trace, ledger, streamed) = measured(&sources, &reading, &metering, quiet)?;
    if ledger.entries.is_empty() {
        bail!(
            "{}: no device has two readings in the time audited, so no energy is known; add readings or widen --from and --to \
             (`tracecast describe` tells of power at single moments)",
            options.sources.join(", ")
        );
    }
    let factors = all_factors(file.as_ref(), &options, &Zone::named(&trace.zone)?)?;
    let used = factors::load(factors, &trace)?;
    let account = account(&ledger, &used.loaded);

    let mut inputs = inputs(&options, &sources, &trace)?;
    for (role, path) in &used.files {
        inputs.push(Input::of(role, path)?);
    }
    let power_caps = match studies {
        None => None,
        Some(studies) => {
            for study in &studies {
                inputs.push(Input::of("power_caps", &study.path)?);
            }
            Some(cap::apply(&trace, &account, studies, options.taken_as.as_deref())?)
        }
    };
    let patience: Vec<i64> =
        options.idle_after_min.iter().map(|minutes| (minutes * MINUTE_MS as f64).round() as i64).collect();
    let reclaim = if streamed {
        Reclaim::none(HolderSource::Unknown, "the telemetry is larger than memory and was read in one pass")
    } else {
        reclaim::reclaim(&trace, (ledger.from_ms, ledger.to_ms), &patience)
    };
    let beside = Beside {
        title: describe::title(&trace, &sources),
        factors: used.records.clone(),
        notes: used.notes,
        power_caps,
        reclaim: Some(reclaim),
    };
    let answer = Answer::of(&trace, &ledger, account, beside);
    let text = answer.to_json()?;
    let manifest = Manifest::of(options, inputs, used.records, &answer.account, (SCHEMA, text.as_bytes()));
    Ok(Made { answer, text, manifest })
}

/// Measurements under power caps.
fn studies(options: &Options) -> Result<Option<Vec<cap::Study>>> {
    let Some(folder) = &options.power_caps else { return Ok(None) };
    let files = cap::files(Path::new(folder))?;
    Ok(Some(files.iter().map(|(gpu_type, path)| cap::read(gpu_type, path)).collect::<Result<_, _>>()?))
}

/// The trace and its ledger, and whether the telemetry was too large to be kept.
fn measured(
    sources: &[PathBuf],
    reading: &Reading,
    metering: &meter::Options,
    quiet: bool,
) -> Result<(Trace, Ledger, bool)> {
    let folder = match sources {
        [folder] if storage::is_folder(folder) => folder,
        _ => {
            let trace = source::open(sources, reading, None, quiet)?;
            let ledger = meter::measure(&trace, metering)?;
            return Ok((trace, ledger, false));
        }
    };
    let (mut trace, ledger, counts) = stream::measure_folder(folder, metering)?;
    if let Some(zone) = &reading.timezone {
        zone.name().clone_into(&mut trace.zone);
    }
    if reading.strict {
        ingest::check_strict(&trace)?;
    }
    let streamed = counts.rows > 0 && trace.gpu_samples.ts.is_empty();
    Ok((trace, ledger, streamed))
}

/// Files of the trace, the mapping and the factors.
fn inputs(options: &Options, sources: &[PathBuf], trace: &Trace) -> Result<Vec<Input>> {
    let folder = match sources {
        [folder] if storage::is_folder(folder) => Some(folder.as_path()),
        _ => None,
    };
    let mut inputs = manifest::of_sources(folder, &trace.sources)?;
    if let Some(path) = &options.factors {
        inputs.push(Input::of("factors", Path::new(path))?);
    }
    Ok(inputs)
}

/// Audits again and compares.
fn verify(request: &Audit, path: &Path, quiet: bool) -> Result<()> {
    let recorded = Manifest::read(path)?;
    let mut options = recorded.options.clone();
    let moved = |now: &Option<PathBuf>, was: &mut Option<String>| {
        if let Some(now) = now {
            *was = Some(typed(now));
        }
    };
    if !request.sources.is_empty() {
        options.sources = request.sources.iter().map(|path| typed(path)).collect();
    }
    moved(&request.factors, &mut options.factors);
    moved(&request.carbon, &mut options.carbon);
    moved(&request.price, &mut options.price);
    moved(&request.whatif_power_cap, &mut options.power_caps);
    moved(&request.reading.mapping, &mut options.mapping);
    let made = make(options, request.reading.strict, quiet)?;
    // Read back as the recorded one was, so that numbers are compared as they are written.
    let now = Manifest::parse("this audit", &made.manifest.to_json()?)?;
    let differences = recorded.differences(&now);
    if differences.is_empty() {
        return output::text(
            &format!(
                "identical: {} inputs, {} factors, answer of {} bytes with SHA-256 {}\n",
                now.inputs.len(),
                now.factors.len(),
                now.result.size_bytes,
                now.result.sha256
            ),
            None,
        );
    }
    let mut text = differences.join("\n");
    text.push('\n');
    output::text(&text, None)?;
    bail!("the audit is not what {} says; what differs is on stdout", path.display())
}
