//! Where accounts and their users stand at the end, as `sshare -l` shows it.
//!
//! Usage is what the jobs at and below an account were charged, with the half-life of the limits, to the end of the last job that ran; levels and factors are those of [`tracecast_sim::limit::share`]. Listed are all accounts, and users who
//! were charged something. O(jobs × depth + associations × log).
//!
//! Worked number: two accounts of 3 shares and 1, of which the first has used 30 of 100 GPU-hours: normalised shares 0.75, effective usage 0.3, level 2.5.

use schemars::JsonSchema;
use serde::Serialize;

use tracecast_sim::cluster::Cluster;
use tracecast_sim::limit::Fairshare;
use tracecast_sim::schedule::Schedule;
use tracecast_sim::spent::spent_s;
use tracecast_sim::workload::Workload;

/// Shares, usage and factor of an account or a user.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// The account, or account/user, or account/user/partition.
    pub name: String,
    /// How many accounts are above it.
    pub depth: u32,
    /// Shares (RawShares); `null` for `parent`.
    pub shares: Option<u32>,
    /// Shares over those of all siblings (NormShares); without fair tree, times the same ratio of
    /// each account above.
    pub shares_ratio: Option<f64>,
    /// Charged usage (RawUsage), as it is worth at the end, in hours: GPU-hours where GPUs are
    /// charged.
    pub usage_hours: f64,
    /// Effective usage (EffectvUsage); under fair tree the share of what the account above has
    /// used.
    pub usage_ratio: f64,
    /// The level (LevelFS): above 1 it has had less than its shares; `null` without fair tree, and where it has used nothing.
    pub level: Option<f64>,
    /// The fair-share factor of a user (FairShare).
    pub factor: Option<f64>,
}

/// All of them; none where shares of accounts do not count.
pub(super) fn standings(workload: &Workload, cluster: &Cluster, schedule: &Schedule) -> Vec<Standing> {
    let Some(limits) = cluster.limits.as_ref().filter(|limits| limits.shares_by_account()) else { return Vec::new() };
    let all = limits.associations();
    let end_ms = schedule.segments.iter().map(|segment| segment.end_ms).max().unwrap_or(0);
    let mut usage = vec![0.0; all.len()];
    for segment in &schedule.segments {
        let charge = workload.charge_of(segment.job as usize) as f64 / 1000.0;
        let accounting = limits.accounting();
        let charged_ms = if accounting.charges_ends { segment.end_ms } else { accounting.reckoned_ms(segment.end_ms) };
        let charged_ms = charged_ms.max(segment.start_ms);
        let held_s = spent_s(segment.start_ms, charged_ms, end_ms, accounting.half_life_ms);
        for at in limits.path(workload.association_of(segment.job as usize)) {
            if let Some(used) = usage.get_mut(at) {
                *used += charge * held_s;
            }
        }
    }
    let levels = limits.levels(&usage);
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for (at, of) in all.iter().enumerate() {
        if let Some(below) = of.parent.and_then(|parent| below.get_mut(parent as usize)) {
            below.push(at);
        }
    }
    // Each account before what is below it; the next to be listed is the last.
    let mut open: Vec<(usize, u32)> =
        all.iter().position(|of| of.parent.is_none()).map(|root| (root, 0)).into_iter().collect();
    let mut result = Vec::new();
    while let Some((at, own)) = open.pop() {
        open.extend(below.get(at).into_iter().flatten().rev().map(|at| (*at, own + 1)));
        let (Some(of), Some(level), Some(used_s)) = (all.get(at), levels.get(at), usage.get(at)) else { continue };
        if of.is_user && *used_s <= 0.0 {
            continue;
        }
        result.push(Standing {
            name: of.name.clone(),
            depth: own,
            shares: match of.shares {
                Fairshare::Of(shares) => Some(shares),
                Fairshare::Parent => None,
            },
            shares_ratio: level.shares,
            usage_hours: used_s / 3600.0,
            usage_ratio: level.effective,
            level: level.level.filter(|level| level.is_finite()),
            factor: level.factor,
        });
    }
    result
}
