//! The plan as patches to files that the user already has, beside the files that [`emit`](super::emit) writes anew.
//!
//! Only the values that the plan is about are set: quotas, limits and reclaiming of queues in the YAML or JSON of Kueue, KAI and Volcano, and
//! partitions and preemption in `slurm.conf`. All else [stays](crate::plan::emit::own).
//!
//! O(bytes × changes). Worked example: a ClusterQueue `vision` with `nominalQuota: 64 # since March`, whose own share is 96 GPUs, gives the lines
//! `-… nominalQuota: 64 # since March` and `+… nominalQuota: 96 # since March`, and above them "ClusterQueue vision, flavor a100: nominalQuota 64 → 96: its own share".

mod kubernetes;
mod slurm;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;

pub use kubernetes::{kai, kueue, volcano};
pub use slurm::slurm;

use tracecast_analytics::report::format;

use super::answer::VcPlan;

/// Effect of the plan on the waits of a VC.
fn effect(vc: &VcPlan) -> String {
    match (&vc.today, &vc.recommended) {
        (Some(today), Some(chosen)) => format!(
            "; 95 % of its later jobs waited at most {} today, {} by the whole plan with its order",
            format::duration(today.p95_wait_s),
            format::duration(chosen.p95_wait_s)
        ),
        _ => String::new(),
    }
}
