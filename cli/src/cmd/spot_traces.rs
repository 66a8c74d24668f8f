//! Traces of spot availability, as commands take them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use tracecast_analytics::ingest::{self, SourceFile};
use tracecast_planner::market::availability::{SpotSeries, names};
use tracecast_planner::market::price_book::{self, PriceBook};

use crate::args::{Reading, duration, entries};
use crate::exit::Usage;
use crate::source;

/// Why these commands take no `--where`.
pub(crate) const NO_JOBS: &str = "the sources hold no jobs, but when spot could be had";

/// Traces to read.
#[derive(Debug, Args)]
pub(crate) struct SpotTraces {
    /// Traces of spot availability, one file for each zone: files, folders or patterns
    ///
    /// A trace is JSON as SkyPilot writes it, also compressed (.json.gz): `{"metadata": {"gap_seconds": 300}, "data": [1, 0, …]}`. A log of a script that keeps spot instances is one trace for each zone and instance type.
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Time between the samples of every trace, such as 300s [default: gap_seconds of each file]
    #[arg(long, value_name = "TIME", value_parser = gap)]
    pub(crate) gap: Option<i64>,
    /// Of logs, take only the traces of these instances, such as V100:1, separated by commas [default: all]
    #[arg(long, value_name = "GPU:COUNT", value_delimiter = ',', value_parser = entries())]
    pub(crate) instance: Vec<String>,
}

/// Prices beside the traces.
#[derive(Debug, Args)]
pub(crate) struct SpotPrices {
    /// Spot prices of the zones, where the traces carry none
    ///
    /// A list for each zone with a price for each sample, `{"us-east-1a_v100_1": [1.67, …]}`, or what `aws ec2 describe-spot-price-history` wrote as JSON; also
    /// compressed. `none` sets aside all prices that the traces carry, where only some of them do (a file of that name is `./none`).
    #[arg(long, value_name = "FILE", help_heading = "Prices")]
    pub(crate) prices: Option<PathBuf>,
}

/// A time between samples.
pub(crate) fn gap(text: &str) -> Result<i64, String> {
    let result = duration(text)?;
    if result > 0 { Ok(result) } else { Err("the time between samples must be more than 0".to_owned()) }
}

/// A moment such as 2023-02-15T00:00:00Z.
pub(crate) fn moment(text: &str) -> Result<i64, String> {
    price_book::moment(text).ok_or_else(|| "write a time such as 2023-02-15T00:00:00Z".to_owned())
}

/// Value of `--prices` where no prices are wanted.
const NO_PRICES: &str = "none";

impl SpotPrices {
    /// Whether prices that traces carry are set aside.
    fn unwanted(&self) -> bool {
        self.prices.as_deref() == Some(Path::new(NO_PRICES))
    }

    fn book(&self, reading: &Reading, quiet: bool) -> Result<Option<PriceBook>> {
        let Some(path) = self.prices.as_ref().filter(|_| !self.unwanted()) else { return Ok(None) };
        if let Some(lists) = PriceBook::lists(&SourceFile::new(path))? {
            return Ok(Some(lists));
        }
        let trace = source::open_whole(std::slice::from_ref(path), reading, quiet, NO_JOBS)?;
        Ok(Some(PriceBook::history(&trace, path.display().to_string())?))
    }
}

impl SpotTraces {
    /// Each file on its own, named so that they can be told apart, with its prices, and what they are called together.
    pub(crate) fn series(
        &self,
        prices: &SpotPrices,
        begins_ms: Option<i64>,
        quiet: bool,
    ) -> Result<(Vec<SpotSeries>, String)> {
        let (mut result, title) = series((&self.traces, &self.reading, self.gap), prices, begins_ms, quiet)?;
        if self.instance.is_empty() {
            return Ok((result, title));
        }
        let mut known: Vec<String> = result.iter().filter_map(|zone| zone.instance.clone()).collect();
        known.sort_unstable();
        known.dedup();
        let is_asked = |of: &str| self.instance.iter().any(|named| named.eq_ignore_ascii_case(of));
        result.retain(|zone| zone.instance.as_deref().is_some_and(is_asked));
        if result.is_empty() {
            let what =
                format!("--instance: no trace is of {}; there are {}", self.instance.join(", "), known.join(", "));
            return Err(Usage(what).into());
        }
        let title = titled(&result);
        Ok((result, title))
    }
}

/// Series of traces as [`SpotTraces::series`] reads them, where traces need not be named.
pub(crate) fn series(
    (traces, reading, gap): (&[PathBuf], &Reading, Option<i64>),
    prices: &SpotPrices,
    begins_ms: Option<i64>,
    quiet: bool,
) -> Result<(Vec<SpotSeries>, String)> {
    let (folders, files) = source::parted(traces);
    let mut paths = folders;
    if !files.is_empty() {
        paths.extend(ingest::expand(&files)?.iter().map(|file| file.path().to_path_buf()));
    }
    let named = names(&paths.iter().map(PathBuf::as_path).collect::<Vec<&Path>>());
    let book = prices.book(reading, quiet)?;
    let mut series = Vec::with_capacity(paths.len());
    for (at, (path, name)) in paths.iter().zip(&named).enumerate() {
        if named.iter().take(at).any(|other| other == name) {
            let what = format!("two traces are called {name}; name each zone once, by files of different names");
            return Err(Usage(what).into());
        }
        let trace = source::open_whole(std::slice::from_ref(path), reading, quiet, NO_JOBS)?;
        let dated = trace.basis.has_dates() && !trace.prices.ts.is_empty();
        let history = dated.then(|| PriceBook::history(&trace, name.clone())).transpose()?;
        for mut zone in SpotSeries::all(&trace, name, gap)? {
            if let Some(history) = history.as_ref().filter(|_| zone.price.is_none()) {
                let first_ms = zone.begins_ms;
                history.price(&mut zone, first_ms)?;
            }
            if paths.len() > 1 && zone.name != *name {
                zone.name = format!("{name}: {}", zone.name);
            }
            if prices.unwanted() {
                (zone.price, zone.list_price) = (None, None);
            }
            if let Some(book) = &book {
                let first_ms = zone.begins_ms.or(begins_ms);
                book.price(&mut zone, first_ms)?;
            }
            series.push(zone);
        }
    }
    let title = titled(&series);
    Ok((series, title))
}

/// Title of the traces together.
fn titled(series: &[SpotSeries]) -> String {
    match series {
        [one] => one.name.clone(),
        several => format!("{} traces", several.len()),
    }
}
