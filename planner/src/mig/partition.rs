//! Partitions of a GPU: which sets of slices its placements allow, and what they are called.
//!
//! A partition is a number of slices of each profile. It is **possible** where they can be placed, and **full** where no possible partition has as many of each and more of one. Plans are
//! made of full ones: a slice more never hurts. All placements are gone through, memory slice by memory slice: at each begins one of the profiles that may begin there, or nothing.
//!
//! A name joins profiles by `+`, with a count before those of which there are several; the whole GPU is also `whole`. O(8^8) at worst, some thousand placements in fact.
//!
//! Worked example: without `1g.10gb`, an A100 has 19 placements to which nothing can be added, as NVIDIA's figure has them. With the same slices in another order counted once, and
//! without those that another exceeds (`3g.20gb+2g.10gb+1g.5gb`, where `3g.20gb+2g.10gb+2x1g.5gb` is possible with the large slice at the end), there are 12.

use super::gpu::{COMPUTE_SLICES, MEMORY_SLICES, MigGpu};
use crate::error::{Error, Result, excerpt};

/// Name of the whole GPU beside its profile: MIG is off.
pub const WHOLE: &str = "whole";

/// A number of slices of each profile of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigPartition {
    /// Slices of each profile, in the order of the GPU's profiles.
    pub counts: Vec<u32>,
}

impl MigPartition {
    /// The whole GPU as one slice.
    pub fn whole(gpu: &MigGpu) -> Self {
        let mut counts = vec![0; gpu.profiles.len()];
        if let Some(slot) = counts.get_mut(gpu.whole()) {
            *slot = 1;
        }
        Self { counts }
    }

    /// Whether it is the whole GPU.
    pub fn is_whole(&self, gpu: &MigGpu) -> bool {
        *self == Self::whole(gpu)
    }

    /// Slices of all profiles.
    pub fn slices(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Profiles of which it has any, the largest first, with how many.
    pub fn parts<'g>(&self, gpu: &'g MigGpu) -> Vec<(&'g str, u32)> {
        let named = gpu.profiles.iter().zip(&self.counts).rev();
        named.filter(|(_, count)| **count > 0).map(|(profile, count)| (profile.name, *count)).collect()
    }

    /// Name of the partition: profiles joined by `+`, or `whole`.
    pub fn name(&self, gpu: &MigGpu) -> String {
        if self.is_whole(gpu) {
            return WHOLE.to_owned();
        }
        let part = |(name, count): (&str, u32)| if count == 1 { name.to_owned() } else { format!("{count}x{name}") };
        self.parts(gpu).into_iter().map(part).collect::<Vec<_>>().join("+")
    }

    /// The partition of a name.
    ///
    /// # Errors
    /// If a part is no profile of the GPU, or the slices cannot be placed together; with what to write.
    pub fn parse(gpu: &MigGpu, name: &str) -> Result<Self> {
        if name.trim().eq_ignore_ascii_case(WHOLE) {
            return Ok(Self::whole(gpu));
        }
        let wrong = |remedy: String| Error::malformed("partition of this GPU", excerpt(name), remedy);
        let mut counts = vec![0u32; gpu.profiles.len()];
        for part in name.split('+').map(str::trim) {
            let (count, profile) = match part.split_once(['x', 'X', '×']) {
                Some((count, profile)) => (count.trim().parse().unwrap_or(0), profile.trim()),
                None => (1, part),
            };
            let known = gpu.profile(profile).and_then(|at| counts.get_mut(at));
            let Some(slot) = known.filter(|_| (1..=COMPUTE_SLICES).contains(&count)) else {
                let names: Vec<&str> = gpu.profiles.iter().map(|profile| profile.name).collect();
                return Err(wrong(format!(
                    "join profiles by +, such as 2x{}; an {} has {}",
                    names.first().copied().unwrap_or_default(),
                    gpu.name,
                    names.join(", ")
                )));
            };
            *slot += count;
        }
        let result = Self { counts };
        if full(gpu).iter().any(|partition| partition.holds(&result)) {
            return Ok(result);
        }
        Err(wrong("these slices cannot lie on one GPU together; see `nvidia-smi mig -lgipp`".to_owned()))
    }

    /// Whether it has as many slices of each profile as another.
    pub fn holds(&self, other: &Self) -> bool {
        self.counts.iter().zip(&other.counts).all(|(own, of)| own >= of)
    }
}

/// A placement: profiles and where they begin, in order of that.
pub type MigPlacement = Vec<(usize, u32)>;

/// Placements to which no slice can be added, in order.
pub fn placements(gpu: &MigGpu) -> Vec<MigPlacement> {
    let mut result = Vec::new();
    extend(gpu, 0, &mut Vec::new(), &mut result);
    result.retain(|placement| !can_grow(gpu, placement));
    result.sort_unstable();
    result
}

fn compute(gpu: &MigGpu, placement: &MigPlacement) -> u32 {
    placement.iter().filter_map(|(profile, _)| gpu.profiles.get(*profile)).map(|profile| profile.compute).sum()
}

/// All placements that begin as `placement` does, from memory slice `at` on.
fn extend(gpu: &MigGpu, at: u32, placement: &mut MigPlacement, result: &mut Vec<MigPlacement>) {
    if at >= MEMORY_SLICES {
        result.push(placement.clone());
        return;
    }
    extend(gpu, at + 1, placement, result);
    let left = COMPUTE_SLICES - compute(gpu, placement);
    for (which, profile) in gpu.profiles.iter().enumerate() {
        if profile.starts.contains(&at) && profile.compute <= left {
            placement.push((which, at));
            extend(gpu, at + profile.memory, placement, result);
            placement.pop();
        }
    }
}

/// Whether a slice can be added to a placement.
fn can_grow(gpu: &MigGpu, placement: &MigPlacement) -> bool {
    let taken = |slice: u32| {
        placement.iter().any(|(profile, start)| {
            gpu.profiles.get(*profile).is_some_and(|profile| (*start..start + profile.memory).contains(&slice))
        })
    };
    let left = COMPUTE_SLICES - compute(gpu, placement);
    gpu.profiles.iter().any(|profile| {
        profile.compute <= left && profile.starts.iter().any(|start| !(*start..start + profile.memory).any(taken))
    })
}

/// Full partitions, in order of their counts.
pub fn full(gpu: &MigGpu) -> Vec<MigPartition> {
    let mut all: Vec<MigPartition> = placements(gpu)
        .into_iter()
        .map(|placement| {
            let count = |which| placement.iter().filter(|(profile, _)| *profile == which).count() as u32;
            MigPartition { counts: (0..gpu.profiles.len()).map(count).collect() }
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    let exceeded = |one: &MigPartition| all.iter().any(|other| other != one && other.holds(one));
    all.iter().filter(|one| !exceeded(one)).cloned().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn a100() -> &'static MigGpu {
        MigGpu::named("a100-40gb").unwrap()
    }

    /// Without the profile of one part with twice the memory.
    fn is_plain(placement: &MigPlacement) -> bool {
        placement.iter().all(|(profile, _)| *profile != 1)
    }

    #[test]
    fn as_many_placements_as_nvidia_draws() {
        for gpu in &super::super::gpu::GPUS {
            let all = placements(gpu);
            // On the left half: the 4g, the 3g, or two pairs of slices, each a 2g, two 1g or a double 1g. On the right one: the 3g, or such a pair and an end, which is a 1g or a double 1g.
            // And the whole GPU.
            assert_eq!(all.len(), (2 + 3 * 3) * (1 + 3 * 2) + 1);
            // The figure of the user guide has no double 1g.
            assert_eq!(all.iter().filter(|placement| is_plain(placement)).count(), 19);
            // In whatever order: three pairs and an end without halves, an end that is no double only where no pair is (10 + 4); beside a 4g a pair and an end, likewise, or a 3g (3 + 2 + 1);
            // beside a 3g two pairs or another (6 + 1); the whole.
            assert_eq!(full(gpu).len(), 14 + 6 + 7 + 1);
        }
    }

    #[test]
    fn full_partitions_by_name() {
        let plain: Vec<String> = full(a100()).iter().filter(|of| of.counts[1] == 0).map(|of| of.name(a100())).collect();
        let wanted = [
            "whole",
            "4g.20gb+3g.20gb",
            "2x3g.20gb",
            "3g.20gb+2x2g.10gb",
            "3x2g.10gb+1g.5gb",
            "4g.20gb+2g.10gb+1g.5gb",
            "3g.20gb+2g.10gb+2x1g.5gb",
            "2x2g.10gb+3x1g.5gb",
            "4g.20gb+3x1g.5gb",
            "3g.20gb+4x1g.5gb",
            "2g.10gb+5x1g.5gb",
            "7x1g.5gb",
        ];
        let mut sorted: Vec<&str> = wanted.to_vec();
        sorted.sort_unstable();
        let mut result: Vec<&str> = plain.iter().map(String::as_str).collect();
        result.sort_unstable();
        assert_eq!(result, sorted);
    }

    #[test]
    fn names_are_read_and_the_impossible_is_refused() {
        let read = |name: &str| MigPartition::parse(a100(), name);
        for partition in full(a100()) {
            assert_eq!(read(&partition.name(a100())).unwrap(), partition);
        }
        assert!(read("WHOLE").unwrap().is_whole(a100()) && read("7g.40gb").unwrap().is_whole(a100()));
        assert_eq!(read("1g.5gb + 3g.20gb+1g.5gb").unwrap().name(a100()), "3g.20gb+2x1g.5gb");
        for (name, told) in [
            ("2x4g.20gb", "cannot lie on one GPU together"),
            ("4g.20gb+2x2g.10gb", "cannot lie on one GPU together"),
            ("8x1g.5gb", "join profiles by +"),
            ("3g.40gb", "an a100-40gb has 1g.5gb, 1g.10gb"),
            ("", "join profiles by +"),
        ] {
            let error = read(name).unwrap_err().to_string();
            assert!(error.contains(told), "{name}: {error}");
        }
    }

    proptest! {
        /// A partition is possible exactly where its slices can be put one by one on free places.
        #[test]
        fn only_what_can_be_placed_is_possible(counts in proptest::collection::vec(0u32..4, 6)) {
            let gpu = a100();
            let wanted: Vec<usize> =
                counts.iter().enumerate().flat_map(|(at, count)| std::iter::repeat_n(at, *count as usize)).collect();
            fn fits(gpu: &MigGpu, wanted: &[usize], taken: u32, compute: u32) -> bool {
                let Some((first, rest)) = wanted.split_first() else { return true };
                let profile = &gpu.profiles[*first];
                profile.starts.iter().any(|start| {
                    let mask = ((1u32 << profile.memory) - 1) << start;
                    taken & mask == 0
                        && compute + profile.compute <= COMPUTE_SLICES
                        && fits(gpu, rest, taken | mask, compute + profile.compute)
                })
            }
            let partition = MigPartition { counts };
            prop_assert_eq!(full(gpu).iter().any(|of| of.holds(&partition)), fits(gpu, &wanted, 0, 0));
        }
    }
}
