//! Who submits what and when: users, families of names, arrivals and sizes.
//!
//! A *user* has a class, a share of all jobs (Zipf) and some *families* of names (one a project). A family's name comes
//! back again and again; now and then its next *version* is opened (`train_resnet50_lidar_v2`). All jobs under one
//! version ask for the same, which is what makes names worth learning from.
//!
//! Arrivals follow the hourly and weekly rates in local time, with bursts of one user's jobs under one name. Their number
//! is exact, and so is (nearly) the share of CPU jobs: the draw is steered by how far it is off.
//!
//! Sizes are handed out to versions, those with most jobs first, in proportion to what is still missing of each size, so
//! the shares of *jobs* come out as specified however unevenly versions are used. Where a mean is asked for, shares are
//! first tilted: `w(s) ∝ w₀(s)·s^θ` with θ by bisection. Worked number: shares ½ and ½ of 1 and 4 GPUs have mean 2.5; for
//! a mean of 2 the shares must be ⅔ and ⅓, which is θ = −½ (4^−½ = ½).
//!
//! O(n log n) in jobs.

use std::collections::BTreeMap;

use tracecast_analytics::time::HOUR_MS;

use super::random::{Concern, Cumulative, Stream};
use super::spec::{Checked, ShareSpec};

const MODELS: [&str; 16] = [
    "resnet50", "vit_b", "bert", "gpt2", "llama7b", "yolo", "unet", "swin", "t5", "whisper", "dlrm", "gnn", "nerf",
    "sdxl", "mamba", "ppo",
];
const DATA: [&str; 12] =
    ["imagenet", "coco", "wiki", "lidar", "speech", "ads", "medical", "code", "maps", "retail", "video", "synthetic"];
const GPU_TASKS: [&str; 6] = ["train", "finetune", "eval", "debug", "sweep", "pretrain"];
const CPU_TASKS: [&str; 5] = ["preprocess", "build", "upload", "stats", "check"];

/// Someone who submits jobs.
#[derive(Debug, Clone)]
pub struct User {
    /// Index of the class, where the specification has classes.
    pub class: Option<usize>,
    /// Effect on the log of run times, in standard deviations.
    pub effect: f64,
    /// When they join, as a share of the time covered.
    joined: f64,
    /// Families of CPU and of GPU names, and the weights they are used with.
    families: [(Vec<u32>, Cumulative); 2],
}

/// A project of a user: a name that comes back.
#[derive(Debug, Clone)]
pub struct JobFamily {
    /// Index of the user.
    pub user: u32,
    /// Whether its jobs use GPUs.
    pub gpu: bool,
    /// Kind of work.
    pub task: &'static str,
    /// Name without version.
    pub name: String,
    /// Effect on the log of run times, in standard deviations.
    pub effect: f64,
    versions: Vec<u32>,
}

/// A version of a family: what a job's name says.
#[derive(Debug, Clone)]
pub struct JobVersion {
    /// Index of the family.
    pub family: u32,
    /// 1 for the first.
    pub number: u32,
    /// Jobs under it.
    pub jobs: u32,
    /// GPUs (or cores, for CPU work) each of its jobs asks for.
    pub size: u32,
    /// Memory each of its jobs asks for with each GPU or core, GiB.
    pub mem_gib: u32,
    /// Effect on the log of run times, in standard deviations.
    pub effect: f64,
}

/// What is asked of the cluster, before anything runs.
#[derive(Debug, Clone)]
pub struct Demand {
    /// Users.
    pub users: Vec<User>,
    /// Families of names.
    pub families: Vec<JobFamily>,
    /// Versions of names.
    pub versions: Vec<JobVersion>,
    /// Submissions in order of time: when (milliseconds) and under which version.
    pub submissions: Vec<(i64, u32)>,
}

impl Demand {
    /// Draws users, names, arrivals and sizes.
    pub fn draw(checked: &Checked, seed: u64) -> Self {
        let mut demand = population(checked, &mut Stream::new(seed, Concern::Users));
        demand.arrive(checked, &mut Stream::new(seed, Concern::Arrivals));
        demand.size(checked, &mut Stream::new(seed, Concern::Sizes));
        demand
    }

    /// The family of a version.
    pub fn family_of(&self, version: u32) -> Option<&JobFamily> {
        self.versions.get(version as usize).and_then(|version| self.families.get(version.family as usize))
    }

    fn arrive(&mut self, checked: &Checked, rng: &mut Stream) {
        let spec = &checked.spec.arrivals;
        let jobs = (spec.jobs_per_day * f64::from(checked.spec.cluster.days)).round().max(1.0) as usize;
        let mut bursts = Vec::new();
        let mut left = jobs;
        while left > 0 {
            let mut size = 1;
            if rng.chance(spec.burst_share) {
                // Geometric from 2, with the mean asked for.
                size = 2 + rng.exponential((spec.burst_mean - 2.0).max(0.01)).floor() as usize;
            }
            let size = size.min(left);
            left -= size;
            bursts.push(size);
        }
        let times = arrival_times(checked, bursts.len(), rng);
        let by_user = |rng: &mut Stream, count: usize, zipf: f64| {
            let mut rank: Vec<usize> = (0..count).collect();
            rng.shuffle(&mut rank);
            Cumulative::new(rank.into_iter().map(|rank| (1.0 + rank as f64).powf(-zipf)))
        };
        let weights = [0, 1].map(|_| by_user(rng, self.users.len(), checked.spec.users.zipf));
        let (mut cpu_jobs, mut all_jobs) = (0.0, 0.0);
        for (size, at_ms) in bursts.into_iter().zip(times) {
            // Steered: being 200 jobs short of CPU jobs makes the next one surely one.
            let p = spec.cpu_share + (spec.cpu_share * all_jobs - cpu_jobs) / 200.0;
            let gpu = spec.cpu_share <= 0.0 || !rng.chance(p);
            if !gpu {
                cpu_jobs += size as f64;
            }
            all_jobs += size as f64;
            let share = (at_ms - checked.start_ms) as f64 / (checked.end_ms - checked.start_ms) as f64;
            let weights = weights.get(usize::from(gpu)).cloned().unwrap_or_default();
            let Some(version) = self.pick_version(gpu, share, &weights, checked.spec.users.recurrence, rng) else {
                continue;
            };
            let same_second = rng.chance(0.5);
            let mut at_ms = at_ms;
            for _ in 0..size {
                self.submissions.push((at_ms.min(checked.end_ms - 1_000), version));
                if !same_second {
                    at_ms += 1_000 * (1 + rng.below(4) as i64);
                }
            }
            if let Some(version) = self.versions.get_mut(version as usize) {
                version.jobs += size as u32;
            }
        }
        self.submissions.sort_by_key(|(at_ms, _)| *at_ms);
    }

    fn pick_version(
        &mut self,
        gpu: bool,
        share: f64,
        weights: &Cumulative,
        recurrence: f64,
        rng: &mut Stream,
    ) -> Option<u32> {
        let mut user = weights.at(rng.unit()).0;
        for _ in 0..64 {
            if self.users.get(user).is_some_and(|user| user.joined <= share) {
                break;
            }
            user = weights.at(rng.unit()).0;
        }
        let (families, weights) = self.users.get(user)?.families.get(usize::from(gpu))?;
        let family = *families.get(weights.at(rng.unit()).0)?;
        let state = self.families.get_mut(family as usize)?;
        if !state.versions.is_empty() && rng.chance(recurrence) {
            // Mostly the latest, now and then one of the few before it.
            let back = if rng.chance(0.8) { 0 } else { rng.below(state.versions.len().min(4)) };
            return state.versions.iter().rev().nth(back).copied();
        }
        let version = u32::try_from(self.versions.len()).ok()?;
        let number = state.versions.len() as u32 + 1;
        state.versions.push(version);
        self.versions.push(JobVersion { family, number, jobs: 0, size: 1, mem_gib: 4, effect: 0.0 });
        Some(version)
    }

    /// Draws the effects of versions on run times, from the stream of run times.
    pub(crate) fn draw_effects(&mut self, rng: &mut Stream) {
        for version in &mut self.versions {
            version.effect = rng.normal();
        }
    }

    fn size(&mut self, checked: &Checked, rng: &mut Stream) {
        let sizes = &checked.spec.sizes;
        let gpu_shares = match sizes.mean_gpus {
            Some(mean) => tilt(&sizes.gpus, mean),
            None => tilt_by(&sizes.gpus, 0.0),
        };
        let classes = &checked.spec.users.class;
        for (gpu, options, shares) in
            [(true, &sizes.gpus, gpu_shares), (false, &sizes.cores, tilt_by(&sizes.cores, 0.0))]
        {
            let mut order: Vec<u32> = (0u32..)
                .zip(&self.versions)
                .filter(|(ix, _)| self.family_of(*ix).is_some_and(|family| family.gpu == gpu))
                .map(|(ix, _)| ix)
                .collect();
            // Largest first, so that the small ones make up for what the large ones could not hit.
            order.sort_by_key(|ix| std::cmp::Reverse(self.versions.get(*ix as usize).map(|version| version.jobs)));
            let jobs = |ix: &u32| self.versions.get(*ix as usize).map_or(0.0, |version| f64::from(version.jobs));
            let total: f64 = order.iter().map(jobs).sum();
            let mut missing: Vec<f64> = shares.iter().map(|share| share * total).collect();
            let mut usual: BTreeMap<u32, usize> = BTreeMap::new();
            for ix in order {
                let Some(family) = self.family_of(ix) else { continue };
                let class = self.users.get(family.user as usize).and_then(|user| user.class);
                let lean = class.and_then(|class| classes.get(class)).map_or(0.0, |class| class.size_lean);
                let family = self.versions.get(ix as usize).map_or(0, |version| version.family);
                let jobs = self.versions.get(ix as usize).map_or(0.0, |version| f64::from(version.jobs));
                let weight = |(at, (option, missing)): (usize, (&ShareSpec, &f64))| {
                    if *missing < jobs {
                        return 0.0;
                    }
                    let stay = if usual.get(&family) == Some(&at) { 12.0 } else { 1.0 };
                    missing * f64::from(option.size).powf(lean) * stay
                };
                let drawn = rng.pick(options.iter().zip(&missing).enumerate().map(weight));
                let most = || (0..missing.len()).max_by(|a, b| missing[*a].total_cmp(&missing[*b]).then(b.cmp(a)));
                let Some(at) = drawn.or_else(most) else { continue };
                usual.insert(family, at);
                if let Some(missing) = missing.get_mut(at) {
                    *missing -= jobs;
                }
                let mem_gib = [2, 4, 4, 8].get(rng.below(4)).copied().unwrap_or(4) * if gpu { 16 } else { 1 };
                if let (Some(version), Some(option)) = (self.versions.get_mut(ix as usize), options.get(at)) {
                    version.size = option.size;
                    version.mem_gib = mem_gib;
                }
            }
        }
    }
}

fn population(checked: &Checked, rng: &mut Stream) -> Demand {
    let spec = &checked.spec.users;
    let count = spec.count as usize;
    // Classes by quota, in random order, so that their shares are exact.
    let mut classes: Vec<Option<usize>> = Vec::with_capacity(count);
    let total: f64 = spec.class.iter().map(|class| class.share).sum();
    let mut sum = 0.0;
    for (ix, class) in spec.class.iter().enumerate() {
        sum += class.share;
        let upto = if total > 0.0 { (sum / total * count as f64).round() as usize } else { 0 };
        classes.resize(upto.max(classes.len()), Some(ix));
    }
    classes.resize(count, None);
    rng.shuffle(&mut classes);
    let mut demand = Demand {
        users: Vec::with_capacity(count),
        families: Vec::new(),
        versions: Vec::new(),
        submissions: Vec::new(),
    };
    for (ix, class) in (0u32..).zip(classes) {
        let joined = if rng.chance(spec.from_start) { 0.0 } else { rng.unit() };
        let effect = rng.normal();
        let families = [false, true].map(|gpu| {
            let count = 1 + rng.exponential((spec.families - 1.0).max(0.01)).round() as usize;
            let mut families = Vec::with_capacity(count);
            for _ in 0..count {
                let tasks: &[&'static str] = if gpu { &GPU_TASKS } else { &CPU_TASKS };
                let task = tasks.get(rng.below(tasks.len())).copied().unwrap_or("train");
                let model = MODELS.get(rng.below(MODELS.len())).copied().unwrap_or("bert");
                let data = DATA.get(rng.below(DATA.len())).copied().unwrap_or("wiki");
                families.push(demand.families.len() as u32);
                demand.families.push(JobFamily {
                    user: ix,
                    gpu,
                    task,
                    name: if gpu { format!("{task}_{model}_{data}") } else { format!("{task}_{data}") },
                    effect: rng.normal(),
                    versions: Vec::new(),
                });
            }
            let weights = Cumulative::new((0..count).map(|rank| 1.0 / (1.0 + rank as f64)));
            (families, weights)
        });
        demand.users.push(User { class, effect, joined, families });
    }
    demand
}

/// `count` times in order, by the hourly and weekly rates, on whole seconds.
fn arrival_times(checked: &Checked, count: usize, rng: &mut Stream) -> Vec<i64> {
    let spec = &checked.spec.arrivals;
    let hours = (checked.end_ms - checked.start_ms) / HOUR_MS;
    let mut calendar = checked.zone.calendar();
    let rates = Cumulative::new((0..hours).map(|hour| {
        let local = calendar.local(checked.start_ms + hour * HOUR_MS);
        let hourly = spec.hourly.get(usize::from(local.hour)).copied().unwrap_or(1.0);
        hourly * spec.weekly.get(usize::from(local.weekday)).copied().unwrap_or(1.0)
    }));
    let mut times: Vec<i64> = (0..count)
        .map(|_| {
            let (hour, into) = rates.at(rng.unit());
            checked.start_ms + hour as i64 * HOUR_MS + (into * 3_599.0).round() as i64 * 1_000
        })
        .collect();
    times.sort_unstable();
    times
}

/// Shares times `size^theta`, adding up to 1.
fn tilt_by(shares: &[ShareSpec], theta: f64) -> Vec<f64> {
    let raw: Vec<f64> = shares.iter().map(|size| size.share * f64::from(size.size).powf(theta)).collect();
    let total: f64 = raw.iter().sum();
    raw.into_iter().map(|share| share / total).collect()
}

/// Shares tilted by a power of the size so that the mean size is `mean`. 80 halvings of θ in −20..20.
fn tilt(shares: &[ShareSpec], mean: f64) -> Vec<f64> {
    let (mut low, mut high) = (-20.0, 20.0);
    for _ in 0..80 {
        let theta = (low + high) / 2.0;
        let tilted = tilt_by(shares, theta);
        let reached: f64 = tilted.iter().zip(shares).map(|(share, size)| share * f64::from(size.size)).sum();
        if reached < mean { low = theta } else { high = theta }
    }
    tilt_by(shares, (low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_tilted_to_the_mean() {
        // Two thirds of 1 and one third of 4: 2/3 + 4/3 = 2.
        let shares = [(1, 0.5), (4, 0.5)].map(|(size, share)| ShareSpec { size, share });
        let tilted = tilt(&shares, 2.0);
        assert!((tilted[0] - 2.0 / 3.0).abs() < 1e-9 && (tilted[1] - 1.0 / 3.0).abs() < 1e-9, "{tilted:?}");
    }
}
