//! `tracecast model train interference`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_predictors::interference::predictor::SharingPredictor;
use tracecast_predictors::interference::read;
use tracecast_predictors::interference::slice::{SlicePredictor, SliceTable};

use crate::early::Replacing;
use crate::exit::Usage;
use crate::output;
use crate::progress::Clock;

#[derive(Debug, Args)]
#[command(after_help = "\
Example, Gavel's measurements, and what they say of two jobs:
  tracecast model train interference simulation_throughputs.json.gz --out share.tcm
  tracecast model predict interference --model share.tcm --gpu-type v100 'ResNet-18 (batch size 16)' A3C")]
pub(crate) struct TrainInterference {
    /// Measured pairs: CSV, or Gavel's throughputs (JSON)
    ///
    /// A CSV of pairs has the columns gpu_type, job_a, job_b, speed_a and speed_b. A speed is the share of the speed alone. It is empty or 0 where the
    /// two jobs did not fit.
    #[arg(value_name = "PAIRS")]
    pub(crate) pairs: PathBuf,
    /// What is known of each job alone: a CSV with gpu_type, job, family and any of the quantities in the guide
    #[arg(long, value_name = "PROFILES")]
    pub(crate) profiles: Option<PathBuf>,
    /// Step times of job types on MIG slices, so that the model says how fast jobs run on a slice: a CSV with model, batch, mig_profile and step_s_median
    #[arg(long, value_name = "CSV")]
    pub(crate) slices: Option<PathBuf>,
    /// What is known of the jobs of --slices on the whole GPU; without it, --profiles says that too
    #[arg(long, value_name = "PROFILES", requires = "slices")]
    pub(crate) slice_profiles: Option<PathBuf>,
    /// Seed of the random choices in training: the same seed gives the same model
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Model file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

/// Predictor of speeds on slices, if step times on slices are given.
fn slices(request: &TrainInterference, quiet: bool) -> Result<Option<SlicePredictor>> {
    let Some(steps) = &request.slices else { return Ok(None) };
    let Some(profiles) = request.slice_profiles.as_ref().or(request.profiles.as_ref()) else {
        let missing = "speeds on slices are forecast from profiles; name them with --slice-profiles";
        return Err(Usage(missing.to_owned()).into());
    };
    let table = SliceTable::read(steps, profiles)?;
    for note in table.notes() {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    Ok(Some(SlicePredictor::train(&table)?))
}

pub(crate) fn run(request: &TrainInterference, quiet: bool) -> Result<()> {
    request.replacing.file(&request.out)?;
    let table = read::sharing(&request.pairs, request.profiles.as_deref())?;
    for note in &table.notes {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    let slices = slices(request, quiet)?;
    let clock = Clock::new(quiet, "training");
    let mut predictor = SharingPredictor::train(&table, request.seed)?.tested_elsewhere(&table);
    drop(clock);
    if let Some(slices) = slices {
        output::say(
            quiet,
            &format!(
                "tracecast: {} on {} of {}",
                format::counted(slices.speeds() as u64, "speed", "speeds"),
                format::counted(slices.slices().len() as u64, "slice", "slices"),
                slices.gpu_type()
            ),
        );
        predictor = predictor.with_slices(slices);
    }
    output::write(&request.out, &predictor.to_bytes()?)?;
    let trained = predictor.trained();
    let missed = trained.held_back_mae.map_or_else(
        || "with one family nothing could be left out, so nobody knows how far it is off".to_owned(),
        |mae| {
            format!("families left out while it was trained are missed by {} of the speed alone", format::float(mae, 3))
        },
    );
    output::say(
        quiet,
        &format!(
            "tracecast: {} of {} on {}; {missed}; model written to {}",
            format::counted(trained.pairs as u64, "pair", "pairs"),
            format::counted(trained.job_types as u64, "job type", "job types"),
            format::counted(trained.gpu_types.len() as u64, "GPU type", "GPU types"),
            request.out.display()
        ),
    );
    Ok(())
}
