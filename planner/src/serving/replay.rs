//! Requests served on replicas that come and go.
//!
//! **The contract.** Time is whole microseconds. At each slot a rule says how many replicas there should be, of what it has seen until then. What is missing is started and
//! serves after the start-up time of the [service](super::service); it is paid for from the decision on. What is too much is stopped: first what has not begun to
//! serve, then the replica with the fewest requests, of equals the youngest. A stopped replica takes no new requests, serves those that it has, and is paid for until
//! then. A request goes, as it arrives, to the replica that serves and has the fewest requests, of equals the oldest; while none serves, it waits for the first that does.
//! When a replica becomes ready, the requests that nobody has begun are dealt out anew, as a gateway that holds the queue would.
//! Each replica is as the service says: prefill before decode, first come first served. Spot replicas that are taken away (at a slot) give their requests back, to be
//! served from the beginning elsewhere.
//!
//! Steps between two events are taken at once, as the batch does not change within them: exact, and O(log batch) a request. Assigning a request looks at each
//! replica. O(requests × (replicas + log batch) + slots × replicas). Ties: a replica that becomes ready, then a slot, then an arrival.
//!
//! Worked example, with the [table](super::service) there: a replica is up and a request of 4,000 input and 3 output tokens arrives at 0. Its prefill takes 1 s, so its
//! TTFT is 1 s; two steps of 22.55 ms follow, and it ends at 1.0451 s. Another of 4,000 and 1 that arrives at 1.01 s finds a step under way that ends at 1.02255 s; its
//! prefill ends at 2.02255 s, and the second step of the first request only then begins: it ends at 2.0451 s.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::requests::LoggedRequest;
use super::service::ReplicaService;

/// How a replica is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldAs {
    /// Until it is given back.
    OnDemand,
    /// Until it is taken away.
    Spot,
}

/// How many replicas there should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedReplicas {
    /// Replicas on demand.
    pub on_demand: u32,
    /// Replicas on spot.
    pub spot: u32,
}

impl WantedReplicas {
    /// So many on demand.
    pub fn on_demand(count: u32) -> Self {
        Self { on_demand: count, spot: 0 }
    }
}

/// Requests that arrived in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotSeen {
    /// How many.
    pub requests: u32,
    /// Input tokens of these requests.
    pub input: u64,
}

/// What a rule sees at the beginning of a slot.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Number of the slot that begins.
    pub slot: usize,
    /// The slots before it.
    pub past: &'a [SlotSeen],
    /// Requests that have arrived and are not served.
    pub in_flight: u32,
    /// Replicas on spot that serve, and are not stopped.
    pub spot_ready: u32,
}

/// When slots begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// The first, microseconds.
    pub from_us: i64,
    /// Length, microseconds.
    pub slot_us: i64,
    /// How many.
    pub count: usize,
}

impl Slots {
    /// When a slot begins.
    pub fn at(&self, slot: usize) -> i64 {
        self.from_us + slot as i64 * self.slot_us
    }

    /// The slots from the beginning of one that cover `to_us`.
    pub fn covering(from_us: i64, to_us: i64, slot_us: i64) -> Self {
        let slot_us = slot_us.max(1);
        let count = (to_us - from_us).max(0) / slot_us + 1;
        Self { from_us, slot_us, count: usize::try_from(count).unwrap_or(1) }
    }
}

/// Outcome of a request, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Start of the prefill.
    pub begun_us: i64,
    /// First token.
    pub first_us: i64,
    /// Last token.
    pub done_us: i64,
    /// The replica that served it.
    pub replica: u32,
    /// How many times it was begun.
    pub begun: u32,
}

/// A replica that was paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paid {
    /// How it was had.
    pub held: HeldAs,
    /// Decision to start it, microseconds.
    pub from_us: i64,
    /// Start of service, microseconds.
    pub ready_us: i64,
    /// Until it was gone; as long as the replay lasted, where nobody stopped it.
    pub to_us: i64,
    /// Whether it was there at the beginning.
    pub initial: bool,
}

/// Log of a replay of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedLog {
    /// Request by request.
    pub served: Vec<Served>,
    /// Replica by replica.
    pub paid: Vec<Paid>,
    /// What was wanted, slot by slot.
    pub wanted: Vec<WantedReplicas>,
    /// Replicas that served, slot by slot.
    pub ready: Vec<u32>,
    /// Requests that had arrived and were not served, slot by slot.
    pub in_flight: Vec<u32>,
}

const NEVER: i64 = i64::MAX;
const NOT_SERVED: Served = Served { begun_us: NEVER, first_us: NEVER, done_us: NEVER, replica: u32::MAX, begun: 0 };

#[derive(Debug)]
struct Replica {
    paid: Paid,
    stopped_us: Option<i64>,
    gone: bool,
    /// End of the last operation, microseconds.
    now_us: i64,
    /// Decode steps so far.
    steps: u64,
    /// Requests not begun, with the moment they came here.
    queue: VecDeque<(u32, i64)>,
    /// Requests in the batch, by the step that ends them.
    running: BinaryHeap<Reverse<(u64, u32)>>,
    /// Tokens of the requests in the batch.
    kv: u64,
    /// What the last operation ended.
    ended: (i64, Vec<u32>),
}

impl Replica {
    fn new(held: HeldAs, from_us: i64, ready_us: i64, initial: bool) -> Self {
        Self {
            paid: Paid { held, from_us, ready_us, to_us: NEVER, initial },
            stopped_us: None,
            gone: false,
            now_us: ready_us,
            steps: 0,
            queue: VecDeque::new(),
            running: BinaryHeap::new(),
            kv: 0,
            ended: (NEVER, Vec::new()),
        }
    }

    /// Whether it serves and takes requests.
    fn takes(&self, at_us: i64) -> bool {
        !self.gone && self.stopped_us.is_none() && self.paid.ready_us <= at_us
    }

    /// Whether it is wanted still.
    fn stays(&self) -> bool {
        !self.gone && self.stopped_us.is_none()
    }

    /// Requests that it has at a moment up to which it was advanced.
    fn in_flight(&self, at_us: i64) -> u32 {
        let late = if self.ended.0 != NEVER && self.ended.0 > at_us { self.ended.1.len() } else { 0 };
        (self.queue.len() + self.running.len() + late) as u32
    }

    /// Does all that begins before `to_us`.
    fn advance(
        &mut self,
        me: u32,
        to_us: i64,
        service: &ReplicaService,
        requests: &[LoggedRequest],
        served: &mut [Served],
    ) {
        loop {
            if let Some((next, since_us)) = self.queue.front().copied() {
                let Some(request) = requests.get(next as usize) else { return };
                let room = self.running.len() < service.max_batch() && self.kv + request.tokens() <= service.kv_tokens;
                if room || self.running.is_empty() {
                    let begin = self.now_us.max(since_us);
                    if begin >= to_us {
                        return;
                    }
                    self.queue.pop_front();
                    self.now_us = begin + service.prefill_us(request.input);
                    let Some(of) = served.get_mut(next as usize) else { return };
                    *of = Served {
                        begun_us: begin,
                        first_us: self.now_us,
                        done_us: NEVER,
                        replica: me,
                        begun: of.begun + 1,
                    };
                    if request.output > 1 {
                        self.kv += request.tokens();
                        self.running.push(Reverse((self.steps + u64::from(request.output) - 1, next)));
                    } else {
                        of.done_us = self.now_us;
                        self.ended = (self.now_us, vec![next]);
                    }
                    continue;
                }
            }
            let Some(Reverse((ends, _))) = self.running.peek().copied() else { return };
            if self.now_us >= to_us {
                return;
            }
            let step = service.step_us(self.running.len()).max(1);
            let until_end = ends - self.steps;
            let until_to = (to_us.saturating_sub(self.now_us) - 1) / step + 1;
            let taken = until_end.min(u64::try_from(until_to).unwrap_or(1));
            self.steps += taken;
            self.now_us += taken as i64 * step;
            if self.steps == ends {
                let mut ended = std::mem::take(&mut self.ended.1);
                ended.clear();
                while let Some(Reverse((_, request))) =
                    self.running.peek().copied().filter(|Reverse((at, _))| *at == ends)
                {
                    self.running.pop();
                    self.kv -= requests.get(request as usize).map_or(0, LoggedRequest::tokens);
                    if let Some(of) = served.get_mut(request as usize) {
                        of.done_us = self.now_us;
                    }
                    ended.push(request);
                }
                self.ended = (self.now_us, ended);
            }
        }
    }

    /// Takes the replica away; returns the requests that it had not finished, in order.
    fn taken(&mut self, at_us: i64) -> Vec<u32> {
        let mut back: Vec<u32> = self.queue.drain(..).map(|(request, _)| request).collect();
        back.extend(self.running.drain().map(|Reverse((_, request))| request));
        if self.ended.0 != NEVER && self.ended.0 > at_us {
            back.append(&mut self.ended.1);
        }
        back.sort_unstable();
        self.gone = true;
        self.paid.to_us = at_us;
        back
    }
}

/// A replay under way.
struct Fleet<'a> {
    service: &'a ReplicaService,
    requests: &'a [LoggedRequest],
    served: Vec<Served>,
    replicas: Vec<Replica>,
    /// Replicas that are not gone, by their number.
    alive: Vec<usize>,
    /// Requests that no replica has.
    waiting: Vec<u32>,
}

impl Fleet<'_> {
    fn advance(&mut self, to_us: i64) {
        for at in &self.alive {
            if let Some(replica) = self.replicas.get_mut(*at) {
                replica.advance(*at as u32, to_us, self.service, self.requests, &mut self.served);
            }
        }
    }

    /// Gives a request to a replica, or lets it wait. All are advanced to `at_us`.
    fn assign(&mut self, request: u32, at_us: i64) {
        let replicas = &self.replicas;
        let of = |at: &usize| {
            replicas.get(*at).filter(|replica| replica.takes(at_us)).map(|one| (one.in_flight(at_us), *at))
        };
        match self.alive.iter().filter_map(of).min().and_then(|(_, at)| self.replicas.get_mut(at)) {
            Some(replica) => replica.queue.push_back((request, at_us)),
            None => self.waiting.push(request),
        }
    }

    /// A replica became ready: requests that nobody began are dealt out anew, in their order.
    fn deal(&mut self, at_us: i64) {
        for at in &self.alive {
            let Some(replica) = self.replicas.get_mut(*at) else { continue };
            self.waiting.extend(replica.queue.drain(..).map(|(request, _)| request));
        }
        self.waiting.sort_unstable();
        self.assign_waiting(at_us);
    }

    fn assign_waiting(&mut self, at_us: i64) {
        for request in std::mem::take(&mut self.waiting) {
            self.assign(request, at_us);
        }
    }

    fn count(&self, held: HeldAs) -> u32 {
        self.those().filter(|replica| replica.stays() && replica.paid.held == held).count() as u32
    }

    fn those(&self) -> impl Iterator<Item = &Replica> {
        self.alive.iter().filter_map(|at| self.replicas.get(*at))
    }

    fn start(&mut self, held: HeldAs, count: u32, at_us: i64, ready_us: i64, initial: bool) {
        for _ in 0..count {
            self.alive.push(self.replicas.len());
            self.replicas.push(Replica::new(held, at_us, ready_us, initial));
        }
    }

    /// Stops `count` of a kind; all are advanced to `at_us`.
    fn stop(&mut self, held: HeldAs, count: u32, at_us: i64) {
        if count == 0 {
            return self.forget();
        }
        let replicas = &self.replicas;
        let of = |at: &usize| {
            let replica = replicas.get(*at).filter(|one| one.stays() && one.paid.held == held)?;
            let serves = replica.paid.ready_us <= at_us;
            Some((serves, if serves { replica.in_flight(at_us) } else { 0 }, Reverse(*at)))
        };
        let mut first: Vec<_> = self.alive.iter().filter_map(of).collect();
        first.sort_unstable();
        for (_, left, Reverse(at)) in first.into_iter().take(count as usize) {
            let Some(replica) = self.replicas.get_mut(at) else { return };
            replica.stopped_us = Some(at_us);
            if left == 0 {
                replica.gone = true;
                replica.paid.to_us = at_us;
            }
        }
        self.forget();
    }

    /// Spot beyond what can be had is taken away, the youngest first; its requests go elsewhere.
    fn take_away(&mut self, most: u32, at_us: i64) {
        let spot = |replica: &Replica| !replica.gone && replica.paid.held == HeldAs::Spot;
        let over = (self.those().filter(|replica| spot(replica)).count() as u32).saturating_sub(most);
        for _ in 0..over {
            let last = self.alive.iter().rev().copied().find(|at| self.replicas.get(*at).is_some_and(spot));
            let Some(replica) = last.and_then(|at| self.replicas.get_mut(at)) else { return };
            self.waiting.extend(replica.taken(at_us));
        }
        self.waiting.sort_unstable();
        self.forget();
    }

    /// Lets go of stopped replicas that have nothing left, and of those that are gone.
    fn forget(&mut self) {
        let replicas = &mut self.replicas;
        self.alive.retain(|at| {
            let Some(replica) = replicas.get_mut(*at) else { return false };
            let empty = replica.queue.is_empty() && replica.running.is_empty();
            if let Some(stopped) = replica.stopped_us.filter(|_| empty && !replica.gone) {
                replica.gone = true;
                replica.paid.to_us = replica.now_us.max(stopped);
            }
            !replica.gone
        });
    }

    fn in_flight(&self, at_us: i64) -> u32 {
        self.those().map(|replica| replica.in_flight(at_us)).sum::<u32>() + self.waiting.len() as u32
    }
}

/// Serves `requests`, which are in order of arrival, from the first slot on; `initial` replicas on demand are up then. `spot` says how many on spot can be had at a
/// moment.
pub fn replay(
    requests: &[LoggedRequest],
    service: &ReplicaService,
    slots: Slots,
    initial: u32,
    spot: &dyn Fn(i64) -> u32,
    decide: &mut dyn FnMut(&Seen<'_>) -> WantedReplicas,
) -> ServedLog {
    let served = vec![NOT_SERVED; requests.len()];
    let mut fleet = Fleet { service, requests, served, replicas: Vec::new(), alive: Vec::new(), waiting: Vec::new() };
    fleet.start(HeldAs::OnDemand, initial, slots.from_us, slots.from_us, true);
    let (mut wanted, mut ready, mut in_flight) = (Vec::new(), Vec::new(), Vec::new());
    let mut past: Vec<SlotSeen> = Vec::with_capacity(slots.count);
    let mut coming: VecDeque<i64> = VecDeque::new();
    let mut next = 0usize;
    let mut slot = 0usize;
    let mut of_slot = SlotSeen::default();
    loop {
        let arrival = requests.get(next).map_or(NEVER, |request| request.at_us.max(slots.from_us));
        let begin = if slot < slots.count { slots.at(slot) } else { NEVER };
        let up = coming.front().copied().unwrap_or(NEVER);
        let now = up.min(begin).min(arrival);
        if now == NEVER {
            // Nothing is to come but what replicas do; where none is left, one more is started.
            fleet.advance(NEVER);
            if fleet.waiting.is_empty() {
                break;
            }
            let last = requests.last().map_or(slots.from_us, |last| last.at_us).max(slots.at(slots.count));
            fleet.start(HeldAs::OnDemand, 1, last, last + service.start_us, false);
            coming.push_back(last + service.start_us);
            continue;
        }
        fleet.advance(now);
        if up == now {
            coming.pop_front();
            // Those that were stopped before they served change nothing.
            if fleet.those().any(|replica| replica.stays() && replica.paid.ready_us == now) {
                fleet.deal(now);
            }
        } else if begin == now {
            if slot > 0 {
                past.push(std::mem::take(&mut of_slot));
            }
            let most = spot(now);
            fleet.take_away(most, now);
            fleet.assign_waiting(now);
            fleet.forget();
            let has = |held: HeldAs| fleet.those().filter(|one| one.takes(now) && one.paid.held == held).count() as u32;
            let seen = Seen { slot, past: &past, in_flight: fleet.in_flight(now), spot_ready: has(HeldAs::Spot) };
            ready.push(seen.spot_ready + has(HeldAs::OnDemand));
            in_flight.push(seen.in_flight);
            let asked = decide(&seen);
            wanted.push(asked);
            for (held, count) in [(HeldAs::OnDemand, asked.on_demand), (HeldAs::Spot, asked.spot.min(most))] {
                let there = fleet.count(held);
                if count > there {
                    fleet.start(held, count - there, now, now + service.start_us, false);
                    coming.push_back(now + service.start_us);
                } else {
                    fleet.stop(held, there - count, now);
                }
            }
            slot += 1;
        } else {
            let request = requests.get(next).copied().unwrap_or(LoggedRequest { at_us: now, input: 0, output: 0 });
            of_slot.requests += 1;
            of_slot.input += u64::from(request.input);
            fleet.assign(next as u32, now);
            next += 1;
        }
    }
    fleet.forget();
    let end = fleet.served.iter().map(|of| of.done_us).filter(|done| *done != NEVER).max().unwrap_or(slots.from_us);
    let end = end.max(slots.at(slots.count));
    let paid = fleet.replicas.iter().map(|replica| Paid { to_us: replica.paid.to_us.min(end), ..replica.paid });
    ServedLog { paid: paid.collect(), served: fleet.served, wanted, ready, in_flight }
}

impl ServedLog {
    /// Seconds of replicas that were paid for between two moments.
    pub fn paid_s(&self, held: HeldAs, (from_us, to_us): (i64, i64)) -> f64 {
        let of = |paid: &Paid| (paid.to_us.min(to_us) - paid.from_us.max(from_us)).max(0);
        self.paid.iter().filter(|paid| paid.held == held).map(of).sum::<i64>() as f64 / 1e6
    }

    /// Replicas that were started between two moments.
    pub fn starts(&self, (from_us, to_us): (i64, i64)) -> u64 {
        self.paid.iter().filter(|paid| !paid.initial && (from_us..to_us).contains(&paid.from_us)).count() as u64
    }
}

#[cfg(test)]
mod tests;
