//! `tracecast plan`: what there is to plan.

use anyhow::Result;
use clap::Subcommand;

use crate::cmd::power::PlanPower;
use crate::cmd::{allocation, burst, capacity, cloud, defer, fleet, instances, mig, power, queues, serving, sharing};

/// What to plan.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Plan how many nodes can sleep at which time, and test the plan on later days
    ///
    /// Rules are fitted on earlier days. The answer compares them on later days with nodes that are always on, and with the exact optimum,
    /// which knows all demand.
    Power(Box<PlanPower>),
    /// Plan how VCs share the nodes and in which order jobs are served, and test the plan on later jobs
    ///
    /// Every way is replayed on earlier jobs, and the best is chosen that makes no VC wait longer than nodes of its own would. The answer
    /// compares it on later jobs with today, with nodes of one's own, and with the best seen with hindsight.
    Queues(Box<queues::PlanQueues>),
    /// Plan how many nodes keep the waits of jobs within a target, and test the number on later days
    ///
    /// Numbers of nodes are replayed on earlier jobs. The answer compares the fewest that kept the target, on later jobs, with the nodes as they
    /// are, with rules of thumb, and with the fewest that would have been enough.
    Nodes(Box<capacity::PlanCapacity>),
    /// Plan who shares a GPU: whole jobs in couples, or jobs on MIG slices
    #[command(subcommand)]
    Share(Share),
    /// Plan what to rent: a fleet, overflow to the cloud, one job on spot, or an instance for each
    /// job
    #[command(subcommand)]
    Rent(Rent),
    /// Plan how many replicas of an inference service are up when, and test the plan on later
    /// requests
    ///
    /// Settings of constant, reactive and forecast-driven scaling are replayed on the earlier half
    /// of a request log. The answer compares the cheapest that kept the promised latency on the
    /// later half with the others, and with the best schedule seen with hindsight.
    Serving(Box<serving::PlanServing>),
    /// Plan which jobs wait for hours of cleaner or cheaper electricity, and test the plan on later
    /// weeks
    ///
    /// Ways to defer are tried on earlier jobs. The answer compares the one that saved most within
    /// a mean wait, on later jobs, with starting at once, with published ways, and with bounds that
    /// know all hours and runs.
    Defer(Box<defer::PlanDefer>),
    /// Compare policies that give jobs GPUs of several types, on throughputs that were measured
    ///
    /// Jobs are replayed in rounds under each policy, beside a bound that no schedule undercuts.
    /// The answer says what knowing GPU types is worth.
    Allocation(Box<allocation::PlanAllocation>),
}

/// Who shares a GPU.
#[derive(Debug, Subcommand)]
pub(crate) enum Share {
    /// Plan which job types share GPUs with which, and test the plan on later jobs
    ///
    /// The plan forecasts how much jobs slow each other, and is tested without the measured pairs that it decides on. The answer compares it with nobody
    /// sharing, with published ways to pack, and with sharing that knows every pair.
    Couples(Box<sharing::PlanSharing>),
    /// Plan which GPUs are partitioned into which MIG slices, and test the plan on families that it did not know
    ///
    /// An integer programme finds the fewest GPUs that carry the jobs, or the most progress on the GPUs there are, with a bound. The answer compares it with
    /// whole GPUs, with one partition for all, and with plans that know every speed.
    Mig(Box<mig::PlanMig>),
}

/// What to rent.
#[derive(Debug, Subcommand)]
pub(crate) enum Rent {
    /// Plan how many GPUs to reserve, and what to run on demand and on spot, and test the plan on
    /// later weeks
    ///
    /// A search chooses the mix on earlier weeks. The answer compares what it costs on later weeks
    /// with all on demand, with usual rules, with nodes of one's own, and with the best mix seen
    /// with hindsight.
    Fleet(Box<fleet::PlanFleet>),
    /// Plan how many nodes of your own to have, and which jobs wait for them before they go to the
    /// cloud, and test the plan on later weeks
    ///
    /// Waiting policies and numbers of nodes are replayed on earlier weeks. The answer compares the
    /// cheapest that keeps the target of waits on later weeks with all on demand, with nobody and
    /// with all waiting, and with the best seen with hindsight.
    Burst(Box<burst::PlanBurst>),
    /// Plan how one job with a deadline uses spot and on-demand instances, and test the plan on
    /// later days
    ///
    /// Every policy in every zone is tried on earlier days. The answer compares the cheapest on
    /// later days with on-demand alone, and with the exact optimum, which knows all availability.
    Job(Box<cloud::PlanCloud>),
    /// Plan which instances to rent for which job, and how many, from measured throughputs and
    /// prices
    ///
    /// The cheapest way is chosen that keeps each job's deadline, or the fastest within a budget.
    /// The answer tests choices that rest on forecast throughputs on numbers of GPUs that were
    /// measured and hidden.
    Instances(Box<instances::PlanInstances>),
}

/// Runs the plan that was named.
pub(crate) fn run(plan: &Plan, quiet: bool) -> Result<()> {
    match plan {
        Plan::Power(request) => power::run(request, quiet),
        Plan::Queues(request) => queues::plan(request, quiet),
        Plan::Nodes(request) => capacity::plan(request, quiet),
        Plan::Share(Share::Couples(request)) => sharing::plan(request, quiet),
        Plan::Share(Share::Mig(request)) => mig::plan(request, quiet),
        Plan::Rent(Rent::Fleet(request)) => fleet::plan(request, quiet),
        Plan::Rent(Rent::Burst(request)) => burst::plan(request, quiet),
        Plan::Rent(Rent::Job(request)) => cloud::plan(request, quiet),
        Plan::Rent(Rent::Instances(request)) => instances::plan(request, quiet),
        Plan::Serving(request) => serving::plan(request, quiet),
        Plan::Defer(request) => defer::plan(request, quiet),
        Plan::Allocation(request) => allocation::plan(request, quiet),
    }
}
