//! Arguments that several commands share, and how times and lengths of time are typed.

use clap::{Args, ValueEnum};
use tracecast_analytics::ingest;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Window, Written, Zone};

/// How sources are read.
#[derive(Debug, Default, Args)]
pub(crate) struct Reading {
    /// Reader to use instead of recognising each file (see `tracecast formats`)
    #[arg(long, value_name = "ID", value_parser = reader)]
    pub(crate) reader: Option<String>,
    /// The cluster's time zone: of local times in the source, of times given without an offset, and of times in the answer
    #[arg(long, value_name = "IANA NAME", value_parser = Zone::named)]
    pub(crate) timezone: Option<Zone>,
    /// What CSV or Parquet columns mean; for one source only: SOURCE=TOML
    #[arg(long, value_name = "TOML")]
    pub(crate) mapping: Vec<String>,
    /// Fail if any row has to be quarantined or a file is damaged
    #[arg(long)]
    pub(crate) strict: bool,
    /// How many times its size a compressed JSON document may expand to, beyond 16 MiB
    #[arg(long, value_name = "TIMES", default_value_t = ingest::MOST_EXPANSION, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_expansion: u64,
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
    /// JSON (`tracecast schema` has its form)
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

/// How times are given, for the end of a help.
pub(crate) const TIMES: &str = "\
Times: 2017-10-03 (that whole day), 2017-10-03T12:00, 2017-10-03T12:00:00Z, 2017-10-03T12:00:00+08:00, or seconds since the epoch. \
A time without an offset is in the trace's zone (--timezone). What happens at a beginning counts, what happens at an end does not; \
a bare date ends when that day ends, so that from 2017-10-03 to 2017-10-03 is one day.";

/// The window of `--from` and `--to`, which is in order as far as that can be told before the zone is known.
pub(crate) fn window<'a>(from: &'a Option<Written>, to: &'a Option<Written>) -> anyhow::Result<Window<'a>> {
    Ok(Window::new(["--from", "--to"], from.as_ref(), to.as_ref())?)
}

/// What jobs compete for, by its name.
pub(crate) fn resource(text: &str) -> Result<Resource, String> {
    let known = Resource::ALL.into_iter().find(|resource| resource.id() == text);
    known.ok_or_else(|| format!("there are {}", Resource::ALL.map(Resource::id).join(", ")))
}

/// A length of time, milliseconds.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    tracecast_planner::replay::scenario::parse_duration(text).map_err(|error| error.to_string())
}
