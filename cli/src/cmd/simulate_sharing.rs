//! `tracecast simulate --share`: the jobs of a trace on GPUs that may hold two.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::time::{Written, Zone};
use tracecast_planner::sharing::SharingRequest;
use tracecast_planner::sharing::policy::SharingPolicy;
use tracecast_planner::sharing::simulated::{self, SharedReplayRequest};
use tracecast_predictors::interference::read;
use tracecast_predictors::interference::share::SharingLimits;
use tracecast_predictors::interference::table::SharingTable;

use crate::args::{Reading, entries};
use crate::cmd::answer::{self, Checked};
use crate::cmd::describe;
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

/// Why the replay takes no part of the jobs.
const NEEDED: &str = "jobs that share GPUs wait for each other, so a replay needs them all; --eval-from says from when on they are reported";

/// Options that are of other replays.
const OF_OTHERS: [&str; 22] = [
    "add",
    "charts",
    "compare",
    "draws",
    "estimate",
    "from",
    "max_run",
    "merge",
    "order",
    "place",
    "predictions",
    "preempt",
    "recorded",
    "resource",
    "results",
    "scale",
    "scan",
    "score",
    "shard",
    "site",
    "to",
    "vcs",
];

/// Ways to share, and what they need.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sharing GPUs")]
pub(crate) struct SharingArguments {
    /// Let two jobs share a GPU, in these ways on the same jobs, separated by commas, such as gandiva,lucid,antman; all for all
    ///
    ///   first-fit       the first GPU with room; least-loaded: the one that is read to be used least
    ///   gandiva         packs, and rolls back after 5 min if both make no more than one alone
    ///   lucid           packs by scores of forecast speeds
    ///   horus           the least cost by utilisation and memory, corrected
    ///   horus-published the same as its authors' simulator has it
    ///   antman          who finds an empty GPU keeps 95 % of its speed, the other has the rest
    ///   salus-fair      in turns of equal length
    ///   salus-attained  in turns, who has run less first
    ///   mean-forecast   packs if the mean forecast speeds sum to more than 1
    ///   forecast        packs if the forecast keeps --slo and --most-oom, as `plan share couples` does
    ///   forecast-trial  the same, and takes the newer job out after 10 min where it does not
    ///   exclusive       nobody shares; always shown
    ///   oracle          knows the table; always shown
    ///
    /// Jobs of one GPU are replayed on GPUs of one type, in order of submission. Their speeds beside others are those of --pairs. What is drawn goes by --seed.
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', value_parser = entries(), verbatim_doc_comment, conflicts_with_all = OF_OTHERS)]
    pub(crate) share: Vec<String>,
    /// Measured pairs: CSV, or Gavel's throughputs (JSON), as `plan share couples` reads them; may
    /// be given several times
    #[arg(long, hide_short_help = true, value_name = "PAIRS", requires = "share")]
    pub(crate) pairs: Vec<PathBuf>,
    /// What is known of each job type alone: a CSV with gpu_type, job, family and any of the quantities in the guide; may be given several times
    #[arg(long, hide_short_help = true, value_name = "PROFILES", requires = "share")]
    pub(crate) profiles: Vec<PathBuf>,
    /// Job types of jobs by their names: a CSV with the columns name and job_type, such as bert-*,BERT
    ///
    /// The first line that matches counts. A job that no line matches is of the type that its name says, else of that nearest to what it used by
    /// telemetry (policies are told that nearest to what was predicted when it was submitted), else its type is drawn from --seed.
    #[arg(long, hide_short_help = true, value_name = "CSV", requires = "share")]
    pub(crate) types: Option<PathBuf>,
    /// GPU type of --pairs that all GPUs of the replay are of [default: the only one that was measured]
    #[arg(long, hide_short_help = true, value_name = "NAME", requires = "share")]
    pub(crate) gpu_type: Option<String>,
    /// Number of GPUs [default: the fewest with which 95 % of the earlier jobs wait at most 30 min, if nobody shares]
    #[arg(long, hide_short_help = true, value_name = "GPUS", requires = "share")]
    pub(crate) gpus: Option<std::num::NonZeroU32>,
    /// Test on what comes from this time on, and choose on what is before it [default: all, or the
    /// last third if anything is chosen on the jobs before]
    ///
    /// Chosen are the thresholds of forecast and forecast-trial, and the number of GPUs if --gpus is not given.
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, requires = "share")]
    pub(crate) eval_from: Option<Written>,
    /// Pairs of each job type that a forecast knows, with partners of other families [default: 0]
    ///
    /// Each couple of job types is forecast without any other pair of its two families.
    #[arg(long, hide_short_help = true, value_name = "PAIRS", requires = "share")]
    pub(crate) measured: Option<usize>,
    /// How many times as slow the worse of the two jobs may be, at the 0.9 quantile [default: 1.5]
    #[arg(long, hide_short_help = true, value_name = "TIMES", requires = "share")]
    pub(crate) slo: Option<f64>,
    /// Highest chance that the two jobs do not fit into the memory of the GPU [default: 0.05]
    #[arg(long, hide_short_help = true, value_name = "SHARE", requires = "share")]
    pub(crate) most_oom: Option<f64>,
}

impl SharingArguments {
    /// Whether a way to share is named.
    pub(super) fn is_asked(&self) -> bool {
        !self.share.is_empty()
    }

    fn limits(&self) -> Result<SharingLimits> {
        let usual = SharingLimits::default();
        let limits = SharingLimits {
            slo: self.slo.unwrap_or(usual.slo),
            most_out_of_memory: self.most_oom.unwrap_or(usual.most_out_of_memory),
            ..usual
        };
        limits.check()?;
        Ok(limits)
    }

    /// The GPU type that is named, else the only one.
    fn gpu_type(&self, table: &SharingTable) -> Result<String> {
        match (&self.gpu_type, table.gpu_types()) {
            (Some(name), _) => Ok(name.clone()),
            (None, [one]) => Ok(one.clone()),
            (None, several) => Err(Usage(format!(
                "--pairs has pairs of several GPU types, and all GPUs of the replay are of one; name it with --gpu-type: {}",
                several.join(", ")
            ))
            .into()),
        }
    }
}

/// Arguments of the command that other replays have as well.
pub(super) struct SharedSource<'a> {
    /// Files of the trace.
    pub(super) sources: &'a [PathBuf],
    /// Options of reading them.
    pub(super) reading: &'a Reading,
    /// Seed, if one is given.
    pub(super) seed: Option<u64>,
    /// Path to write when each job ran.
    pub(super) schedule: Option<&'a Path>,
}

pub(super) fn run(
    arguments: &SharingArguments,
    request: &SharedSource<'_>,
    checked: &Checked<'_>,
    quiet: bool,
) -> Result<()> {
    let policies = SharingPolicy::of_names(&arguments.share)?;
    if arguments.pairs.is_empty() {
        let what = "--share needs the speeds of jobs beside each other; name a file of measured pairs with --pairs, such as datasets/pairs/h100/time-slicing/pairs.csv";
        return Err(Usage(what.to_owned()).into());
    }
    if arguments.measured.is_some() && !policies.iter().any(|policy| policy.needs_forecasts()) {
        let what = "--measured says what forecasts know, and no way named goes by them; leave it out, or name lucid, mean-forecast, forecast or forecast-trial";
        return Err(Usage(what.to_owned()).into());
    }
    let limits = arguments.limits()?;
    let table = read::sharing_of_all(&arguments.pairs, &arguments.profiles)?;
    let gpu_type = arguments.gpu_type(&table)?;
    let trace = source::open_whole(request.sources, request.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, request.sources);
    let zone = Zone::named(&trace.zone)?;
    let as_planned = SharingRequest {
        eval_from_ms: arguments.eval_from.as_ref().map(|from| from.first_ms(&zone)).transpose()?,
        gpus: arguments.gpus.map(std::num::NonZeroU32::get),
        limits,
        measured: arguments.measured.unwrap_or(0),
        watched: false,
        seed: request.seed.unwrap_or(1),
        gpu_types: Vec::new(),
        types: arguments.types.clone(),
    };
    let steps = Steps::watching(quiet, "forecasting and replaying");
    let only_of_all = SharingPolicy::only_of_all(&arguments.share, &policies);
    let arguments = SharedReplayRequest { policies, only_of_all, gpu_type, as_planned };
    let (result, schedule) = simulated::replay(&trace, &table, title, &arguments, &steps)?;
    drop(steps);
    if let Some(path) = request.schedule {
        let mut bytes = Vec::new();
        schedule.write_csv(&mut bytes).context("write the schedule as CSV")?;
        output::write(path, &bytes)?;
    }
    checked.write(quiet, || result.report(), || answer::json(&result, "the answer"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;
    use crate::cmd::simulate::{ComparisonArguments, Jobs, PolicyArguments};
    use crate::cmd::site::SiteArguments;

    fn options<A: Args>() -> BTreeSet<String> {
        A::augment_args(Command::new("of")).get_arguments().map(|option| option.get_id().to_string()).collect()
    }

    #[test]
    fn all_options_of_other_replays_are_refused() {
        let mut others: BTreeSet<String> = [
            options::<SiteArguments>(),
            options::<Jobs>(),
            options::<PolicyArguments>(),
            options::<ComparisonArguments>(),
        ]
        .into_iter()
        .flatten()
        .collect();
        // What is drawn goes by the seed here, too. Charts are of the whole answer.
        others.remove("seed");
        others.insert("charts".to_owned());
        assert_eq!(others, OF_OTHERS.map(str::to_owned).into());
    }
}
