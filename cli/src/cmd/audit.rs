//! `tracecast audit`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::audit::account::account;
use tracecast_analytics::audit::answer::{Answer, Beside, SCHEMA};
use tracecast_analytics::audit::factors::{self, Factors, Location, Method, Price, Pue, Values};
use tracecast_analytics::audit::manifest::{self, AuditManifest, Input, ManifestOptions};
use tracecast_analytics::audit::whatif::cap;
use tracecast_analytics::audit::whatif::reclaim::{self, Reclaim};
use tracecast_analytics::energy::ledger::EnergyLedger;
use tracecast_analytics::energy::{meter, stream};
use tracecast_analytics::facts::HolderSource;
use tracecast_analytics::ingest;
use tracecast_analytics::storage;
use tracecast_analytics::time::{MINUTE_MS, Window, Written, Zone};

use crate::args::{Reading, TIMES, duration, listed, window};
use crate::cmd::answer::Charting;
use crate::cmd::describe;
use crate::{output, source};

/// Help on factor files.
const FACTOR_FILE: &str = "\
A factor file (TOML) says how energy is turned into carbon and money. Every table in it is optional.
If the factor of a figure is missing, the answer leaves the figure out and says so. Every table may
have a key source = \"...\", which the manifest keeps.
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

Exit codes:
  0  done; under --verify: the answer is identical
  1  failed; under --verify: the answer differs
  2  wrong usage
  3  rows were quarantined or a file is damaged, and --strict was given
  4  the format was not recognised";

/// Invocations that work, for the end of the help.
const EXAMPLE: &str = "\
Example, an audit of the bundled sample, and its verification:
  tracecast audit datasets/sample --pue 1.25 --manifest manifest.json
  tracecast audit --verify manifest.json";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}\n\n{FACTOR_FILE}"))]
pub(crate) struct Audit {
    /// Files, folders, patterns and trace folders to read together: job accounting, telemetry, meters
    ///
    /// With --verify, name sources only if they have moved since the manifest was written.
    #[arg(required_unless_present = "verify", value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Audit the time from here on [default: from the first reading]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Time")]
    pub(crate) from: Option<Written>,
    /// Audit the time up to here, where a date includes that day [default: to the last reading]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Time")]
    pub(crate) to: Option<Written>,
    /// Factor file (TOML) with PUE, carbon intensity, price, water, embodied carbon and site
    ///
    /// The end of this help lists its keys.
    #[arg(long, value_name = "TOML", help_heading = "Factors")]
    pub(crate) factors: Option<PathBuf>,
    /// PUE: energy of the facility divided by that of its IT, such as 1.25 [default: that of the factor file]
    #[arg(long, value_name = "RATIO", value_parser = pue, help_heading = "Factors")]
    pub(crate) pue: Option<f64>,
    /// Hourly carbon intensity (CSV of Electricity Maps) [default: that of the factor file, else of the trace if it has one zone]
    #[arg(long, value_name = "CSV", help_heading = "Factors")]
    pub(crate) carbon: Option<PathBuf>,
    /// Grid zone to use if the carbon intensities cover several zones
    #[arg(long, value_name = "ZONE", help_heading = "Factors")]
    pub(crate) zone: Option<String>,
    /// Hourly prices of electricity (CSV) [default: those of the factor file]
    ///
    /// The columns are `Datetime (UTC)` and `Price (EUR/MWh)`. Another currency, or /kWh, may stand in the heading.
    #[arg(long, value_name = "CSV", help_heading = "Factors")]
    pub(crate) price: Option<PathBuf>,
    /// Estimate what power caps would save, from the measurements in this folder
    ///
    /// The folder has one file summary_power_TYPE.csv for each GPU type, in the form of the trace of Zeus. Its columns are dataset, network,
    /// batch_size, optimizer, power_limit (W), time_per_epoch (s) and average_power (W).
    #[arg(long, value_name = "FOLDER", help_heading = "What if")]
    pub(crate) whatif_power_cap: Option<PathBuf>,
    /// GPU type whose measurements also stand for types that were not measured under power caps
    ///
    /// Without this option, measurements apply only to GPUs of the same type.
    #[arg(long = "as", value_name = "TYPE", requires = "whatif_power_cap", help_heading = "What if")]
    pub(crate) taken_as: Option<String>,
    /// Estimate what is gained if jobs hand back GPUs that they leave idle for these times, separated by commas
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = listed(duration), default_value = "5m,15m,60m", help_heading = "What if")]
    pub(crate) idle_after: Vec<i64>,
    #[command(flatten)]
    pub(crate) charting: Charting,
    /// Write the energy, carbon and cost that each job is charged with to this CSV file
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) by_job: Option<PathBuf>,
    /// Write a manifest to this file, from which others can repeat the audit with --verify
    ///
    /// It holds the SHA-256 of each input and of the answer, the factors with their sources, the options and the version.
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) manifest: Option<PathBuf>,
    /// Repeat the audit of this manifest, and check that the answer is the same byte for byte
    #[arg(long, value_name = "FILE", help_heading = "Answer", conflicts_with_all = ["from", "to", "pue", "zone", "taken_as", "idle_after", "format", "json", "section", "out", "charts", "by_job", "manifest", "reader", "timezone"])]
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
    manifest: AuditManifest,
}

pub(crate) fn run(request: &Audit, quiet: bool) -> Result<()> {
    request.reading.needs_all_jobs(
        "without the other jobs, their energy would count as idle; select rows from --by-job instead",
    )?;
    if let Some(path) = &request.verify {
        return verify(request, path, quiet);
    }
    let checked = request.charting.check("audit", &[&request.by_job, &request.manifest])?;
    let window = window(&request.from, &request.to)?;
    let made = make(options(request), Some(window), request.reading.strict, quiet)?;
    if let Some(path) = &request.by_job {
        if made.answer.all_jobs.is_empty() {
            bail!("--by-job {}: there is nothing to write. {}", path.display(), made.answer.without_jobs);
        }
        output::write(path, &made.answer.jobs_csv()?)?;
    }
    if let Some(path) = &request.manifest {
        output::write(path, made.manifest.to_json()?.as_bytes())?;
    }
    checked.write(quiet, || made.answer.report(), || Ok(made.text))
}

/// Path as it was typed.
fn typed(path: &Path) -> String {
    path.display().to_string()
}

/// Options of the request, as a manifest keeps them.
fn options(request: &Audit) -> ManifestOptions {
    let named = |path: &Option<PathBuf>| path.as_deref().map(typed);
    ManifestOptions {
        sources: request.sources.iter().map(|path| typed(path)).collect(),
        reader: request.reading.reader.clone(),
        timezone: request.reading.timezone.as_ref().map(|zone| zone.name().to_owned()),
        mapping: request.reading.mapping.clone(),
        metrics: named(&request.reading.metrics),
        metric: request.reading.metric.clone(),
        shards_per_gpu: request.reading.shards_per_gpu,
        one_cluster: request.reading.one_cluster,
        factors: named(&request.factors),
        carbon: named(&request.carbon),
        zone: request.zone.clone(),
        price: named(&request.price),
        pue: request.pue,
        // Known once the trace's zone is.
        from_ms: None,
        to_ms: None,
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
fn all_factors(file: Option<&FactorFile>, options: &ManifestOptions, zone: &Zone) -> Result<Factors> {
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
                bail!(
                    "--zone selects rows of a file, but the factor file gives a constant carbon intensity; leave --zone out, or name a file with --carbon"
                )
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

/// Audits, over `window` where one was typed, else over what the options say.
fn make(mut options: ManifestOptions, window: Option<Window<'_>>, strict: bool, quiet: bool) -> Result<Made> {
    let file = options.factors.as_deref().map(FactorFile::read).transpose()?;
    // A mistake in the factor file is told before a long read begins.
    let early = all_factors(file.as_ref(), &options, &Zone::utc())?;
    let studies = studies(&options)?;
    let sources: Vec<PathBuf> = options.sources.iter().map(PathBuf::from).collect();
    let reading = Reading {
        reader: options.reader.clone(),
        timezone: options.timezone.as_deref().map(Zone::named).transpose()?,
        mapping: options.mapping.clone(),
        metrics: options.metrics.as_ref().map(PathBuf::from),
        metric: options.metric.clone(),
        shards_per_gpu: options.shards_per_gpu,
        strict,
        one_cluster: options.one_cluster,
        max_expansion: tracecast_analytics::ingest::MOST_EXPANSION,
        condition: None,
        node_labels: Vec::new(),
    };
    // The time audited needs the zone, which a trace folder tells before it is read and other sources after.
    let mut within = |zone: &Zone| -> Result<(Option<i64>, Option<i64>)> {
        if let Some(window) = window {
            (options.from_ms, options.to_ms) = window.resolve(zone)?;
        }
        Ok((options.from_ms, options.to_ms))
    };
    let metering = meter::Options {
        threads: rayon::current_num_threads(),
        one_cluster: reading.one_cluster,
        ..early.meter.options()
    };
    let Measured { trace, ledger, streamed, inputs: read } =
        measured(&sources, &reading, metering, &mut within, quiet)?;
    let factors = all_factors(file.as_ref(), &options, &Zone::named(&trace.zone)?)?;
    let used = factors::load(factors, &trace)?;
    let account = account(&ledger, &used.loaded);

    let mut inputs = read;
    if let Some(path) = &options.factors {
        inputs.push(Input::new("factors", Path::new(path))?);
    }
    for (role, path) in &used.files {
        inputs.push(Input::new(role, path)?);
    }
    let power_caps = match studies {
        None => None,
        Some(studies) => {
            for study in &studies {
                inputs.push(Input::new("power_caps", &study.path)?);
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
        of_readings: options.from_ms.is_none() && options.to_ms.is_none(),
        factors: used.records.clone(),
        notes: used.notes,
        power_caps,
        reclaim: Some(reclaim),
    };
    let answer = Answer::new(&trace, &ledger, account, beside);
    let text = answer.to_json()?;
    let manifest = AuditManifest::new(
        options,
        inputs,
        (used.records, answer.constants.clone()),
        &answer.account,
        (SCHEMA, text.as_bytes()),
    );
    Ok(Made { answer, text, manifest })
}

/// Measurements under power caps.
fn studies(options: &ManifestOptions) -> Result<Option<Vec<cap::Study>>> {
    let Some(folder) = &options.power_caps else { return Ok(None) };
    let files = cap::files(Path::new(folder))?;
    Ok(Some(files.iter().map(|(gpu_type, path)| cap::read(gpu_type, path)).collect::<Result<_, _>>()?))
}

/// Measured trace and its energy.
struct Measured {
    trace: Trace,
    ledger: EnergyLedger,
    /// Whether the telemetry was too large to be kept.
    streamed: bool,
    /// Files of the trace folders, and files read beside them.
    inputs: Vec<Input>,
}

/// The time audited, once its zone is known, in milliseconds since the epoch.
type Within<'a> = dyn FnMut(&Zone) -> Result<(Option<i64>, Option<i64>)> + 'a;

/// Reads all sources as one trace and measures it. The zone of the time audited is that of the files, else of the first trace folder.
fn measured(
    sources: &[PathBuf],
    reading: &Reading,
    mut metering: meter::Options,
    within: &mut Within<'_>,
    quiet: bool,
) -> Result<Measured> {
    let (folders, files) = source::parted(sources);
    let zone = source::zone_beside(&folders)?;
    let read = || source::read_files(&files, reading, zone, None, quiet);
    let beside = if files.is_empty() { None } else { Some(read()?) };
    let inputs = manifest::of_sources(&folders, beside.as_ref().map_or(&[], |trace| &trace.sources))?;
    let zone = match (&beside, folders.first()) {
        (Some(trace), _) => trace.zone.clone(),
        (None, Some(folder)) => storage::manifest(folder)?.zone,
        (None, None) => String::new(),
    };
    (metering.from_ms, metering.to_ms) = within(&source::zone(&zone, reading)?)?;
    if folders.is_empty() {
        let trace = beside.unwrap_or_default();
        source::told(&trace, reading.strict)?;
        ingest::check_usable(&trace)?;
        let ledger = meter::measure(&trace, &metering)?;
        return Ok(Measured { trace, ledger, streamed: false, inputs });
    }
    let in_memory = beside.as_ref().is_some_and(|trace| !trace.gpu_samples.ts.is_empty());
    let (mut trace, ledger, counts) = stream::measure_folders(&folders, beside, &metering)?;
    if let Some(zone) = &reading.timezone {
        zone.name().clone_into(&mut trace.zone);
    }
    source::told(&trace, reading.strict)?;
    let streamed = !in_memory && counts.rows > trace.node_samples.ts.len() as u64 && trace.gpu_samples.ts.is_empty();
    Ok(Measured { trace, ledger, streamed, inputs })
}

/// Audits again and compares.
fn verify(request: &Audit, path: &Path, quiet: bool) -> Result<()> {
    let recorded = AuditManifest::read(path)?;
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
    moved(&request.reading.metrics, &mut options.metrics);
    if !request.reading.mapping.is_empty() {
        options.mapping.clone_from(&request.reading.mapping);
    }
    let made = make(options, None, request.reading.strict, quiet)?;
    // Read back as the recorded one was, so that numbers are compared as they are written.
    let now = AuditManifest::parse("this audit", &made.manifest.to_json()?)?;
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
