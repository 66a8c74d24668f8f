//! Use of processors and memory under a policy, and which division to take.
//!
//! `synergy` and `proportional` let the same order of jobs into rounds, so one is held against the other and nothing is chosen: the figures are of all seeds. O(runs). Worked example: mean times of 10 h under `proportional` and 8 h under `synergy`, with an interval of the difference from 15 to 25 %: a saving of 20 %, which is worth it.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use super::render::{time, told};
use super::{AllocationAnswer, AllocationFigure, AllocationJobs, AllocationRequest, AllocationRun, Tried, over, ratio};
use crate::host::{HostFleet, HostOrder, HostUse};
use crate::job::GangJob;
use crate::node::HostNeeds;
use crate::policy::AllocationPolicy;
use crate::pool::{GpuPool, TypedFleet};
use crate::replay::AllocationReplay;
use tracecast_plan::error::{Error, Result, excerpt};
use tracecast_plan::interval;
use tracecast_plan::recommendation::{WORTH, worth};

/// How jobs depend on processors and memory where nothing says so.
const NOTHING: &str = "not at all";
/// Most job types that a note names.
const NAMED: usize = 5;

/// Users' dominant shares of GPUs, processors and memory, the mean over the rounds in which a user had jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AllocationDominant_{F}")]
pub struct AllocationDominant<F> {
    /// The least of a user.
    pub least: F,
    /// The mean over users.
    pub mean: F,
    /// The greatest of a user.
    pub most: F,
}

/// Use of processors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AllocationHostUse_{F}")]
pub struct AllocationHostUse<F> {
    /// Mean speed of jobs while they held GPUs, a share of their full speed, by GPU time.
    pub speed: F,
    /// Share of the rounds of jobs in which a job was slower than by its GPUs' share of the node.
    pub slower: F,
    /// Share of all GPU time until the last end in which GPUs were idle though they would have sufficed for somebody: processors or memory were lacking.
    pub idle: F,
    /// Speed as a share of the most that any division of processors and memory could give to the same jobs in the same rounds; only under `synergy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_most: Option<F>,
    /// Share of the jobs that end later than under `proportional`; only where that was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later: Option<F>,
    /// Users' dominant shares; only where jobs are of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dominant: Option<AllocationDominant<F>>,
}

/// A node of a GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationNode {
    /// The type.
    pub gpu: String,
    /// GPUs.
    pub gpus: u32,
    /// Processors.
    pub cpus: f64,
    /// Memory, GB.
    pub memory_gb: f64,
}

/// `synergy` beside `proportional`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationHostAdvice {
    /// Mean time from submission to end under `proportional`, seconds.
    pub proportional_jct_s: AllocationFigure,
    /// Mean time under `synergy`, seconds.
    pub synergy_jct_s: AllocationFigure,
    /// Mean time under `synergy_greedy`, seconds; none where that was not replayed.
    pub greedy_jct_s: Option<AllocationFigure>,
    /// Saving of the mean time by `synergy`, a share of that under `proportional`.
    pub saving: AllocationFigure,
}

/// Processors and memory of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationHost {
    /// A whole node of each type.
    pub nodes: Vec<AllocationNode>,
    /// Order in which `proportional`, `synergy_greedy` and `synergy` let jobs into a round.
    pub order: HostOrder,
    /// How jobs depend on processors and memory, in words.
    pub sensitivity: String,
    /// Whether the dependence was invented.
    pub invented: bool,
    /// `synergy` beside `proportional`; none where one of the two was not replayed.
    pub advice: Option<AllocationHostAdvice>,
}

/// Whether the policies go with the fleet.
pub(super) fn check(fleet: &TypedFleet, policies: &[AllocationPolicy]) -> Result<()> {
    let about = policies.iter().find(|policy| policy.by_host());
    match about.filter(|_| fleet.host.is_none()) {
        Some(policy) => Err(Error::policy(format!(
            "{} divides processors and memory; say what a node has, as `--gpus-per-node 8 --cpus-per-node 24 --memory-per-node 500`",
            policy.name()
        ))),
        None => Ok(()),
    }
}

/// Computes the use in one replay of `span_ms` milliseconds.
pub(super) fn of(fleet: &TypedFleet, span_ms: i64, result: &AllocationReplay) -> Option<AllocationHostUse<f64>> {
    let tally = result.host.as_ref()?;
    let all_ms = fleet.gpus().iter().sum::<f64>() * span_ms.max(1) as f64;
    let part = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    let mean = |(sum, rounds): &(f64, u64)| sum / (*rounds).max(1) as f64;
    let dominant = (tally.users.len() > 1).then(|| AllocationDominant {
        least: tally.users.iter().map(mean).fold(f64::INFINITY, f64::min),
        mean: interval::average(tally.users.iter().map(mean)),
        most: tally.users.iter().map(mean).fold(0.0, f64::max),
    });
    Some(AllocationHostUse {
        speed: part(tally.fast_gpu_ms, tally.held_gpu_ms),
        slower: part(tally.slower as f64, tally.rounds as f64),
        idle: part(tally.idle_gpu_ms, all_ms),
        of_most: tally.got_and_most.map(|(got, most)| part(got, most)),
        later: None,
        dominant,
    })
}

/// Runs, with the share of jobs that end later than under `proportional`.
pub(super) fn with_later(replays: Vec<(AllocationRun, Vec<i64>)>, policies: &[AllocationPolicy]) -> Vec<AllocationRun> {
    let base = policies.iter().position(|policy| *policy == AllocationPolicy::Proportional);
    let ends: Vec<Option<Vec<i64>>> = replays
        .chunks(policies.len().max(1))
        .map(|runs| base.and_then(|at| runs.get(at)).map(|(_, ends)| ends.clone()))
        .collect();
    let with = |(place, (mut run, ends_ms)): (usize, (AllocationRun, Vec<i64>))| {
        let ends = ends.get(place / policies.len().max(1)).and_then(Option::as_ref);
        if let (Some(host), Some(before)) =
            (run.host.as_mut().filter(|_| run.policy != AllocationPolicy::Proportional), ends)
        {
            let later = ends_ms.iter().zip(before).map(|(end, before)| f64::from(u8::from(end > before)));
            host.later = Some(interval::average(later));
        }
        run
    };
    replays.into_iter().enumerate().map(with).collect()
}

/// Averages the use under the policy at index `at` over all sets of jobs.
pub(super) fn over_sets(at: usize, tried: &[Tried<'_>]) -> Option<AllocationHostUse<AllocationFigure>> {
    let has = |of: &dyn Fn(&AllocationHostUse<f64>) -> bool| {
        tried.iter().all(|set| set.runs.get(at).and_then(|run| run.host.as_ref()).is_some_and(of))
    };
    let figure = |of: &dyn Fn(&AllocationHostUse<f64>) -> Option<f64>| {
        has(&|host| of(host).is_some()).then(|| over(tried, &|set| of(set.runs.get(at)?.host.as_ref()?)))
    };
    let dominant = |of: fn(&AllocationDominant<f64>) -> f64| figure(&|host| host.dominant.as_ref().map(of));
    Some(AllocationHostUse {
        speed: figure(&|host| Some(host.speed))?,
        slower: figure(&|host| Some(host.slower))?,
        idle: figure(&|host| Some(host.idle))?,
        of_most: figure(&|host| host.of_most),
        later: figure(&|host| host.later),
        dominant: dominant(|share| share.least)
            .zip(dominant(|share| share.mean))
            .zip(dominant(|share| share.most))
            .map(|((least, mean), most)| AllocationDominant { least, mean, most }),
    })
}

/// Computes the part of the answer on processors and memory.
pub(super) fn whole(fleet: &TypedFleet, request: &AllocationRequest, tried: &[Tried<'_>]) -> Option<AllocationHost> {
    let host = fleet.host.as_ref()?;
    let node = |(pool, node): (&GpuPool, &HostNeeds)| {
        let gpus = host.gpus_per_node.min(pool.gpus);
        let part = f64::from(gpus) / f64::from(host.gpus_per_node);
        AllocationNode { gpu: pool.name.clone(), gpus, cpus: node.cpus * part, memory_gb: node.memory_gb * part }
    };
    let at = |policy: AllocationPolicy| request.policies.iter().position(|other| *other == policy);
    let advice = at(AllocationPolicy::Proportional).zip(at(AllocationPolicy::Synergy)).map(|(before, after)| {
        let mean = |at: usize| over(tried, &|set| Some(set.runs.get(at)?.mean_jct_s));
        let greedy = at(AllocationPolicy::SynergyGreedy).map(mean);
        let saving = ratio(tried, &|set| {
            let (before, after) = (set.runs.get(before)?.mean_jct_s, set.runs.get(after)?.mean_jct_s);
            Some((before - after, before))
        });
        AllocationHostAdvice {
            proportional_jct_s: mean(before),
            synergy_jct_s: mean(after),
            greedy_jct_s: greedy,
            saving,
        }
    });
    let (sensitivity, invented) = sensitivity(fleet, request);
    Some(AllocationHost {
        nodes: fleet.pools.iter().zip(&host.per_node).map(node).collect(),
        order: request.options.host_order,
        sensitivity,
        invented,
        advice,
    })
}

/// How jobs depend on processors and memory, in words, and whether that was invented.
fn sensitivity(fleet: &TypedFleet, request: &AllocationRequest) -> (String, bool) {
    let types = fleet.host.as_ref().map_or(0, |host| {
        let known = |job: &&str| host.of_type(job) != HostUse::Any;
        let mut jobs: Vec<&str> = fleet.kinds.iter().map(|kind| kind.job.as_str()).filter(known).collect();
        jobs.dedup();
        jobs.len()
    });
    let table = format!("by a table of {}", format::counted(types as u64, "job type", "job types"));
    match &request.jobs {
        AllocationJobs::Drawn(what, _) => match &what.classes {
            Some(classes) => {
                let [image, language, speech] = classes.shares.map(format::percent);
                (format!("by invented classes, {image} image, {language} language and {speech} speech models"), true)
            }
            None if types > 0 => (table, false),
            None => (NOTHING.to_owned(), false),
        },
        AllocationJobs::Listed(jobs) => {
            let exact = exact(jobs);
            let needs = format!("{} exact amounts", format::counted(exact, "job needs", "jobs need"));
            let said = match (types > 0, exact > 0) {
                (true, true) => format!("{table}, and {needs}"),
                (true, false) => table,
                (false, true) => format!("only in that {needs}"),
                (false, false) => NOTHING.to_owned(),
            };
            (said, false)
        }
    }
}

/// Jobs that need exact amounts of processors or memory.
fn exact(jobs: &[GangJob]) -> u64 {
    jobs.iter().filter(|job| matches!(job.host, HostUse::Exactly(_))).count() as u64
}

/// Returns the assumptions on processors and memory.
pub(super) fn notes(fleet: &TypedFleet, request: &AllocationRequest) -> Vec<String> {
    let Some(host) = &fleet.host else {
        let exact = if let AllocationJobs::Listed(jobs) = &request.jobs { exact(jobs) } else { 0 };
        let told = format!(
            "The columns `cpus` and `memory_gb` of {} do not count: say what a node has by `--gpus-per-node`, `--cpus-per-node` and `--memory-per-node`.",
            format::counted(exact, "job", "jobs")
        );
        return if exact > 0 { vec![told] } else { Vec::new() };
    };
    let (said, invented) = sensitivity(fleet, request);
    let said = if said == NOTHING {
        "Nothing says how jobs depend on processors and memory, so here they do not.".to_owned()
    } else {
        format!("Jobs depend on processors and memory {said}.")
    };
    let mut notes = vec![format!(
        "{said} Throughputs are taken for full speed. Policies that are not about processors and memory know nothing of them, and under them each GPU carries its share of the node."
    )];
    notes.extend(table_notes(fleet, host));
    if invented {
        notes.push("**The classes of jobs are invented**: how much they depend on processors and memory was not measured. Give measured speeds by `--host-table`.".to_owned());
    }
    notes
}

/// Which job types of a table run nowhere here, and how many of those that run are not in it; nothing without a table.
fn table_notes(fleet: &TypedFleet, host: &HostFleet) -> Vec<String> {
    let tables = host.tables.get(..host.classes.unwrap_or(host.tables.len())).unwrap_or_default();
    if tables.is_empty() {
        return Vec::new();
    }
    let mut types: Vec<&str> = fleet.kinds.iter().map(|kind| kind.job.as_str()).collect();
    types.dedup();
    let unmatched: Vec<&str> =
        tables.iter().map(|table| table.job.as_str()).filter(|job| !types.contains(job)).collect();
    let mut notes = Vec::new();
    if !unmatched.is_empty() {
        let names: Vec<String> = unmatched.iter().take(NAMED).map(|job| format!("`{}`", excerpt(job))).collect();
        notes.push(format!(
            "**`--host-table` has {} that the throughputs of this fleet have not**, and which are left out: {}{}. Write job types as the throughputs name them.",
            format::counted(unmatched.len() as u64, "job type", "job types"),
            names.join(", "),
            if unmatched.len() > NAMED { " and others" } else { "" }
        ));
    }
    let free = types.iter().filter(|job| host.of_type(job) == HostUse::Any).count();
    if free > 0 {
        notes.push(format!(
            "{free} of the {} that run here are not in `--host-table`, and are taken to depend on neither processors nor memory.",
            format::counted(types.len() as u64, "job type", "job types")
        ));
    }
    notes
}

impl AllocationAnswer {
    /// How to divide processors and memory, in words.
    pub(super) fn host_in_words(&self) -> Option<String> {
        let host = self.host.as_ref()?;
        if host.sensitivity == NOTHING {
            return Some("**Nothing is known of what jobs need of processors and memory**, so how these are divided makes no difference here. Give measured speeds (`--host-table`), invented classes for drawn jobs (`--classes`), or the columns `cpus` and `memory_gb` of `--jobs`.".to_owned());
        }
        let advice = host.advice.as_ref()?;
        let saving = advice.saving.value;
        let times = format!(
            "the mean time from submission to end is {} under `synergy` and {} under `proportional`, {} less",
            time(&advice.synergy_jct_s),
            time(&advice.proportional_jct_s),
            told(&advice.saving, &format::percent)
        );
        let greedy = advice.greedy_jct_s.filter(|greedy| greedy.value < advice.synergy_jct_s.value);
        let greedy = greedy.map_or_else(String::new, |greedy| {
            format!(
                " `synergy_greedy` has {}: where jobs want more processors or memory than there are, it lets some wait so that others are at full speed.",
                time(&greedy)
            )
        });
        let seeds = if advice.saving.low.is_some() { " These figures are of all seeds." } else { "" };
        let invented = if host.invented {
            " The classes of jobs are invented, so measure before you buy or change anything for it."
        } else {
            ""
        };
        Some(if worth(saving, advice.saving.low.unwrap_or(saving), 1.0) {
            format!(
                "**Divide processors and memory by what jobs make of them, as `synergy` does**: {times}.{greedy}{seeds}{invented}"
            )
        } else {
            format!(
                "**Leave each GPU its share of processors and memory**: {times}; a change is worth it from {} on, if that is sure.{greedy}{seeds}{invented}",
                format::percent(WORTH)
            )
        })
    }

    /// Returns the section on processors and memory under each policy.
    pub(super) fn host_section(&self) -> Option<Section> {
        let host = self.host.as_ref()?;
        let users = self.policies.iter().any(|row| row.host.is_some_and(|host| host.dominant.is_some()));
        let mut columns: Vec<Column> = [
            "Policy",
            "Speed",
            "Of the most",
            "Slower than by shares",
            "GPUs idle for want of them",
            "Jobs later than proportional",
        ]
        .map(Column::text)
        .to_vec();
        if users {
            columns.extend(["Least dominant share", "Greatest"].map(Column::text));
        }
        let mut table = ReportTable::new("Processors and memory by policy", columns);
        let share = |figure: &AllocationFigure| -> Cell { told(figure, &format::percent).into() };
        let known = |figure: Option<AllocationFigure>| -> Cell { figure.as_ref().map_or_else(|| "".into(), share) };
        for (row, host) in self.policies.iter().filter_map(|row| Some((row, row.host?))) {
            let mut cells = vec![
                row.policy.name().into(),
                share(&host.speed),
                known(host.of_most),
                share(&host.slower),
                share(&host.idle),
                known(host.later),
            ];
            if users {
                cells.push(known(host.dominant.map(|dominant| dominant.least)));
                cells.push(known(host.dominant.map(|dominant| dominant.most)));
            }
            table.rows.push(cells);
        }
        let node = |node: &AllocationNode| {
            let of = |amount: f64| format::compact(amount);
            format!("{} {} with {} processors and {} GB", node.gpus, node.gpu, of(node.cpus), of(node.memory_gb))
        };
        let nodes = host.nodes.iter().map(node).collect::<Vec<_>>().join("; ");
        let order = match host.order {
            HostOrder::Fifo => "in order of submission",
            HostOrder::Las => "least attained service first",
            HostOrder::Srtf => "shortest remaining time first",
        };
        Some(
            Section::new("allocation-host", "What each policy makes of processors and memory")
                .with_table(table)
                .with_definition(format!("Nodes: {nodes}. `proportional`, `synergy_greedy` and `synergy` let jobs into a round {order}, and differ in how they divide processors and memory alone."))
                .with_definition("**Speed**: the mean of what jobs make of their full speed while they hold GPUs, by GPU time. **Of the most**: that as a share of what a programme finds that no division of the same nodes among the same jobs could exceed. **Slower than by shares**: in how many rounds of jobs a job was slower than with its GPUs' share of the node. **Idle**: GPU time in which GPUs would have sufficed for somebody and processors or memory did not. **Later**: jobs that end later than under `proportional`, which may be though they were never slower, as the order goes by what jobs have had or have left.")
                .with_definition("The **dominant share** of a user is the greatest of its shares of all GPUs, processors and memory, over the rounds in which it had jobs."),
        )
    }
}
