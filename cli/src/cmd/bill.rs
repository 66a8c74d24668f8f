//! `tracecast bill`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::bill::answer::BillAnswer;
use tracecast_analytics::bill::charge::{BillRequest, BilledBy, bill};
use tracecast_analytics::bill::focus;
use tracecast_analytics::bill::rates::Rates;
use tracecast_analytics::energy::meter::{self, Options};
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::{Label, Table as _};
use tracecast_analytics::time::format_rfc3339;

use crate::args::{Between, Input, TIMES};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::exit::Usage;
use crate::progress::Clock;
use crate::{output, source};

/// Why no part of the jobs is taken.
const NEEDED: &str = "what no job held is what all jobs leave, so a bill needs them all";

/// Column of jobs that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Account or project
    Account,
    /// Virtual cluster, partition or queue
    Vc,
    /// User
    User,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample by VC:
  tracecast bill datasets/sample --rates datasets/rates/example.toml --by vc

{TIMES}"))]
pub(crate) struct BillOf {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Rates file (TOML) with prices of GPU-hours, core-hours, energy and carbon
    ///
    /// `tracecast schema rates --example` prints one with comments.
    #[arg(long, value_name = "TOML", help_heading = "Rates")]
    pub(crate) rates: PathBuf,
    /// Who is charged [default: account if jobs name one, else vc, else user]
    #[arg(long, value_enum, value_name = "WHO", help_heading = "Rates")]
    pub(crate) by: Option<By>,
    /// Amount that all lines are to come to, such as that of an invoice
    #[arg(long, value_name = "AMOUNT", value_parser = amount, help_heading = "Rates")]
    pub(crate) invoice: Option<f64>,
    #[command(flatten)]
    pub(crate) between: Between,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write the lines to this file, as CSV
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the lines to this file, as CSV with the columns of FOCUS 1.2
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) focus: Option<PathBuf>,
}

fn amount(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|amount: &f64| (0.0..1e12).contains(amount)).ok_or("write an amount, 0 or more")
}

pub(crate) fn run(request: &BillOf, quiet: bool) -> Result<()> {
    let checked = request.answering.check("bill", &[&request.csv, &request.focus])?;
    let rates = Rates::parse(&request.rates.display().to_string(), &source::text(&request.rates)?)?;
    let window = request.between.window()?;
    let trace = source::open_whole(&request.input.sources, &request.input.reading, quiet, NEEDED)?;
    let facts = JobFacts::new(&trace);
    let (from, to) = window.resolve(&facts.zone)?;
    let Some((first, last)) = facts.window else {
        return Err(Usage("the source has no jobs with times, so nobody can be charged".to_owned()).into());
    };
    // Whole seconds, as bills are read by others.
    let (first, last) = (first.div_euclid(1000) * 1000, (last + 999).div_euclid(1000) * 1000);
    let period_ms = (from.map_or(first, |from| from.max(first)), to.map_or(last, |to| to.min(last)));
    if period_ms.0 >= period_ms.1 {
        let [first, last] = [first, last].map(format_rfc3339);
        let what = format!("no job of the source is of that time; jobs go from {first} to {last} (--from, --to)");
        return Err(Usage(what).into());
    }
    let mut notes = Vec::new();
    if from.is_some_and(|from| from < first) || to.is_some_and(|to| to > last) {
        notes.push("The period is cut to the time of the record: of what is beyond nobody knows.".to_owned());
    }
    if rates.decimals_beyond(request.invoice) {
        return Err(Usage(format!("--invoice has more than {} decimals, which the rates name", rates.decimals)).into());
    }
    if request.focus.is_some() && !trace.basis.has_dates() {
        return Err(Usage("--focus needs dates, and the trace has none".to_owned()).into());
    }
    let clock = Clock::new(quiet, "charging jobs");
    let has_telemetry = !(trace.gpu_samples.is_empty() && trace.node_samples.is_empty());
    let is_priced = rates.energy.is_some() || rates.carbon.is_some();
    let options = Options { from_ms: Some(period_ms.0), to_ms: Some(period_ms.1), ..Options::default() };
    // A period without readings has a bill of all else.
    let measured = (is_priced && has_telemetry).then(|| meter::measure(&trace, &options));
    let ledger = measured
        .and_then(|measured| measured.map_err(|error| notes.push(format!("Energy is not known: {error}."))).ok());
    let names = |column: &Label| !column.is_all_unknown();
    let by = match request.by {
        Some(By::Account) => BilledBy::Account,
        Some(By::Vc) => BilledBy::Vc,
        Some(By::User) => BilledBy::User,
        None if names(&trace.jobs.account) => BilledBy::Account,
        None if names(&trace.jobs.vc) => BilledBy::Vc,
        None => BilledBy::User,
    };
    let of_period = BillRequest { rates: &rates, by, period_ms, invoice: request.invoice, energy: ledger.as_ref() };
    let mut result = bill(&facts, &of_period)?;
    result.notes.splice(0..0, notes);
    drop(clock);
    let title = describe::title(&trace, &request.input.sources);
    let answer = BillAnswer::new(&trace, title, period_ms, by, &rates, result);
    let lines = request.csv.as_deref().map(|path| answer.csv().map(|text| (path, text))).transpose()?;
    let focus =
        request.focus.as_deref().map(|path| focus::csv(&answer, &rates).map(|text| (path, text))).transpose()?;
    let files: Vec<(&Path, &[u8])> = lines.iter().chain(&focus).map(|(path, text)| (*path, text.as_slice())).collect();
    output::write_all(&files)?;
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
