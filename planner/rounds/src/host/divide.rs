//! Processors and memory that the jobs of a round hold of a type's nodes, by one of three rules.
//!
//! By **shares**, each job holds its GPUs' share of a node. By **best** demands, it holds what makes it as fast as it can be there. **Tuned**, it is at least as fast as by shares ([`super::tune`]). A job with needs holds these under all three.
//!
//! O(jobs), tuned as [`super::tune`]. Worked example: in [`super`].

use super::tune::tuned;
use super::{HostFleet, HostUse, Seated};
use crate::node::HostNeeds;
use crate::room::GangRoom;

/// How nodes are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// By GPUs' shares.
    Shares,
    /// By best demands.
    Best,
    /// By the tuning of `synergy`.
    Tuned,
}

/// Processors and memory of a job, and its speed with them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostHeld {
    /// Processors and memory of the whole gang.
    pub needs: HostNeeds,
    /// How fast that makes it, a share of its full speed.
    pub speed: f64,
}

/// Divides processors and memory between the jobs on a type.
pub fn divided(fleet: &HostFleet, room: &GangRoom, at: usize, jobs: &[Seated], how: Division) -> Vec<HostHeld> {
    let held = |job: &Seated, each: HostNeeds| HostHeld {
        needs: each.times(f64::from(job.gpus)),
        speed: fleet.speed(job.host, each),
    };
    let share = room.share(at);
    match how {
        Division::Shares => {
            let each = |job: &Seated| if let HostUse::Exactly(needs) = job.host { needs } else { share };
            jobs.iter().map(|job| held(job, each(job))).collect()
        }
        Division::Best => jobs.iter().map(|job| held(job, fleet.best(job.host, job.gpus, at, room))).collect(),
        Division::Tuned => {
            jobs.iter().zip(tuned(fleet, room, at, jobs)).map(|(job, lying)| held(job, lying.needs)).collect()
        }
    }
}
