//! What queueing theory says of putting all VCs on one pool, beside what the replays of the later jobs say.
//!
//! Each VC on nodes of its own is a queue of servers of ḡ GPUs with its own rate, runs and variability, and so is the pool of all ([`AskedFor`]): the mean waits are those of Erlang C with Allen and
//! Cunneen's variability, of the queues apart as the mean over their jobs. The replays are those of today's policy on nodes of one's own, and in one pool without shares. Theory and replay **disagree** if a wait of theirs, or
//! the gain (the one wait over the other), is more than three times that of the other, with a minute added to each wait so that seconds do not count. Where a VC asks for more servers than it has, theory has no wait for it, and says so.
//!
//! O(jobs log jobs). Worked number: two VCs with a server each, half in use, wait a mean run apart and a third of one in a pool: a gain of 3.

use schemars::JsonSchema;
use serde::Serialize;

use super::measure::SLACK;
use super::share::Shares;
use crate::capacity::rule::AskedFor;
use crate::capacity::theory::{Traffic, mean_wait_apart_s, pooling_gain};
use crate::sim::{Cluster, Workload};

/// By how many times theory and replay may differ.
pub(super) const DISAGREE: f64 = 3.0;

/// A mean wait by theory and in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TheoryAndReplay {
    /// By theory, seconds; none where a queue asks for more servers than it has.
    pub theory_mean_wait_s: Option<f64>,
    /// In the replay of the later jobs, seconds.
    pub replayed_mean_wait_s: f64,
}

impl TheoryAndReplay {
    fn differs(&self) -> bool {
        self.theory_mean_wait_s.is_some_and(|theory| far(theory + SLACK.1, self.replayed_mean_wait_s + SLACK.1))
    }
}

/// What pooling gains, by theory and in the replay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolingCheck {
    /// Each VC on nodes of its own.
    pub apart: TheoryAndReplay,
    /// One pool of all nodes.
    pub pooled: TheoryAndReplay,
    /// How many times longer jobs wait apart, by theory; none where it has no wait, or the mean wait in the pool is less than a second.
    pub theory_gain: Option<f64>,
    /// The same in the replay; none where the mean wait in the pool is less than a second.
    pub replayed_gain: Option<f64>,
    /// VCs that ask for more servers than they have, so that theory has them wait for ever.
    pub without_end: Vec<String>,
    /// Whether a wait or the gain is more than three times that of the other.
    pub differs: bool,
}

/// Whether one is so many times the other that they disagree.
fn far(a: f64, b: f64) -> bool {
    a > b * DISAGREE || b > a * DISAGREE
}

/// The jobs of a VC.
fn of_vc(workload: &Workload, vc: usize) -> Workload {
    let rows: Vec<u32> =
        (0u32..).zip(&workload.vc).filter(|(_, of)| usize::from(**of) == vc).map(|(job, _)| job).collect();
    workload.only(&rows)
}

impl PoolingCheck {
    /// Of what theory and the replays say, apart and pooled.
    fn new(
        theory_s: [Option<f64>; 2],
        replayed_s: [f64; 2],
        theory_gain: Option<f64>,
        without_end: Vec<String>,
    ) -> Self {
        let [apart, pooled] = std::array::from_fn(|at| TheoryAndReplay {
            theory_mean_wait_s: theory_s.get(at).copied().flatten(),
            replayed_mean_wait_s: replayed_s.get(at).copied().unwrap_or(0.0),
        });
        // Over a wait of less than a second a gain is in the millions, and says nothing.
        let waits = |wait_s: f64| wait_s >= 1.0;
        let theory_gain = theory_gain.filter(|_| pooled.theory_mean_wait_s.is_some_and(waits));
        let replayed_gain =
            waits(pooled.replayed_mean_wait_s).then(|| apart.replayed_mean_wait_s / pooled.replayed_mean_wait_s);
        // Of waits of seconds the gain says nothing.
        let matters =
            |of: &TheoryAndReplay| of.replayed_mean_wait_s.min(of.theory_mean_wait_s.unwrap_or(0.0)) > SLACK.1;
        let gains = theory_gain.zip(replayed_gain).filter(|_| matters(&pooled));
        let differs = apart.differs() || pooled.differs() || gains.is_some_and(|(theory, replay)| far(theory, replay));
        Self { apart, pooled, theory_gain, replayed_gain, without_end, differs }
    }

    /// Of the jobs submitted from `split_ms` on, whose mean waits in the replays are `replayed_s` apart and pooled; `None` where too few come to tell.
    pub(super) fn of(
        (workload, cluster, shares): (&Workload, &Cluster, &Shares),
        split_ms: i64,
        replayed_s: [f64; 2],
    ) -> Option<Self> {
        let last = workload.submit_ms.last().copied()?;
        let window = (split_ms, last + 1);
        let middle = i64::midpoint(split_ms, last);
        let mut apart: Vec<(Traffic, u32)> = Vec::new();
        let mut without_end = Vec::new();
        for (vc, known) in cluster.vcs.iter().enumerate() {
            let Some(asked) = AskedFor::of(&of_vc(workload, vc), window) else { continue };
            let servers = asked.servers(shares.gpus_at(vc, middle) as u64);
            if asked.traffic.mean_wait_s(servers).is_none() {
                without_end.push(known.name.clone());
            }
            apart.push((asked.traffic, servers));
        }
        let all = AskedFor::of(workload, window)?;
        let gpus: f64 = (0..cluster.vcs.len()).map(|vc| shares.gpus_at(vc, middle)).sum();
        let pooled = (all.traffic, all.servers(gpus as u64));
        let theory_s = [mean_wait_apart_s(&apart), pooled.0.mean_wait_s(pooled.1)];
        Some(Self::new(theory_s, replayed_s, pooling_gain(&apart, &pooled), without_end))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::emit::tests::plan;
    use super::super::share::Sharing;
    use super::*;
    use crate::sim::{Policy, Shape, simulate};

    #[test]
    fn who_disagrees_by_more_than_three_times_is_told() {
        let of = |theory: [f64; 2], replayed: [f64; 2]| {
            PoolingCheck::new(theory.map(Some), replayed, Some(theory[0] / theory[1]), Vec::new())
        };
        let near = of([1000.0, 100.0], [1200.0, 130.0]);
        assert!(!near.differs && near.replayed_gain.unwrap() > 9.0, "{near:?}");
        assert!(of([1000.0, 100.0], [4000.0, 130.0]).differs);
        // The waits are within three times each, and the gain is not: 3.3 and 23.
        assert!(of([1000.0, 300.0], [2500.0, 110.0]).differs);
        // Of seconds nothing is said.
        let short = of([20.0, 0.1], [30.0, 2.0]);
        assert_eq!((short.differs, short.theory_gain, short.replayed_gain), (false, None, Some(15.0)));
        let endless = PoolingCheck::new([None, Some(100.0)], [5000.0, 120.0], None, vec!["a".to_owned()]);
        assert!(!endless.differs && endless.theory_gain.is_none());
    }

    /// Jobs of one GPU at regular times: a VC that asks for one and a half servers and has one waits for ever.
    #[test]
    fn a_vc_that_asks_for_more_than_it_has_has_no_wait_in_theory() {
        let mut jobs = Workload::default();
        for at in 0..2_000 {
            jobs.push(at * 1000, if at % 2 == 0 { 3_000 } else { 500 }, Shape::whole(1));
            *jobs.vc.last_mut().unwrap() = (at % 2) as u16;
        }
        let cluster = Cluster::of_vcs(&[("busy", 1, 1), ("idle", 2, 1)]);
        let shares = Shares::of(&cluster).unwrap();
        let mean = |cluster: &Cluster| {
            let schedule = simulate(&jobs, cluster, &Policy::default()).unwrap();
            let waits: Vec<i64> = schedule.waits_ms(&jobs).into_iter().flatten().collect();
            waits.iter().sum::<i64>() as f64 / waits.len() as f64 / 1e3
        };
        let replayed_s = [mean(&cluster), mean(&cluster.pooled())];
        let found = PoolingCheck::of((&jobs, &cluster, &shares), 0, replayed_s).unwrap();
        assert_eq!(found.without_end, ["busy"]);
        assert_eq!((found.apart.theory_mean_wait_s, found.theory_gain), (None, None));
        // The pool has three servers for a load of 1.75.
        assert!(found.pooled.theory_mean_wait_s.unwrap() < 60.0 && found.replayed_gain.is_none_or(|gain| gain > 10.0));
    }

    #[test]
    fn who_asks_for_more_than_it_has_is_told_and_so_is_a_theory_that_fails() {
        // Jobs of a ask for 6 GPUs × 18 min in every 10 min, of its 8 GPUs: 1.35 times as much. b asks for 1/8 of its node.
        let mut answer = plan(Sharing::OnePool, None);
        let loads: Vec<f64> = answer.vcs.iter().map(|vc| (vc.offered_load.unwrap() * 100.0).round() / 100.0).collect();
        assert_eq!(loads, [1.35, 0.13]);
        assert!((answer.offered_load.unwrap() - 0.74).abs() < 0.01);
        let said = answer.report().summary.join(" ");
        assert!(said.contains("asked for by Vision_A (1.35)"), "{said}");
        assert!(answer.pooling.as_ref().unwrap().without_end == ["a"], "{:?}", answer.pooling);
        assert!(answer.report().sections.iter().any(|section| section.id == "queues-pooling"));
        answer.offered_load = Some(1.2);
        let said = answer.report().summary.join(" ");
        assert!(said.contains("ask for 1.20 times the GPU time that there is") && !said.contains("(1.35)"), "{said}");
        let check = answer.pooling.as_mut().unwrap();
        assert_eq!(check.differs, said.contains("theory and the replays disagree"));
        check.differs = true;
        assert!(answer.report().summary.join(" ").contains("disagree** on pooling, by more than 3 times"));
    }
}
