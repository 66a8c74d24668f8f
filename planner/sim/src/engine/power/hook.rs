//! Where the event loop meets power: time that passes, nodes that come, go and empty, events of power, the step at the end of a round.
//!
//! Every function does nothing where no supervisor is given. O(1), but for steps, slots and changes of the nodes in service, which cost O(nodes).
//!
//! Worked example: a node that fails while it boots is out; when it is repaired it is powered, and the end of its boot, still in the heap, is ignored.

use super::{Node, Power};
use crate::engine::event::Event;
use crate::engine::{Queue, Run};
use crate::power::State;

impl<'a> Run<'a> {
    /// Puts the pool under supervision, from time 0 on.
    pub(in crate::engine) fn supervise(&mut self, power: Power<'a>) {
        self.events.push(std::cmp::Reverse((0, Event::Slot)));
        self.power = Some(Box::new(power));
        self.with_power(|power, run| {
            for node in 0..run.nodes.len() {
                power.rests(run, node);
            }
        });
    }

    fn with_power(&mut self, act: impl FnOnce(&mut Power<'a>, &mut Self)) {
        if let Some(mut power) = self.power.take() {
            act(&mut power, self);
            self.power = Some(power);
        }
    }

    /// Waiting jobs in order.
    pub(super) fn waiting(&self) -> Vec<u32> {
        match &self.queue {
            Queue::Ranked(ranked, ranking) => ranked.waiting().into_iter().map(|rank| ranking.job(rank)).collect(),
            Queue::Loose(jobs) => {
                let mut keyed: Vec<_> = jobs.iter().map(|job| (self.key(*job), *job)).collect();
                keyed.sort_unstable();
                self.banded(keyed.into_iter().map(|(_, job)| job).collect()).0
            }
        }
    }

    /// Time passes until `now`.
    pub(in crate::engine) fn power_advance(&mut self, now: i64) {
        self.with_power(|power, run| power.advance(run, now));
    }

    /// Nodes have failed, left or come back.
    pub(in crate::engine) fn power_service(&mut self) {
        self.with_power(|power, run| {
            for node in 0..run.nodes.len() {
                match (run.service.is_there(node), power.is(node, State::Out)) {
                    (false, false) => {
                        power.enter(node, run.nodes.number(node), State::Out, run.now);
                        run.service.set_powered(&mut run.nodes, node, true);
                    }
                    (true, true) => power.powered(run, node),
                    _ => {}
                }
            }
        });
    }

    /// A job has left a node.
    pub(in crate::engine) fn power_left(&mut self, number: u32) {
        self.with_power(|power, run| {
            let node = run.nodes.local(number);
            if run.nodes.is_empty(node) {
                power.busy = power.busy.saturating_sub(1);
                power.rests(run, node);
            }
        });
    }

    /// Lets one event of power happen; whether a decision is due for it.
    pub(in crate::engine) fn power_event(&mut self, event: Event) -> bool {
        let mut due = false;
        self.with_power(|power, run| {
            let now = run.now;
            let known = |power: &Power<'_>, node: u32| power.nodes.get(node as usize).copied();
            match event {
                Event::Settled { node } => {
                    let Some(settled) = known(power, node).filter(|known| known.until_ms == now) else { return };
                    match settled.state {
                        State::ShuttingDown => {
                            power.enter(node, run.nodes.number(node), State::Asleep, now);
                            if power.rules.min_off_ms > 0 {
                                let at = now.saturating_add(power.rules.min_off_ms);
                                run.events.push(std::cmp::Reverse((at, Event::Rested { node, since_ms: now })));
                            }
                        }
                        State::Booting if power.rules.boot_fails(run.nodes.number(node), settled.boots - 1) => {
                            power.boot(run, node);
                        }
                        State::Booting => {
                            power.powered(run, node);
                            due = true;
                        }
                        _ => return,
                    }
                    power.happened = true;
                }
                Event::Slot => {
                    if now > 0 {
                        power.close(run.whole.largest(None));
                    }
                    power.slot = true;
                    power.happened = true;
                }
                Event::Idle { node, since_ms } => {
                    let idles = |known: &Node| known.state == State::Powered && known.idle_ms == since_ms;
                    let idle = known(power, node).is_some_and(|known| idles(&known)) && run.nodes.is_empty(node);
                    power.overdue |= idle;
                    power.happened |= idle;
                }
                Event::Rested { node, since_ms } => {
                    let rests = |known: Node| known.state == State::Asleep && known.since_ms == since_ms;
                    power.happened |= known(power, node).is_some_and(rests);
                }
                Event::Minute => {
                    let now_due = power.minute_step == Some(now);
                    power.happened |= now_due;
                    if now_due {
                        power.minute_step = None;
                    }
                }
                Event::Day => {
                    let now_due = power.day_step == Some(now);
                    power.happened |= now_due;
                    if now_due {
                        power.day_step = None;
                    }
                }
                _ => {}
            }
        });
        due
    }

    /// The power step of a round in which something `happened` or was decided.
    pub(in crate::engine) fn power_step(&mut self, happened: bool) {
        self.with_power(|power, run| {
            if std::mem::take(&mut power.happened) || happened {
                power.step(run);
            }
        });
    }

    /// Ends supervision.
    pub(in crate::engine) fn power_finish(&mut self) {
        if let Some(power) = self.power.take() {
            power.finish();
        }
    }
}
