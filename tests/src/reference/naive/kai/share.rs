//! Fair shares and usage of queues, from `tracecast_planner::sim::kai`: integrals over all that was ever held, fractions of whole numbers.
//!
//! Worked number: see that page.

use tracecast_planner::sim::kai::{Hierarchy, UsageRule, UsageWindow};

use super::super::{Phase, Pool};

/// A queue in a division.
#[derive(Clone)]
struct Claim {
    queue: usize,
    wants: i128,
    has: i128,
    weight: i128,
    usage: i128,
    /// Part lost in its last rounding, in units of 2⁻²⁰.
    lost: Option<i128>,
}

impl Pool<'_> {
    /// The fair share of each queue now.
    pub(super) fn fair(&self, tree: &Hierarchy, total: i128) -> Vec<i128> {
        let there: Vec<usize> = [self.in_phase(Phase::Waiting), self.in_phase(Phase::Running)].concat();
        let request = |queue: usize| -> i128 {
            there.iter().filter(|job| Self::lies_below(tree, self.vc(**job), queue)).map(|job| self.amount(*job)).sum()
        };
        let usage: Vec<i128> = Self::all_queues(tree)
            .map(|queue| tree.rules().usage.map_or(0, |rule| self.used_share(tree, rule, queue)))
            .collect();
        let mut fair = vec![0; tree.queues().len()];
        self.divide(tree, None, total, &request, &usage, &mut fair);
        fair
    }

    fn divide(
        &self,
        tree: &Hierarchy,
        above: Option<usize>,
        total: i128,
        request: &dyn Fn(usize) -> i128,
        usage: &[i128],
        fair: &mut Vec<i128>,
    ) {
        let below: Vec<usize> =
            Self::all_queues(tree).filter(|at| tree.queues()[*at].parent.map(usize::from) == above).collect();
        let mut left = total;
        let mut claims: Vec<Claim> = Vec::new();
        for queue in below {
            let of = &tree.queues()[queue];
            let wants = of.limit.map_or(request(queue), |limit| request(queue).min(i128::from(limit)));
            let has = of.quota.map_or(total, i128::from).min(wants);
            left -= has;
            let weight = i128::from(of.weight_milli);
            claims.push(Claim { queue, wants, has, weight, usage: usage[queue], lost: None });
        }
        let mut priorities: Vec<i32> = claims.iter().map(|claim| tree.queues()[claim.queue].priority).collect();
        priorities.sort_by_key(|priority| -i64::from(*priority));
        priorities.dedup();
        for priority in priorities {
            let mut tier: Vec<&mut Claim> =
                claims.iter_mut().filter(|claim| tree.queues()[claim.queue].priority == priority).collect();
            while left > 0 {
                let weights: i128 = tier.iter().filter(|claim| claim.wants > claim.has).map(|claim| claim.weight).sum();
                let k = i128::from(tree.rules().k_milli);
                let part = |claim: &Claim| {
                    if claim.wants <= claim.has {
                        return 0;
                    }
                    (claim.weight * (1000 + k) * (1 << 32) - k * claim.usage * weights).max(0)
                };
                let all: i128 = tier.iter().map(|claim| part(claim)).sum();
                if all == 0 {
                    break;
                }
                let round = left;
                let mut satisfied = false;
                for claim in &mut tier {
                    let portion = part(claim);
                    let open = claim.wants - claim.has;
                    if open <= 0 || claim.weight == 0 {
                        continue;
                    }
                    // What it is due is round × portion / all.
                    if open * all <= round * portion {
                        satisfied |= open * all < round * portion;
                        claim.lost = None;
                        claim.has += open;
                        left -= open;
                    } else {
                        let gpus = round * portion / (all * 1000);
                        let rest = round * portion - gpus * 1000 * all;
                        if rest > 0 {
                            claim.lost = Some((rest << 20) / all);
                        }
                        claim.has += gpus * 1000;
                        left -= gpus * 1000;
                    }
                }
                if !satisfied {
                    break;
                }
            }
            tier.retain(|claim| claim.lost.is_some());
            tier.sort_by_key(|claim| (claim.lost.map(|lost| -lost), tree.queues()[claim.queue].created, claim.queue));
            for claim in tier {
                let give = left.clamp(0, 1000);
                claim.has += give;
                left -= give;
            }
        }
        for claim in claims {
            fair[claim.queue] = claim.has;
            if claim.queue >= tree.leaves() {
                self.divide(tree, Some(claim.queue), claim.has, request, usage, fair);
            }
        }
    }

    /// Usage of a queue as a share of the window, in units of 2⁻³², as of the last measurement.
    fn used_share(&self, tree: &Hierarchy, rule: UsageRule, queue: usize) -> i128 {
        let end = self.now / rule.fetch_ms * rule.fetch_ms;
        let begin = match rule.window {
            UsageWindow::Sliding { size_ms } => end - size_ms,
            UsageWindow::Tumbling { start_ms, size_ms } => {
                let mut begin = start_ms.min(end);
                while begin + size_ms < end {
                    begin += size_ms;
                }
                begin
            }
        };
        let begin = begin.max(0);
        // Seconds of the window from one moment to another, as they are worth at its end.
        let worth = |from: i64, to: i64| {
            let (from, to) = (from.max(begin), to.min(end));
            if from >= to {
                return 0.0;
            }
            match rule.half_life_ms {
                None => (to - from) as f64 / 1000.0,
                Some(half_life) => {
                    let worth = |at: i64| 0.5f64.powf((end - at) as f64 / half_life as f64);
                    half_life as f64 / 1000.0 / std::f64::consts::LN_2 * (worth(to) - worth(from))
                }
            }
        };
        let mut used = 0.0;
        for job in 0..self.workload.len() {
            if !self.members.contains(&job) || !Self::lies_below(tree, self.vc(job), queue) {
                continue;
            }
            let past = self.jobs[job].fate.segments.iter().map(|segment| (segment.0, segment.1));
            let running = (self.jobs[job].phase == Phase::Running).then(|| (self.jobs[job].since, self.now));
            let held: f64 = past.chain(running).map(|(from, to)| worth(from, to)).sum();
            used += held * self.amount(job) as f64 / 1000.0;
        }
        let mut served = 0.0;
        for (at, (from, gpus)) in self.served.iter().enumerate() {
            let to = self.served.get(at + 1).map_or(self.now, |next| next.0);
            served += worth(*from, to) * *gpus as f64;
        }
        if served > 0.0 { (used / served * 4_294_967_296.0).round() as i128 } else { 0 }
    }
}
