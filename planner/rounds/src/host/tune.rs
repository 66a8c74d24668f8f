//! `synergy`: who needs more processors or memory than its GPUs' share lies with those who need less, and nobody is slower than by shares.
//!
//! After the mechanism that Synergy (Mohan et al., OSDI 2022) calls TUNE. Each job has three demands for each GPU: its **best** ([`HostFleet::best`]), its **floor** ([`HostFleet::floor`]), which makes it as fast as its GPUs' share of a node would, and its **base**, that share itself, or its needs. The contract, for the jobs of a round on one type:
//!
//! 1. Jobs come in order: the largest gang first, of equals that with the greatest base, then best demand of processors, then of memory, then in order of submission.
//! 2. A gang of a whole node or more takes whole nodes, as in [`node`](mod@crate::node), and holds its best demand, which is there at most the share.
//! 3. A smaller gang takes, of the nodes on which it and all that come after it still fit by their bases, the one with the fewest free GPUs that has room for its best demand. If none has, it takes the one with the fewest free GPUs that has room for its floor.
//! 4. If none has, it takes the node with the fewest free GPUs, and jobs there fall back to their floors, one by one: those that hold more than their floor of what is lacking first, of these the one with most processors a GPU, then most memory. They do so until its floor fits.
//! 5. In the end what is free of a node goes to its jobs that hold less than their best, in order of submission.
//!
//! Bases fit, as all were let into the round by them, and no floor is above its base, so 4 always ends. Nobody ends below its floor, so nobody is slower than by shares.
//!
//! O(jobs · nodes + jobs²), as a job falls back at most once, and all jobs are looked at for that; up to O(jobs² · nodes²) where sizes of gangs do not divide each other or jobs have needs, as the jobs left are put onto nodes for each node that is tried. Worked example: two nodes of 2 GPUs and 6 processors; a and b want 5 processors, c and d 1. By shares of 3 the first two have 0.6 of their speed. Here a takes node 1, b node 2, and c and d what is left beside them: all are at full speed.

use super::{HostFleet, HostUse, Seated};
use crate::node::{HostNeeds, OpenNode, Parts, nodes, put};
use crate::room::GangRoom;

/// Nodes of a job, and the processors and memory of each of its GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Lying {
    /// Nodes and GPUs.
    pub parts: Parts,
    /// Processors and memory for each GPU.
    pub needs: HostNeeds,
}

/// Bounds of what a job may hold for each GPU.
struct Wish {
    gpus: u32,
    base: HostNeeds,
    floor: HostNeeds,
    best: HostNeeds,
}

/// A round on a type.
struct Round<'a> {
    wishes: &'a [Wish],
    per_node: u32,
    /// Free of what jobs hold, and of their bases.
    free: Vec<OpenNode>,
    kept: Vec<OpenNode>,
    lying: Vec<Lying>,
}

/// Places each of the jobs on a type, and tunes what it holds.
pub fn tuned(fleet: &HostFleet, room: &GangRoom, at: usize, jobs: &[Seated]) -> Vec<Lying> {
    let (share, per_node) = (room.share(at), room.gpus_of_node(at));
    let wish = |job: &Seated| {
        let (best, floor) = (fleet.best(job.host, job.gpus, at, room), fleet.floor(job.host, share));
        let base = if let HostUse::Exactly(needs) = job.host { needs } else { share };
        Wish { gpus: job.gpus, base, floor: if best.within(share) { best } else { floor }, best }
    };
    let wishes: Vec<Wish> = jobs.iter().map(wish).collect();
    let mut order: Vec<(usize, &Wish)> = wishes.iter().enumerate().collect();
    order.sort_by(|(at, a), (other, b)| {
        let all = |wish: &Wish| {
            let best = wish.best.times(f64::from(wish.gpus));
            [wish.base.cpus, wish.base.memory_gb, best.cpus, best.memory_gb]
        };
        let more = all(b).into_iter().zip(all(a)).map(|(b, a)| b.total_cmp(&a));
        b.gpus.cmp(&a.gpus).then(more.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)).then(at.cmp(other))
    });
    let order: Vec<usize> = order.into_iter().map(|(at, _)| at).collect();
    let all = nodes(room.gpus.get(at).copied().unwrap_or(0), per_node, share);
    let mut round = Round {
        per_node,
        free: all.clone(),
        kept: all,
        lying: wishes.iter().map(|wish| Lying { parts: Parts::new(), needs: wish.floor }).collect(),
        wishes: &wishes,
    };
    let simple = simple(&order, jobs, per_node);
    for (place, job) in order.iter().enumerate() {
        let left = order.get(place + 1..).filter(|_| !simple).unwrap_or_default();
        round.seat(*job, left);
    }
    for job in 0..wishes.len() {
        round.give(fleet, jobs, job);
    }
    round.lying
}

/// Whether gangs fit wherever those before them lie: sizes divide each other and nodes, and GPUs alone decide.
fn simple(order: &[usize], jobs: &[Seated], per_node: u32) -> bool {
    let mut size = per_node.max(1);
    order.iter().filter_map(|at| jobs.get(*at)).all(|job| {
        if job.gpus >= per_node {
            return job.gpus.is_multiple_of(per_node.max(1)) && !matches!(job.host, HostUse::Exactly(_));
        }
        let divides = size.is_multiple_of(job.gpus.max(1));
        size = job.gpus.max(1);
        divides && !matches!(job.host, HostUse::Exactly(_))
    })
}

impl Round<'_> {
    /// Puts a job onto a node, so that those `left` still fit.
    fn seat(&mut self, job: usize, left: &[usize]) {
        let wishes = self.wishes;
        let Some(wish) = wishes.get(job) else { return };
        if wish.gpus >= self.per_node {
            if let Some(parts) = put(&mut self.kept, self.per_node, wish.gpus, wish.base) {
                for (node, gpus) in &parts {
                    if let Some(node) = self.free.get_mut(*node) {
                        node.take(*gpus, wish.best);
                    }
                }
                self.lie(job, parts, wish.best);
            }
            return;
        }
        let mut order: Vec<usize> = (0..self.kept.len()).collect();
        order.retain(|node| self.kept.get(*node).is_some_and(|node| node.has(wish.gpus, wish.base)));
        order.sort_by_key(|node| self.kept.get(*node).map_or(0, |node| node.gpus));
        let room_for = |needs: HostNeeds| {
            let has = |node: &&usize| self.free.get(**node).is_some_and(|node| node.has(wish.gpus, needs));
            order.iter().filter(has).find(|node| self.leaves_room(job, **node, left)).copied()
        };
        let result = room_for(wish.best).map(|node| (node, wish.best));
        let result = result.or_else(|| room_for(wish.floor).map(|node| (node, wish.floor)));
        let any = || order.iter().find(|node| self.leaves_room(job, **node, left)).copied();
        let Some((node, needs)) = result.or_else(|| any().map(|node| (node, wish.floor))) else { return };
        self.take_back(node, needs.times(f64::from(wish.gpus)));
        if let Some((free, kept)) = self.free.get_mut(node).zip(self.kept.get_mut(node)) {
            free.take(wish.gpus, needs);
            kept.take(wish.gpus, wish.base);
        }
        self.lie(job, vec![(node, wish.gpus)], needs);
    }

    fn lie(&mut self, job: usize, parts: Parts, needs: HostNeeds) {
        if let Some(slot) = self.lying.get_mut(job) {
            *slot = Lying { parts, needs };
        }
    }

    /// Whether the jobs that are left fit by their bases if one lies on a node.
    fn leaves_room(&self, job: usize, node: usize, left: &[usize]) -> bool {
        let Some(wish) = self.wishes.get(job).filter(|_| !left.is_empty()) else { return true };
        let mut kept = self.kept.clone();
        if let Some(node) = kept.get_mut(node) {
            node.take(wish.gpus, wish.base);
        }
        let left = left.iter().filter_map(|at| self.wishes.get(*at));
        left.into_iter().all(|wish| put(&mut kept, self.per_node, wish.gpus, wish.base).is_some())
    }

    /// Jobs on a node fall back to their floors until so much is free.
    fn take_back(&mut self, node: usize, needs: HostNeeds) {
        loop {
            let Some(free) = self.free.get(node).map(|node| node.host) else { return };
            if needs.within(free) {
                return;
            }
            let (cpus, memory) = (needs.cpus > free.cpus, needs.memory_gb > free.memory_gb);
            let mut most: Option<(bool, f64, f64, usize)> = None;
            for (job, (lying, wish)) in self.lying.iter().zip(self.wishes).enumerate() {
                if lying.parts != [(node, wish.gpus)] || lying.needs == wish.floor {
                    continue;
                }
                let helps = (cpus && lying.needs.cpus > wish.floor.cpus)
                    || (memory && lying.needs.memory_gb > wish.floor.memory_gb);
                let key = (helps, lying.needs.cpus, lying.needs.memory_gb, job);
                if most.is_none_or(|most| (key.0, key.1, key.2) > (most.0, most.1, most.2)) {
                    most = Some(key);
                }
            }
            let Some((.., job)) = most else { return };
            let floor = self.wishes.get(job).map_or(HostNeeds::default(), |wish| wish.floor);
            self.change(job, node, floor);
        }
    }

    /// Lets a job on one node hold something else.
    fn change(&mut self, job: usize, node: usize, needs: HostNeeds) {
        let Some((lying, wish)) = self.lying.get_mut(job).zip(self.wishes.get(job)) else { return };
        if let Some(free) = self.free.get_mut(node) {
            let more = needs.plus(lying.needs.times(-1.0));
            free.host = free.host.plus(more.times(-f64::from(wish.gpus)));
        }
        lying.needs = needs;
    }

    /// Gives a job what is free of its node, if that makes it faster.
    fn give(&mut self, fleet: &HostFleet, jobs: &[Seated], job: usize) {
        let (Some(wish), Some(lying), Some(of)) = (self.wishes.get(job), self.lying.get(job), jobs.get(job)) else {
            return;
        };
        let &[(node, gpus)] = lying.parts.as_slice() else { return };
        let (Some(table), Some(free)) = (fleet.table(of.host), self.free.get(node)) else { return };
        if gpus >= self.per_node || lying.needs == wish.best {
            return;
        }
        let each = lying.needs.plus(free.host.max(HostNeeds::default()).times(1.0 / f64::from(gpus)));
        let more = table.least(each.min(wish.best.max(lying.needs)));
        if table.speed(more) > table.speed(lying.needs) {
            self.change(job, node, more);
        }
    }
}
