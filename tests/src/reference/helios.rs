//! The public Helios simulator (HeliosArtifact, `framework/QSSF Service`; Tiresias from Lucid, its successor), second
//! by second: the yardstick for the replay engine. It is slow on purpose and shares no code with the planner.
//!
//! The clock counts whole seconds, a VC stands alone, every node has 8 GPUs, CPUs do not count. One second:
//!
//! 1. jobs that ended release their GPUs;
//! 2. jobs submitted in this second join the end of the queue, in file order;
//! 3. the rule orders the queue; every sort is stable and works on the queue as the last second left it;
//! 4. jobs are placed.
//!
//! **FIFO, SJF and QSSF** place from the head and stop at the first job that does not fit. FIFO sorts by submit, SJF
//! by true run time. QSSF sorts by GPUs and then, only if the queue holds more jobs than joined in this second, by
//! estimate × GPUs. So a job that joins an empty queue is ordered by GPUs in its first second, and equal priorities
//! are in order of GPUs.
//!
//! **SRTF** takes one second off what remains of a running job, or ends it if nothing remained: a job that is never
//! preempted ends at `start + run + 1`. Queue and running jobs are sorted by what remains (queue first, so that a
//! waiting job beats a running one on a tie) and walked with a quota, the GPUs of the VC: what does not fit is
//! skipped. Waiting jobs inside the quota are to start, running jobs outside it are preempted: one preemption more,
//! 7 s (1 GPU), 30 s (2 to 8) or 60 s (more) added to what remains, and to the end of the queue. Then the ones to start
//! are placed in order; a job that cannot be placed is skipped. A job preempted in a second does not start again in
//! it.
//!
//! **Tiresias** is the same loop, but it decides only in seconds that are a multiple of 60 after the trace's origin.
//! The order is by queue (above 18,000 attained GPU-seconds is low; high goes first), then by submit; the overhead is
//! 40 s up to 8 GPUs and 60 s above. Seconds of overhead count as attained, and attained service outlives a
//! preemption. On equal submits running jobs go *first*, as in the original: were it the other way round, as in SRTF,
//! two such jobs of more than 8 GPUs and a minute or more would change places every minute, each losing in overhead
//! the 60 s that it worked, and the replay would never end.
//!
//! In SRTF and Tiresias the extra second is paid once a job, not once a segment: a segment from `s` to a preemption
//! at `p` takes `p - s` seconds off what remains. Hence, for every job, `end - submit = waited + run + 1 +
//! preemptions × overhead`.
//!
//! Two defects of the original are mended:
//!
//! * a job with more GPUs than its VC would block the queue for ever: here it never joins the queue, and its outcome
//!   is empty;
//! * under FIFO, SJF and QSSF a job of zero seconds would never end, as its end is tested before it starts: here it
//!   ends in the second in which it starts, and its GPUs are free from the next second on. SRTF and Tiresias need no
//!   mending: such a job ends one second after its start.
//!
//! Seconds are skipped only while the queue is empty and no job ends. Cost: seconds × jobs in the queue (and running,
//! for SRTF and Tiresias).
//!
//! Worked number: one node; A (8 GPUs, 10 s) submitted at 0, B (8 GPUs, 2 s) at 3. FIFO: A 0 to 10, B 10 to 12. SRTF:
//! at 3 A has 7 s left, more than B, and is preempted with 37 s left; B runs from 3 to 3 + 2 + 1 = 6, A from 6 to 6 +
//! 37 + 1 = 44.

/// GPUs of every node.
pub const NODE_GPUS: u32 = 8;

/// A job as the simulator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Submit time, absolute seconds.
    pub submit_s: i64,
    /// True run time, seconds, not negative.
    pub run_s: i64,
    /// GPUs, all of which it holds from start to end.
    pub gpus: u32,
    /// Estimated run time, seconds; only QSSF reads it. May be negative, not NaN.
    pub estimate_s: f64,
}

/// Order of the jobs, and whether they are preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// By submit time.
    Fifo,
    /// By true run time.
    Sjf,
    /// By estimated GPU-seconds.
    Qssf,
    /// By true time remaining, preemptive.
    Srtf,
    /// Two queues by attained GPU-seconds, preemptive, decisions once a minute.
    Tiresias,
}

/// Choice of the GPUs of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The fewest nodes possible. Up to 8 GPUs: the node with the fewest free GPUs that fits. More:
    /// completely free nodes for the multiples of 8, and the remainder on a further completely free
    /// node, or else on the node with the most free GPUs if that suffices. Lowest index on ties.
    Consolidate,
    /// Nodes in order of their index, each filled up before the next ("random" in the original).
    Random,
}

/// Outcome of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// First start, absolute seconds; `None` for a job that is larger than the VC or has no GPUs.
    pub start_s: Option<i64>,
    /// End, absolute seconds; `None` as for the start.
    pub end_s: Option<i64>,
    /// Number of preemptions.
    pub preemptions: u32,
    /// Last placement: node and GPUs there, by node.
    pub nodes: Vec<(usize, u32)>,
}

/// Replays `jobs` (in file order) on one VC of `nodes` nodes until all have ended. One outcome a job, in the order of
/// `jobs`.
///
/// `origin_s` is the submit time of the first job of the whole trace: only Tiresias uses it, to know its minutes.
///
/// # Panics
/// On a negative run time or an estimate that is NaN.
pub fn replay(jobs: &[Job], nodes: usize, rule: Rule, place: Place, origin_s: i64) -> Vec<Outcome> {
    assert!(jobs.iter().all(|job| job.run_s >= 0), "run times are not negative");
    let vc = Vc::new(jobs, nodes, place);
    match rule {
        Rule::Fifo | Rule::Sjf | Rule::Qssf => run_through(vc, rule),
        Rule::Srtf | Rule::Tiresias => preempt(vc, rule, origin_s),
    }
}

/// FIFO, SJF and QSSF.
fn run_through(mut vc: Vc, rule: Rule) -> Vec<Outcome> {
    let jobs = vc.jobs;
    let mut priority: Vec<Option<f64>> = vec![None; jobs.len()];
    let mut queue: Vec<usize> = Vec::new();
    let mut running: Vec<usize> = Vec::new();
    let mut t = vc.next_submit().unwrap_or(0);
    while vc.next_submit().is_some() || !queue.is_empty() || !running.is_empty() {
        for job in running.clone() {
            // Not `==`: a job of zero seconds ended in the second before.
            if vc.outcomes[job].end_s.unwrap() <= t {
                vc.release(job);
                running.retain(|other| *other != job);
            }
        }

        let joined = vc.submitted_at(t);
        queue.extend(&joined);

        match rule {
            Rule::Sjf => queue.sort_by_key(|job| jobs[*job].run_s),
            Rule::Qssf => {
                queue.sort_by_key(|job| jobs[*job].gpus);
                if queue.len() > joined.len() {
                    for job in &queue {
                        if priority[*job].is_none() {
                            priority[*job] = Some(jobs[*job].estimate_s * f64::from(jobs[*job].gpus));
                        }
                    }
                    queue.sort_by(|a, b| priority[*a].unwrap().partial_cmp(&priority[*b].unwrap()).unwrap());
                }
            }
            _ => queue.sort_by_key(|job| jobs[*job].submit_s),
        }

        while let Some(job) = queue.first().copied() {
            if !vc.place(job) {
                break;
            }
            vc.outcomes[job].start_s = Some(t);
            vc.outcomes[job].end_s = Some(t + jobs[job].run_s);
            queue.remove(0);
            running.push(job);
        }

        t += 1;
        if queue.is_empty() {
            let ends = running.iter().map(|job| vc.outcomes[*job].end_s.unwrap());
            t = t.max(ends.chain(vc.next_submit()).min().unwrap_or(t));
        }
    }
    vc.outcomes
}

/// SRTF and Tiresias.
fn preempt(mut vc: Vc, rule: Rule, origin_s: i64) -> Vec<Outcome> {
    let jobs = vc.jobs;
    let mut remaining_s: Vec<i64> = jobs.iter().map(|job| job.run_s).collect();
    let mut attained_gpu_s: Vec<i64> = vec![0; jobs.len()];
    let mut queue: Vec<usize> = Vec::new();
    let mut running: Vec<usize> = Vec::new();
    let mut t = vc.next_submit().unwrap_or(0);
    while vc.next_submit().is_some() || !queue.is_empty() || !running.is_empty() {
        for job in running.clone() {
            if remaining_s[job] == 0 {
                vc.outcomes[job].end_s = Some(t);
                vc.release(job);
                running.retain(|other| *other != job);
            } else {
                remaining_s[job] -= 1;
                attained_gpu_s[job] += i64::from(jobs[job].gpus);
            }
        }

        queue.extend(vc.submitted_at(t));

        // In order of precedence; empty where nothing is decided in this second.
        let ordered: Vec<usize> = if rule == Rule::Srtf {
            let mut all = [queue.as_slice(), running.as_slice()].concat();
            all.sort_by_key(|job| remaining_s[*job]);
            all
        } else if (t - origin_s).rem_euclid(60) == 0 {
            let mut all = [running.as_slice(), queue.as_slice()].concat();
            all.sort_by_key(|job| (attained_gpu_s[*job] > 18_000, jobs[*job].submit_s));
            all
        } else {
            Vec::new()
        };

        let mut quota_gpus = vc.gpus();
        let mut to_start: Vec<usize> = Vec::new();
        let mut to_preempt: Vec<usize> = Vec::new();
        for job in ordered {
            if jobs[job].gpus <= quota_gpus {
                quota_gpus -= jobs[job].gpus;
                if queue.contains(&job) {
                    to_start.push(job);
                }
            } else if running.contains(&job) {
                to_preempt.push(job);
            }
        }

        for job in to_preempt {
            vc.outcomes[job].preemptions += 1;
            remaining_s[job] += overhead_s(rule, jobs[job].gpus);
            vc.release(job);
            vc.outcomes[job].nodes.clear();
            running.retain(|other| *other != job);
            queue.push(job);
        }

        for job in to_start {
            if vc.place(job) {
                vc.outcomes[job].start_s = vc.outcomes[job].start_s.or(Some(t));
                queue.retain(|other| *other != job);
                running.push(job);
            }
        }

        t += 1;
        if queue.is_empty() && running.is_empty() {
            t = t.max(vc.next_submit().unwrap_or(t));
        }
    }
    vc.outcomes
}

/// Time that a preemption adds to the time remaining, seconds.
pub fn overhead_s(rule: Rule, gpus: u32) -> i64 {
    match (rule, gpus) {
        (Rule::Fifo | Rule::Sjf | Rule::Qssf, _) => 0,
        (Rule::Srtf, ..=1) => 7,
        (Rule::Srtf, ..=8) => 30,
        (Rule::Tiresias, ..=8) => 40,
        (Rule::Srtf | Rule::Tiresias, _) => 60,
    }
}

/// The nodes of a VC, the jobs still to be submitted, and what became of the others so far.
struct Vc<'a> {
    jobs: &'a [Job],
    place: Place,
    free_gpus: Vec<u32>,
    /// Jobs that will join the queue, by submit, then in file order.
    to_come: Vec<usize>,
    outcomes: Vec<Outcome>,
}

impl<'a> Vc<'a> {
    fn new(jobs: &'a [Job], nodes: usize, place: Place) -> Self {
        let mut vc = Vc {
            jobs,
            place,
            free_gpus: vec![NODE_GPUS; nodes],
            to_come: Vec::new(),
            outcomes: vec![Outcome::default(); jobs.len()],
        };
        vc.to_come = (0..jobs.len()).filter(|job| (1..=vc.gpus()).contains(&jobs[*job].gpus)).collect();
        vc.to_come.sort_by_key(|job| jobs[*job].submit_s);
        vc
    }

    /// All GPUs, free or not.
    fn gpus(&self) -> u32 {
        NODE_GPUS * u32::try_from(self.free_gpus.len()).unwrap()
    }

    fn next_submit(&self) -> Option<i64> {
        self.to_come.first().map(|job| self.jobs[*job].submit_s)
    }

    fn submitted_at(&mut self, t: i64) -> Vec<usize> {
        let mut joined = Vec::new();
        while self.next_submit() == Some(t) {
            joined.push(self.to_come.remove(0));
        }
        joined
    }

    fn release(&mut self, job: usize) {
        for (node, gpus) in &self.outcomes[job].nodes {
            self.free_gpus[*node] += gpus;
        }
    }

    /// Gives `job` its GPUs, if it can have them.
    fn place(&mut self, job: usize) -> bool {
        let gpus = self.jobs[job].gpus;
        if self.free_gpus.iter().sum::<u32>() < gpus {
            return false;
        }
        let taken = match self.place {
            Place::Random => Some(self.fill(gpus)),
            Place::Consolidate if gpus <= NODE_GPUS => self.tightest(gpus).map(|node| vec![(node, gpus)]),
            Place::Consolidate => self.gang(gpus),
        };
        let Some(mut taken) = taken else { return false };
        taken.sort_unstable();
        for (node, gpus) in &taken {
            self.free_gpus[*node] -= gpus;
        }
        self.outcomes[job].nodes = taken;
        true
    }

    /// Node by node; there are enough free GPUs.
    fn fill(&self, gpus: u32) -> Vec<(usize, u32)> {
        let mut taken = Vec::new();
        let mut missing = gpus;
        for (node, free) in self.free_gpus.iter().enumerate() {
            let here = missing.min(*free);
            if here > 0 {
                taken.push((node, here));
                missing -= here;
            }
        }
        taken
    }

    /// The node with the fewest free GPUs that fits.
    fn tightest(&self, gpus: u32) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (node, free) in self.free_gpus.iter().enumerate() {
            if *free >= gpus && best.is_none_or(|best| *free < self.free_gpus[best]) {
                best = Some(node);
            }
        }
        best
    }

    /// Completely free nodes, and a node for the remainder.
    fn gang(&self, gpus: u32) -> Option<Vec<(usize, u32)>> {
        let whole = (gpus / NODE_GPUS) as usize;
        let remainder = gpus % NODE_GPUS;
        let mut taken: Vec<(usize, u32)> = Vec::new();
        for (node, free) in self.free_gpus.iter().enumerate() {
            if taken.len() < whole && *free == NODE_GPUS {
                taken.push((node, NODE_GPUS));
            }
        }
        if taken.len() < whole {
            return None;
        }
        if remainder > 0 {
            // A completely free node is also the one with the most free GPUs.
            let mut best: Option<usize> = None;
            for (node, free) in self.free_gpus.iter().enumerate() {
                let used = taken.iter().any(|(other, _)| *other == node);
                if !used && *free >= remainder && best.is_none_or(|best| *free > self.free_gpus[best]) {
                    best = Some(node);
                }
            }
            taken.push((best?, remainder));
        }
        Some(taken)
    }
}

/// A small nasty workload for a VC of `nodes` nodes: `count` jobs by submit time.
///
/// Every second job or so shares the submit second of the one before; sizes are 1 to 24 GPUs, many of them no
/// multiple of 8 (and larger than the VC if it has fewer than three nodes); run times are 0 to `longest_s`, an eighth
/// of them zero, an eighth from three round values, half of them short; submits are spread so that the jobs ask for
/// 0.6 to 1.6 times what the VC has. Estimates are true, equal for all, or up to eight times off either way, one of
/// these per workload. 200 s makes short cases; 3,000 s or more also reaches the low queue of Tiresias. The earliest
/// submit is not before 1,000 s.
pub fn random_jobs(seed: u64, nodes: usize, count: usize, longest_s: i64) -> Vec<Job> {
    let mut draw = Xorshift::new(seed);
    let estimates = draw.below(3);
    let mut jobs: Vec<Job> = (0..count)
        .map(|_| {
            let gpus = match draw.below(8) {
                0 | 1 => 1,
                2 | 3 => 1 + draw.below(8),
                4 => 8,
                5 => 8 * (1 + draw.below(3)),
                _ => 1 + draw.below(24),
            };
            let run_s = match draw.below(8) {
                0 => 0,
                1 => [1, 10, 60][draw.below(3) as usize].min(longest_s),
                2..=5 => i64::from(draw.below(u32::try_from(longest_s / 10 + 1).unwrap())),
                _ => i64::from(draw.below(u32::try_from(longest_s + 1).unwrap())),
            };
            let estimate_s = match estimates {
                0 => run_s as f64,
                1 => 100.0,
                // A power of two from 1/8 to 8: exact, and it makes ties.
                _ => run_s as f64 * f64::from(1 << draw.below(7)) / 8.0,
            };
            Job { submit_s: 0, run_s, gpus, estimate_s }
        })
        .collect();

    let work_gpu_s: i64 = jobs.iter().map(|job| i64::from(job.gpus) * job.run_s).sum();
    let busy_s = work_gpu_s / (i64::from(NODE_GPUS) * i64::try_from(nodes.max(1)).unwrap());
    let span_s = busy_s * 10 / i64::from(6 + draw.below(11));
    let first_s = 1_000 + i64::from(draw.below(60));
    let mut submit_s = first_s;
    let mut submits: Vec<i64> = Vec::new();
    for _ in 0..count {
        if draw.below(2) == 0 {
            submit_s = first_s + i64::from(draw.below(u32::try_from(span_s + 1).unwrap()));
        }
        submits.push(submit_s);
    }
    submits.sort_unstable();
    for (job, submit_s) in jobs.iter_mut().zip(submits) {
        job.submit_s = submit_s;
    }
    jobs
}

/// Marsaglia's 64-bit xorshift with the shifts 13, 7, 17.
struct Xorshift(u64);

impl Xorshift {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike, and the state must not be zero.
        let mut draw = Xorshift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        draw.0 = draw.0.max(1);
        for _ in 0..8 {
            draw.below(1);
        }
        draw
    }

    /// Draws a number from 0 to `bound - 1`, nearly uniform.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }
}

#[cfg(test)]
mod tests;
