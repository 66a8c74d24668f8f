//! The plan for Slurm.
//!
//! Each VC gets two partitions over all nodes. The first has the higher `PriorityTier`, so that its jobs go before all others, and a QOS
//! that holds it to the VC's own share; the second is for what the VC borrows, with a QOS that holds it to the ceiling less that share, or to the VC's largest
//! job if that is more, as a job lies in one partition whole. A job asks for both (`--partition=vision,vision-borrow`), which `job_submit.lua` does for it,
//! and starts where it may first. Where the plan reclaims, jobs of the second partition are requeued for those of the first. A job that began there stays one that
//! borrows to its end, where the replay judges anew.
//!
//! Worked example: a VC of 96 GPUs with a ceiling of 1.5 has `GrpTRES=gres/gpu=96` on one QOS and `gres/gpu=48` on the other.

use tracecast_analytics::report::quote::{self, is_slurm_value, is_word};
use tracecast_analytics::schema::{NodeTable, Table as _};
use tracecast_analytics::time::DAY_MS;
use tracecast_predictors::slurm::SiteFactor;

use super::super::answer::{QueuesAnswer, SHORT_SUFFIX, VcPlan};
use super::super::setup::{QueueChange, by_predicted_gpu_time, plans_by_limits};
use super::super::share::Sharing;
use super::{SLURM_FILES, comments, named, shared, unnamed};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emit::own::OwnFile;
use crate::plan::emit::slurm::{Conf, hosts};
use crate::sim::{Order, Scan, Weights};

/// The key of `slurm.conf` that says whether jobs are backfilled.
pub(in super::super) const BACKFILL: &str = "SchedulerType";

/// Host list of the nodes that all VCs share: those of the VCs' partitions in the user's `files`;
/// without files those of the inventory that have GPUs; `ALL` where a VC has no partition in the
/// files, or the plan is of other nodes than those of the inventory.
///
/// # Errors
/// If a VC has no name that Slurm takes.
pub fn shared_nodes(answer: &QueuesAnswer, inventory: &NodeTable, files: &[OwnFile]) -> Result<String> {
    let files: Vec<Conf> = files.iter().filter(|file| file.is_slurm()).map(|file| Conf::read(&file.text)).collect();
    let lists: Option<Vec<&str>> = if files.is_empty() {
        let with_gpus = (0..inventory.len()).filter(|ix| inventory.gpus.get(*ix).is_some_and(|gpus| gpus > 0.0));
        let names: Option<Vec<&str>> = with_gpus.map(|ix| inventory.node.get(ix)).collect();
        names.filter(|names| names.len() as u64 == answer.trial.nodes)
    } else {
        let nodes_of = |name: String| {
            let line = files.iter().find_map(|conf| conf.lines().get(conf.partition(&name)?))?;
            line.get("Nodes").filter(|nodes| !nodes.eq_ignore_ascii_case(ALL))
        };
        // A queue of short jobs is new, and its jobs are on its VC's nodes.
        let has_nodes = |vc: &VcPlan| answer.body.vcs.iter().any(|other| other.vc == vc.vc);
        let names = named(&answer.body)?.into_iter().filter(|(_, vc)| has_nodes(vc));
        let names = names.map(|(slug, vc)| partition(&vc, &slug));
        names.collect::<Result<Vec<_>>>()?.into_iter().map(nodes_of).collect()
    };
    let nodes = lists.filter(|lists| !lists.is_empty()).and_then(|lists| hosts::expand(&lists.join(",")).ok());
    Ok(nodes.map_or_else(|| ALL.to_owned(), |nodes| hosts::fold(&nodes)))
}

/// Slurm's word for every node of the cluster.
const ALL: &str = "ALL";

/// Weight of what counts fully, in Slurm's whole numbers.
const WEIGHT: f64 = 10_000.0;

/// Keys of `slurm.conf` that set the order that was chosen, where it is another than today's and Slurm's multifactor can.
pub(in super::super) fn priorities(answer: &QueuesAnswer) -> Vec<(&'static str, String)> {
    let changes = answer.body.setup().is_some_and(|setup| setup.changes.contains(&QueueChange::Order));
    if changes { multifactor(answer) } else { Vec::new() }
}

/// Keys of `slurm.conf` that the plan's order needs, also where it is today's; none where Slurm's multifactor cannot set it.
pub(in super::super) fn multifactor(answer: &QueuesAnswer) -> Vec<(&'static str, String)> {
    let Some(setup) = answer.body.setup().filter(|_| answer.is_advised()) else { return Vec::new() };
    let weights = match setup.setup.policy.order {
        Order::FairShare(half_life_ms) => Weights { fair_share: 1.0, half_life_ms, ..Weights::default() },
        Order::Multifactor(weights) => weights,
        Order::FewestGpus => Weights { size: 1.0, favor_small: true, ..Weights::default() },
        Order::Qssf if by_predicted_gpu_time(&setup.setup.policy) => return by_site_factor(None),
        Order::Aged(ageing_ms) if by_predicted_gpu_time(&setup.setup.policy) => return by_site_factor(Some(ageing_ms)),
        _ => return Vec::new(),
    };
    let whole = |weight: f64| format!("{:.0}", weight * WEIGHT);
    let days = |ms: i64| format!("{}-0", ms / DAY_MS);
    vec![
        ("PriorityType", "priority/multifactor".to_owned()),
        ("PriorityWeightFairshare", whole(weights.fair_share)),
        ("PriorityDecayHalfLife", days(weights.half_life_ms)),
        ("PriorityWeightAge", whole(weights.age)),
        ("PriorityMaxAge", days(weights.max_age_ms)),
        ("PriorityWeightJobSize", whole(weights.size)),
        ("PriorityFavorSmall", if weights.favor_small { "YES" } else { "NO" }.to_owned()),
    ]
}

/// Time over which the age of a job counts, days.
const MAX_AGE_DAYS: i64 = 7;

/// Keys of the least predicted GPU time first: the site factor that
/// [`job_submit.lua`](tracecast_predictors::slurm) sets, and the age of jobs where they age over so
/// many milliseconds.
///
/// A job of e times the GPU time has a site factor most / ln(1 + ceiling) lower, and goes as if submitted
/// `ageing_ms` later. Worked number: with the usual 10,000 and 10⁸ and ageing of an hour, age
/// weighs 542.87 an hour, over seven days 91,202.
fn by_site_factor(ageing_ms: Option<i64>) -> Vec<(&'static str, String)> {
    let site = SiteFactor::default();
    let lower = f64::from(site.most) / site.ceiling_gpu_s.ln_1p();
    let age = ageing_ms.map_or(0.0, |ms| lower * (MAX_AGE_DAYS * DAY_MS) as f64 / ms.max(1) as f64);
    vec![
        ("PriorityType", "priority/multifactor".to_owned()),
        ("PriorityWeightAge", format!("{age:.0}")),
        ("PriorityMaxAge", format!("{MAX_AGE_DAYS}-0")),
        ("PriorityWeightFairshare", "0".to_owned()),
        ("PriorityWeightJobSize", "0".to_owned()),
    ]
}

/// Comment on the order, for whoever sets its keys.
fn about_order(order: &Order) -> &'static str {
    match order {
        Order::Qssf | Order::Aged(_) => {
            "# The order of jobs: the least predicted GPU time first. A job_submit.lua (JobSubmitPlugins=lua)\n\
             # sets the site factor of a job when it is submitted. These two commands write it and its table:\n\
             #   tracecast model train SOURCE --save models --force\n\
             #   tracecast model predict duration SOURCE --model models --slurm FOLDER\n\
             # Put both into /etc/slurm (--slurm-table names another path of the table), and write the table\n\
             # anew each night. Call it from the job_submit.lua that you have; its last lines say how.\n\
             # Other schedulers ask a service: tracecast serve --model models --token-file token --journal state\n\
             # To undo, take the call out again and put the old values back.\n"
        }
        _ => {
            "# The order of jobs. Usage is of users, with an association each; AccountingStorageTRES and TRESBillingWeights say that GPUs count. To undo, put the old values back.\n"
        }
    }
}

/// Whether jobs of the plan start past one that does not fit, which Slurm's `sched/builtin` never lets them.
pub(in super::super) fn backfills(answer: &QueuesAnswer) -> bool {
    answer.body.setup().is_some_and(|setup| answer.is_advised() && setup.setup.policy.scan != Scan::Strict)
}

/// By what Slurm lets jobs start past one that does not fit, and whether the plan's replay went by the same.
pub(in super::super) fn backfilled(answer: &QueuesAnswer) -> String {
    let replayed = answer.body.setup().map_or_else(String::new, |setup| match plans_by_limits(&setup.setup.policy) {
        true => ", as in the plan's replay".to_owned(),
        false => format!("; the plan's replay was another ({})", setup.order),
    });
    format!("by their time limits{replayed}")
}

/// The name of a partition: as it is, so that scripts still name it, if Slurm takes that.
pub(in super::super) fn partition(vc: &VcPlan, slug: &str) -> Result<String> {
    // A point begins nothing in Slurm, but ends a name in some of its commands.
    let name = if is_word(&vc.vc) && !vc.vc.contains('.') { vc.vc.clone() } else { slug.to_owned() };
    // Slurm takes that for what all later partitions have.
    if name.eq_ignore_ascii_case("default") { Err(unnamed(name)) } else { Ok(name) }
}

/// A partition of a VC, as Slurm's keys have it.
pub(in super::super) struct SlurmPartition {
    pub(in super::super) name: String,
    pub(in super::super) tier: &'static str,
    pub(in super::super) qos: String,
    /// Effect on its jobs where the plan reclaims.
    pub(in super::super) mode: &'static str,
}

/// The partition for a VC's own share, and that for what it borrows.
pub(in super::super) fn partitions(name: &str, slug: &str) -> [SlurmPartition; 2] {
    [
        SlurmPartition { name: name.to_owned(), tier: "20", qos: format!("{slug}-own"), mode: "OFF" },
        SlurmPartition { name: format!("{name}-borrow"), tier: "10", qos: format!("{slug}-borrow"), mode: "REQUEUE" },
    ]
}

/// Lines that send a job to the queue of short jobs, by its time limit: a plugin that asks for predictions has the predicted run in its place.
fn route(answer: &QueuesAnswer, within_s: u32) -> Result<String> {
    let mut lines = String::from("-- The most GPUs of a short job of each VC.\nlocal short = {\n");
    let named = named(&answer.body)?;
    for vc in &answer.body.vcs {
        let slug = named.iter().find(|(_, other)| other.vc == vc.vc).map_or("", |(slug, _)| slug.as_str());
        if let Some(kept) = vc.short_gpus.filter(|kept| *kept >= 1.0) {
            lines.push_str(&format!("  [{}] = {kept},\n", quote::lua(&partition(vc, slug)?)));
        }
    }
    lines.push_str(&format!(
        "}}\nlocal most = short[job_desc.partition]\n\
         local gpus = tonumber(string.match(job_desc.tres_per_job or job_desc.tres_per_node or \"\", \"gpu[^,]*:(%d+)\")) or 1\n\
         local nodes = 1\n\
         if not job_desc.tres_per_job and job_desc.min_nodes and job_desc.min_nodes ~= slurm.NO_VAL then\n  nodes = job_desc.min_nodes\nend\n\
         if most and job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit <= {} and gpus * nodes <= most then\n  \
         job_desc.partition = job_desc.partition .. \"{SHORT_SUFFIX}\"\nend\n",
        within_s / 60
    ));
    Ok(lines)
}

/// Files for Slurm, those that set something; `nodes` is what its partitions name, such as `gpu[001-064]`.
///
/// # Errors
/// If a VC has no name that Slurm takes.
pub fn slurm(answer: &QueuesAnswer, nodes: &str) -> Result<Vec<Emitted>> {
    if !is_slurm_value(nodes) {
        let remedy = "write a host list without blanks, such as gpu[001-064]".to_owned();
        return Err(Error::malformed("nodes of partitions", nodes.to_owned(), remedy));
    }
    let keys = priorities(answer);
    let sharing = shared(answer);
    // On nodes as they are, what backfills today needs no word.
    let is_new = sharing.is_some() || answer.body.setup().is_some_and(|of| of.changes.contains(&QueueChange::Backfill));
    let backfill = backfills(answer) && is_new;
    if sharing.is_none() && !backfill && keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut partitions = comments("#", answer);
    let mut others = Vec::new();
    match sharing {
        None => {}
        Some(Sharing::OnePool) => {
            partitions.push_str(
                "# Jobs keep their partitions, which all name the same nodes. Put these Nodes into the partitions that there are, give them one PriorityTier, keep what else they have\n\
                 # (Default, MaxTime, AllowAccounts and so on), and run scontrol reconfigure. To undo, put the old Nodes back.\n",
            );
            for (slug, vc) in named(&answer.body)? {
                partitions.push_str(&format!("PartitionName={} Nodes={nodes} State=UP\n", partition(&vc, &slug)?));
            }
        }
        Some(sharing) => {
            let mut qos = format!("#!/bin/sh\n{partitions}");
            let mut lua = comments("--", answer);
            borrowing(answer, nodes, sharing.reclaims(), (&mut partitions, &mut qos, &mut lua))?;
            others = vec![qos, lua];
        }
    }
    if backfill {
        partitions.push_str(&format!(
            "# Jobs that fit start past one that does not, {}. This is Slurm's default; with sched/builtin they wait. To undo, put the old value back.\n{BACKFILL}=sched/backfill\n",
            backfilled(answer)
        ));
    }
    if let Some(setup) = answer.body.setup().filter(|_| !keys.is_empty()) {
        partitions.push_str(about_order(&setup.setup.policy.order));
        keys.iter().for_each(|(key, value)| partitions.push_str(&format!("{key}={value}\n")));
    }
    let texts = std::iter::once(partitions).chain(others);
    Ok(SLURM_FILES.into_iter().map(str::to_owned).zip(texts).collect())
}

fn borrowing(
    answer: &QueuesAnswer,
    nodes: &str,
    reclaims: bool,
    (partitions, qos, lua): (&mut String, &mut String, &mut String),
) -> Result<()> {
    partitions.push_str(
        "# First run slurm-qos.sh. Then put these lines in place of the partitions of the VCs in slurm.conf, and restart slurmctld. They need\n\
         # AccountingStorageTRES=gres/gpu and AccountingStorageEnforce=limits,qos, under which jobs need an association in the accounting.\n\
         # Keep what else your partitions have (Default, MaxTime, AllowAccounts and so on). To undo, put the old lines back before you delete a QOS.\n",
    );
    if reclaims {
        partitions.push_str(
            "# Partitions that are not in this list need PreemptMode=OFF, or their jobs are stopped, too.\n\
             # Add preempt_youngest_first to your SchedulerParameters: who started last is stopped first.\n\
             PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n",
        );
    }
    qos.push_str(
        "# Limits of the partitions. Undo, once no partition names them: sacctmgr -i delete qos NAME\nset -eu\n",
    );
    lua.push_str(
        "-- Into slurm_job_submit of job_submit.lua: a job that names the partition of a VC may also borrow.\nlocal borrows = {\n",
    );
    let mode = |stops: &str| if reclaims { format!(" PreemptMode={stops}") } else { String::new() };
    for (slug, vc) in named(&answer.body)? {
        let name = partition(&vc, &slug)?;
        let own = vc.own_gpus.floor();
        let rest = vc.most_gpus.map(|most| (most - own).max(vc.largest_job_gpus).max(0.0));
        partitions.push_str(&format!(
            "# {}: {own} GPUs of its own{}.\n",
            vc.vc.escape_debug(),
            rest.map_or_else(|| ", and all that is idle".to_owned(), |rest| format!(", and up to {rest} more"))
        ));
        let both = self::partitions(&name, &slug);
        for (SlurmPartition { name, tier, qos: limit, mode: stops }, gpus) in both.iter().zip([Some(own), rest]) {
            partitions.push_str(&format!(
                "PartitionName={name} Nodes={nodes} State=UP PriorityTier={tier} QOS={limit}{}\n",
                mode(stops)
            ));
            let most = gpus.map_or_else(|| "-1".to_owned(), |gpus| gpus.to_string());
            qos.push_str(&format!(
                "sacctmgr -i add qos {limit} || true\nsacctmgr -i modify qos {limit} set GrpTRES=gres/gpu={most}\n"
            ));
        }
        let [own, borrows] = both;
        let both = format!("{},{}", own.name, borrows.name);
        lua.push_str(&format!("  [{}] = {},\n", quote::lua(&name), quote::lua(&both)));
    }
    lua.push_str("}\n");
    if let Some(short) = answer.body.setup().and_then(|setup| setup.short_queue) {
        lua.push_str(&route(answer, short.within_s)?);
    }
    lua.push_str("if borrows[job_desc.partition] then\n  job_desc.partition = borrows[job_desc.partition]\nend\n");
    Ok(())
}
