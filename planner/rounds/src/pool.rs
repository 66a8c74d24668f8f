//! The fleet and how fast jobs run on it: GPU types with their numbers, and steps a second of every kind of job on each of them.
//!
//! A **kind** is a job type with a number of GPUs. Where a file says nothing of a kind on a GPU type, the kind does not run there, and where a type has fewer GPUs than the
//! gang, neither: both are a speed of 0.
//!
//! O(rates × types). Worked example: `v100=8,k80=4` are two types of 12 GPUs together; a gang of 8 has a speed of 0 on the K80.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_predictors::interference::rates::GangRate;

use super::host::HostFleet;
use super::room::GangRoom;
use tracecast_plan::error::{Error, Result, excerpt};

/// Most GPUs of a type.
const MOST_GPUS: u32 = 100_000;
/// Most GPU types.
const MOST_TYPES: usize = 32;

/// A GPU type of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AllocationPool")]
pub struct GpuPool {
    /// The type.
    #[serde(rename = "gpu")]
    pub name: String,
    /// GPUs.
    pub gpus: u32,
}

/// Pools in words, such as `8 × v100, 4 × k80`.
pub fn in_words(pools: &[GpuPool]) -> String {
    let of = |pool: &GpuPool| format!("{} × {}", pool.gpus, pool.name);
    pools.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Types and numbers from a text such as `v100=8,p100=8`.
///
/// # Errors
/// If it is of another form, names a type twice, or holds a number that no fleet has.
pub fn pools(text: &str) -> Result<Vec<GpuPool>> {
    let malformed = |remedy: &str| Error::malformed("list of GPU types", excerpt(text), remedy.to_owned());
    let mut result: Vec<GpuPool> = Vec::new();
    for part in text.split(',') {
        let (name, gpus) = part.split_once('=').ok_or_else(|| malformed("write v100=8,p100=8,k80=8"))?;
        let gpus = gpus.trim().parse().ok().filter(|gpus| (1..=MOST_GPUS).contains(gpus));
        let gpus = gpus.ok_or_else(|| malformed("write a whole number of GPUs behind each type, 1 to 100,000"))?;
        let name = name.trim();
        if name.is_empty() || result.iter().any(|pool| pool.name == name) {
            return Err(malformed("name each type once"));
        }
        result.push(GpuPool { name: name.to_owned(), gpus });
    }
    if result.len() > MOST_TYPES {
        return Err(malformed("name at most 32 types"));
    }
    Ok(result)
}

/// A job type with its number of GPUs, and how fast that is.
#[derive(Debug, Clone, PartialEq)]
pub struct JobKind {
    /// Job type.
    pub job: String,
    /// GPUs of the gang.
    pub gpus: u32,
    /// Steps a second of the whole gang on each GPU type of the fleet, 0 where it does not run.
    pub steps_per_s: Vec<f64>,
}

impl JobKind {
    /// The fastest that it runs anywhere.
    pub fn fastest(&self) -> f64 {
        self.steps_per_s.iter().copied().fold(0.0, f64::max)
    }

    /// Speed on the first type of the fleet on which the job runs, steps a second: all that a
    /// policy without types knows.
    pub fn first_speed(&self) -> f64 {
        self.steps_per_s.iter().copied().find(|speed| *speed > 0.0).unwrap_or(0.0)
    }

    /// The mean of its speed over the GPUs of the fleet, steps a second.
    pub fn mean_speed(&self, gpus: &[f64]) -> f64 {
        let all: f64 = gpus.iter().sum();
        self.steps_per_s.iter().zip(gpus).map(|(speed, gpus)| speed * gpus).sum::<f64>() / all
    }
}

/// The GPUs of a fleet, and every kind of job that runs on some of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TypedFleet {
    /// GPU types, in the order in which they were named.
    pub pools: Vec<GpuPool>,
    /// Kinds, in order of job type and GPUs.
    pub kinds: Vec<JobKind>,
    /// Kinds of the file that run nowhere on this fleet.
    pub nowhere: usize,
    /// Processors and memory of its nodes, `None` if they do not count.
    pub host: Option<HostFleet>,
}

impl TypedFleet {
    /// A fleet and what its GPU types do.
    ///
    /// # Errors
    /// If a type is not in the rates, or nothing in them runs on the fleet.
    pub fn new(pools: Vec<GpuPool>, rates: &[GangRate]) -> Result<Self> {
        let mut known: Vec<&str> = rates.iter().map(|rate| rate.gpu.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        if let Some(pool) = pools.iter().find(|pool| !known.contains(&pool.name.as_str())) {
            return Err(Error::malformed(
                "GPU type of the throughputs",
                pool.name.clone(),
                format!("name some of {}", known.join(", ")),
            ));
        }
        let mut names: Vec<(&str, u32)> = rates.iter().map(|rate| (rate.job.as_str(), rate.gpus)).collect();
        names.sort_unstable();
        names.dedup();
        let mut kinds: Vec<JobKind> = names
            .iter()
            .map(|(job, gpus)| JobKind { job: (*job).to_owned(), gpus: *gpus, steps_per_s: vec![0.0; pools.len()] })
            .collect();
        for rate in rates {
            let at = pools.iter().position(|pool| pool.name == rate.gpu && rate.gpus <= pool.gpus);
            let kind = names.binary_search(&(rate.job.as_str(), rate.gpus)).ok().and_then(|kind| kinds.get_mut(kind));
            if let Some((slot, speed)) = at.zip(kind).and_then(|(at, kind)| Some((kind.steps_per_s.get_mut(at)?, rate)))
            {
                *slot = speed.steps_per_s;
            }
        }
        let all = kinds.len();
        kinds.retain(|kind| kind.fastest() > 0.0);
        if kinds.is_empty() {
            return Err(Error::no_jobs("no job of the throughputs runs on these GPUs".to_owned()));
        }
        Ok(Self { nowhere: all - kinds.len(), pools, kinds, host: None })
    }

    /// The kind of a job type with so many GPUs.
    pub fn kind(&self, job: &str, gpus: u32) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.job == job && kind.gpus == gpus)
    }

    /// Room on it for gangs, on nodes of so many GPUs if these count.
    pub fn room(&self, per_node: Option<u32>) -> GangRoom {
        let per_node = self.host.as_ref().map(|host| host.gpus_per_node).or(per_node);
        let gpus = self.pools.iter().map(|pool| pool.gpus).collect();
        GangRoom { gpus, per_node, host: self.host.as_ref().map(HostFleet::shares) }
    }

    /// GPUs of each type.
    pub fn gpus(&self) -> Vec<f64> {
        self.pools.iter().map(|pool| f64::from(pool.gpus)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn rate(gpu: &str, job: &str, gpus: u32, steps_per_s: f64) -> GangRate {
        GangRate { gpu: gpu.into(), job: job.into(), gpus, steps_per_s, apart_steps_per_s: None }
    }

    #[test]
    fn a_fleet_is_read() {
        let result = pools("v100=8, k80=4").unwrap();
        assert_eq!((result[1].name.as_str(), result[1].gpus), ("k80", 4));
        let told = |text: &str| pools(text).unwrap_err().to_string();
        assert!(told("v100").contains("write v100=8"));
        assert!(told("v100=0").contains("1 to 100,000"));
        assert!(told("v100=NaN").contains("whole number"));
        assert!(told("v100=1,v100=2").contains("once"));
    }

    #[test]
    fn a_gang_larger_than_a_type_does_not_run_there() {
        let rates = [rate("v100", "a", 8, 4.0), rate("k80", "a", 8, 1.0), rate("k80", "a", 16, 2.0)];
        let fleet = TypedFleet::new(pools("v100=8,k80=4").unwrap(), &rates).unwrap();
        assert_eq!((fleet.kinds.len(), fleet.nowhere), (1, 1));
        assert_eq!(fleet.kinds[0].steps_per_s, [4.0, 0.0]);
        let told = TypedFleet::new(pools("h100=8").unwrap(), &rates).unwrap_err().to_string();
        assert!(told.contains("name some of k80, v100"), "{told}");
        assert!(TypedFleet::new(pools("k80=4").unwrap(), &rates).is_err());
    }
}
