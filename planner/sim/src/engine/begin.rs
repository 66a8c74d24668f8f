//! How a replay begins: sizes, quotas and failures before and after time 0, and the jobs that run already.
//!
//! What the contract calls the state that sizes, quotas and outages of before 0 have left, and the warm start. O(sizes + quotas + outages + warm jobs × log n).
//!
//! Worked number: a group has 4 nodes from −10 s and 6 from 50 s on: the replay begins with 4, and an event at 50 s adds 2.

use std::cmp::Reverse;

use super::event::Event;
use super::{Action, Run};
use crate::error::Result;
use crate::schedule::Piece;
use crate::workload::Warm;

impl Run<'_> {
    /// Sizes, quotas and failures to come, and the jobs that run already.
    pub(super) fn begin(&mut self, pool: usize) -> Result<()> {
        let cluster = self.cluster;
        let groups = cluster.pools.get(pool).map_or(&[][..], |pool| &pool.groups);
        for (at, group) in (0u32..).zip(groups) {
            let current = group.sizes.partition_point(|(from, _)| *from <= 0).saturating_sub(1);
            let nodes = group.sizes.get(current).map_or(0, |(_, nodes)| *nodes);
            self.resize(at, nodes);
            for (size, (from, _)) in (0u32..).zip(&group.sizes).skip(current + 1) {
                self.announce(*from, Event::Resize { group: at, size });
            }
        }
        for (at, vc) in (0u16..).zip(&cluster.vcs).filter(|(_, vc)| usize::from(vc.pool) == pool) {
            if vc.quota_milli.is_empty() {
                continue;
            }
            let current = vc.quota_milli.partition_point(|(from, _)| *from <= 0).saturating_sub(1);
            self.quota[usize::from(at)] = vc.quota_milli.get(current).map(|(_, amount)| *amount);
            for (quota, (from, _)) in (0u32..).zip(&vc.quota_milli).skip(current + 1) {
                self.announce(*from, Event::Quota { vc: at, quota });
            }
        }
        for outage in &cluster.outages {
            let node = self.nodes.local(outage.node);
            if node < self.nodes.len() && outage.to_ms > 0 {
                if outage.from_ms < 0 {
                    self.service.fail(&mut self.nodes, node);
                } else {
                    self.announce(outage.from_ms, Event::Fail { node });
                }
                self.announce(outage.to_ms, Event::Repair { node });
            }
        }
        self.tell_service();
        self.start_warm()
    }

    /// Puts the jobs that run at time 0 on their nodes.
    fn start_warm(&mut self) -> Result<()> {
        let workload = self.workload;
        let mut mine: Vec<u32> = workload.warm.iter().map(|warm| warm.job).collect();
        mine.sort_unstable();
        mine.dedup();
        mine.retain(|job| self.jobs.binary_search(job).is_ok());
        self.jobs.retain(|job| mine.binary_search(job).is_err());
        let mut placed = vec![false; mine.len()];
        let mut outside: Vec<Warm> = Vec::new();
        for &Warm { job, start_ms } in &workload.warm {
            // Named twice, it is put on its nodes once.
            let Some(done) = mine.binary_search(&job).ok().and_then(|at| placed.get_mut(at)) else { continue };
            if std::mem::replace(done, true) || !self.admit(job) {
                continue;
            }
            if self.cells.is_none() {
                self.put(job, start_ms)?;
            } else if let Some(result) = self.found_in_cells(job) {
                self.start_in_cells(job, result)?;
                self.schedule.first_start_ms[job as usize] = start_ms;
                self.relaxes(job);
            } else {
                outside.push(Warm { job, start_ms });
            }
        }
        for Warm { job, start_ms } in outside {
            self.put(job, start_ms)?;
        }
        Ok(())
    }

    /// Puts a job that runs at time 0 on its nodes by the placement rule; if it does not fit it waits.
    fn put(&mut self, job: u32, start_ms: i64) -> Result<()> {
        if let Some(power) = &mut self.power {
            power.waits(self.workload.shape_of(job as usize).amount());
        }
        let mut pieces = std::mem::take(&mut self.scratch);
        if self.fits_warm(job, &mut pieces) {
            self.apply(Action::Start { job, pieces: &pieces })?;
            self.schedule.first_start_ms[job as usize] = start_ms;
            // Preempted, it waits again, and may spread from the same moment on.
            self.relaxes(job);
        } else {
            self.wait(job);
            self.next_decision = Some(0);
            self.events.push(Reverse((0, Event::Decide)));
        }
        self.scratch = pieces;
        Ok(())
    }

    /// Whether a job that runs at time 0 fits, and where: under quotas in cohorts, with the first flavor of its queue with which it does.
    fn fits_warm(&mut self, job: u32, pieces: &mut Vec<Piece>) -> bool {
        let vc = self.workload.vc[job as usize];
        let Some(cohorts) = self.admission.as_ref().map(|admission| admission.cohorts) else {
            return self.over_limit(job).is_none()
                && self.fits_quota(job)
                && self.queue_allows(job)
                && self.placer.place(&self.nodes, self.ask(job), pieces);
        };
        let flavor = cohorts.rules()[usize::from(vc)].flavors.iter().copied().find(|flavor| {
            self.has_flavor(job, *flavor)
                && self
                    .admission
                    .as_ref()
                    .is_some_and(|admission| cohorts.allows(&admission.usage, vc, *flavor, self.shape(job).amount()))
                && self.placer.place(&self.nodes, self.ask_of(job, *flavor), pieces)
        });
        if let (Some(flavor), Some(admission)) = (flavor, &mut self.admission) {
            admission.choose(job, flavor);
        }
        flavor.is_some()
    }
}
