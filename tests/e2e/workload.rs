//! Jobs for the lab that make a backfill scheduler plan: 160 of four users, more than 4 nodes of 8 GPUs can run at once.
//!
//! Always the same jobs. They come in 10 bursts of 16, one every 14 s, as what a user's script submits does. Sizes and runs are drawn from
//! small tables; half of the work is of jobs on several nodes. The time limits, 1 to 3 min, say nothing about the runs, 3 to 29 s:
//! the scheduler plans with limits that are several times too long, as it does on real clusters.
//!
//! Every run is an odd number of seconds, and that is what makes a recording comparable: Slurm's backfill looks at the queue every 2 s, so
//! a job that starts at one look ends in the middle between two others. With an even number, or one drawn freely, hundredths of
//! a second would decide which look finds its GPUs free, and after some minutes two recordings of the same jobs by
//! the same Slurm agree no better than by a Kendall τ of 0.90 (median difference of a start 15 s).
//!
//! Worked number: the work is 7,130 GPU-seconds, which 32 GPUs do in 223 s at best; the last burst is at 126 s.

/// Bursts.
const BURSTS: u64 = 10;
/// Jobs a burst.
const JOBS_A_BURST: u64 = 16;
/// Time from burst to burst, seconds.
const GAP_S: u64 = 14;

/// GPUs of jobs, and how many jobs of a hundred have so many.
const GPUS: [(u32, u64); 7] = [(1, 42), (2, 20), (4, 16), (8, 11), (12, 3), (16, 5), (24, 3)];
/// Runs, seconds, each as likely as the others.
const RUNS_S: [u32; 20] = [3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 9, 9, 9, 11, 11, 13, 15, 17, 21, 29];

/// Runs of smaller workloads, seconds, each as likely as the others.
pub(crate) const SHORT_RUNS_S: [u32; 8] = [3, 3, 5, 5, 5, 7, 9, 11];

/// A job to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// When, seconds from the first.
    pub(crate) at_s: u64,
    /// Unique name of the job.
    pub(crate) name: String,
    /// User who submits it: u1 to u4.
    pub(crate) user: String,
    /// GPUs over all nodes.
    pub(crate) gpus: u32,
    /// Run, seconds.
    pub(crate) run_s: u32,
    /// Time limit, minutes.
    pub(crate) limit_min: u32,
}

impl Asked {
    /// Nodes it asks for: as few as have its GPUs.
    pub(crate) fn nodes(&self) -> u32 {
        self.gpus.div_ceil(8)
    }

    /// GPUs on each of its nodes.
    pub(crate) fn gpus_a_node(&self) -> u32 {
        self.gpus.div_ceil(self.nodes())
    }
}

/// The jobs, in the order in which they are submitted.
pub(crate) fn jobs() -> Vec<Asked> {
    let mut random = SplitMix(4);
    (0..BURSTS * JOBS_A_BURST)
        .map(|job| {
            let user = format!("u{}", 1 + random.below(4));
            let gpus = random.of_shares(&GPUS);
            Asked {
                at_s: job / JOBS_A_BURST * GAP_S,
                name: format!("j{job:03}"),
                user,
                gpus,
                run_s: random.of(&RUNS_S),
                limit_min: 1 + random.below(3) as u32,
            }
        })
        .collect()
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a generator of a few lines, so that no change of a library changes the jobs.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }

    /// Draws one of these, each as likely as the others.
    pub(crate) fn of(&mut self, from: &[u32]) -> u32 {
        from[self.below(from.len() as u64) as usize]
    }

    /// Draws one of these, each in so many of a hundred draws.
    pub(crate) fn of_shares(&mut self, shares: &[(u32, u64)]) -> u32 {
        let mut rest = self.below(100);
        let found = shares.iter().find(|(_, share)| {
            let found = rest < *share;
            rest = rest.saturating_sub(*share);
            found
        });
        found.unwrap().0
    }
}

#[test]
fn the_jobs_are_more_than_the_nodes_can_run_at_once() {
    let jobs = jobs();
    assert_eq!(jobs.len(), 160);
    assert!((1..=4).all(|user| jobs.iter().any(|job| job.user == format!("u{user}"))));
    assert!(GPUS.iter().all(|(gpus, _)| jobs.iter().any(|job| job.gpus == *gpus)));
    assert!(jobs.iter().all(|job| job.run_s % 2 == 1 && job.run_s < 60 * job.limit_min));
    let work_gpu_s: u32 = jobs.iter().map(|job| job.gpus * job.run_s).sum();
    // While jobs come, for 140 s, the 32 GPUs can do 4,480 GPU-seconds.
    assert!((4480..2 * 4480).contains(&work_gpu_s), "{work_gpu_s}");
    // SplitMix64 from seed 0 begins so in its authors' C.
    assert_eq!(SplitMix(0).next(), 0xe220_a839_7b1d_cdaf);
}
