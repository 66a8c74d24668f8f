//! Traces of the sources that were typed: trace folders are loaded, anything else is read on the
//! fly.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile, SourceMapping, SourceMetric};
use tracecast_analytics::quality::{Ledger, Outcome};
use tracecast_analytics::report::markup::printable;
use tracecast_analytics::time::Zone;
use tracecast_analytics::{Trace, storage};
use tracecast_planner::market::listed::TableFilter;
use tracecast_planner::market::offers::{ListedOffers, Offers};
use tracecast_planner::replay::input::Site;
use tracecast_predictors::interference::rates::{self, GangRate};
use tracecast_query::{AbsentText, selection};

use crate::args::{Between, Reading};
use crate::exit::Usage;
use crate::output;
use crate::progress::Bar;

/// Most bytes of an offers file that comes through a pipe.
const MOST_OFFERS: u64 = 16 << 20;

/// Loads or reads `sources`, says on stderr what of them is not there, and makes it an error if no row could be used or
/// `--strict` allows none to be missing. Quarantined rows go to the file `quarantine` before that.
pub(crate) fn open(sources: &[PathBuf], reading: &Reading, quarantine: Option<&Path>, quiet: bool) -> Result<Trace> {
    open_between(sources, reading, &Between::default(), quarantine, quiet)
}

/// Opens sources as [`open`] does, for the jobs that were submitted in a time.
pub(crate) fn open_between(
    sources: &[PathBuf],
    reading: &Reading,
    between: &Between,
    quarantine: Option<&Path>,
    quiet: bool,
) -> Result<Trace> {
    let window = between.window()?;
    let mut trace = read(sources, reading, quarantine, quiet)?;
    ingest::check_usable(&trace)?;
    if let Some(typed) = between.typed() {
        let zone = Zone::named(&trace.zone)?;
        let (from_ms, to_ms) = window.resolve(&zone)?;
        let before = trace.jobs.submit.len();
        let submitted = || trace.jobs.submit.iter().flatten();
        let range = submitted().min().zip(submitted().max());
        // Before the condition, as the record ends with the last moment of all jobs.
        trace.select_submitted(from_ms, to_ms, &typed);
        // What is selected is said once, with the condition if there is one.
        let told = reading.condition.is_none() && trace.selected.as_ref().is_some_and(|of| of.jobs < before as u64);
        if told {
            tell_selected(&trace, quiet);
        }
        if trace.jobs.submit.is_empty() {
            let there = range.map_or_else(
                || "no job has a known submission".to_owned(),
                |(first, last)| {
                    let (first, last) = (zone.show(first), zone.show(last));
                    format!("jobs were submitted from {first} to {last} ({})", zone.name())
                },
            );
            return Err(Usage(format!("{typed}: no job was submitted then; {there}")).into());
        }
    }
    let trace = selected(trace, reading, quiet)?;
    Ok(trace)
}

/// Says on stderr how many jobs of a trace were selected.
fn tell_selected(trace: &Trace, quiet: bool) {
    if let Some(selected) = &trace.selected {
        output::say(quiet, &format!("tracecast: {}", printable(&selected.sentence())));
    }
}

/// Opens sources as [`open`] does, for a command that needs all jobs of a cluster, for the reason
/// `why`: refuses `--where`, and a source that holds a part.
pub(crate) fn open_whole(sources: &[PathBuf], reading: &Reading, quiet: bool, why: &str) -> Result<Trace> {
    reading.needs_all_jobs(why)?;
    let trace = open(sources, reading, None, quiet)?;
    match &trace.selected {
        Some(selected) => Err(Usage(format!("the source holds {}; {why}", selected.in_short())).into()),
        None => Ok(trace),
    }
}

/// A trace cut to the jobs of `--where`.
fn selected(mut trace: Trace, reading: &Reading, quiet: bool) -> Result<Trace> {
    let Some(condition) = &reading.condition else { return Ok(trace) };
    let selection = selection::select(&trace, condition)?;
    trace.select(&selection.mask, condition, selection.unknown as u64);
    tell_selected(&trace, quiet);
    let Some(selected) = &trace.selected else { return Ok(trace) };
    warn_of_absent("--where: ", &selection.absent);
    if selected.jobs == 0 {
        return Err(Usage(format!("--where: no job meets `{condition}`; `tracecast query` shows what there is")).into());
    }
    Ok(trace)
}

/// Says on stderr what of a trace is not there, also where progress is not wanted, unless `--strict` makes it an error.
pub(crate) fn told(trace: &Trace, strict: bool) -> Result<()> {
    if strict {
        ingest::check_strict(trace)?;
    }
    warn(trace.warnings());
    Ok(())
}

/// Warns as [`told`] does, for a ledger alone.
pub(crate) fn told_of(ledger: &Ledger, strict: bool) -> Result<()> {
    if strict {
        ledger.check_whole()?;
    }
    warn(ledger.warnings());
    Ok(())
}

/// Says warnings on stderr, also where progress is not wanted.
pub(crate) fn warn(warnings: Vec<String>) {
    for warning in warnings {
        output::warn(&printable(&warning));
    }
}

/// Says which texts are looked for and are nowhere.
pub(crate) fn warn_of_absent(where_from: &str, absent: &[AbsentText]) {
    warn(absent.iter().map(|text| format!("{where_from}{text}")).collect());
}

/// The zone of a trace, or of a trace folder of which nothing else is read yet.
pub(crate) fn zone(name: &str, reading: &Reading) -> Result<Zone> {
    match &reading.timezone {
        Some(zone) => Ok(zone.clone()),
        None => Ok(Zone::named(name)?),
    }
}

/// Reads sources as [`open`] does, but a trace of which no row could be used is no error.
pub(crate) fn read(sources: &[PathBuf], reading: &Reading, quarantine: Option<&Path>, quiet: bool) -> Result<Trace> {
    let (folders, files) = parted(sources);
    if !folders.is_empty() && quarantine.is_some() {
        bail!(
            "--quarantine: a trace folder does not keep quarantined rows; name the source that the folder was made from"
        );
    }
    let beside = zone_beside(&folders)?;
    let read = || read_files(&files, reading, beside, quarantine, quiet);
    let mut all = if files.is_empty() { None } else { Some(read()?) };
    for folder in &folders {
        let trace = storage::load(folder)?;
        let name = folder.display().to_string();
        match &mut all {
            None => all = Some(trace),
            Some(all) => {
                if !reading.one_cluster {
                    all.check_meets(&trace, &name)?;
                }
                all.merge(trace, &name)?;
            }
        }
    }
    let mut trace = all.context("no source is named")?;
    if let Some(zone) = reading.timezone.as_ref().filter(|_| !folders.is_empty()) {
        zone.name().clone_into(&mut trace.zone);
    }
    told(&trace, reading.strict)?;
    Ok(trace)
}

/// Trace folders, and all other sources.
pub(crate) fn parted(sources: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    sources.iter().cloned().partition(|source| storage::is_folder(source))
}

/// The zone of the first trace folder, which local times of files read beside it are of.
pub(crate) fn zone_beside(folders: &[PathBuf]) -> Result<Option<Zone>> {
    let Some(folder) = folders.first() else { return Ok(None) };
    Ok(Some(Zone::named(&storage::manifest(folder)?.zone)?))
}

/// Metrics as `--metric` names them: of all sources, or as `SOURCE=NAME`.
fn metrics(named: &[String]) -> Vec<SourceMetric> {
    let of = |text: &String| match text.rsplit_once('=') {
        Some((source, name)) => SourceMetric { source: Some(source.into()), name: name.to_owned() },
        None => SourceMetric { source: None, name: text.clone() },
    };
    named.iter().map(of).collect()
}

/// The mapping of all sources, and those of single ones, as `--mapping` names them.
fn mappings(named: &[String]) -> Result<(Option<PathBuf>, Vec<SourceMapping>)> {
    let mut all: Option<PathBuf> = None;
    let mut single = Vec::new();
    for text in named {
        // A file whose own name has an equals sign is a file.
        let pair = if Path::new(text).exists() { None } else { text.rsplit_once('=') };
        match pair {
            Some((source, mapping)) => single.push(SourceMapping { source: source.into(), mapping: mapping.into() }),
            None => {
                if let Some(other) = all.replace(PathBuf::from(text)) {
                    bail!(
                        "--mapping {} and --mapping {text} both stand for all sources; say --mapping SOURCE={text} for one of them",
                        other.display()
                    );
                }
            }
        }
    }
    Ok((all, single))
}

/// Reads files, folders of files and patterns, whose local times are those of `zone_beside` where nothing else says; what of them is not there remains to be [`told`].
pub(crate) fn read_files(
    sources: &[PathBuf],
    reading: &Reading,
    zone_beside: Option<Zone>,
    quarantine: Option<&Path>,
    quiet: bool,
) -> Result<Trace> {
    let (mapping, mappings) = mappings(&reading.mapping)?;
    let bar = Bar::new(quiet);
    let options = ReadOptions {
        reader: reading.reader.clone(),
        zone: reading.timezone.clone(),
        mapping,
        mappings,
        metrics: reading.metrics.clone(),
        unnamed: metrics(&reading.metric),
        zone_beside,
        node_labels: reading.node_labels.clone(),
        shards_per_gpu: reading.shards_per_gpu.map(std::num::NonZeroU32::get),
        keep_quarantined: quarantine.is_some(),
        // Below, once what is wrong has been written out.
        strict: reading.strict && quarantine.is_none(),
        most_expansion: reading.max_expansion,
        one_cluster: reading.one_cluster,
        observer: &bar,
    };
    let trace = ingest::read(&ingest::expand(sources)?, &options);
    bar.finish();
    let trace = trace?;
    if let Some(path) = quarantine {
        write_quarantined(&trace, path)?;
    }
    if !trace.empty.is_empty() {
        output::say(quiet, &format!("tracecast: {}", ingest::no_rows(&trace.empty)));
    }
    Ok(trace)
}

/// The text of a file the user named.
pub(crate) fn text(path: &Path) -> Result<String> {
    Ok(storage::read_text(path)?)
}

/// Files that `--offers` names.
enum Priced {
    /// The text of an offers file.
    Offers(String),
    /// Tables of prices, which a reader knows by their headers.
    Tables(Vec<SourceFile>),
}

/// Whether a text holds the header of an entry of an offers file, perhaps with blanks within it or a comment behind it.
fn has_offers(text: &str) -> bool {
    let is_header = |line: &str| {
        let bare: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        matches!(bare.as_str(), "[[instance]]" | "[[owned]]")
    };
    text.lines().any(is_header)
}

/// Tells an offers file from tables. A pipe is looked into and then read from its beginning on, as it has nothing to say a second time.
fn priced(path: &Path) -> Result<Priced> {
    if path.extension().is_some_and(|of| of.eq_ignore_ascii_case("toml")) {
        return Ok(Priced::Offers(text(path)?));
    }
    let files = ingest::expand(&[path.to_path_buf()])?;
    let [file] = files.as_slice() else { return Ok(Priced::Tables(files)) };
    if !has_offers(&file.head()?.text) {
        return Ok(Priced::Tables(files));
    }
    if !file.is_pipe() {
        return Ok(Priced::Offers(text(path)?));
    }
    let mut whole = String::new();
    let read = file.open(&())?.take(MOST_OFFERS + 1).read_to_string(&mut whole);
    read.with_context(|| format!("read {}", path.display()))?;
    if whole.len() as u64 > MOST_OFFERS {
        bail!("{}: it has more than 16 MiB, the most that is read of an offers file", path.display());
    }
    Ok(Priced::Offers(whole))
}

/// A table of prices; rows that could not be used are told, with file, line and remedy, as is what its reader has to say.
fn table(path: &Path, files: &[SourceFile]) -> Result<Trace> {
    let trace = ingest::read(files, &ReadOptions::default())?;
    let left_out = trace.ledger.entries.iter().filter(|entry| entry.outcome == Outcome::Quarantined);
    let told = left_out.map(|entry| {
        let lines: Vec<String> = entry.examples.iter().map(|of| of.line.to_string()).collect();
        let more = if entry.count > lines.len() as u64 { " …" } else { "" };
        format!(
            "{}, line {}{more}: {} (rows left out: {}); {}",
            path.display(),
            lines.join(", "),
            entry.what,
            entry.count,
            entry.remedy
        )
    });
    warn(told.chain(trace.notes.iter().cloned()).collect());
    Ok(trace)
}

/// Offers: an offers file, tables of prices, or both, of which the file goes first; prices that are hardly meant are told.
pub(crate) fn offers(paths: &[PathBuf], filter: &TableFilter) -> Result<Offers> {
    let mut files: Vec<(&PathBuf, String)> = Vec::new();
    let (mut tables, mut named): (Vec<Trace>, Vec<String>) = (Vec::new(), Vec::new());
    for path in paths {
        match priced(path)? {
            Priced::Offers(text) => files.push((path, text)),
            Priced::Tables(sources) => {
                tables.push(table(path, &sources)?);
                named.push(path.display().to_string());
            }
        }
    }
    if let [(first, _), (second, _), ..] = files.as_slice() {
        let what = format!(
            "--offers {} and {} are both offers files; write their instances into one",
            first.display(),
            second.display()
        );
        return Err(Usage(what).into());
    }
    if tables.is_empty() && *filter != TableFilter::default() {
        let what = "--provider and --region pick rows of a table of prices, and --offers names none; leave them out, or name a table such as cloud-gpus.csv";
        return Err(Usage(what.to_owned()).into());
    }
    let named = named.join(", ");
    let tell = |notes: &[String]| warn(notes.iter().map(|note| format!("{named}: {note}")).collect());
    let result = ListedOffers::new(&tables.iter().collect::<Vec<_>>(), filter)?;
    if result.offers.is_empty() && !tables.is_empty() {
        tell(&result.notes);
        bail!(
            "{named}: no row has a price of an instance with whole GPUs on demand; name an offers file (TOML), or a table such as cloud-gpus.csv"
        );
    }
    let (file, text) = files.first().map_or((named.clone(), ""), |(file, text)| (file.display().to_string(), text));
    let offers = Offers::with_table(&file, text, &result)?;
    tell(&offers.notes);
    warn(offers.oddities());
    Ok(offers)
}

/// Throughputs of gangs; columns that nothing is done with are told.
pub(crate) fn rates(path: &Path) -> Result<Vec<GangRate>> {
    let rates = rates::rates(path)?;
    warn(rates.notes);
    Ok(rates.gangs)
}

/// The cluster as its operator wrote it down in a file.
pub(crate) fn site(path: &Path) -> Result<Site> {
    if path.is_dir() {
        return Err(Usage(format!(
            "{0} is a folder, and a file of nodes is asked for; write one with `tracecast cluster {0} --over-time --out cluster.toml` and name that",
            path.display()
        ))
        .into());
    }
    Ok(Site::parse(&path.display().to_string(), &text(path)?)?)
}

/// Writes the quarantined rows, one JSON object a line.
fn write_quarantined(trace: &Trace, path: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for row in trace.ledger.rows() {
        serde_json::to_writer(&mut lines, row).context("write a quarantined row as JSON")?;
        lines.push(b'\n');
    }
    output::write(path, &lines)
}

/// Folder of the bundled sample in a checkout.
pub(crate) const SAMPLE: &str = "datasets/sample";

/// The bundled sample: `datasets/sample` in the current folder or one above it, else where the program was built.
pub(crate) fn sample() -> Result<PathBuf> {
    let current = std::env::current_dir().context("find the current folder")?;
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in current.ancestors().map(Path::to_path_buf).chain([built]) {
        let sample = folder.join(SAMPLE);
        if storage::is_folder(&sample) {
            return Ok(sample);
        }
    }
    bail!("the bundled sample datasets/sample was not found; run tracecast from a checkout, or name a source")
}
