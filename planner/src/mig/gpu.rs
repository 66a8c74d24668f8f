//! GPUs that MIG partitions: the profiles of their slices, and where a slice of each may lie.
//!
//! The memory of such a GPU is cut into eight slices and its SMs into seven, and a slice of the GPU begins at a few of the memory slices only, as `nvidia-smi mig -lgipp` lists them. A
//! set of slices is possible where no two lie on the same memory slice and their SMs are seven parts at most. The table follows NVIDIA's MIG User Guide (docs.nvidia.com/datacenter/tesla/mig-user-guide), and was held against no GPU. Left out are the
//! variants with media engines (`+me`), of which a GPU has one at most, and GPUs with other profiles (A30, H100 with 94 or 96 GB, Blackwell).
//!
//! How much memory a job may use of a slice is less than the name says. It differs by driver, and the least that published listings show is taken; for the H200 it is a cautious guess.
//!
//! Worked example: `1g.10gb` of an A100 with 40 GB has one part of the SMs and two slices of memory, so four fit on a GPU, where seven `1g.5gb` do.

use crate::error::{Error, Result};

/// Parts of the SMs of a GPU.
pub const COMPUTE_SLICES: u32 = 7;
/// Slices of its memory.
pub const MEMORY_SLICES: u32 = 8;

/// A kind of slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigProfile {
    /// Name, such as `3g.20gb`.
    pub name: &'static str,
    /// Parts of the SMs, of [`COMPUTE_SLICES`].
    pub compute: u32,
    /// Slices of the memory, of [`MEMORY_SLICES`].
    pub memory: u32,
    /// Memory by its name, GB.
    pub memory_gb: u32,
    /// Memory that a job may use, MiB.
    pub usable_mib: u32,
    /// Memory slices at which one may begin.
    pub starts: &'static [u32],
}

impl MigProfile {
    /// How many fit on a GPU: places at which it may begin never overlap.
    pub fn most(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Whether it is all of the GPU.
    pub fn is_whole(&self) -> bool {
        self.compute == COMPUTE_SLICES
    }
}

/// A GPU with its profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigGpu {
    /// Name here, such as `a100-40gb`.
    pub name: &'static str,
    /// Name in Slurm, before the profile: `a100_3g.20gb`.
    pub slurm: &'static str,
    /// Profiles, the smallest first and the whole GPU last.
    pub profiles: [MigProfile; 6],
}

/// A profile: name, (parts of the SMs, slices of memory, GB, MiB that can be used), starts.
const fn slice(name: &'static str, of: (u32, u32, u32, u32), starts: &'static [u32]) -> MigProfile {
    MigProfile { name, compute: of.0, memory: of.1, memory_gb: of.2, usable_mib: of.3, starts }
}

const EVERYWHERE: &[u32] = &[0, 1, 2, 3, 4, 5, 6];
const PAIRS: &[u32] = &[0, 2, 4, 6];
const LEFT_PAIRS: &[u32] = &[0, 2, 4];
const HALVES: &[u32] = &[0, 4];
const BEGINNING: &[u32] = &[0];

/// Profiles of GPUs with 80 GB.
const OF_80_GB: [MigProfile; 6] = [
    slice("1g.10gb", (1, 1, 10, 9_728), EVERYWHERE),
    slice("1g.20gb", (1, 2, 20, 19_968), PAIRS),
    slice("2g.20gb", (2, 2, 20, 19_968), LEFT_PAIRS),
    slice("3g.40gb", (3, 4, 40, 40_192), HALVES),
    slice("4g.40gb", (4, 4, 40, 40_192), BEGINNING),
    slice("7g.80gb", (7, 8, 80, 80_384), BEGINNING),
];

/// The GPUs there are.
pub static GPUS: [MigGpu; 4] = [
    MigGpu {
        name: "a100-40gb",
        slurm: "a100",
        profiles: [
            slice("1g.5gb", (1, 1, 5, 4_864), EVERYWHERE),
            slice("1g.10gb", (1, 2, 10, 9_856), PAIRS),
            slice("2g.10gb", (2, 2, 10, 9_856), LEFT_PAIRS),
            slice("3g.20gb", (3, 4, 20, 19_968), HALVES),
            slice("4g.20gb", (4, 4, 20, 19_968), BEGINNING),
            slice("7g.40gb", (7, 8, 40, 40_192), BEGINNING),
        ],
    },
    MigGpu { name: "a100-80gb", slurm: "a100", profiles: OF_80_GB },
    MigGpu { name: "h100-80gb", slurm: "h100", profiles: OF_80_GB },
    MigGpu {
        name: "h200-141gb",
        slurm: "h200",
        profiles: [
            slice("1g.18gb", (1, 1, 18, 16_384), EVERYWHERE),
            slice("1g.35gb", (1, 2, 35, 32_768), PAIRS),
            slice("2g.35gb", (2, 2, 35, 32_768), LEFT_PAIRS),
            slice("3g.71gb", (3, 4, 71, 65_536), HALVES),
            slice("4g.71gb", (4, 4, 71, 65_536), BEGINNING),
            slice("7g.141gb", (7, 8, 141, 137_216), BEGINNING),
        ],
    },
];

/// Names of [`GPUS`].
pub const NAMES: &[&str] = &["a100-40gb", "a100-80gb", "h100-80gb", "h200-141gb"];

impl MigGpu {
    /// The GPU of a name.
    ///
    /// # Errors
    /// If there is none; the error lists them.
    pub fn named(name: &str) -> Result<&'static Self> {
        let result = GPUS.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name));
        result.ok_or_else(|| Error::unknown("GPU with MIG", name.to_owned(), NAMES))
    }

    /// The place of a profile.
    pub fn profile(&self, name: &str) -> Option<usize> {
        self.profiles.iter().position(|profile| profile.name.eq_ignore_ascii_case(name))
    }

    /// The place of the profile that is the whole GPU.
    pub fn whole(&self) -> usize {
        self.profiles.len() - 1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_of_one_piece() {
        assert_eq!(GPUS.map(|gpu| gpu.name), NAMES);
        for gpu in &GPUS {
            // NVIDIA's "number of instances available".
            assert_eq!(gpu.profiles.map(|profile| profile.most()), [7, 4, 3, 2, 1, 1], "{}", gpu.name);
            for profile in &gpu.profiles {
                assert!(profile.name.starts_with(&format!("{}g.", profile.compute)), "{profile:?}");
                assert!(profile.name.ends_with(&format!(".{}gb", profile.memory_gb)), "{profile:?}");
                // What a job may use is less than the name says, and no less than four fifths of it.
                let named_mib = f64::from(profile.memory_gb) * 1024.0;
                let share = f64::from(profile.usable_mib) / named_mib;
                assert!((0.8..1.0).contains(&share), "{profile:?}");
                for starts in profile.starts.windows(2) {
                    assert!(starts[0] + profile.memory <= starts[1], "{profile:?}");
                }
                // The last slice of memory has no SMs of its own: one that begins at the seventh may still reach over it.
                assert!(profile.starts.iter().all(|start| start + profile.memory <= MEMORY_SLICES), "{profile:?}");
            }
            assert!(gpu.profiles[gpu.whole()].is_whole());
        }
    }

    #[test]
    fn names_are_found_and_others_are_told() {
        assert_eq!(MigGpu::named("H100-80GB").unwrap().profile("3g.40gb"), Some(3));
        let told = MigGpu::named("v100").unwrap_err().to_string();
        assert!(told.contains("`v100` is no GPU with MIG; there are a100-40gb"), "{told}");
    }
}
