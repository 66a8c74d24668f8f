//! The Philly jobs on which the Helios simulator's waits are known: 11 VCs, submitted 3 to 14 October 2017.
//!
//! Only jobs whose VC is known (those that passed), with a run time of at most 7 days: the sum of the attempts where
//! there is one, else first start to last end. VC sizes are in nodes of 8 GPUs, for a load of about 0.7.
//!
//! Mean waits, from an earlier replay of the same jobs with the rules of the original, and from this one in file
//! order: FIFO 24,157 and 24,148 s; fewest GPUs first 23,717 and 23,724 s; QSSF with true run times 12,828 and
//! 12,828 s. Both differences are within what the order of jobs submitted in the same second makes (about 2,000 of
//! the 22,486): 60 random orders gave 24,038 to 24,196 s for FIFO, 15 gave 23,702 to 23,770 s for fewest GPUs first.

use std::fs::File;

use flate2::read::MultiGzDecoder;

use super::helios::Job;
use crate::real_trace;

/// A VC and its jobs.
#[derive(Debug)]
pub struct Vc {
    /// Name, as in the trace.
    pub name: &'static str,
    /// Nodes of 8 GPUs.
    pub nodes: usize,
    /// Jobs in file order. Seconds since the first row of the file; the estimate is the true run
    /// time.
    pub jobs: Vec<Job>,
}

/// VCs and their nodes of 8 GPUs, for a load of about 0.7.
pub const NODES: [(&str, usize); 11] = [
    ("6214e9", 12),
    ("7f04ca", 9),
    ("11cb48", 2),
    ("b436b2", 3),
    ("ee9e8c", 15),
    ("e13805", 1),
    ("6c71a0", 12),
    ("2869ce", 14),
    ("ed69ec", 2),
    ("103959", 4),
    ("0e4a51", 9),
];

/// Nodes of the same VCs as published (`philly_vc.csv`).
const PUBLISHED_NODES: [(&str, usize); 11] = [
    ("6214e9", 64),
    ("7f04ca", 32),
    ("11cb48", 16),
    ("b436b2", 64),
    ("ee9e8c", 64),
    ("e13805", 16),
    ("6c71a0", 32),
    ("2869ce", 16),
    ("ed69ec", 8),
    ("103959", 8),
    ("0e4a51", 32),
];

/// The jobs by VC, `None` where the real trace is absent.
///
/// # Panics
/// On a file that is not what it was.
pub fn october() -> Option<Vec<Vc>> {
    jobs("2017-10-03", "2017-10-15", 7 * 86_400, &NODES)
}

/// All jobs of the 11 VCs, on the nodes those are published to have. `None` where the real trace is absent.
///
/// # Panics
/// On a file that is not what it was.
pub fn all() -> Option<Vec<Vc>> {
    jobs("2017", "2018", i64::MAX, &PUBLISHED_NODES)
}

/// Jobs submitted from `from` (inclusive) to `to` (exclusive) that ran at most `longest_s`.
fn jobs(from: &str, to: &str, longest_s: i64, nodes: &[(&'static str, usize)]) -> Option<Vec<Vc>> {
    let path = real_trace("philly/philly_jobs.csv.gz")?;
    let mut vcs: Vec<Vc> = nodes.iter().map(|&(name, nodes)| Vc { name, nodes, jobs: Vec::new() }).collect();
    let mut rows = csv::Reader::from_reader(MultiGzDecoder::new(File::open(path).unwrap()));
    let header = rows.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let (utc, offset, gpus) = (column("submit_utc"), column("submit_offset_s"), column("num_gpus"));
    let (vc, pollux, wall) = (column("vc"), column("pollux_duration_s"), column("wall_duration_s"));
    for row in rows.records() {
        let row = row.unwrap();
        if !(from..to).contains(&&row[utc]) {
            continue;
        }
        let Some(vc) = vcs.iter_mut().find(|known| *known.name == row[vc]) else { continue };
        let run: f64 = [&row[pollux], &row[wall]].into_iter().find(|cell| !cell.is_empty()).unwrap().parse().unwrap();
        assert_eq!(run, run.trunc(), "whole seconds");
        let job = Job {
            submit_s: row[offset].parse().unwrap(),
            run_s: run as i64,
            gpus: row[gpus].parse().unwrap(),
            estimate_s: run,
        };
        if job.run_s <= longest_s {
            vc.jobs.push(job);
        }
    }
    Some(vcs)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tracecast_planner::replay::input::Site;
    use tracecast_planner::sim::Group;

    use super::*;
    use crate::reference::helios::{Place, Rule, replay};

    /// Mean wait over all VCs, s.
    fn mean_wait_s(vcs: &[Vc], rule: Rule, estimate: impl Fn(&Job) -> f64) -> f64 {
        let (mut wait_s, mut started) = (0, 0);
        for vc in vcs {
            let jobs: Vec<Job> = vc.jobs.iter().map(|job| Job { estimate_s: estimate(job), ..job.clone() }).collect();
            for (job, outcome) in jobs.iter().zip(replay(&jobs, vc.nodes, rule, Place::Consolidate, 0)) {
                if let Some(start_s) = outcome.start_s {
                    wait_s += start_s - job.submit_s;
                    started += 1;
                }
            }
        }
        wait_s as f64 / f64::from(started)
    }

    #[test]
    fn the_nodes_are_those_of_the_file_that_users_have() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/clusters/philly_october.toml");
        let site = Site::parse("philly_october.toml", &std::fs::read_to_string(file).unwrap()).unwrap();
        let names: Vec<String> = NODES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(site.names(&[]), names);
        let cluster = site.build(&names, 0, 0).unwrap();
        let nodes: Vec<u32> =
            cluster.pools.iter().map(|pool| pool.groups.iter().map(Group::most_nodes).sum()).collect();
        assert_eq!(nodes, NODES.map(|(_, nodes)| nodes as u32));
        assert!(cluster.pools.iter().flat_map(|pool| &pool.groups).all(|group| group.gpus_per_node == 8));
    }

    #[test]
    fn mean_waits_agree_with_an_earlier_replay() {
        let Some(vcs) = october() else { return };
        assert_eq!(vcs.iter().map(|vc| vc.jobs.len()).sum::<usize>(), 22_486);
        let (fifo_s, fewest_gpus_s, truth_s) = std::thread::scope(|scope| {
            let fifo = scope.spawn(|| mean_wait_s(&vcs, Rule::Fifo, |_| 0.0));
            let fewest_gpus = scope.spawn(|| mean_wait_s(&vcs, Rule::Qssf, |_| 1.0));
            let truth = scope.spawn(|| mean_wait_s(&vcs, Rule::Qssf, |job| job.estimate_s));
            (fifo.join().unwrap(), fewest_gpus.join().unwrap(), truth.join().unwrap())
        });
        println!("mean wait: FIFO {fifo_s:.1} s, fewest GPUs {fewest_gpus_s:.1} s, true run times {truth_s:.1} s");
        // The first two depend on the order within a second: they spread over 158 s and 68 s.
        assert!((fifo_s - 24_157.0).abs() < 10.0, "FIFO {fifo_s}");
        assert!((fewest_gpus_s - 23_717.0).abs() < 10.0, "fewest GPUs {fewest_gpus_s}");
        assert!((truth_s - 12_828.0).abs() < 0.5, "true run times {truth_s}");
    }
}
