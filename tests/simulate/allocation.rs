//! Allocation on Gavel's throughputs, on its authors' own jobs beside what their simulator makes of these, and on jobs that our generator draws.
//!
//! What stands here of Gavel's simulator are runs of ours (seed 0, rounds of 6 min, at least 32 min between allocations, 8 GPUs of each type). None of them is published.

use tracecast_planner::rounds::active::ActiveJob;
use tracecast_planner::rounds::answer::{AllocationAnswer, AllocationJobs, AllocationRequest, AllocationRow};
use tracecast_planner::rounds::host::class::ClassDraw;
use tracecast_planner::rounds::host::{HostFleet, HostOrder};
use tracecast_planner::rounds::job::{DeadlineDraw, DrawnRuns, JobDraw, draw, read};
use tracecast_planner::rounds::node::HostNeeds;
use tracecast_planner::rounds::policy::{Allocated, AllocationPolicy, allocate};
use tracecast_planner::rounds::pool::{TypedFleet, pools};
use tracecast_planner::rounds::programme::{Claim, dual, levelled};
use tracecast_planner::rounds::replay::RoundOptions;
use tracecast_planner::rounds::room::GangRoom;
use tracecast_predictors::interference::rates;
use tracecast_tests::{full_tier, real_trace};

use AllocationPolicy as P;

fn fleet() -> Option<TypedFleet> {
    let path = real_trace("gavel/simulation_throughputs.json.gz")?;
    Some(TypedFleet::new(pools("v100=8,p100=8,k80=8").unwrap(), &rates::rates(&path).unwrap().gangs).unwrap())
}

fn answer(fleet: &TypedFleet, jobs: usize, runs: DrawnRuns, policies: &[P]) -> AllocationAnswer {
    let request = AllocationRequest {
        policies: policies.to_vec(),
        jobs: AllocationJobs::Drawn(
            JobDraw { jobs, per_hour: None, runs, gangs: true, ..JobDraw::default() },
            (1..=4).collect(),
        ),
        options: RoundOptions::default(),
    };
    AllocationAnswer::new(fleet, "gavel".to_owned(), &request, &()).unwrap()
}

/// The policies on the jobs of a file of Gavel's authors, with a least time between allocations, minutes.
fn of_file(fleet: &TypedFleet, file: &str, policies: &[P], kept_min: i64) -> Option<AllocationAnswer> {
    let text = std::fs::read_to_string(real_trace(file)?).unwrap();
    let request = AllocationRequest {
        policies: policies.to_vec(),
        jobs: AllocationJobs::Listed(read(file, &text, fleet).unwrap()),
        options: RoundOptions { reallocate_ms: kept_min * 60_000, ..RoundOptions::default() },
    };
    let found = AllocationAnswer::new(fleet, "gavel".to_owned(), &request, &()).unwrap();
    for row in &found.policies {
        let (mean, makespan) = (row.mean_jct_s.value, row.makespan_s.value);
        println!(
            "{file} kept {kept_min:2} min {:18} mean {mean:8.0} makespan {makespan:8.0} worst {:.2}",
            row.policy.name(),
            row.worst_ratio.value
        );
    }
    println!("{:?} {:?}", found.advice, found.limits);
    Some(found)
}

#[test]
fn gavels_simulator_on_its_own_jobs() {
    let Some(fleet) = fleet() else { return };
    // Means of its simulator, seconds, the longest first.
    let reference = [
        (P::Fifo, 47_735.0),
        (P::MaxMinAware, 30_406.0),
        (P::FinishTimeAware, 30_142.0),
        (P::FinishTime, 29_957.0),
        (P::MaxMin, 27_808.0),
    ];
    let policies = reference.map(|(policy, _)| policy);
    let file = "gavel/max_min_fairness.csv";
    let Some(kept) = of_file(&fleet, file, &policies, 32) else { return };
    let mean = |found: &AllocationAnswer, policy: P| found.row(policy).unwrap().mean_jct_s.value;
    // Its FIFO draws a type for each job and does not use it, so that nearly all jobs queue for the V100s; ours uses all types.
    for (policy, seconds) in reference.into_iter().skip(1) {
        let off = mean(&kept, policy) / seconds - 1.0;
        assert!(off.abs() < 0.05, "{}: {off:+.3}", policy.name());
    }
    assert!(policies.windows(2).all(|two| mean(&kept, two[0]) > mean(&kept, two[1])), "the order is another");
    // With so long between allocations, who knows types has the longer mean, and is not advised.
    assert!(
        kept.advice.as_ref().unwrap().saving.value < 0.0 && kept.action.contains("Change nothing"),
        "{}",
        kept.action
    );
    // Where allocations are made anew at once it has the shorter one, and the answer says on what that hangs.
    let anew = of_file(&fleet, file, &policies, 0).unwrap();
    let advice = anew.advice.as_ref().unwrap();
    assert!(mean(&anew, P::MaxMinAware) < 0.95 * mean(&anew, P::MaxMin));
    assert!(advice.saving.value > 0.05 && advice.kept_saving.unwrap().value < 0.0, "{advice:?}");

    // Of its 100 jobs: FIFO has a mean of 211,551 s and ends after 274,228 s, for the reason above.
    let policies = [P::Fifo, P::MaxMinAware, P::Makespan];
    let found = of_file(&fleet, "gavel/minimize_makespan.csv", &policies, 32).unwrap();
    let ends = |policy: P| found.row(policy).unwrap().makespan_s.value;
    assert!((mean(&found, P::MaxMinAware) / 55_094.0 - 1.0).abs() < 0.05);
    assert!((ends(P::MaxMinAware) / 111_905.0 - 1.0).abs() < 0.05);
    assert!(mean(&found, P::Fifo) > mean(&found, P::MaxMinAware) && ends(P::Fifo) > 1.5 * ends(P::MaxMinAware));
    // The bound that its own programme gives for these jobs is 107,402 s.
    assert!((found.limits.makespan_s.value / 107_402.0 - 1.0).abs() < 1e-3, "{:?}", found.limits);
    assert!(ends(P::Makespan) < 1.02 * found.limits.makespan_s.value);
}

#[test]
fn drawn_jobs_on_gavels_throughputs() {
    let Some(fleet) = fleet() else { return };
    let both = [DrawnRuns::Hours, DrawnRuns::Simulation];
    for runs in both.into_iter().take(if full_tier() { 2 } else { 1 }) {
        let policies = [P::Fifo, P::MaxMin, P::FinishTime, P::MaxMinAware, P::FinishTimeAware];
        let found = answer(&fleet, 96, runs, &policies);
        for row in &found.policies {
            println!(
                "{runs:?} {:18} mean {:8.0} makespan {:8.0}",
                row.policy.name(),
                row.mean_jct_s.value,
                row.makespan_s.value
            );
        }
        println!("{runs:?} bound {:?}", found.limits);
        // FIFO is behind all others in every single draw.
        for set in found.runs.chunks(policies.len()) {
            let of = |policy: P| set.iter().find(|run| run.policy == policy).unwrap().mean_jct_s;
            let others = policies.iter().skip(1).map(|policy| of(*policy)).fold(0.0, f64::max);
            assert!(of(P::Fifo) > others, "{runs:?}, seed {:?}", set[0].seed);
            assert!(of(P::MaxMin) > of(P::MaxMinAware), "{runs:?}, seed {:?}", set[0].seed);
        }
        let least = |row: &AllocationRow| row.mean_jct_s.value >= found.limits.mean_jct_s.value;
        assert!(found.policies.iter().all(least));
    }
}

#[test]
fn deadlines_on_gavels_throughputs() {
    let Some(fleet) = full_tier().then(fleet).flatten() else { return };
    let of = |deadlines: DeadlineDraw| {
        let what = JobDraw {
            jobs: 160,
            per_hour: Some(6.0),
            runs: DrawnRuns::Hours,
            deadlines: Some(deadlines),
            ..JobDraw::default()
        };
        let request = AllocationRequest {
            policies: vec![P::MaxMinAware, P::Edf, P::Genie, P::Chronus],
            jobs: AllocationJobs::Drawn(what, (3..=5).collect()),
            options: RoundOptions::default(),
        };
        let found = AllocationAnswer::new(&fleet, "gavel".to_owned(), &request, &()).unwrap();
        let bound = found.limits.missed.unwrap().value;
        let missed = request.policies.iter().map(|policy| {
            let dues = found.row(*policy).unwrap().deadlines.unwrap();
            println!("{deadlines:?} {:14} missed {:.3}, bound {bound:.3}", policy.name(), dues.missed.value);
            assert!(policy.resizes() || dues.missed.value >= bound);
            dues.missed.value
        });
        missed.collect::<Vec<f64>>()
    };
    // Where half of the jobs have deadlines with room, all that know them keep nearly all, and who does not know them many less.
    let [blind, rest @ ..]: [f64; 4] = of(DeadlineDraw { share: 0.5, runs: (1.5, 4.0) }).try_into().unwrap();
    assert!(blind > 0.05 && rest.iter().all(|missed| *missed < 0.02), "{blind} {rest:?}");
    // Where not all can be in time, admission misses fewer than the nearest deadline first.
    let [_, edf, _, chronus]: [f64; 4] = of(DeadlineDraw { share: 1.0, runs: (1.2, 2.0) }).try_into().unwrap();
    assert!(chronus < 0.9 * edf, "{chronus} {edf}");
}

#[test]
fn processors_on_gavels_throughputs() {
    let Some(fleet) = fleet() else { return };
    let node = HostNeeds { cpus: 24.0, memory_gb: 500.0 };
    let fleet =
        TypedFleet { host: Some(HostFleet::new(8, vec![node; 3], Vec::new()).unwrap().with_classes()), ..fleet };
    let what = JobDraw {
        jobs: 120,
        per_hour: Some(8.0),
        runs: DrawnRuns::Hours,
        classes: Some(ClassDraw::named("50:0:50").unwrap()),
        ..JobDraw::default()
    };
    for host_order in [HostOrder::Fifo, HostOrder::Las, HostOrder::Srtf] {
        let request = AllocationRequest {
            policies: vec![P::Proportional, P::SynergyGreedy, P::Synergy],
            jobs: AllocationJobs::Drawn(what, (1..=3).collect()),
            options: RoundOptions { per_node: Some(8), host_order, ..RoundOptions::default() },
        };
        let found = AllocationAnswer::new(&fleet, "gavel".to_owned(), &request, &()).unwrap();
        let host = |policy: P| found.row(policy).unwrap().host.unwrap();
        for row in &found.policies {
            let host = row.host.unwrap();
            println!(
                "{host_order:?} {:15} mean {:8.0} speed {:.3} of most {:?} idle {:.3}",
                row.policy.name(),
                row.mean_jct_s.value,
                host.speed.value,
                host.of_most.map(|of_most| of_most.value),
                host.idle.value
            );
            assert_eq!(host.slower.value, 0.0);
        }
        assert!(host(P::Synergy).speed.value > host(P::Proportional).speed.value);
        assert!(host(P::Synergy).of_most.unwrap().value <= 1.0 + 1e-6);
        // Who asks for all or nothing is fast and leaves GPUs idle; the two others never do for want of processors. Gangs of 8 have a node and no more, so nobody is at full speed throughout.
        assert!(host(P::SynergyGreedy).idle.value > 0.0);
        assert!(host(P::SynergyGreedy).speed.value > host(P::Synergy).speed.value);
        assert_eq!((host(P::Synergy).idle.value, host(P::Proportional).idle.value), (0.0, 0.0));
        let mean = |policy: P| found.row(policy).unwrap().mean_jct_s.value;
        assert!(mean(P::Synergy) < mean(P::Proportional));
    }
}

#[test]
fn programmes_on_gavels_throughputs_are_feasible_and_proved() {
    let Some(fleet) = fleet() else { return };
    let gpus = fleet.gpus();
    let room = GangRoom { gpus: fleet.pools.iter().map(|pool| pool.gpus).collect(), per_node: None, host: None };
    for seed in 0..4 {
        let what =
            JobDraw { jobs: 100, per_hour: None, runs: DrawnRuns::Simulation, gangs: true, ..JobDraw::default() };
        let jobs = draw(&fleet, &what, seed).unwrap();
        let active: Vec<ActiveJob<'_>> = jobs
            .iter()
            .enumerate()
            .map(|(number, job)| ActiveJob {
                since_s: 600.0 * number as f64,
                ..ActiveJob::new(&fleet.kinds[job.kind], job.steps)
            })
            .collect();
        for policy in [P::MaxMinAware, P::FinishTimeAware, P::Makespan] {
            let Allocated::Shares(found) = allocate(policy, &active, &room).unwrap() else {
                panic!("{policy:?} gives no shares")
            };
            for (at, gpus) in gpus.iter().enumerate() {
                let used: f64 = active.iter().zip(&found.shares).map(|(job, shares)| job.gpus() * shares[at]).sum();
                assert!(used <= gpus * (1.0 + 1e-6), "{policy:?}: {used}");
            }
            assert!(found.shares.iter().all(|shares| shares.iter().sum::<f64>() <= 1.0 + 1e-6));
        }
        let claims: Vec<Claim> = active
            .iter()
            .map(|job| Claim { gpus: job.gpus(), speeds: job.kind.steps_per_s.clone(), need: job.remaining })
            .collect();
        let (level, (_, bound)) = (levelled(&claims, &gpus).unwrap().level, dual(&claims, &gpus, true).unwrap());
        assert!((level - bound).abs() <= 1e-4 * bound, "{level} {bound}");
    }
}
