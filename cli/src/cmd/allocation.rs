//! `tracecast plan allocation`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_planner::rounds::answer::{AllocationAnswer, AllocationJobs, AllocationRequest};
use tracecast_planner::rounds::host::class::ClassDraw;
use tracecast_planner::rounds::host::{self, HostFleet, HostOrder, HostUse, table};
use tracecast_planner::rounds::job::{self, DeadlineDraw, DrawnRuns, JobDraw, UserDraw};
use tracecast_planner::rounds::matching::MOST_GPUS;
use tracecast_planner::rounds::node::HostNeeds;
use tracecast_planner::rounds::policy::AllocationPolicy;
use tracecast_planner::rounds::pool::{self, GpuPool, TypedFleet};
use tracecast_planner::rounds::replay::RoundOptions;

use crate::args::{duration, listed};
use crate::cmd::answer::{self, Answering};
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

/// Order of the jobs let into a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// In order of submission
    Fifo,
    /// Least attained GPU time
    Las,
    /// Shortest remaining time
    Srtf,
}

impl From<Order> for HostOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Fifo => Self::Fifo,
            Order::Las => Self::Las,
            Order::Srtf => Self::Srtf,
        }
    }
}

/// Runs of drawn jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runs {
    /// Half an hour to a week, as Gavel's simulator draws them
    Simulation,
    /// One to four hours, as in the traces of Gavel's physical cluster
    Hours,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, 96 drawn jobs on eight GPUs of each of Gavel's types, five times:
  tracecast plan allocation simulation_throughputs.json.gz --fleet v100=8,p100=8,k80=8 --draw 96 --seeds 5")]
pub(crate) struct PlanAllocation {
    /// Throughputs: Gavel's JSON, or a CSV with the columns gpu_type, job, gpus and steps_per_s
    #[arg(value_name = "THROUGHPUTS")]
    pub(crate) throughputs: PathBuf,
    /// GPUs of the fleet by type, such as v100=8,p100=8,k80=8
    ///
    /// The types are those of the throughputs. Runs of drawn jobs are measured on the first.
    #[arg(long, value_name = "TYPE=GPUS", required = true, help_heading = "Fleet")]
    pub(crate) fleet: String,
    /// GPUs of a node, so that gangs are put onto nodes [default: gangs lie anywhere within a type]
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Fleet")]
    pub(crate) gpus_per_node: Option<u32>,
    /// Processors of a node, such as 24, or v100=24,k80=16: how many a job holds then counts; goes with --memory-per-node
    ///
    /// A last node with fewer GPUs has fewer processors and less memory in proportion.
    #[arg(long, value_name = "CPUS", requires = "gpus_per_node", requires = "memory_per_node", help_heading = "Fleet")]
    pub(crate) cpus_per_node: Option<String>,
    /// Memory of a node in GB, such as 500, or v100=500,k80=250; goes with --cpus-per-node
    #[arg(long, value_name = "GB", requires = "gpus_per_node", requires = "cpus_per_node", help_heading = "Fleet")]
    pub(crate) memory_per_node: Option<String>,
    /// How fast jobs are by processors and memory: a CSV with the columns job, cpus, memory_gb and speed, where job is a job type of the throughputs, and cpus and memory_gb are for each of its GPUs
    ///
    /// Speeds may be in any unit: the greatest of a job is its full speed. A job that is not in it does not depend on them.
    #[arg(long, value_name = "CSV", requires = "cpus_per_node", help_heading = "Jobs")]
    pub(crate) host_table: Option<PathBuf>,
    /// Invented classes for drawn jobs, where nothing was measured: shares of image, language and speech models, such as 20:70:10, which want many processors, hardly any, and some
    #[arg(long, value_name = "I:L:S", value_parser = ClassDraw::named, requires = "cpus_per_node", conflicts_with_all = ["jobs", "host_table"], help_heading = "Jobs")]
    pub(crate) classes: Option<ClassDraw>,
    /// Jobs: a CSV with the columns job, type, submit_s, gpus and steps, and weight, user, deadline_s, cpus and memory_gb if there are any; the last two count with --cpus-per-node
    #[arg(long, value_name = "CSV", required_unless_present = "draw", conflicts_with = "draw", help_heading = "Jobs")]
    pub(crate) jobs: Option<PathBuf>,
    /// Number of jobs to draw in place of a file
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..=20_000), help_heading = "Jobs")]
    pub(crate) draw: Option<u32>,
    /// Jobs that come in an hour [default: all are there at once]
    #[arg(long, value_name = "JOBS", value_parser = rate, conflicts_with = "jobs", help_heading = "Jobs")]
    pub(crate) rate: Option<f64>,
    /// How long drawn jobs run
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        default_value = "simulation",
        conflicts_with = "jobs",
        help_heading = "Jobs"
    )]
    pub(crate) runs: Runs,
    /// Draw jobs of one GPU only
    #[arg(long, conflicts_with = "jobs", help_heading = "Jobs")]
    pub(crate) single_gpu: bool,
    /// Users of the drawn jobs, who submit in bursts
    #[arg(long, value_name = "USERS", value_parser = clap::value_parser!(u32).range(2..=1000), requires = "rate", conflicts_with = "jobs", help_heading = "Jobs")]
    pub(crate) users: Option<u32>,
    /// Jobs that a user submits at once
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value = "8", conflicts_with = "jobs", help_heading = "Jobs")]
    pub(crate) burst: u32,
    /// Share of the drawn jobs with a deadline, and how many times its run alone on its fastest GPU type a job has until then, such as 0.5:1.5, or 0.5:1.5-4 for evenly drawn multiples
    #[arg(long, value_name = "SHARE:RUNS", value_parser = deadlines, conflicts_with = "jobs", help_heading = "Jobs")]
    pub(crate) deadlines: Option<DeadlineDraw>,
    /// How many times jobs are drawn: seeds 1, 2 and so on
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000), conflicts_with = "jobs", help_heading = "Jobs")]
    pub(crate) seeds: u64,
    /// Policies to compare, separated by commas [default: all that apply; allox only where every job has one GPU and the fleet at most 256, partition, user_max_min and karma only where jobs have users, edf, genie and chronus only where some have deadlines, proportional, synergy_greedy, synergy and drf only with --cpus-per-node, drf only with users]
    ///
    ///   fifo               in order of submission, on any type
    ///   fifo_aware         the same, each on the fastest type with room
    ///   las                least attained GPU time first, on any type
    ///   las_aware          the same, each on the fastest type with room
    ///   max_min            equal time on all types
    ///   max_min_aware      the greatest least speed against an equal share
    ///   finish_time        the least worst finish-time ratio, by mean speeds
    ///   finish_time_aware  the same, by the speed on each type
    ///   makespan           the least time until all are done
    ///   allox              the matching of jobs and GPUs with the least sum of times
    ///   trading            equal shares, then trades of fast for slow GPU time
    ///   partition          each user within its fair share
    ///   user_max_min       max-min fairness between users, round by round
    ///   karma              the same, by credits that users earn when they leave GPUs to others
    ///   drf                dominant shares of GPUs, processors and memory made equal between users
    ///   edf                the nearest deadline first, the others in the gaps
    ///   genie              the fewest GPUs with which a deadline is met, who can wait least first
    ///   chronus            jobs whose deadlines can be met are admitted and get leases, the others run in the gaps
    ///   proportional       in the order of --host-order, with the GPUs' share of processors and memory
    ///   synergy_greedy     the same order, each with all that makes it fast, passed over where processors or memory are too few
    ///   synergy            the same order, each with all that makes it fast where it fits, and never slower than by its share
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = listed(AllocationPolicy::named), help_heading = "Policies", verbatim_doc_comment)]
    pub(crate) policies: Vec<AllocationPolicy>,
    /// Length of a round: who has which GPUs changes only between rounds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "6min", help_heading = "Policies")]
    pub(crate) round: i64,
    /// Time that a checkpoint and a restart take when a job is stopped or moved
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s", help_heading = "Policies")]
    pub(crate) restart: i64,
    /// Least time between two allocations of shares of time; 0 allocates whenever a job comes or ends
    ///
    /// Gavel's simulator has 32min. Whoever comes meanwhile takes what is left over. It counts for max_min, finish_time, their aware forms, makespan and trading.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s", help_heading = "Policies")]
    pub(crate) reallocate: i64,
    /// Part of a user's fair share that karma guarantees, from 0 to 1
    #[arg(long, value_name = "PART", value_parser = part, default_value = "0.5", help_heading = "Policies")]
    pub(crate) alpha: f64,
    /// Rounds of a lease under chronus: jobs are admitted, and GPUs given to them, when one begins
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=1000), default_value = "3", help_heading = "Policies")]
    pub(crate) lease: u32,
    /// Order in which proportional, synergy_greedy and synergy let jobs into a round
    #[arg(long, value_enum, value_name = "ORDER", default_value = "las", help_heading = "Policies")]
    pub(crate) host_order: Order,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

fn deadlines(text: &str) -> Result<DeadlineDraw, &'static str> {
    const HOW: &str = "write a share and a multiple of the run alone, 1 or more, such as 0.5:1.5 or 0.5:1.5-4";
    let number = |text: &str, least: f64, most: f64| {
        text.trim().parse().ok().filter(|number: &f64| (least..=most).contains(number)).ok_or(HOW)
    };
    let (share, runs) = text.split_once(':').ok_or(HOW)?;
    let (from, to) = runs.split_once('-').unwrap_or((runs, runs));
    let from = number(from, 1.0, 1e3)?;
    Ok(DeadlineDraw { share: number(share, 1e-6, 1.0)?, runs: (from, number(to, from, 1e3)?) })
}

fn part(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|part: &f64| (0.0..=1.0).contains(part)).ok_or("write a part between 0 and 1")
}

fn rate(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|rate: &f64| (1e-3..=1e6).contains(rate)).ok_or("write jobs an hour, above 0")
}

/// Processors and memory of the nodes, if they count.
fn hosts(arguments: &PlanAllocation, fleet: &TypedFleet) -> Result<Option<HostFleet>> {
    let nodes =
        arguments.gpus_per_node.zip(arguments.cpus_per_node.as_deref()).zip(arguments.memory_per_node.as_deref());
    let Some(((gpus, cpus), memory)) = nodes else { return Ok(None) };
    let types: Vec<&str> = fleet.pools.iter().map(|pool| pool.name.as_str()).collect();
    let (cpus, memory) = (host::by_type(cpus, &types)?, host::by_type(memory, &types)?);
    let nodes = cpus.into_iter().zip(memory).map(|(cpus, memory_gb)| HostNeeds { cpus, memory_gb }).collect();
    let tables = match &arguments.host_table {
        Some(path) => {
            let file = path.display().to_string();
            let tables = table::read(&file, &source::text(path)?)?;
            if !tables.iter().any(|table| fleet.kinds.iter().any(|kind| kind.job == table.job)) {
                let mut types: Vec<&str> = fleet.kinds.iter().map(|kind| kind.job.as_str()).collect();
                types.dedup();
                let some = types.iter().take(5).map(|job| format!("`{job}`")).collect::<Vec<_>>().join(", ");
                return Err(Usage(format!(
                    "--host-table: {file} has no job type of the throughputs; name them as these do, such as {some}"
                ))
                .into());
            }
            tables
        }
        None => Vec::new(),
    };
    let hosts = HostFleet::new(gpus, nodes, tables)?;
    Ok(Some(if arguments.classes.is_some() { hosts.with_classes() } else { hosts }))
}

/// The policies that are asked for, or all that apply.
fn policies(arguments: &PlanAllocation, fleet: &TypedFleet, jobs: &AllocationJobs) -> Vec<AllocationPolicy> {
    if !arguments.policies.is_empty() {
        return arguments.policies.clone();
    }
    let single = match jobs {
        AllocationJobs::Listed(jobs) => {
            jobs.iter().all(|job| fleet.kinds.get(job.kind).is_some_and(|kind| kind.gpus == 1))
        }
        AllocationJobs::Drawn(what, _) => !what.gangs,
    };
    // Nor does the matching know what else jobs need.
    let exact =
        matches!(jobs, AllocationJobs::Listed(jobs) if jobs.iter().any(|job| matches!(job.host, HostUse::Exactly(_))));
    let counts = exact && fleet.host.is_some();
    let matched = !counts && single && fleet.gpus().iter().sum::<f64>() <= MOST_GPUS as f64;
    let users = match jobs {
        AllocationJobs::Listed(jobs) => jobs.iter().any(|job| job.user.is_some()),
        AllocationJobs::Drawn(what, _) => what.users.is_some(),
    };
    let dues = match jobs {
        AllocationJobs::Listed(jobs) => jobs.iter().any(|job| job.due_ms.is_some()),
        AllocationJobs::Drawn(what, _) => what.deadlines.is_some(),
    };
    let applies = |policy: &AllocationPolicy| {
        (matched || *policy != AllocationPolicy::Allox)
            && (users || !policy.by_user())
            && (dues || !policy.by_deadline())
            && (fleet.host.is_some() || !policy.by_host())
    };
    AllocationPolicy::ALL.into_iter().filter(applies).collect()
}

pub(crate) fn plan(arguments: &PlanAllocation, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("plan-allocation", &[])?;
    if !(1_000..=86_400_000).contains(&arguments.round) {
        return Err(Usage("--round: write a time from 1s to 1d".to_owned()).into());
    }
    if arguments.restart >= arguments.round {
        return Err(Usage("--restart: a restart must take less than a round".to_owned()).into());
    }
    let unused = arguments.models.unused("throughputs are as measured, and runs are as told")?;
    let pools: Vec<GpuPool> = pool::pools(&arguments.fleet)?;
    let mut fleet = TypedFleet::new(pools, &source::rates(&arguments.throughputs)?)?;
    fleet.host = hosts(arguments, &fleet)?;
    let mut title = arguments.throughputs.display().to_string();
    let jobs = match (&arguments.jobs, arguments.draw) {
        (Some(path), _) => {
            title += &format!(", {}", path.display());
            AllocationJobs::Listed(job::read(&path.display().to_string(), &source::text(path)?, &fleet)?)
        }
        (None, count) => {
            let what = JobDraw {
                jobs: count.unwrap_or(1) as usize,
                per_hour: arguments.rate,
                runs: match arguments.runs {
                    Runs::Simulation => DrawnRuns::Simulation,
                    Runs::Hours => DrawnRuns::Hours,
                },
                gangs: !arguments.single_gpu,
                deadlines: arguments.deadlines,
                classes: arguments.classes,
                users: arguments.users.map(|users| UserDraw { users, burst: arguments.burst }),
            };
            AllocationJobs::Drawn(what, (1..=arguments.seeds).collect())
        }
    };
    let policies = policies(arguments, &fleet, &jobs);
    let sets = if let AllocationJobs::Drawn(_, seeds) = &jobs { seeds.len() } else { 1 };
    let steps = Steps::new(quiet, "replaying policies", sets * policies.len());
    let options = RoundOptions {
        round_ms: arguments.round,
        restart_ms: arguments.restart,
        reallocate_ms: arguments.reallocate,
        per_node: arguments.gpus_per_node,
        alpha: arguments.alpha,
        lease_rounds: arguments.lease,
        host_order: arguments.host_order.into(),
    };
    let request = AllocationRequest { policies, jobs, options };
    let mut answer = AllocationAnswer::new(&fleet, title, &request, &steps)?;
    drop(steps);
    answer.notes.extend(unused);
    output::say(quiet, &format!("tracecast: {}", answer.allocating_in_words()));
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
