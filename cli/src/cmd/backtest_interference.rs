//! `tracecast model backtest interference`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_predictors::interference::answer::InterferenceAnswer;
use tracecast_predictors::interference::backtest::{self, HoldOut, InterferenceOptions};
use tracecast_predictors::interference::{groups, read, slice};

use crate::cmd::answer::{self, Answering};
use crate::exit::Usage;
use crate::output;
use crate::progress::{Clock, Steps};

/// Data left out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LeaveOut {
    /// Families of jobs, such as a model with all its batch sizes
    Family,
    /// GPU types
    GpuType,
}

impl LeaveOut {
    fn way(self) -> HoldOut {
        match self {
            Self::Family => HoldOut::Family,
            Self::GpuType => HoldOut::GpuType,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, Gavel's measurements, each family of models left out in turn:
  tracecast model backtest interference simulation_throughputs.json.gz --hold-out family

Groups of three and four jobs on an H100, held against what their couples say:
  tracecast model backtest interference datasets/pairs/h100-groups/mps/pairs.csv --profiles datasets/pairs/h100-groups/mps/profiles.csv \\
    --groups datasets/pairs/h100-groups/mps/groups.csv --hold-out family

How two jobs of your own would run together is what `tracecast model predict interference` says, by the model that `tracecast model train interference` writes.")]
pub(crate) struct BacktestInterference {
    /// Measured pairs: CSV, Gavel's throughputs (JSON), Lucid's table (CSV), or step times on MIG slices (CSV)
    ///
    /// A CSV of pairs has the columns gpu_type, job_a, job_b, speed_a and speed_b. A speed is the share of the speed alone. It is empty or 0 where the
    /// two jobs did not fit. A CSV of slices has the columns model, batch, mig_profile and step_s_median.
    #[arg(value_name = "PAIRS")]
    pub(crate) pairs: PathBuf,
    /// What is known of each job alone: a CSV with gpu_type, job, family and any of the quantities in the guide
    #[arg(long, value_name = "PROFILES")]
    pub(crate) profiles: Option<PathBuf>,
    /// Measured groups of three jobs and more: a CSV with gpu_type, group, job and speed, a row for each job
    ///
    /// Says whether groups run at the speeds that are composed from their couples. `datasets/pairs/measure.py --groups` writes it.
    #[arg(long, value_name = "GROUPS")]
    pub(crate) groups: Option<PathBuf>,
    /// A second measurement of the pairs, in any form of PAIRS: says how far apart the two are
    #[arg(long, value_name = "PAIRS")]
    pub(crate) again: Option<PathBuf>,
    /// What to leave out together [default: each in turn, and pairs at random to show how that flatters]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) hold_out: Option<LeaveOut>,
    /// Seed of the random choices: the same seed gives the same answer
    ///
    /// [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Refuses options that step times on slices cannot use: they are of one GPU type, and nothing is
/// drawn.
fn check_slices(request: &BacktestInterference) -> Result<()> {
    let file = request.pairs.display();
    if request.hold_out == Some(LeaveOut::GpuType) {
        let what = format!(
            "{file} holds step times on slices of one GPU type, so --hold-out gpu-type leaves nothing; families are left out in turn"
        );
        return Err(Usage(what).into());
    }
    if request.seed.is_some() {
        let what = format!("{file} holds step times on slices, of which nothing is drawn; leave out --seed");
        return Err(Usage(what).into());
    }
    if let Some(beside) = request.groups.as_ref().or(request.again.as_ref()) {
        let what = format!(
            "{file} holds step times on slices, where nobody shares; name the pairs beside which {} was measured",
            beside.display()
        );
        return Err(Usage(what).into());
    }
    Ok(())
}

pub(crate) fn run(request: &BacktestInterference, quiet: bool) -> Result<()> {
    let checked = request.answering.check("model-backtest-interference", &[])?;
    let mut title = request.pairs.display().to_string();
    for further in [&request.profiles, &request.groups, &request.again].into_iter().flatten() {
        title += &format!(", {}", further.display());
    }
    let seed = request.seed.unwrap_or(1);
    let answer = if slice::is_slices(&request.pairs)? {
        let Some(profiles) = &request.profiles else {
            let what = format!(
                "{} holds step times on slices; name the table of the same jobs on the whole GPU with --profiles",
                request.pairs.display()
            );
            return Err(Usage(what).into());
        };
        check_slices(request)?;
        let slices = slice::SliceTable::read(&request.pairs, profiles)?;
        let clock = Clock::new(quiet, "fitting and forecasting");
        let result = slice::backtest(&slices)?;
        drop(clock);
        InterferenceAnswer::new(title, slices.notes().to_vec(), seed, Vec::new(), Some(result))
    } else {
        let table = read::sharing(&request.pairs, request.profiles.as_deref())?;
        let measured =
            request.groups.as_deref().map(|file| groups::read(file, &table)).transpose()?.unwrap_or_default();
        let again = request.again.as_deref().map(|file| read::sharing(file, None)).transpose()?;
        let again = again.map_or_else(Vec::new, |again| backtest::again(&table, &again));
        output::say(
            quiet,
            &format!(
                "tracecast: {} pairs of {} job types on {} GPU types …",
                table.pairs().len(),
                table.jobs().len(),
                table.gpu_types().len()
            ),
        );
        let options = InterferenceOptions { hold_out: request.hold_out.map(LeaveOut::way), seed };
        let steps = Steps::watching(quiet, "fitting and forecasting");
        let splits = backtest::run_watched(&table, &options, &steps)?;
        let tests = groups::backtest(&table, &measured, seed, &steps)?;
        drop(steps);
        InterferenceAnswer::new(title, table.notes.clone(), seed, splits, None).with_groups(tests).with_again(again)
    };
    checked.write(true, || answer.report(), || answer::json(&answer, "the answer"))
}
