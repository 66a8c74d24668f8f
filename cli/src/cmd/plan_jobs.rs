//! The jobs and the nodes that a plan of a shared cluster is made of, opened the same way for every such plan.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::replay::answer::Subject;
use tracecast_planner::replay::input::{Hosts, Loaded, Options, last_two, load};
use tracecast_planner::replay::nearest::{Backfill, Today, todays};
use tracecast_planner::sim::{Estimate, Policy};

use crate::args::{Reading, duration};
use crate::cmd::describe;
use crate::cmd::simulate::{PolicyArguments, given};
use crate::source;

/// Which jobs a plan looks at, and what of them counts.
#[derive(Debug, Args)]
pub(crate) struct PlanJobs {
    /// Use jobs submitted at this time or later [default: from the first job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Jobs and nodes")]
    pub(crate) from: Option<Written>,
    /// Use only jobs that ran at most this long, such as 90s, 10m, 2h or 7d [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Jobs and nodes")]
    pub(crate) max_run: Option<i64>,
    /// Whether processors and memory count beside GPUs: none or as-recorded [default: as recorded, where jobs and nodes have them]
    ///
    /// As in `tracecast simulate`. The keys cpus_per_node and memory_gib_per_node of --cluster say what nodes have. The word none plans by GPUs alone.
    #[arg(long, value_name = "WHICH", help_heading = "Jobs and nodes")]
    pub(crate) hosts: Option<Hosts>,
    /// Use jobs submitted before this time, where a date includes that day [default: to the last job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_to: Option<Written>,
}

/// What such a plan was asked for.
pub(crate) struct PlanInput<'a> {
    pub(crate) sources: &'a [PathBuf],
    pub(crate) reading: &'a Reading,
    pub(crate) cluster: Option<&'a Path>,
    pub(crate) resource: Option<Resource>,
    pub(crate) eval_from: Option<&'a Written>,
    pub(crate) jobs: &'a PlanJobs,
    pub(crate) policy: &'a PolicyArguments,
}

/// What it is made of.
pub(crate) struct OpenedPlan {
    pub(crate) title: String,
    pub(crate) trace: Trace,
    /// The jobs, each predicted to run as long as the last two of its user and name on average, and their nodes.
    pub(crate) loaded: Loaded,
    pub(crate) subject: Subject,
    pub(crate) eval_from_ms: Option<i64>,
    /// The policy as it was named; [`OpenedPlan::todays`] is that of today.
    policy: Policy,
    scan_is_named: bool,
    /// What is known of runs, if that was named.
    estimate: Option<Estimate>,
}

impl PlanInput<'_> {
    /// Opens and loads. `needed` says why the plan takes no part of the jobs.
    pub(crate) fn open(&self, needed: &str, quiet: bool) -> Result<OpenedPlan> {
        let PlanJobs { from, max_run, hosts, eval_to } = self.jobs;
        let evaluated = Window::new(["--eval-from", "--eval-to"], self.eval_from, eval_to.as_ref())?;
        let all = Window::new(["--from", "--eval-to"], from.as_ref(), eval_to.as_ref())?;
        let policy = given(self.policy).policy(true)?;
        let site = self.cluster.map(source::site).transpose()?;
        let trace = source::open_whole(self.sources, self.reading, quiet, needed)?;
        let title = describe::title(&trace, self.sources);
        let zone = Zone::named(&trace.zone)?;
        let ((eval_from_ms, to_ms), (from_ms, _)) = (evaluated.resolve(&zone)?, all.resolve(&zone)?);
        let options = Options {
            from_ms,
            to_ms,
            longest_ms: *max_run,
            resource: self.resource,
            hosts: hosts.unwrap_or(Hosts::Usual),
            ..Options::default()
        };
        let mut loaded = load(&trace, site.as_ref(), &options)?;
        let subject = Subject::of(&title, &trace, &loaded);
        loaded.workload.predicted_s = last_two(&JobFacts::of(&trace), &loaded);
        let policy = if self.policy.place.is_some() { policy } else { policy.on(loaded.resource) };
        // Before anything is replayed: what does not go together would be found by the first replay that needs it, and others come before.
        policy.validate(&loaded.workload)?;
        let scan_is_named = self.policy.scan.is_some();
        let estimate = self.policy.estimate.is_some().then_some(policy.estimate);
        Ok(OpenedPlan { title, trace, loaded, subject, eval_from_ms, policy, scan_is_named, estimate })
    }
}

impl OpenedPlan {
    /// The policy of today, once jobs are predicted: with the scan that was named, else with the one that repeats the record until `until_ms`, which a note tells. `backfill` is what one goes by where nobody named that.
    pub(crate) fn todays(&mut self, until_ms: Option<i64>, backfill: Backfill) -> Result<Today> {
        let policy = self.policy.clone();
        if self.scan_is_named {
            return Ok(Today { policy, known: true, told: None });
        }
        let backfill = self.estimate.map_or(backfill, Backfill::By);
        let mut today = todays(&self.loaded, policy, until_ms, backfill)?;
        self.subject.notes.extend(today.told.take());
        Ok(today)
    }
}
