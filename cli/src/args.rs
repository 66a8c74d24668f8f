//! Arguments that several commands share, and how times and lengths of time are typed.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::builder::{EnumValueParser, PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};
use tracecast_analytics::ingest;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::market::listed::TableFilter;
use tracecast_planner::replay::growth::FACTORS;

use crate::exit::Usage;

/// Rows of the tables of prices to use.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Tables {
    /// Clouds of a table of prices that are offered, separated by commas, such as aws,gcp [default: all that it has]
    #[arg(long, value_name = "CLOUDS", value_delimiter = ',', value_parser = entries(), help_heading = "Prices")]
    pub(crate) provider: Vec<String>,
    /// Regions or zones of a table of prices that are offered, separated by commas, such as us-east-1,us-central1 [default: all that it has]
    ///
    /// A row that names no region is then not offered.
    #[arg(long, value_name = "REGIONS", value_delimiter = ',', value_parser = entries(), help_heading = "Prices")]
    pub(crate) region: Vec<String>,
}

impl Tables {
    /// Filter of the planner.
    pub(crate) fn filter(&self) -> TableFilter {
        TableFilter { providers: self.provider.clone(), regions: self.region.clone() }
    }
}

/// Trace that a command reads.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Trace to read: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Options of reading sources.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Reading {
    /// Reader to use for every file [default: recognised from each file]
    ///
    /// A reader understands one input format. `tracecast formats` lists all readers with their IDs, such as sacct.
    #[arg(long, value_name = "ID", value_parser = reader)]
    pub(crate) reader: Option<String>,
    /// Time zone of the cluster, such as Europe/Berlin [default: that of the source where it is known, else UTC]
    ///
    /// It applies to local times in the source, to times in the options that have no offset, and to the times in the answer.
    #[arg(long, value_name = "IANA NAME", value_parser = Zone::named)]
    pub(crate) timezone: Option<Zone>,
    /// Mapping file (TOML) that says what the columns of a CSV or Parquet file mean
    ///
    /// It applies to all such files. To apply it to one source only, write SOURCE=TOML, and repeat the option for other sources.
    /// datasets/mappings/README.md describes the form.
    #[arg(long, value_name = "TOML")]
    pub(crate) mapping: Vec<String>,
    /// Table (TOML) of what metrics mean, which adds to the built-in one
    ///
    /// It says the quantity, the unit and the labels of metrics that exporters or tools write. cli/guide/formats.md describes the form.
    #[arg(long, value_name = "TOML")]
    pub(crate) metrics: Option<PathBuf>,
    /// Metric that series without a name are of, such as DCGM_FI_DEV_GPU_UTIL [default: the one after which the file is named]
    ///
    /// Prometheus gives the result of an expression such as sum by (…) no name. To say it of one source only, write SOURCE=NAME, and repeat
    /// the option for other sources.
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Vec<String>,
    /// Number of shards (gres/shard) that a GPU holds in Slurm, so that jobs on shards are jobs on parts of a GPU
    ///
    /// The accounting names shards and not how many a GPU holds. Without this option the number of GPUs of such jobs is unknown. It is Count of Name=shard in gres.conf, for each GPU.
    #[arg(long, value_name = "SHARDS")]
    pub(crate) shards_per_gpu: Option<std::num::NonZeroU32>,
    /// Fail with exit code 3 if a row is quarantined or a file is damaged
    ///
    /// A row that cannot be used is quarantined: the answer leaves it out. Without this option the command counts such rows on stderr
    /// and goes on.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Largest expansion of a compressed JSON document, as a multiple of its compressed size
    ///
    /// The limit protects the memory against a file that expands without end. A document may always expand to 16 MiB.
    #[arg(long, value_name = "TIMES", default_value_t = ingest::MOST_EXPANSION, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_expansion: u64,
    /// Take sources for one cluster though years lie between them, or between their jobs and their measurements
    ///
    /// Without this option such sources are an error, as they are hardly of one cluster. Months of one log that follow each other need no option.
    #[arg(long)]
    pub(crate) one_cluster: bool,
    /// Look only at jobs that meet this condition in SQL: --where "vc = 'vision' and gpus >= 8"
    ///
    /// The columns are those of the table job_facts, which `tracecast query SOURCE` lists. The answer says how many jobs were selected. What
    /// needs all jobs of a cluster is then left out, and a command that needs them all refuses the option.
    #[arg(long = "where", value_name = "SQL")]
    pub(crate) condition: Option<String>,
    /// Labels of Kubernetes nodes that say where these lie, which one command lets be named.
    #[arg(skip)]
    pub(crate) node_labels: Vec<String>,
}

impl Reading {
    /// Refuses `--where` for a command that needs all jobs, for the reason `why`.
    pub(crate) fn needs_all_jobs(&self, why: &str) -> anyhow::Result<()> {
        match self.condition {
            Some(_) => Err(Usage(format!("--where: {why}")).into()),
            None => Ok(()),
        }
    }

    /// Options that say how sources are read, as they would be typed again.
    pub(crate) fn as_typed(&self) -> Vec<String> {
        let one = |option: &str, value: Option<String>| value.map(|value| [option.to_owned(), value]);
        let expansion = (self.max_expansion != ingest::MOST_EXPANSION).then(|| self.max_expansion.to_string());
        let named = [
            one("--reader", self.reader.clone()),
            one("--timezone", self.timezone.as_ref().map(|zone| zone.name().to_owned())),
            one("--shards-per-gpu", self.shards_per_gpu.map(|shards| shards.to_string())),
            one("--max-expansion", expansion),
        ];
        let mappings = self.mapping.iter().map(|mapping| ["--mapping".to_owned(), mapping.clone()]);
        let merged = self.one_cluster.then(|| "--one-cluster".to_owned());
        named.into_iter().flatten().chain(mappings).flatten().chain(merged).collect()
    }

    /// Refuses every option of reading where no trace is read, for the reason `why`: none would do anything.
    pub(crate) fn reads_no_trace(&self, why: &str) -> anyhow::Result<()> {
        self.needs_all_jobs(why)?;
        let typed = [
            ("--reader", self.reader.is_some()),
            ("--timezone", self.timezone.is_some()),
            ("--mapping", !self.mapping.is_empty()),
            ("--metrics", self.metrics.is_some()),
            ("--metric", !self.metric.is_empty()),
            ("--shards-per-gpu", self.shards_per_gpu.is_some()),
            ("--strict", self.strict),
            ("--max-expansion", self.max_expansion != ingest::MOST_EXPANSION),
            ("--one-cluster", self.one_cluster),
        ];
        match typed.iter().find(|(_, is_typed)| *is_typed) {
            Some((option, _)) => Err(Usage(format!("{option}: {why}")).into()),
            None => Ok(()),
        }
    }
}

/// Window of the submissions of the jobs looked at.
#[derive(Debug, Default, Args)]
pub(crate) struct Between {
    /// Look only at jobs that were submitted at this time or later [default: from the first job]
    ///
    /// Rates and queues are then over the time between --from and --to. What needs all jobs of a cluster is left out, as with --where: jobs that
    /// were submitted before may still have run.
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) from: Option<Written>,
    /// Look only at jobs that were submitted before this time, where a date includes that day [default: to the last job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
}

impl Between {
    /// The window, checked as far as that can be before anything is read.
    pub(crate) fn window(&self) -> anyhow::Result<Window<'_>> {
        window(&self.from, &self.to)
    }

    /// Window as it was typed; `None` if there is none.
    pub(crate) fn typed(&self) -> Option<String> {
        let side = |name: &str, at: &Option<Written>| at.as_ref().map(|at| format!("{name} {at}"));
        let sides: Vec<String> = [side("--from", &self.from), side("--to", &self.to)].into_iter().flatten().collect();
        (!sides.is_empty()).then(|| sides.join(" "))
    }
}

/// Reads a whole number from 1 to `MOST`: more of what it counts would fill the memory, or never be done.
pub(crate) fn up_to<const MOST: usize>(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse::<NonZeroUsize>().ok().filter(|number| number.get() <= MOST);
    number.ok_or_else(|| format!("give a whole number from 1 to {MOST}"))
}

fn reader(id: &str) -> Result<String, &'static str> {
    let known = ingest::readers().iter().any(|reader| reader.id() == id);
    known.then(|| id.to_owned()).ok_or("no such reader; `tracecast formats` lists them")
}

/// Form of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Text and tables for a terminal
    Table,
    /// CSV: one table to stdout or a file (see --section), or all tables into a FOLDER/
    Csv,
    /// JSON (`tracecast schema` prints its schema)
    Json,
    /// Markdown
    Markdown,
    /// One self-contained HTML file
    Html,
}

/// Form of answers about what was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowsForm {
    /// Text for a terminal
    Table,
    /// CSV, one row for each answer
    Csv,
    /// JSON
    Json,
}

/// Extension of a file in this form.
pub(crate) fn extension(form: &impl ValueEnum) -> String {
    let value = form.to_possible_value();
    match value.as_ref().map_or("txt", |value| value.get_name()) {
        "table" => "txt",
        "markdown" => "md",
        name => name,
    }
    .to_owned()
}

/// Endings of files in forms that no answer has, or some answers have and others not.
const FOREIGN: [&str; 21] = [
    "arrow", "csv", "docx", "htm", "html", "json", "jsonl", "markdown", "md", "ods", "parquet", "pdf", "png", "svg",
    "toml", "tsv", "xls", "xlsx", "xml", "yaml", "yml",
];

/// Refuses a file whose name ends as a form that is none of the command's: the table for terminals would be written there.
pub(crate) fn not_foreign<F: ValueEnum>(out: Option<&Path>) -> anyhow::Result<()> {
    let Some((out, ending)) = out.and_then(|out| Some((out, out.extension()?.to_str()?.to_ascii_lowercase()))) else {
        return Ok(());
    };
    let forms: Vec<String> = F::value_variants().iter().map(extension).collect();
    if forms.contains(&ending) || !FOREIGN.contains(&ending.as_str()) {
        return Ok(());
    }
    let known: Vec<String> = forms.iter().map(|form| format!(".{form}")).collect();
    let what = format!(
        "--out {}: the answer cannot be written as .{ending}; end the name in {}, or say which of these it is with --format",
        out.display(),
        known.join(", ")
    );
    Err(Usage(what).into())
}

/// Form of a smaller answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// Text and tables for a terminal
    Table,
    /// JSON
    Json,
}

/// Help on times, for the end of a command's help.
pub(crate) const TIMES: &str = "\
Times: write 2017-10-03, 2017-10-03T12:00, 2017-10-03T12:00:00Z, 2017-10-03T12:00:00+08:00, or seconds since the epoch (1970-01-01 UTC). \
A time without an offset is in the time zone of the trace (see --timezone). A window includes its start and excludes its end. \
A date as a start means the beginning of that day, and a date as an end means the end of that day. \
So a window from 2017-10-03 to 2017-10-03 is one day.";

/// The window of `--from` and `--to`, which is in order as far as that can be told before the zone is known.
pub(crate) fn window<'a>(from: &'a Option<Written>, to: &'a Option<Written>) -> anyhow::Result<Window<'a>> {
    Ok(Window::new(["--from", "--to"], from.as_ref(), to.as_ref())?)
}

/// Resource that jobs compete for, by its name.
pub(crate) fn resource(text: &str) -> Result<Resource, String> {
    let known = Resource::ALL.into_iter().find(|resource| resource.id() == text);
    known.ok_or_else(|| format!("no such resource; there are {}", Resource::ALL.map(Resource::id).join(", ")))
}

/// Why a plan of nodes takes no `--where`.
pub(crate) const NODES_OF_ALL: &str =
    "nodes that some jobs leave idle may be busy with others, so the plan needs them all; --vc plans one VC";
/// Why a forecast of demand takes no `--where`.
pub(crate) const DEMAND_OF_ALL: &str = "demand for nodes is that of all jobs; --vc forecasts one VC";

/// A length of time, milliseconds. Who leaves out the unit hardly means seconds, so that only 0 goes without one.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    if text.trim().parse::<f64>().is_ok_and(|number| number != 0.0) {
        return Err("no unit; write 24h, 90min or 3600s".to_owned());
    }
    tracecast_planner::replay::scenario::parse_duration(text).map_err(|error| error.to_string())
}

/// Parser of an entry of a list such as `a, b`, without the blanks around it.
#[derive(Debug, Clone)]
pub(crate) struct Listed<P>(P);

/// Parses an entry with `entry`, without the blanks around it.
pub(crate) fn listed<P: TypedValueParser>(entry: P) -> Listed<P> {
    Listed(entry)
}

/// Names as they stand in a list, without the blanks around them.
pub(crate) fn entries() -> Listed<StringValueParser> {
    Listed(StringValueParser::new())
}

/// Choices as they stand in a list, likewise.
pub(crate) fn choices<T: ValueEnum + Clone + Send + Sync + 'static>() -> Listed<EnumValueParser<T>> {
    Listed(EnumValueParser::new())
}

/// Numbers as they stand in a list, likewise.
pub(crate) fn numbers() -> Listed<impl TypedValueParser<Value = f64>> {
    Listed(|text: &str| text.parse::<f64>().map_err(|_| "write a number such as 0.8 or 12"))
}

impl<P: TypedValueParser> TypedValueParser for Listed<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<P::Value, clap::Error> {
        self.0.parse_ref(command, arg, value.to_str().map_or(value, |text| OsStr::new(text.trim())))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// A number within bounds.
pub(crate) fn within(text: &str, (least, most): (f64, f64), remedy: &'static str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|value: &f64| (least..=most).contains(value)).ok_or(remedy)
}

/// Parses a factor that work is multiplied by.
pub(crate) fn factor(text: &str) -> Result<f64, &'static str> {
    within(text, FACTORS, "write a factor from 0.05 to 20, such as 1.2 for a fifth more")
}

#[cfg(test)]
mod tests {
    use super::duration;

    /// Regression test: `--deadline 24` was 24 seconds.
    #[test]
    fn a_length_of_time_has_a_unit() {
        assert_eq!((duration("24h"), duration(" 90min"), duration("0")), (Ok(86_400_000), Ok(5_400_000), Ok(0)));
        for bare in ["24", "1.5", " 3600 ", "1e3"] {
            let told = duration(bare);
            assert!(told.as_ref().is_err_and(|told| told.contains("write 24h, 90min or 3600s")), "{bare}: {told:?}");
        }
        assert!(duration("-1h").is_err() && duration("soon").is_err());
    }
}
