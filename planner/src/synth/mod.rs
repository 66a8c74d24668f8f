//! Synthetic traces: complete, from a small specification, calibrated to published totals.
//!
//! A synthetic trace has everything a real one may have (jobs with users, VCs, names, states, limits and placements;
//! attempts; nodes and quotas that change; GPU and node power; carbon intensity; prices and spot availability), so that
//! every example and test can run without a download. It is made, and says so in its notes: what it shows holds for the
//! specification, not for any real cluster.
//!
//! What is made to be like the published traces: users and names come back, load is daily and weekly with bursts, run
//! times are heavy-tailed and depend on user, name and size, ends depend on GPU time, waits come out of contention for
//! nodes, replayed by the simulator under the policy that the specification names (`synth::schedule`). What is not: users do not react
//! to waits, sizes do not drift.
//!
//! ```text
//! spec ─▶ demand (who, when, how much) ─▶ run (how long) ─▶ outcome (how it ends) ─▶ schedule (where, when)
//!                                                        ─▶ record (tables) ─▶ telemetry, market ─▶ Trace
//! ```
//!
//! Calibration is by construction, not by luck: sizes by quota, run times by rank, ends by error diffusion. The totals a
//! specification names as targets are measured on the finished trace by [`calibrate::check`].
//!
//! The same specification and seed give the same bytes on one platform; each concern has its own random stream
//! ([`random`]). Logarithms and exponentials come from the platform's mathematics library; times are rounded to whole
//! seconds and amounts to fixed decimals, which hides most differences between libraries, but not all.
//!
//! O(n log n) in jobs. Worked number: the bundled sample (`datasets/specs/sample.toml`, seed 3) draws its GPU jobs' runs
//! with a median of 206 s, the published median of Helios; of those that are over when the record is taken it is 204 s.

pub mod calibrate;
pub mod demand;
mod market;
mod outcome;
pub mod random;
mod record;
mod run;
mod schedule;
pub mod spec;
mod telemetry;

use tracecast_analytics::schema::JobState;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};
use tracecast_analytics::{Result, Trace};

use demand::Demand;
use random::{Concern, Stream};
use schedule::{Change, Machine, Outage, Request};
use spec::Checked;
pub use spec::Spec;
use telemetry::Alike;

/// A job as drawn, before it is scheduled.
#[derive(Debug, Clone, Copy)]
struct Planned {
    submit_ms: i64,
    version: u32,
    vc: u32,
    run_s: i64,
    state: JobState,
    limit_s: Option<i64>,
    requeues: bool,
}

/// Makes the trace that `spec` and `seed` stand for.
///
/// # Errors
/// When the specification makes no sense, or asks for totals that cannot be had together.
pub fn generate(spec: &Spec, seed: u64) -> Result<Trace> {
    let checked = spec.check()?;
    let mut durations = Stream::new(seed, Concern::Durations);
    let mut demand = Demand::draw(&checked, seed);
    demand.draw_effects(&mut durations);
    let jobs = plan(&checked, &demand, seed, &mut durations)?;
    let outages = outages(&checked, &mut Stream::new(seed, Concern::Failures));
    let node_vc: Vec<u32> =
        (0u32..).zip(&checked.spec.vc).flat_map(|(ix, vc)| std::iter::repeat_n(ix, vc.nodes as usize)).collect();
    let gpus = |gpu: bool| -> Vec<u32> {
        let of = |job: &Planned| demand.family_of(job.version).is_some_and(|family| family.gpu) == gpu;
        (0u32..).zip(&jobs).filter(|(_, job)| of(job)).map(|(ix, _)| ix).collect()
    };
    let request = |job: &Planned, vc: u32| Request {
        submit_ms: job.submit_ms,
        vc,
        user: demand.family_of(job.version).map_or(0, |family| family.user),
        units: demand.versions.get(job.version as usize).map_or(1, |version| version.size),
        run_ms: job.run_s * 1_000,
        limit_ms: job.limit_s.map(|limit_s| limit_s * 1_000),
        requeues: job.requeues,
    };
    let requests = |which: &[u32], own_vc: bool| -> Vec<Request> {
        let jobs = which.iter().filter_map(|ix| jobs.get(*ix as usize));
        jobs.map(|job| request(job, if own_vc { job.vc } else { 0 })).collect()
    };
    let changes: Vec<Change> =
        checked.changes.iter().map(|&(at_ms, from, to, nodes)| Change { at_ms, from, to, nodes }).collect();
    let span = (checked.start_ms, checked.end_ms);
    let gpu_jobs = gpus(true);
    let gpu_machine = Machine {
        units_per_node: checked.spec.cluster.gpus_per_node,
        node_vc: node_vc.clone(),
        vcs: checked.spec.vc.iter().map(|vc| vc.name.clone()).collect(),
    };
    let gpu = schedule::schedule(&requests(&gpu_jobs, true), &gpu_machine, &checked.policy, &changes, &outages, span)?;
    // CPU jobs have cores of every node to themselves, whatever their VC, so they neither wait for GPU jobs nor delay
    // them.
    let cpu_jobs = gpus(false);
    let cpu_machine = Machine {
        units_per_node: checked.spec.cluster.cpu_job_cores_per_node,
        node_vc: vec![0; node_vc.len()],
        vcs: vec![checked.spec.cluster.name.clone()],
    };
    let cpu = schedule::schedule(&requests(&cpu_jobs, false), &cpu_machine, &checked.policy, &[], &gpu.outages, span)?;

    let mut trace = Trace { zone: checked.zone.name().to_owned(), ..Trace::default() };
    trace.note(format!(
        "Synthetic: made by `tracecast synth` from the specification `{}` with seed {seed}; no part of it was recorded on a real machine",
        checked.spec.name
    ));
    trace.note(format!(
        "Scheduled by the simulator; `tracecast simulate` with `{}` repeats the starts of its GPU jobs",
        checked.spec.scheduler.options()
    ));
    trace.note("CPU jobs run on cores kept for them on every node and wait for no VC's quota");
    let runs = [(&gpu_jobs, &gpu), (&cpu_jobs, &cpu)];
    record::jobs(&mut trace, &checked, &demand, &jobs, &runs);
    record::machine(&mut trace, &checked, &node_vc, &gpu.handovers, &gpu.outages);
    if let Some(spec) = &checked.spec.telemetry {
        let mut rng = Stream::new(seed, Concern::Telemetry);
        let family = |job: &u32| Some(demand.versions.get(jobs.get(*job as usize)?.version as usize)?.family);
        let families: Vec<u32> = gpu_jobs.iter().map(|job| family(job).unwrap_or_default()).collect();
        let alike = Alike::draw(&families, spec.between_families, &mut Stream::new(seed, Concern::Families));
        telemetry::record(&mut trace, &checked, spec, (&gpu_jobs, &alike), &gpu, &mut rng);
    }
    market::record(&mut trace, &checked, &mut Stream::new(seed, Concern::Market));
    let rows: usize = trace.row_counts().iter().map(|(_, rows)| rows).sum();
    trace.ledger.keep_many(rows as u64);
    trace.finish();
    Ok(trace)
}

/// Draws run times, ends and limits, and gives users to VCs.
fn plan(checked: &Checked, demand: &Demand, seed: u64, durations: &mut Stream) -> Result<Vec<Planned>> {
    let spec = &checked.spec;
    let mut jobs: Vec<Planned> = demand
        .submissions
        .iter()
        .map(|&(submit_ms, version)| Planned {
            submit_ms,
            version,
            vc: 0,
            run_s: 1,
            state: JobState::Completed,
            limit_s: None,
            requeues: false,
        })
        .collect();
    let mut states = Stream::new(seed, Concern::States);
    for (gpu, runs, key, ends) in
        [(true, &spec.gpu_runs, "gpu_runs", &spec.gpu_states), (false, &spec.cpu_runs, "cpu_runs", &spec.cpu_states)]
    {
        let which: Vec<u32> = (0u32..)
            .zip(&jobs)
            .filter(|(_, job)| demand.family_of(job.version).is_some_and(|family| family.gpu) == gpu)
            .map(|(ix, _)| ix)
            .collect();
        if which.is_empty() {
            continue;
        }
        let mut runs_s = run::draw(checked, demand, &which, runs, key, durations)?;
        let outcomes = outcome::draw(demand, &which, &mut runs_s, ends, &spec.limits, &mut states);
        for ((ix, run_s), (state, limit_s)) in which.iter().zip(runs_s).zip(outcomes) {
            if let Some(job) = jobs.get_mut(*ix as usize) {
                (job.run_s, job.state, job.limit_s) = (run_s, state, limit_s);
                job.requeues = states.chance(spec.failures.requeue);
            }
        }
    }
    let vc_of_user = assign_vcs(checked, demand, &jobs);
    for job in &mut jobs {
        let user = demand.family_of(job.version).map_or(0, |family| family.user);
        job.vc = vc_of_user.get(user as usize).copied().unwrap_or(0);
    }
    Ok(jobs)
}

/// Gives each user the VC that lacks most demand for its GPUs, heaviest users first, among VCs that always have
/// twice the GPUs of the user's largest job (or once, if there are none). So the demand of VCs is as unequal as the specification says and no more.
fn assign_vcs(checked: &Checked, demand: &Demand, jobs: &[Planned]) -> Vec<u32> {
    let mut users = vec![(0.0f64, 0u32); demand.users.len()];
    for job in jobs {
        let Some(family) = demand.family_of(job.version).filter(|family| family.gpu) else { continue };
        let size = demand.versions.get(job.version as usize).map_or(1, |version| version.size);
        if let Some((gpu_s, largest)) = users.get_mut(family.user as usize) {
            *gpu_s += f64::from(size) * job.run_s as f64;
            *largest = size.max(*largest);
        }
    }
    let total: f64 = users.iter().map(|(gpu_s, _)| gpu_s).sum();
    let weight = |ix: usize| checked.spec.vc.get(ix).map_or(0.0, |vc| vc.load * f64::from(vc.nodes));
    let weights: f64 = (0..checked.spec.vc.len()).map(weight).sum();
    let mut lacking: Vec<f64> = (0..checked.spec.vc.len()).map(|ix| total * weight(ix) / weights).collect();
    let mut order: Vec<usize> = (0..users.len()).collect();
    order.sort_by(|a, b| {
        let of = |ix: &usize| users.get(*ix).map_or(0.0, |user| user.0);
        of(b).total_cmp(&of(a)).then(a.cmp(b))
    });
    let mut vc_of_user = vec![0; users.len()];
    for user in order {
        let Some((gpu_s, largest)) = users.get(user).copied() else { continue };
        let gpus = |ix: usize| checked.least_nodes.get(ix).copied().unwrap_or(0) * checked.spec.cluster.gpus_per_node;
        let missing = |ix: usize| lacking.get(ix).copied().unwrap_or(0.0);
        // A job that needs more than half of its VC waits for nearly everything else there to end.
        let roomy = (0..lacking.len()).any(|ix| weight(ix) > 0.0 && gpus(ix) >= 2 * largest);
        let need = if roomy { 2 * largest } else { largest };
        let best = (0..lacking.len())
            .filter(|ix| weight(*ix) > 0.0 && gpus(*ix) >= need)
            .max_by(|a, b| missing(*a).total_cmp(&missing(*b)).then(b.cmp(a)))
            .unwrap_or(0);
        if let Some(lacking) = lacking.get_mut(best) {
            *lacking -= gpu_s;
        }
        if let Some(vc) = vc_of_user.get_mut(user) {
            *vc = best as u32;
        }
    }
    vc_of_user
}

/// When nodes are away: exponential times between failures and to repair, on whole seconds.
fn outages(checked: &Checked, rng: &mut Stream) -> Vec<Outage> {
    let spec = &checked.spec.failures;
    if spec.mtbf_days <= 0.0 {
        return Vec::new();
    }
    let nodes: u32 = checked.spec.vc.iter().map(|vc| vc.nodes).sum();
    let mut out = Vec::new();
    let whole = |ms: f64| (ms / 1_000.0).round() as i64 * 1_000;
    for node in 0..nodes {
        let mut at_ms = checked.start_ms;
        loop {
            let from_ms = at_ms + whole(rng.exponential(spec.mtbf_days) * DAY_MS as f64).max(1_000);
            if from_ms >= checked.end_ms {
                break;
            }
            let to_ms = from_ms + whole(rng.exponential(spec.repair_h) * HOUR_MS as f64).max(60_000);
            out.push(Outage { node, from_ms, to_ms });
            at_ms = to_ms;
        }
    }
    out
}

#[cfg(test)]
mod tests;
