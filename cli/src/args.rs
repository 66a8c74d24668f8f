//! What can be typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracecast_analytics::ingest;
use tracecast_analytics::time::Zone;

/// Trace analytics and predictive planning for GPU clusters, offline.
#[derive(Debug, Parser)]
#[command(name = "tracecast", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 rows quarantined or a file damaged under --strict, 4 format not recognised."
)]
pub(crate) struct Arguments {
    /// Threads to use (results do not depend on it) [default: all cores]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// No progress on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a trace holds: sizes, runs, waits, states, load, users, VCs, energy …
    Describe(Describe),
    /// Write one self-contained HTML report and its JSON; on the bundled sample without an argument
    Report(Report),
    /// Convert a source to a trace folder (Parquet tables and manifest.json)
    Ingest(Ingest),
    /// Show the quality ledger: what became of every row, and why
    Inspect(Inspect),
    /// Six standard aggregates of a jobs table of any size, streaming, in flat memory
    Rollup(Rollup),
    /// Generate a complete synthetic trace from a small specification
    Synth(Synth),
    /// List the formats that can be read
    Formats,
    /// Print the JSON Schema of a machine-readable output
    Schema(Schema),
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// How sources are read.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// Reader to use instead of recognising each file (see `tracecast formats`)
    #[arg(long, value_name = "ID", value_parser = reader)]
    pub(crate) reader: Option<String>,
    /// The cluster's time zone: of local times in the source, and of hours and weekdays in the answer
    #[arg(long, value_name = "IANA NAME", value_parser = Zone::named)]
    pub(crate) timezone: Option<Zone>,
    /// Mapping file that says what the columns of a CSV or Parquet file mean
    #[arg(long, value_name = "TOML")]
    pub(crate) mapping: Option<PathBuf>,
    /// Fail if any row has to be quarantined or a file is damaged
    #[arg(long)]
    pub(crate) strict: bool,
}

fn reader(id: &str) -> Result<String, &'static str> {
    let known = ingest::readers().iter().any(|reader| reader.id() == id);
    known.then(|| id.to_owned()).ok_or("no such reader; see `tracecast formats`")
}

/// Form of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Text and tables for a terminal
    Table,
    /// JSON, version describe/1
    Json,
    /// Markdown
    Markdown,
    /// One self-contained HTML file
    Html,
}

/// Form of a smaller answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// Text and tables for a terminal
    Table,
    /// JSON
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub(crate) format: Form,
    /// Write the answer to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) charts: Option<PathBuf>,
    /// Write every table of the answer, and the derived columns of each job, as Parquet into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tables: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Files, folders or patterns; or one trace folder [default: the bundled synthetic sample]
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Folder for report.html and report.json
    #[arg(long, short, value_name = "FOLDER", default_value = "tracecast-report")]
    pub(crate) out: PathBuf,
    /// Title of the report [default: from the source]
    #[arg(long)]
    pub(crate) title: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Ingest {
    /// Files, folders or patterns
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// The trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace a trace folder that is already there
    #[arg(long)]
    pub(crate) force: bool,
    /// Write quarantined rows to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
    /// Write quarantined rows to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Rollup {
    /// A trace folder, or a Parquet or CSV file with the columns of the jobs table
    #[arg(value_name = "SOURCE")]
    pub(crate) source: PathBuf,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
}

#[derive(Debug, Args)]
pub(crate) struct Synth {
    /// The specification (see datasets/specs)
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// The trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace a trace folder that is already there
    #[arg(long)]
    pub(crate) force: bool,
    /// Seed; the same specification and seed give the same bytes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Which output
    #[arg(value_enum)]
    pub(crate) of: SchemaOf,
}

/// Machine-readable outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `describe --format json`
    Describe,
    /// `rollup --format json`
    Rollup,
    /// `manifest.json` of a trace folder
    Manifest,
    /// Columns of the tables in a trace folder
    Tables,
}
