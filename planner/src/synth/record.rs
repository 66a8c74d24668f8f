//! Writing down what happened: jobs, attempts, placements, nodes and capacity, as a scheduler's records would have them.
//!
//! The record is taken when the time covered ends: what runs then has no end, what waits has no start, and both are
//! censored. Attempts are written only for jobs that had more than one.

use std::borrow::Cow;

use tracecast_analytics::Trace;
use tracecast_analytics::schema::{AttemptRow, CapacityRow, JobRow, JobState, NodeRow, PlacementRow};

use super::Planned;
use super::demand::Demand;
use super::schedule::{Attempt, Handover, Outage, Schedule};
use super::spec::{Checked, QuantileSpec};

/// Bytes in a gibibyte.
const GIB: i64 = 1 << 30;

/// Name of a node.
pub(crate) fn node_name(node: u32) -> String {
    format!("n{:04}", node + 1)
}

/// Names of nodes in Slurm's notation: `n0007`, `n[0001-0003,0007]`.
fn hostlist(nodes: &[u32]) -> String {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if let [only] = sorted.as_slice() {
        return node_name(*only);
    }
    let mut parts: Vec<String> = Vec::new();
    for run in sorted.chunk_by(|a, b| a + 1 == *b) {
        match (run.first(), run.last()) {
            (Some(first), Some(last)) if first != last => parts.push(format!("{:04}-{:04}", first + 1, last + 1)),
            (Some(first), _) => parts.push(format!("{:04}", first + 1)),
            _ => {}
        }
    }
    format!("n[{}]", parts.join(","))
}

/// Writes jobs, attempts and placements. `runs` pairs indices of jobs with the schedule of their pool.
pub(crate) fn jobs(
    trace: &mut Trace,
    checked: &Checked,
    demand: &Demand,
    jobs: &[Planned],
    runs: &[(&Vec<u32>, &Schedule)],
) {
    let mut attempts: Vec<Vec<&Attempt>> = vec![Vec::new(); jobs.len()];
    for (which, schedule) in runs {
        for attempt in &schedule.attempts {
            if let Some(of) = which.get(attempt.job as usize).and_then(|ix| attempts.get_mut(*ix as usize)) {
                of.push(attempt);
            }
        }
    }
    for ((ix, job), attempts) in jobs.iter().enumerate().zip(&attempts) {
        job_rows(trace, checked, demand, ix, job, attempts);
    }
}

fn job_rows(trace: &mut Trace, checked: &Checked, demand: &Demand, ix: usize, job: &Planned, attempts: &[&Attempt]) {
    let spec = &checked.spec;
    let Some(version) = demand.versions.get(job.version as usize) else { return };
    let Some(family) = demand.families.get(version.family as usize) else { return };
    let class = demand.users.get(family.user as usize).and_then(|user| user.class);
    let key = (ix + 1).to_string();
    let size = f64::from(version.size);
    let (gpus, cpus) = if family.gpu { (size, size * f64::from(spec.cluster.cpus_per_gpu)) } else { (0.0, size) };
    let last = attempts.last();
    let running = last.is_some_and(|attempt| attempt.end_ms.is_none());
    let killed = last.is_some_and(|attempt| attempt.failed);
    let state = match last {
        None => JobState::Pending,
        Some(_) if running => JobState::Running,
        Some(_) if killed && job.requeues => JobState::Pending,
        Some(_) if killed => JobState::NodeFail,
        Some(_) => job.state,
    };
    let over = state.is_final();
    let nodes: Vec<u32> = last.map(|last| last.slices.iter().map(|slice| slice.node).collect()).unwrap_or_default();
    let given = |value: f64| last.map(|_| value);
    let ran_ms: i64 = attempts.iter().filter_map(|attempt| attempt.end_ms.map(|end| end - attempt.start_ms)).sum();
    let name = if version.number == 1 {
        Cow::from(&family.name)
    } else {
        format!("{}_v{}", family.name, version.number).into()
    };
    trace.jobs.push(JobRow {
        cluster: Some(Cow::from(&spec.cluster.name)),
        job_key: Some(Cow::from(&key)),
        user: Some(format!("u{:03}", family.user + 1).into()),
        account: class.and_then(|class| spec.users.class.get(class)).map(|class| Cow::from(&class.name)),
        vc: spec.vc.get(job.vc as usize).map(|vc| Cow::from(&vc.name)),
        name: Some(name),
        job_type: Some(family.task.into()),
        gpu_type: family.gpu.then(|| Cow::from(&spec.cluster.gpu_type)),
        state: Some(state.id().into()),
        submit: Some(job.submit_ms),
        eligible: Some(job.submit_ms),
        start: attempts.first().map(|attempt| attempt.start_ms),
        end: last.filter(|_| over).and_then(|attempt| attempt.end_ms),
        censored: Some(!over),
        attempts: Some(attempts.len() as i64),
        req_cpus: Some(cpus),
        req_mem_bytes: Some(i64::from(version.mem_gib) * i64::from(version.size) * GIB),
        req_gpus: Some(gpus),
        alloc_nodes: last.map(|_| nodes.len() as i64),
        alloc_cpus: given(cpus),
        alloc_gpus: given(gpus),
        nodes_hostlist: last.map(|_| hostlist(&nodes).into()),
        time_limit_s: job.limit_s.map(|limit| limit as f64),
        run_s: over.then_some(ran_ms as f64 / 1_000.0),
        exit_code: match state {
            JobState::Completed => Some(0),
            JobState::Failed => Some(1),
            JobState::OutOfMemory => Some(137),
            _ => None,
        },
        ..JobRow::default()
    });
    for attempt in attempts {
        if family.gpu {
            for slice in &attempt.slices {
                let ids: Vec<String> =
                    (0..u64::BITS).filter(|bit| slice.units >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
                trace.placements.push(PlacementRow {
                    job_key: Some(Cow::from(&key)),
                    attempt: Some(i64::from(attempt.number)),
                    node: Some(node_name(slice.node).into()),
                    gpu_ids: Some(ids.join(",").into()),
                    gpus: Some(f64::from(slice.units.count_ones())),
                });
            }
        }
        if attempts.len() > 1 {
            let nodes: Vec<u32> = attempt.slices.iter().map(|slice| slice.node).collect();
            let reason = if attempt.failed { JobState::NodeFail } else { state };
            trace.attempts.push(AttemptRow {
                job_key: Some(Cow::from(&key)),
                attempt: Some(i64::from(attempt.number)),
                start: Some(attempt.start_ms),
                end: attempt.end_ms,
                censored: Some(attempt.end_ms.is_none()),
                end_reason: Some(reason.id().into()),
                nodes_hostlist: Some(hostlist(&nodes).into()),
                alloc_gpus: Some(gpus),
                alloc_cpus: Some(cpus),
                ..AttemptRow::default()
            });
        }
    }
}

/// Writes the inventory and capacity over time. A VC's capacity changes when a node changes hands; nodes out of service are rows of their own and not taken off the VC's.
pub(crate) fn machine(
    trace: &mut Trace,
    checked: &Checked,
    node_vc: &[u32],
    handovers: &[Handover],
    outages: &[Outage],
) {
    let cluster = &checked.spec.cluster;
    let gpus = f64::from(cluster.gpus_per_node);
    let power = |p: f64| {
        let telemetry = checked.spec.telemetry.as_ref()?;
        let gpu_w = quantile(&telemetry.gpu_power_w, p);
        Some((telemetry.node_base_w + telemetry.node_per_gpu_w * gpus * gpu_w).round())
    };
    // Idle: the middle of the idle part of the distribution. Full: its upper end.
    let idle_w = power(checked.spec.telemetry.as_ref().map_or(0.0, |telemetry| telemetry.idle_share / 2.0));
    let max_w = power(1.0);
    let vc_name = |vc: u32| checked.spec.vc.get(vc as usize).map(|vc| Cow::from(&vc.name));
    for (ix, vc) in (0u32..).zip(node_vc) {
        trace.nodes.push(NodeRow {
            node: Some(node_name(ix).into()),
            gpu_type: Some(Cow::from(&cluster.gpu_type)),
            gpus: Some(gpus),
            gpu_mem_bytes: Some(i64::from(cluster.gpu_mem_gib) * GIB),
            cpus: Some(gpus * f64::from(cluster.cpus_per_gpu) + f64::from(cluster.cpu_job_cores_per_node)),
            mem_bytes: Some(i64::from(cluster.mem_gib) * GIB),
            vc: vc_name(*vc),
            place: None,
            idle_w,
            max_w,
            boot_s: Some(cluster.boot_s),
            // A booting node draws what an idle one does.
            boot_j: idle_w.map(|idle_w| idle_w * cluster.boot_s),
        });
    }
    if !handovers.is_empty() {
        trace.note("The VC of a node is the one it belonged to at first; `capacity` has the VCs' sizes over time");
    }
    let mut row = |scope: &str, name: Cow<'_, str>, from_ms: i64, to_ms: i64, nodes: f64, state: &str| {
        trace.capacity.push(CapacityRow {
            scope: Some(scope.into()),
            name: Some(name),
            from: Some(from_ms),
            to: Some(to_ms),
            gpus: Some(nodes * gpus),
            nodes: Some(nodes),
            state: Some(state.into()),
            ..CapacityRow::default()
        });
    };
    row("cluster", Cow::from(&cluster.name), checked.start_ms, checked.end_ms, node_vc.len() as f64, "up");
    for vc in 0..checked.spec.vc.len() as u32 {
        let mut nodes = node_vc.iter().filter(|of| **of == vc).count() as f64;
        let mut from_ms = checked.start_ms;
        for handover in handovers.iter().filter(|handover| handover.from == vc || handover.to == vc) {
            if handover.at_ms > from_ms
                && let Some(name) = vc_name(vc)
            {
                row("vc", name, from_ms, handover.at_ms, nodes, "up");
            }
            from_ms = handover.at_ms;
            nodes += if handover.to == vc { 1.0 } else { 0.0 } - if handover.from == vc { 1.0 } else { 0.0 };
        }
        if let Some(name) = vc_name(vc) {
            row("vc", name, from_ms, checked.end_ms, nodes, "up");
        }
    }
    for outage in outages {
        row("node", node_name(outage.node).into(), outage.from_ms, outage.to_ms.min(checked.end_ms), 0.0, "down");
    }
}

/// The value at share `p` of a distribution given by points, linear between them.
pub(crate) fn quantile(points: &[QuantileSpec], p: f64) -> f64 {
    let after = points.partition_point(|point| point.p < p);
    match (after.checked_sub(1).and_then(|ix| points.get(ix)), points.get(after)) {
        (Some(a), Some(b)) => a.value + (b.value - a.value) * (p - a.p) / (b.p - a.p),
        (None, Some(only)) | (Some(only), None) => only.value,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_as_slurm_does() {
        assert_eq!(hostlist(&[6]), "n0007");
        assert_eq!(hostlist(&[2, 0, 1, 6]), "n[0001-0003,0007]");
        assert_eq!(hostlist(&[]), "n[]");
    }

    #[test]
    fn a_quantile_between_points_is_linear() {
        let points = [(0.0, 60.0), (0.5, 100.0), (1.0, 500.0)].map(|(p, value)| QuantileSpec { p, value });
        // A quarter of the way is half way to the median: 80. Three quarters: 100 + 400/2.
        assert_eq!([0.0, 0.25, 0.5, 0.75, 1.0].map(|p| quantile(&points, p)), [60.0, 80.0, 100.0, 300.0, 500.0]);
    }
}
