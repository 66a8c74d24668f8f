//! Nodes that sleep and wake while a pool is replayed: the contract's section *Power*, step by step.
//!
//! Only called where a supervisor is given. O(nodes) a step, and where jobs wait and nodes sleep a walk through the queue.
//!
//! Worked example: one node, timeout 100 s, shutdown 10 s, boot 20 s. A job ends at 50 s and the next comes at 300 s:
//! the node sleeps from 160 s on, boots at 300 s, and the job starts at 320 s.

mod hook;

use tracecast_analytics::facts::demand::{Series, Slot, Unit};
use tracecast_analytics::time::{DAY_MS, MINUTE_MS};

use super::Run;
use super::event::Event;
use crate::cluster::{Cluster, Group};
use crate::nodes::{Nodes, WHOLE};
use crate::place::Ask;
use crate::policy::Scan;
use crate::power::{Change, Controller, PoolRecord, PowerOrder, Record, Rules, State, Timeout};
use crate::workload::Shape;

/// A node, as far as power goes.
#[derive(Debug, Clone, Copy)]
struct Node {
    state: State,
    /// Since when.
    since_ms: i64,
    /// When a boot or shutdown ends.
    until_ms: i64,
    /// Since when no job touches it; meaningless while one does.
    idle_ms: i64,
    /// Boots begun so far.
    boots: u32,
    /// The day of its last wake, and wakes ordered on it.
    day: i64,
    wakes: u32,
}

/// Power of a pool.
pub(super) struct Power<'a> {
    rules: &'a Rules,
    /// How idle nodes of this pool time out.
    timeout: Timeout,
    controller: Option<&'a mut Controller>,
    record: &'a mut Record,
    nodes: Vec<Node>,
    /// Nodes that some job touches.
    busy: u32,
    /// Thousandths of GPUs asked for by waiting jobs.
    pending: u64,
    /// Segments that run.
    running: usize,
    /// Sizes, quotas, failures and repairs to come.
    changes: usize,
    // The slot under way.
    at_ms: i64,
    last_busy: u32,
    peak_busy: u32,
    busy_ms: i128,
    peak_pending: u64,
    members: u32,
    seen: Series,
    history: usize,
    orders: Vec<PowerOrder>,
    /// Target in force, and when it is to be carried out (further).
    target: Option<u32>,
    carry_ms: Option<i64>,
    minute: i64,
    woken: u32,
    slept: u32,
    minute_step: Option<i64>,
    day_step: Option<i64>,
    /// Nodes that are asleep.
    asleep: usize,
    /// Whether a node may have been idle for its timeout; then every step looks at all of them.
    overdue: bool,
    /// Whether a slot begins at this instant.
    slot: bool,
    /// Whether something of power happened in this round.
    happened: bool,
    /// When a job last came, started or ended, or the cluster changed.
    progress_ms: i64,
}

impl<'a> Power<'a> {
    pub(super) fn new(
        rules: &'a Rules,
        controller: Option<&'a mut Controller>,
        record: &'a mut Record,
        cluster: &Cluster,
        pool: usize,
        origin_ms: i64,
    ) -> Self {
        let nodes = cluster.pools.get(pool).map_or(0, |pool| pool.groups.iter().map(Group::most_nodes).sum::<u32>());
        let mut vcs = cluster.vcs.iter().filter(|vc| usize::from(vc.pool) == pool);
        let name = match (vcs.next(), vcs.next()) {
            (Some(only), None) => only.name.clone(),
            _ => format!("pool {pool}"),
        };
        let history = controller.as_ref().map(|controller| controller.history.clone()).unwrap_or_default();
        let before_ms = rules.slot_ms.saturating_mul(i64::try_from(history.len()).unwrap_or(0));
        let node = Node {
            state: State::Powered,
            since_ms: i64::MIN / 4,
            until_ms: 0,
            idle_ms: 0,
            boots: 0,
            day: -1,
            wakes: 0,
        };
        Self {
            rules,
            timeout: rules.timeout_of(pool),
            controller,
            record,
            nodes: vec![node; nodes as usize],
            busy: 0,
            pending: 0,
            running: 0,
            changes: 0,
            at_ms: 0,
            last_busy: 0,
            peak_busy: 0,
            busy_ms: 0,
            peak_pending: 0,
            members: 0,
            history: history.len(),
            seen: Series {
                name,
                unit: Unit::Nodes,
                counts_pending: true,
                start_ms: origin_ms - before_ms,
                slot_ms: rules.slot_ms,
                zone: rules.zone.clone(),
                slots: history,
            },
            orders: Vec::new(),
            target: None,
            carry_ms: None,
            minute: i64::MIN,
            woken: 0,
            slept: 0,
            minute_step: None,
            day_step: None,
            asleep: 0,
            overdue: false,
            slot: false,
            happened: false,
            progress_ms: 0,
        }
    }

    /// A job waits.
    pub(super) fn waits(&mut self, amount: u64) {
        self.pending += amount;
    }

    /// A waiting job has started.
    pub(super) fn started(&mut self, amount: u64, now: i64) {
        self.pending = self.pending.saturating_sub(amount);
        self.running += 1;
        self.progress_ms = now;
    }

    /// A running job has stopped.
    pub(super) fn stopped(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// A node without a job gets one.
    pub(super) fn filled(&mut self) {
        self.busy += 1;
    }

    /// A change of the cluster is announced, or has come.
    pub(super) fn announce(&mut self, announced: bool) {
        self.changes = if announced { self.changes + 1 } else { self.changes.saturating_sub(1) };
    }

    /// Notes that something of the contract's list happened.
    pub(super) fn progressed(&mut self, now: i64) {
        self.progress_ms = now;
    }

    fn enter(&mut self, node: u32, number: u32, state: State, now: i64) {
        self.record.changes.push(Change { at_ms: now, node: number, state });
        if let Some(known) = self.nodes.get_mut(node as usize) {
            self.asleep -= usize::from(known.state == State::Asleep);
            self.asleep += usize::from(state == State::Asleep);
            known.state = state;
            known.since_ms = now;
        }
    }

    fn is(&self, node: u32, state: State) -> bool {
        self.nodes.get(node as usize).is_some_and(|known| known.state == state)
    }

    /// Powered or booting members.
    fn on(&self, run: &Run<'_>) -> u32 {
        let is_on = |node: &u32| {
            run.service.is_member(*node) && (self.is(*node, State::Powered) || self.is(*node, State::Booting))
        };
        (0..run.nodes.len()).filter(is_on).count() as u32
    }

    /// Members that are asleep and may be woken, lowest first.
    fn wakeable(&self, run: &Run<'_>) -> Vec<u32> {
        let may = |node: &u32| {
            run.service.is_member(*node)
                && self.nodes.get(*node as usize).is_some_and(|known| {
                    known.state == State::Asleep && run.now - known.since_ms >= self.rules.min_off_ms
                })
        };
        (0..run.nodes.len()).filter(may).collect()
    }

    /// Powered members without a job, highest first.
    fn idle(&self, run: &Run<'_>) -> Vec<u32> {
        let is_idle =
            |node: &u32| self.is(*node, State::Powered) && run.service.is_member(*node) && run.nodes.is_empty(*node);
        (0..run.nodes.len()).rev().filter(is_idle).collect()
    }

    /// Whether one more order fits into this minute; if not, the next has a step.
    fn within_rate(&mut self, run: &mut Run<'_>, wake: bool) -> bool {
        let minute = run.now.div_euclid(MINUTE_MS);
        if minute != self.minute {
            (self.minute, self.woken, self.slept) = (minute, 0, 0);
        }
        let (count, most) = if wake {
            (&mut self.woken, self.rules.wakes_per_minute)
        } else {
            (&mut self.slept, self.rules.sleeps_per_minute)
        };
        if most == 0 || *count < most {
            *count += 1;
            return true;
        }
        let next = (minute + 1) * MINUTE_MS;
        if self.minute_step != Some(next) {
            self.minute_step = Some(next);
            run.events.push(std::cmp::Reverse((next, Event::Minute)));
        }
        false
    }

    fn wake(&mut self, run: &mut Run<'_>, node: u32) {
        let day = run.now.div_euclid(DAY_MS);
        if let Some(known) = self.nodes.get_mut(node as usize) {
            if known.day != day {
                (known.day, known.wakes) = (day, 0);
            }
            known.wakes += 1;
        }
        self.boot(run, node);
    }

    fn boot(&mut self, run: &mut Run<'_>, node: u32) {
        let until_ms = run.now.saturating_add(self.rules.boot_ms);
        self.enter(node, run.nodes.number(node), State::Booting, run.now);
        if let Some(known) = self.nodes.get_mut(node as usize) {
            known.until_ms = until_ms;
            known.boots += 1;
        }
        run.events.push(std::cmp::Reverse((until_ms, Event::Settled { node })));
    }

    fn sleep(&mut self, run: &mut Run<'_>, node: u32) {
        let until_ms = run.now.saturating_add(self.rules.shutdown_ms);
        self.enter(node, run.nodes.number(node), State::ShuttingDown, run.now);
        if let Some(known) = self.nodes.get_mut(node as usize) {
            known.until_ms = until_ms;
        }
        run.service.set_powered(&mut run.nodes, node, false);
        run.reservation = None;
        run.events.push(std::cmp::Reverse((until_ms, Event::Settled { node })));
    }

    /// A node is powered, and without a job.
    fn powered(&mut self, run: &mut Run<'_>, node: u32) {
        self.enter(node, run.nodes.number(node), State::Powered, run.now);
        run.service.set_powered(&mut run.nodes, node, true);
        run.reservation = None;
        self.rests(run, node);
    }

    /// Notes that no job touches a node any more.
    fn rests(&mut self, run: &mut Run<'_>, node: u32) {
        let now = run.now;
        let Some(known) = self.nodes.get_mut(node as usize) else { return };
        known.idle_ms = now;
        if let Some(idle) = self.timeout.idle_ms {
            let at = now.saturating_add(idle).max(known.since_ms.saturating_add(self.rules.min_on_ms));
            if at > now {
                run.events.push(std::cmp::Reverse((at, Event::Idle { node, since_ms: now })));
            } else {
                self.overdue = true;
            }
        }
    }

    /// Wakes what waiting jobs need; the nodes that are kept for them.
    fn demand(&mut self, run: &mut Run<'_>) -> Vec<bool> {
        let mut kept = vec![false; run.nodes.len() as usize];
        let mut asleep = self.wakeable(run);
        let mut view = run.nodes.clone();
        for node in 0..view.len() {
            if run.service.is_member(node) && self.is(node, State::Booting) {
                view.set_eligible(node, true);
            }
        }
        let mut used = run.used.clone();
        let strict = run.policy.scan == Scan::Strict;
        let mut blocked: Vec<u16> = Vec::new();
        let mut refused: Vec<(Shape, bool)> = Vec::new();
        let mut pieces = Vec::new();
        let mut wanted: Vec<u32> = Vec::new();
        let looked_at = run.policy.most_looked_at().map_or(usize::MAX, |jobs| jobs as usize);
        for job in run.waiting().into_iter().take(looked_at) {
            if asleep.is_empty() && view.eligible_free() == 0 && !run.shares {
                break;
            }
            let vc = run.workload.vc[job as usize];
            let amount = run.shape(job).amount();
            if blocked.contains(&vc) {
                continue;
            }
            if run.quota[usize::from(vc)].is_some_and(|quota| used[usize::from(vc)] + amount > quota) {
                if strict {
                    blocked.push(vc);
                }
                continue;
            }
            let ask = run.ask(job);
            // What is left only shrinks: who did not fit does not fit now.
            let same = |(shape, relaxed): &(Shape, bool)| *shape == ask.shape && *relaxed == ask.relaxed;
            if refused.iter().any(same) {
                continue;
            }
            if !run.placer.place(&view, ask, &mut pieces) {
                let added = added(run, &mut view, &asleep, ask);
                if added.is_empty() {
                    if strict {
                        break;
                    }
                    refused.push((ask.shape, ask.relaxed));
                    continue;
                }
                asleep.retain(|node| !added.contains(node));
                wanted.extend(added);
                run.placer.place(&view, ask, &mut pieces);
            }
            for piece in &pieces {
                // Just found free.
                let taken = view.take(piece);
                debug_assert!(taken.is_ok());
                if let Some(kept) = kept.get_mut(view.local(piece.node) as usize) {
                    *kept = true;
                }
            }
            used[usize::from(vc)] += amount;
        }
        for node in wanted {
            if self.within_rate(run, true) {
                self.wake(run, node);
            }
        }
        kept
    }

    /// Asks the controller.
    fn ask(&mut self, run: &Run<'_>) {
        let on = self.on(run);
        let Some(controller) = self.controller.as_mut() else { return };
        if self.seen.slots.is_empty() {
            return;
        }
        let asked = controller.policy.target(self.seen.before(self.seen.slots.len()), f64::from(on));
        let members = (0..run.nodes.len()).filter(|node| run.service.is_member(*node)).count() as u32;
        let target = if asked.is_nan() { members } else { asked.ceil().clamp(0.0, f64::from(members)) as u32 };
        self.orders.push(PowerOrder { at_ms: run.now, asked, on });
        self.target = Some(target);
        self.carry_ms = Some(run.now);
    }

    /// The power step of a round.
    fn step(&mut self, run: &mut Run<'_>) {
        let now = run.now;
        let slot = std::mem::take(&mut self.slot);
        if slot {
            self.ask(run);
        }
        let carries = self.carry_ms == Some(now);
        let acts = carries || self.overdue;
        let kept = if self.rules.wake_on_demand && run.queue.len() > 0 && (self.asleep > 0 || acts) {
            self.demand(run)
        } else {
            vec![false; self.nodes.len()]
        };
        let day = now.div_euclid(DAY_MS);
        let limit = self.rules.wakes_per_node_day;
        let rested = |power: &Self, node: &u32| {
            let known = power.nodes.get(*node as usize);
            known.is_some_and(|known| now - known.since_ms >= power.rules.min_on_ms)
                && kept.get(*node as usize) == Some(&false)
        };
        let worn = |power: &Self, node: &u32| {
            let known = power.nodes.get(*node as usize);
            limit > 0 && known.is_some_and(|known| known.day == day && known.wakes >= limit)
        };
        let mut on = if acts { self.on(run) } else { 0 };
        if let Some(target) = self.target.filter(|_| carries) {
            self.carry_ms = None;
            let mut cut = false;
            if on < target {
                for node in self.wakeable(run) {
                    if on >= target || cut {
                        break;
                    }
                    cut = !self.within_rate(run, true);
                    if !cut {
                        self.wake(run, node);
                        on += 1;
                    }
                }
            }
            let floor = target.max(self.rules.canaries);
            let mut idle = self.idle(run);
            let mut left = idle.len() as u32;
            idle.retain(|node| rested(self, node) && !worn(self, node));
            for node in idle {
                if on <= floor || left <= self.timeout.keep_idle || cut {
                    break;
                }
                cut = !self.within_rate(run, false);
                if !cut {
                    self.sleep(run, node);
                    on -= 1;
                    left -= 1;
                }
            }
            if cut {
                self.carry_ms = self.minute_step;
            }
        }
        if let Some(timeout) = self.timeout.idle_ms.filter(|_| self.overdue) {
            let floor = self.target.unwrap_or(0).max(self.rules.canaries);
            let mut idle = self.idle(run);
            let mut left = idle.len() as u32;
            idle.retain(|node| self.nodes.get(*node as usize).is_some_and(|known| now - known.idle_ms >= timeout));
            let mut overdue = idle.len();
            idle.retain(|node| rested(self, node));
            if idle.iter().any(|node| worn(self, node)) {
                let next = (day + 1) * DAY_MS;
                if self.day_step != Some(next) {
                    self.day_step = Some(next);
                    run.events.push(std::cmp::Reverse((next, Event::Day)));
                }
            }
            idle.retain(|node| !worn(self, node));
            for node in idle {
                if on <= floor || left <= self.timeout.keep_idle || !self.within_rate(run, false) {
                    break;
                }
                self.sleep(run, node);
                on -= 1;
                left -= 1;
                overdue -= 1;
            }
            self.overdue = overdue > 0;
        }
        if slot && self.goes_on(run) {
            run.events.push(std::cmp::Reverse((now.saturating_add(self.rules.slot_ms), Event::Slot)));
        }
    }

    /// Whether there will be another slot.
    fn goes_on(&self, run: &Run<'_>) -> bool {
        run.now < self.rules.until_ms
            || run.arrived < run.jobs.len()
            || self.changes > 0
            || self.running > 0
            || (run.queue.len() > 0 && run.now - self.progress_ms < self.rules.patience_ms)
    }

    /// Time passes: what holds now has held until `now`.
    fn advance(&mut self, run: &Run<'_>, now: i64) {
        let passed = now - self.at_ms;
        if passed <= 0 {
            return;
        }
        self.at_ms = now;
        self.last_busy = self.busy;
        self.peak_busy = self.peak_busy.max(self.busy);
        self.busy_ms += i128::from(self.busy) * i128::from(passed);
        self.peak_pending = self.peak_pending.max(self.pending);
        if now % self.rules.slot_ms == 0 {
            self.members = (0..run.nodes.len()).filter(|node| run.service.is_member(*node)).count() as u32;
        }
    }

    /// A slot has ended.
    fn close(&mut self, largest: u32) {
        self.seen.slots.push(Slot {
            peak: f64::from(self.peak_busy),
            last: f64::from(self.last_busy),
            mean: self.busy_ms as f64 / self.rules.slot_ms as f64,
            pending: self.peak_pending as f64 / (f64::from(WHOLE) * f64::from(largest.max(1))),
            total: f64::from(self.members),
            counted: true,
        });
        (self.peak_busy, self.busy_ms, self.peak_pending) = (0, 0, 0);
    }

    /// Hands over what was seen.
    fn finish(self) {
        self.record.pools.push(PoolRecord { seen: self.seen, history: self.history, orders: self.orders });
    }
}

/// Returns which of `asleep` have to be powered as well so that `ask` fits; they are in `view`.
/// None if it does not fit with all of them.
fn added(run: &Run<'_>, view: &mut Nodes, asleep: &[u32], ask: Ask) -> Vec<u32> {
    for node in asleep {
        view.set_eligible(*node, true);
    }
    let never = !run.placer.fits(view, ask);
    for node in asleep {
        view.set_eligible(*node, false);
    }
    let mut added = Vec::new();
    for node in asleep {
        if never {
            break;
        }
        view.set_eligible(*node, true);
        added.push(*node);
        if run.placer.fits(view, ask) {
            for node in added.clone() {
                view.set_eligible(node, false);
                if run.placer.fits(view, ask) {
                    added.retain(|other| *other != node);
                } else {
                    view.set_eligible(node, true);
                }
            }
            return added;
        }
    }
    for node in added {
        view.set_eligible(node, false);
    }
    Vec::new()
}
