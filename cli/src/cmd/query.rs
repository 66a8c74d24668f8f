//! `tracecast query`.

use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tracecast_analytics::report::text;
use tracecast_query::{QueryAnswer, Tables, listing};

use crate::args::{Between, Reading, TIMES, not_foreign};
use crate::cmd::{answer, query_standard};
use crate::early::{Replacing, form_of_name};
use crate::exit::Usage;
use crate::progress::Clock;
use crate::{memory, output, source};

/// Form of the rows of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// A table for a terminal
    Table,
    /// CSV with a header
    Csv,
    /// One JSON array of objects
    Json,
    /// JSON lines: an object a line
    Jsonl,
    /// A Parquet file
    Parquet,
    /// An Arrow IPC file
    Arrow,
}

/// Invocations that work, for the end of the help.
const EXAMPLES: &str = "\
Examples, on the bundled sample:
  tracecast query datasets/sample
  tracecast query datasets/sample \"select vc, sum(gpu_hours) as gpu_hours from job_facts group by vc order by gpu_hours desc\"
  tracecast query datasets/sample --from 2024-03-18 --to 2024-03-24 \"select count(*) as jobs from jobs\"";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{TIMES}"))]
pub(crate) struct Query {
    /// Trace to read, then the query: SOURCE... "select ..."
    ///
    /// A source is a file, a folder, a pattern, or a trace folder that `tracecast ingest` wrote; of a trace folder only the columns that the
    /// query needs are read. The last argument is the query if it is SQL (SELECT or WITH). Without a query, the command lists the tables and
    /// columns that there are.
    #[arg(required = true, value_name = "SOURCE... [SQL]")]
    pub(crate) arguments: Vec<String>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) between: Between,
    /// Read the query from this file
    #[arg(long, value_name = "FILE", help_heading = "Question")]
    pub(crate) file: Option<PathBuf>,
    /// Add a table of your own, a CSV file with a header or a Parquet file: --with rates=rates.csv
    #[arg(long, value_name = "NAME=FILE", help_heading = "Question")]
    pub(crate) with: Vec<String>,
    /// Answer six standard questions of a jobs table that may be larger than memory
    ///
    /// They are: jobs by size, run times by size, end states, users with most GPU time, arrivals by hour, and GPUs in use. The table is read
    /// once, and the memory used does not grow with its rows. The source is one trace folder, or one Parquet or CSV file with the columns of
    /// the table jobs. Arrivals by hour and GPUs in use are in the JSON form only.
    #[arg(
        long,
        conflicts_with_all = [
            "reader", "timezone", "mapping", "metrics", "metric", "shards_per_gpu", "max_expansion", "one_cluster", "condition", "from", "to",
            "file", "with", "explain", "rows",
        ],
        help_heading = "Question"
    )]
    pub(crate) standard: bool,
    /// Show how the query will be answered, and do not answer it
    #[arg(long, help_heading = "Question")]
    pub(crate) explain: bool,
    /// Form in which the rows are written [default: as the name of --out says, else table]
    #[arg(long, value_enum, help_heading = "Answer")]
    pub(crate) format: Option<Rows>,
    /// Write the rows as JSON: short for --format json
    #[arg(long, conflicts_with = "format", help_heading = "Answer")]
    pub(crate) json: bool,
    /// Most rows that the table form shows; the other forms hold all
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Answer")]
    pub(crate) rows: usize,
    /// Write the answer to a file instead of stdout; FOLDER/ writes it there under the name of the command
    #[arg(long, short, value_name = "FILE|FOLDER/", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn run(request: &Query, threads: Option<NonZeroUsize>, quiet: bool) -> Result<()> {
    if request.format.is_none() && !request.json {
        not_foreign::<Rows>(request.out.as_deref())?;
    }
    let form = form(request);
    if request.standard {
        return standard(request, form, threads);
    }
    with_engine_set(threads)?;
    request.between.window()?;
    let (sources, sql) = parts(request)?;
    let out = request.replacing.answer(request.out.as_deref(), "query", &form)?;
    let out = out.as_deref();
    if sql.is_none() && !matches!(form, Rows::Table | Rows::Json) {
        let what = "there is no query; the list of tables is written as --format table or json";
        return Err(Usage(what.to_owned()).into());
    }
    let binary = matches!(form, Rows::Parquet | Rows::Arrow) && !request.explain;
    if binary && out.is_none() && std::io::stdout().is_terminal() {
        return Err(Usage("this form is not for a terminal; name a file with --out".to_owned()).into());
    }
    let tables = tables(&sources, request, quiet)?;
    let Some(sql) = sql else { return list(&tables, form, out) };
    if request.explain {
        return output::text(&format!("{}\n", tables.explain(&sql)?.trim_end()), out);
    }
    memory::watch(
        "the query",
        "write a condition for each join, ask for fewer columns or rows, or let it group and count instead of listing",
    );
    let clock = Clock::new(quiet, "asking");
    let answer = tables.ask(&sql)?;
    drop(clock);
    source::warn_of_absent("", &answer.absent);
    write(&answer, form, request.rows, out)
}

/// The six standard questions.
fn standard(request: &Query, form: Rows, threads: Option<NonZeroUsize>) -> Result<()> {
    let [asked] = request.arguments.as_slice() else {
        return Err(Usage("--standard: name one source and no query".to_owned()).into());
    };
    let is_json = match form {
        Rows::Json => true,
        Rows::Table => false,
        _ => return Err(Usage("--standard: the answer is written as --format table or json".to_owned()).into()),
    };
    let out = request.replacing.answer(request.out.as_deref(), "query", &form)?;
    let text = query_standard::answer(Path::new(asked), request.reading.strict, is_json, threads)?;
    output::text(&text, out.as_deref())
}

/// Settings of polars that keep its memory low: row groups that are read ahead of their use, and groups that are added up where their rows come in (the partial
/// sums of others are kept for the end). Of 11 million jobs by user or by hour they halve it, in no more time.
const FRUGAL: [(&str, &str); 2] = [("POLARS_ROW_GROUP_PREFETCH_SIZE", "1"), ("POLARS_HOT_TABLE_SIZE", "65536")];

/// polars takes the number of its threads and these settings from the environment alone, when its first thread starts: the program begins anew with those
/// that are not set.
#[cfg(unix)]
fn with_engine_set(threads: Option<NonZeroUsize>) -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    let threads = threads.map(|threads| ("POLARS_MAX_THREADS", threads.to_string()));
    let settings = FRUGAL.map(|(name, value)| (name, value.to_owned())).into_iter().chain(threads);
    let unset: Vec<(&str, String)> = settings.filter(|(name, _)| std::env::var_os(name).is_none()).collect();
    if unset.is_empty() {
        return Ok(());
    }
    let program = std::env::current_exe().context("find the program")?;
    let failed = std::process::Command::new(program).args(std::env::args_os().skip(1)).envs(unset).exec();
    Err(failed).context("begin anew with the settings of the query engine")
}

#[cfg(not(unix))]
fn with_engine_set(_: Option<NonZeroUsize>) -> Result<()> {
    Ok(())
}

/// The sources, and the query if there is one.
fn parts(request: &Query) -> Result<(Vec<PathBuf>, Option<String>)> {
    let mut arguments = request.arguments.clone();
    let typed = if arguments.last().is_some_and(|last| is_sql(last)) { arguments.pop() } else { None };
    let sql = match (&request.file, typed) {
        (Some(_), Some(_)) => {
            return Err(
                Usage("write the query as the last argument or name it with --file, not both".to_owned()).into()
            );
        }
        (Some(file), None) => Some(source::text(file)?.trim_start_matches('\u{feff}').to_owned()),
        (None, typed) => typed,
    };
    if arguments.is_empty() {
        let what = "name the trace before the query, such as tracecast query datasets/sample \"select ...\"";
        return Err(Usage(what.to_owned()).into());
    }
    if request.explain && sql.is_none() {
        return Err(Usage("--explain: there is no query to explain".to_owned()).into());
    }
    Ok((arguments.into_iter().map(PathBuf::from).collect(), sql))
}

/// Whether an argument is a query rather than a source: it is empty or has more than one word, and
/// no file has that name.
fn is_sql(argument: &str) -> bool {
    let words = argument.split_whitespace().count();
    (words != 1 || argument.contains(';')) && !Path::new(argument).exists()
}

/// The form asked for, else that of the file's name, else a table.
fn form(request: &Query) -> Rows {
    let of_name = || form_of_name(request.out.as_deref());
    if request.json { Rows::Json } else { request.format.or_else(of_name).unwrap_or(Rows::Table) }
}

fn tables(sources: &[PathBuf], request: &Query, quiet: bool) -> Result<Tables> {
    let (reading, between) = (&request.reading, &request.between);
    let whole = reading.condition.is_none() && between.typed().is_none();
    let mut tables = match sources {
        // A folder of its own is read as far as the query needs.
        [folder] if whole && tracecast_analytics::storage::is_folder(folder) => {
            let tables = Tables::of_folder(folder, reading.timezone.clone())?;
            if let Some(ledger) = tables.ledger() {
                source::told_of(ledger, reading.strict)?;
            }
            tables
        }
        sources => Tables::of_trace(source::open_between(sources, reading, between, None, quiet)?)?,
    };
    for named in &request.with {
        let Some((name, file)) = named.split_once('=') else {
            return Err(Usage(format!("--with {named}: write NAME=FILE, such as rates=rates.csv")).into());
        };
        tables.add(name, Path::new(file))?;
    }
    Ok(tables)
}

/// The tables and columns that there are.
fn list(tables: &Tables, form: Rows, out: Option<&Path>) -> Result<()> {
    #[derive(Serialize)]
    struct Listed<'a> {
        zone: &'a str,
        tables: &'a [listing::ListedTable],
    }
    let listed = tables.list()?;
    let zone = tables.zone().name();
    let text = match form {
        Rows::Json => answer::json(&Listed { zone, tables: &listed }, "the list of tables")?,
        _ => {
            let terminal = output::width(out);
            let shown: Vec<String> =
                listing::tables(&listed).iter().map(|table| text::table(table, terminal)).collect();
            format!(
                "Times are in {zone}.\n\n{}\nAsk with: tracecast query SOURCE \"select ... from job_facts ...\"\n",
                shown.join("\n")
            )
        }
    };
    output::text(&text, out)
}

/// Writes the rows. A file holds all of them in every form.
fn write(answer: &QueryAnswer, form: Rows, most_rows: usize, out: Option<&Path>) -> Result<()> {
    let mut bytes = Vec::new();
    let lines = match form {
        Rows::Table => {
            let most = if out.is_some() { usize::MAX } else { most_rows };
            return output::text(&text::table(&answer.table(most), output::width(out)), out);
        }
        Rows::Csv => answer.write_csv(&mut bytes),
        Rows::Json => answer.write_json(&mut bytes),
        Rows::Jsonl => answer.write_jsonl(&mut bytes),
        Rows::Parquet => return output::bytes(&answer.parquet()?, out),
        Rows::Arrow => return output::bytes(&answer.arrow()?, out),
    };
    lines.context("write the rows")?;
    output::bytes(&bytes, out)
}
