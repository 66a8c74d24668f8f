//! The jobs and the nodes that a plan of a shared cluster is made of, opened the same way for every such plan.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::replay::answer::Subject;
use tracecast_planner::replay::input::{Loaded, Options, last_two, load};
use tracecast_planner::replay::nearest::{Backfill, Today, Unnamed, todays};
use tracecast_planner::sim::{Estimate, Policy};

use crate::args::{Reading, duration};
use crate::cmd::describe;
use crate::cmd::simulate::{PolicyArguments, given};
use crate::cmd::site::{SCHEDULER, SiteArguments};
use crate::source;

/// Jobs that a plan looks at, and which of their facts count.
#[derive(Debug, Args)]
pub(crate) struct PlanJobs {
    /// Use jobs submitted from this time on [default: from the first job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Jobs and nodes")]
    pub(crate) from: Option<Written>,
    /// Use only jobs that ran at most this long, such as 90s, 10m, 2h or 7d [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Jobs and nodes")]
    pub(crate) max_run: Option<i64>,
    /// Use jobs submitted before this time, where a date includes that day [default: to the last job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_to: Option<Written>,
}

/// Input of a plan of jobs.
pub(crate) struct PlanInput<'a> {
    pub(crate) sources: &'a [PathBuf],
    pub(crate) reading: &'a Reading,
    pub(crate) site: &'a SiteArguments,
    pub(crate) resource: Option<Resource>,
    pub(crate) eval_from: Option<&'a Written>,
    pub(crate) jobs: &'a PlanJobs,
    pub(crate) policy: &'a PolicyArguments,
}

/// Opened trace, jobs and policy of a plan.
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
    /// Estimate of runs, if one was named.
    estimate: Option<Estimate>,
}

impl PlanInput<'_> {
    /// Opens and loads. `needed` says why the plan takes no part of the jobs.
    pub(crate) fn open(&self, needed: &str, quiet: bool) -> Result<OpenedPlan> {
        let PlanJobs { from, max_run, eval_to } = self.jobs;
        let evaluated = Window::new(["--eval-from", "--eval-to"], self.eval_from, eval_to.as_ref())?;
        let all = Window::new(["--from", "--eval-to"], from.as_ref(), eval_to.as_ref())?;
        let input = self.site.read()?;
        input.warn_of_others(&SCHEDULER);
        let policy = given(self.policy, &input).policy(true)?;
        let trace = source::open_whole(self.sources, self.reading, quiet, needed)?;
        let title = describe::title(&trace, self.sources);
        let zone = Zone::named(&trace.zone)?;
        let ((eval_from_ms, to_ms), (from_ms, _)) = (evaluated.resolve(&zone)?, all.resolve(&zone)?);
        let options = Options {
            from_ms,
            to_ms,
            longest_ms: *max_run,
            resource: self.resource,
            hosts: input.hosts,
            ..Options::default()
        };
        let mut loaded = load(&trace, input.site(), &options)?;
        let subject = Subject::new(&title, &trace, &loaded);
        loaded.workload.predicted_s = last_two(&JobFacts::new(&trace), &loaded);
        let mut policy = if self.policy.place.is_some() { policy } else { policy.on(loaded.resource) };
        // Nobody knows how long a job will run.
        if self.policy.estimate.is_none() && policy.estimate == Estimate::True && policy.uses_durations() {
            policy.estimate = Estimate::Predicted;
        }
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
        let mut today = todays(&self.loaded, policy, until_ms, backfill, Unnamed::Scan)?;
        self.subject.notes.extend(today.told.take());
        Ok(today)
    }
}
