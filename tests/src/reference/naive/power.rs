//! Sleep of the naive reference: the contract's section on power, everything found anew at every instant.
//!
//! What was busy and pending is a list of moments, from which a slot is summed when it ends; orders are a list, from
//! which rates and wakes of a day are counted.
//!
//! Worked number: busy nodes 0 from 0 s, 1 from 20 s, 0 from 70 s: a slot of 100 s has the peak 1, the last 0 and the mean 0.5.

use tracecast_planner::sim::power::{Controller, PowerOrder, Rules, State, Supervisor};
use tracecast_planner::sim::{Cluster, Policy, Scan, Workload};
use tracecast_predictors::demand::{Series, Slot, Unit};

use super::{Fate, Phase, Place, Pool, replay_with};

/// Outcome of the nodes of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Powered {
    /// Changes of each node.
    pub nodes: Vec<Vec<(i64, State)>>,
    /// Observed slots.
    pub slots: Vec<Slot>,
    /// Orders given.
    pub orders: Vec<PowerOrder>,
}

/// Replays with nodes that sleep; one fate a job, one account a pool.
pub fn replay_powered(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    supervisor: Supervisor,
) -> (Vec<Fate>, Vec<Powered>) {
    let mut powered = Vec::new();
    let fates = replay_with(workload, cluster, policy, Some(supervisor), &mut powered);
    (fates, powered)
}

#[derive(Debug, Clone)]
struct Node {
    state: State,
    since: i64,
    until: i64,
    idle_since: i64,
    busy: bool,
    boots: u32,
    wakes: Vec<i64>,
    changes: Vec<(i64, State)>,
}

pub(super) struct Power {
    rules: Rules,
    controller: Option<Controller>,
    nodes: Vec<Node>,
    /// (moment, busy nodes, thousandths of GPUs pending) from then on.
    moments: Vec<(i64, usize, u64)>,
    members_before: usize,
    slots: Vec<Slot>,
    orders: Vec<PowerOrder>,
    next_slot: Option<i64>,
    target: Option<usize>,
    carry: Option<i64>,
    /// (when, whether a wake).
    ordered: Vec<(i64, bool)>,
    next_minute: Option<i64>,
    next_day: Option<i64>,
    progress: i64,
}

impl Power {
    pub(super) fn new(rules: Rules, controller: Option<Controller>, nodes: usize) -> Self {
        let node = Node {
            state: State::Powered,
            since: -1_000_000_000_000,
            until: 0,
            idle_since: 0,
            busy: false,
            boots: 0,
            wakes: Vec::new(),
            changes: Vec::new(),
        };
        Self {
            rules,
            slots: controller.as_ref().map(|controller| controller.history.clone()).unwrap_or_default(),
            controller,
            nodes: vec![node; nodes],
            moments: Vec::new(),
            members_before: 0,
            orders: Vec::new(),
            next_slot: Some(0),
            target: None,
            carry: None,
            ordered: Vec::new(),
            next_minute: None,
            next_day: None,
            progress: 0,
        }
    }

    pub(super) fn finish(self) -> Powered {
        Powered {
            nodes: self.nodes.into_iter().map(|node| node.changes).collect(),
            slots: self.slots,
            orders: self.orders,
        }
    }

    fn enter(&mut self, node: usize, state: State, now: i64) {
        let node = &mut self.nodes[node];
        node.state = state;
        node.since = now;
        node.changes.push((now, state));
        if state == State::Powered {
            node.idle_since = now;
        }
    }

    fn wakes_of_day(&self, node: usize, now: i64) -> usize {
        let day = now.div_euclid(86_400_000);
        self.nodes[node].wakes.iter().filter(|at| at.div_euclid(86_400_000) == day).count()
    }
}

impl Pool<'_> {
    pub(super) fn is_powered(&self, node: usize) -> bool {
        self.power.as_ref().is_none_or(|power| power.nodes[node].state == State::Powered)
    }

    fn is_member(&self, node: usize) -> bool {
        self.nodes[node].place == Place::In && self.nodes[node].failures == 0
    }

    fn state(&self, node: usize) -> State {
        self.power.as_ref().unwrap().nodes[node].state
    }

    fn members(&self, states: &[State]) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.is_member(*node) && states.contains(&self.state(*node))).collect()
    }

    fn has_job(&self, node: usize) -> bool {
        let number = self.first + node as u32;
        self.in_phase(Phase::Running).iter().any(|job| self.jobs[*job].pieces.iter().any(|piece| piece.node == number))
    }

    /// Moments at which power alone makes something happen, not before the instant at hand.
    pub(super) fn power_instants(&self, last: i64) -> Vec<i64> {
        let Some(power) = &self.power else { return Vec::new() };
        let rules = &power.rules;
        let mut at = Vec::new();
        for (number, node) in power.nodes.iter().enumerate() {
            match node.state {
                State::Booting | State::ShuttingDown => at.push(node.until),
                State::Powered if !self.has_job(number) => {
                    at.extend(rules.idle_ms.map(|idle| (node.idle_since + idle).max(node.since + rules.min_on_ms)));
                }
                State::Asleep => at.push(node.since + rules.min_off_ms),
                _ => {}
            }
        }
        // Of a boot or shutdown that takes no time the end is still to come.
        let settles = |number: &Node| matches!(number.state, State::Booting | State::ShuttingDown);
        let now = power.nodes.iter().any(|node| settles(node) && node.until == last);
        let mut at: Vec<i64> = at
            .into_iter()
            .chain(power.next_slot)
            .chain(power.next_minute)
            .chain(power.next_day)
            .filter(|at| *at > last)
            .collect();
        at.extend(now.then_some(last));
        at
    }

    /// Before anything happens at this instant.
    pub(super) fn power_begin(&mut self) {
        let now = self.now;
        let members = (0..self.nodes.len()).filter(|node| self.is_member(*node)).count();
        self.power_service();
        let Some(power) = &mut self.power else { return };
        if power.moments.last().is_none_or(|(at, ..)| *at < now) {
            power.members_before = members;
        }
    }

    /// Nodes that have failed, left or come back.
    pub(super) fn power_service(&mut self) {
        if self.power.is_none() {
            return;
        }
        for node in 0..self.nodes.len() {
            let there = self.nodes[node].place != Place::Away && self.nodes[node].failures == 0;
            let now = self.now;
            let busy = self.has_job(node);
            let power = self.power.as_mut().unwrap();
            if !there && power.nodes[node].state != State::Out {
                power.enter(node, State::Out, now);
            } else if there && power.nodes[node].state == State::Out {
                power.enter(node, State::Powered, now);
            }
            if power.nodes[node].busy && !busy {
                power.nodes[node].idle_since = now;
            }
            power.nodes[node].busy = busy;
        }
    }

    /// Boots and shutdowns that end; whether a boot succeeded.
    pub(super) fn power_settle(&mut self) -> bool {
        self.power_service();
        let (now, first) = (self.now, self.first);
        let Some(power) = &mut self.power else { return false };
        let mut booted = false;
        for node in 0..power.nodes.len() {
            while power.nodes[node].state == State::Booting && power.nodes[node].until == now {
                if power.rules.boot_fails(first + node as u32, power.nodes[node].boots - 1) {
                    power.nodes[node].boots += 1;
                    power.enter(node, State::Booting, now);
                    power.nodes[node].until = now + power.rules.boot_ms;
                } else {
                    power.enter(node, State::Powered, now);
                    booted = true;
                }
            }
            if power.nodes[node].state == State::ShuttingDown && power.nodes[node].until == now {
                power.enter(node, State::Asleep, now);
            }
        }
        booted
    }

    pub(super) fn power_progress(&mut self, happened: bool) {
        let now = self.now;
        if let Some(power) = &mut self.power
            && happened
        {
            power.progress = now;
        }
    }

    /// Records the state that holds from now on.
    pub(super) fn power_end(&mut self) {
        self.power_service();
        let busy = (0..self.nodes.len()).filter(|node| self.has_job(*node)).count();
        let pending = self.in_phase(Phase::Waiting).iter().map(|job| self.shape(*job).amount()).sum();
        let now = self.now;
        let Some(power) = &mut self.power else { return };
        power.moments.push((now, busy, pending));
    }

    fn slot_that_ends(&self, from: i64, to: i64) -> Slot {
        let power = self.power.as_ref().unwrap();
        let (mut peak, mut last, mut sum, mut pending) = (0, 0, 0, 0);
        for (at, (since, busy, waits)) in power.moments.iter().enumerate() {
            let until = power.moments.get(at + 1).map_or(to, |next| next.0).min(to);
            let held = until - (*since).max(from);
            if held > 0 {
                peak = peak.max(*busy);
                last = *busy;
                sum += *busy as i64 * held;
                pending = pending.max(*waits);
            }
        }
        let largest = self.sizes.iter().max().copied().unwrap_or(0).max(1);
        Slot {
            peak: peak as f64,
            last: last as f64,
            mean: sum as f64 / (to - from) as f64,
            pending: pending as f64 / (1000.0 * largest as f64),
            total: power.members_before as f64,
            counted: true,
        }
    }

    /// Whether the rate allows one more order now.
    fn order(&mut self, wake: bool) -> bool {
        let now = self.now;
        let power = self.power.as_mut().unwrap();
        let most = if wake { power.rules.wakes_per_minute } else { power.rules.sleeps_per_minute };
        let minute = |at: i64| at.div_euclid(60_000);
        let so_far = power.ordered.iter().filter(|(at, other)| *other == wake && minute(*at) == minute(now)).count();
        if most > 0 && so_far >= most as usize {
            power.next_minute = Some((minute(now) + 1) * 60_000);
            return false;
        }
        power.ordered.push((now, wake));
        true
    }

    fn wake(&mut self, node: usize) {
        let now = self.now;
        let power = self.power.as_mut().unwrap();
        power.enter(node, State::Booting, now);
        let boot = power.rules.boot_ms;
        let node = &mut power.nodes[node];
        (node.until, node.boots) = (now + boot, node.boots + 1);
        node.wakes.push(now);
    }

    fn sleep(&mut self, node: usize) {
        let now = self.now;
        let power = self.power.as_mut().unwrap();
        power.enter(node, State::ShuttingDown, now);
        power.nodes[node].until = now + power.rules.shutdown_ms;
    }

    fn asleep_long_enough(&self) -> Vec<usize> {
        let power = self.power.as_ref().unwrap();
        let mut asleep = self.members(&[State::Asleep]);
        asleep.retain(|node| self.now - power.nodes[*node].since >= power.rules.min_off_ms);
        asleep
    }

    fn idle(&self) -> Vec<usize> {
        let mut idle = self.members(&[State::Powered]);
        idle.retain(|node| !self.has_job(*node));
        idle
    }

    fn on(&self) -> usize {
        self.members(&[State::Powered, State::Booting]).len()
    }

    /// Whether a node may sleep, leaving aside how often it was woken.
    fn is_rested(&self, node: usize, kept: &[usize]) -> bool {
        let power = self.power.as_ref().unwrap();
        self.idle().contains(&node)
            && !kept.contains(&node)
            && self.now - power.nodes[node].since >= power.rules.min_on_ms
    }

    fn is_worn(&self, node: usize) -> bool {
        let power = self.power.as_ref().unwrap();
        let limit = power.rules.wakes_per_node_day as usize;
        limit > 0 && power.wakes_of_day(node, self.now) >= limit
    }

    fn leaves_enough(&self) -> bool {
        let rules = &self.power.as_ref().unwrap().rules;
        self.on() > rules.canaries as usize && self.idle().len() > rules.keep_idle as usize
    }

    pub(super) fn power_step(&mut self, changes_to_come: bool) {
        if self.power.is_none() {
            return;
        }
        self.power_service();
        let now = self.now;
        let rules = self.power.as_ref().unwrap().rules.clone();
        // Whatever began a minute or day has come.
        let power = self.power.as_mut().unwrap();
        power.next_minute = power.next_minute.filter(|at| *at > now);
        power.next_day = power.next_day.filter(|at| *at > now);
        // 1. Asked.
        let begins = power.next_slot == Some(now);
        if begins {
            power.next_slot = None;
            if now > 0 {
                let slot = self.slot_that_ends(now - rules.slot_ms, now);
                self.power.as_mut().unwrap().slots.push(slot);
            }
            self.asked();
        }
        // 2. Demand.
        let kept = if rules.wake_on_demand { self.demand() } else { Vec::new() };
        // 3. Target.
        let power = self.power.as_mut().unwrap();
        if power.carry == Some(now) {
            power.carry = None;
            let target = power.target.unwrap();
            let mut cut = false;
            for node in self.asleep_long_enough() {
                if self.on() < target && !cut {
                    cut = !self.order(true);
                    if !cut {
                        self.wake(node);
                    }
                }
            }
            for node in self.idle().into_iter().rev() {
                let more = self.on() > target && self.leaves_enough();
                if more && !cut && self.is_rested(node, &kept) && !self.is_worn(node) {
                    cut = !self.order(false);
                    if !cut {
                        self.sleep(node);
                    }
                }
            }
            if cut {
                let power = self.power.as_mut().unwrap();
                power.carry = power.next_minute;
            }
        }
        // 4. Timeout.
        if let Some(timeout) = rules.idle_ms {
            let mut cut = false;
            for node in self.idle().into_iter().rev() {
                let idle = now - self.power.as_ref().unwrap().nodes[node].idle_since;
                if idle < timeout || !self.is_rested(node, &kept) {
                    continue;
                }
                if self.is_worn(node) {
                    let power = self.power.as_mut().unwrap();
                    power.next_day = Some((now.div_euclid(86_400_000) + 1) * 86_400_000);
                    continue;
                }
                let floor = self.power.as_ref().unwrap().target.unwrap_or(0);
                if self.on() > floor && self.leaves_enough() && !cut {
                    cut = !self.order(false);
                    if !cut {
                        self.sleep(node);
                    }
                }
            }
        }
        if begins {
            let waits = !self.in_phase(Phase::Waiting).is_empty();
            let runs = !self.in_phase(Phase::Running).is_empty();
            let comes = !self.in_phase(Phase::Future).is_empty();
            let power = self.power.as_mut().unwrap();
            let patient = waits && now - power.progress < rules.patience_ms;
            if now < rules.until_ms || comes || runs || changes_to_come || patient {
                power.next_slot = Some(now + rules.slot_ms);
            }
        }
    }

    fn asked(&mut self) {
        let on = self.on();
        let members = (0..self.nodes.len()).filter(|node| self.is_member(*node)).count();
        let (now, origin) = (self.now, self.workload.origin_ms);
        let power = self.power.as_mut().unwrap();
        if power.slots.is_empty() {
            return;
        }
        let Some(controller) = &mut power.controller else { return };
        let series = Series {
            name: String::new(),
            unit: Unit::Nodes,
            counts_pending: true,
            start_ms: origin - power.rules.slot_ms * controller.history.len() as i64,
            slot_ms: power.rules.slot_ms,
            zone: power.rules.zone.clone(),
            slots: power.slots.clone(),
        };
        let asked = controller.policy.target(series.before(series.slots.len()), on as f64);
        power.orders.push(PowerOrder { at_ms: now, asked, on: on as u32 });
        power.target = Some(if asked.is_nan() { members } else { (asked.ceil().max(0.0) as usize).min(members) });
        power.carry = Some(now);
    }

    fn demand(&mut self) -> Vec<usize> {
        let strict = self.policy.scan == Scan::Strict;
        let mut view = self.view();
        for node in self.members(&[State::Booting]) {
            view[node].1 = true;
        }
        let mut asleep = self.asleep_long_enough();
        let mut others = self.in_phase(Phase::Running);
        let mut queue = self.queue();
        if let (Scan::Conservative | Scan::Slurm, Some(depth)) = (self.policy.scan, self.policy.depth) {
            queue.truncate(depth as usize);
        }
        let (mut kept, mut woken, mut blocked) = (Vec::new(), Vec::new(), Vec::new());
        for job in queue {
            if blocked.contains(&self.vc(job)) {
                continue;
            }
            if !self.quota_allows(job, &others) {
                if strict {
                    blocked.push(self.vc(job));
                }
                continue;
            }
            let relaxed = self.is_relaxed(job);
            let with = |nodes: &[usize]| {
                let mut view = view.clone();
                nodes.iter().for_each(|node| view[*node].1 = true);
                view
            };
            let fits = |nodes: &[usize]| self.place(&with(nodes), job, relaxed).is_some();
            let mut added: Vec<usize> = Vec::new();
            if !fits(&[]) {
                let Some(count) = (1..=asleep.len()).find(|count| fits(&asleep[..*count])) else {
                    if strict {
                        break;
                    }
                    continue;
                };
                added = asleep[..count].to_vec();
                for node in &asleep[..count] {
                    let fewer: Vec<usize> = added.iter().copied().filter(|other| other != node).collect();
                    if fits(&fewer) {
                        added = fewer;
                    }
                }
            }
            view = with(&added);
            let pieces = self.place(&view, job, relaxed).unwrap();
            self.take(&mut view, &pieces);
            kept.extend(pieces.iter().map(|piece| (piece.node - self.first) as usize));
            others.push(job);
            asleep.retain(|node| !added.contains(node));
            woken.extend(added);
        }
        for node in woken {
            if self.order(true) {
                self.wake(node);
            }
        }
        kept
    }
}
