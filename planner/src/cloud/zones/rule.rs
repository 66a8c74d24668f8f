//! Policies over zones that know no chances, and SkyNomad's rule.
//!
//! * **All on-demand** in the zone cheapest for it.
//! * **Greedy** stays on the spot instance that it has; without one it takes the cheapest spot there is, or waits, until the [safety net](crate::cloud::zones::market) begins
//!   on-demand, which then stays.
//! * **Uniform Progress** (NSDI 2024) as in [one zone](crate::cloud::rule): waiting, it takes on-demand once it is behind; any zone that has spot will do, the cheapest
//!   first; on-demand, it stays until it is two changeovers ahead.
//! * **SkyNomad** (arXiv 2601.06520), read from the paper's public artifact. The expected life E of an instance comes from the runs seen (Nelson and Aalen's
//!   estimate, by age). An hour of progress is worth V, 1.2 times what an hour of the work left would cost by a mix of spot, by its availability over twelve
//!   hours, and on-demand. Spot in a zone is worth V·(1 − d/E) − price − egress/E an hour (without d where it is held), on-demand V − price − (d·V + egress
//!   where it moves), waiting 0. What is worth most is taken; what is held is left only for more than 0.5 dollars + 5 % of V + 1 % of the egress beyond.
//!
//! What differs from SkyNomad as published: its factor for bursts of losses, which the artifact raises from 1 only after a loss or more, is left at 1; lives are capped by the time left alone, as in its V100 runs; runs before the job are known; and it shares the exact
//! safety net.
//!
//! **Probes.** As published, it begins an instance for a moment in each zone but the one it holds at the start of the job and then every two hours (every six ticks in the artifact), all at once, and pays a minute of spot where there is some. A zone that was found to have spot counts as a run from then on (a virtual instance), and is
//! not asked again until the job tries to begin there. So it is [here](crate::cloud::zones::probe) with `--probe 2h --probe-bill 1min`, but for three things. A zone is asked again at every probe, which is the artifact's `--probe-revalidate`, off for most of its figures: runs end when a probe finds none, and not when a try fails alone. The
//! published rule tries the zones one after another within a tick of ten minutes, whatever their last probe showed, and a try that fails costs no time; here it takes those that had spot when last seen, one a tick. And where all zones are seen at every tick, which is the default, runs are those that there were.
//!
//! O(zones × runs) a tick. Worked number: with V = 1.5, a life of 4 h, d = 0.2 h and a price of 1, spot is worth 1.5·0.95 − 1 = 0.425 dollars an hour.

use crate::cloud::job::DeadlineJob;
use crate::cloud::zones::market::{Market, Places, Sight, ZoneHolding, ZonesPilot, ZonesView};

/// On-demand throughout.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnDemandZones;

impl ZonesPilot for OnDemandZones {
    fn hold(&mut self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>) -> ZoneHolding {
        match view.held {
            ZoneHolding::OnDemand(_) => view.held,
            _ => ZoneHolding::OnDemand(places.cheapest(view.at, view.work_ms + job.changeover_ms)),
        }
    }

    fn asks(&self) -> bool {
        false
    }
}

/// The zone with the cheapest spot now; of equals one in the region of the checkpoint, else the first.
fn cheapest_spot(places: &Places, view: &ZonesView<'_>) -> Option<usize> {
    let away = |zone: usize| places.moves(view.at, zone) > 0.0;
    let order = |a: &usize, b: &usize| {
        let price = view.sight.costs(*a).total_cmp(&view.sight.costs(*b));
        price.then(away(*a).cmp(&away(*b))).then(a.cmp(b))
    };
    view.sight.zones().min_by(order)
}

/// Spot or nothing, until only on-demand is left.
#[derive(Debug, Clone, Copy, Default)]
pub struct GreedyZones;

impl ZonesPilot for GreedyZones {
    fn hold(&mut self, _: &DeadlineJob, places: &Places, view: &ZonesView<'_>) -> ZoneHolding {
        match view.held {
            ZoneHolding::Idle => cheapest_spot(places, view).map_or(ZoneHolding::Idle, ZoneHolding::Spot),
            held => held,
        }
    }
}

/// Uniform progress over zones: keeps the share of work done at the share of time passed.
#[derive(Debug, Clone, Copy, Default)]
pub struct UniformZones;

impl ZonesPilot for UniformZones {
    fn hold(&mut self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>) -> ZoneHolding {
        let expected = |at_ms: i64| at_ms as f64 * job.work_ms as f64 / job.deadline_ms as f64;
        let done = (job.work_ms - view.work_ms) as f64;
        let spot = cheapest_spot(places, view).map(ZoneHolding::Spot);
        match (view.held, spot) {
            (ZoneHolding::Spot(_), _) => view.held,
            (ZoneHolding::OnDemand(_), _) if done < expected(view.elapsed_ms + 2 * job.changeover_ms) => view.held,
            (_, Some(spot)) => spot,
            (ZoneHolding::Idle, None) if done < expected(view.elapsed_ms) => {
                ZoneHolding::OnDemand(places.cheapest(view.at, view.work_ms + job.changeover_ms))
            }
            _ => ZoneHolding::Idle,
        }
    }
}

/// Hours over which availability is counted.
const WINDOW_H: f64 = 12.0;
/// What progress is worth over what the work left would cost.
const MARKUP: f64 = 1.2;

/// Runs of spot seen in a zone.
#[derive(Debug, Clone, Default)]
struct Runs {
    /// Lengths of runs that ended, hours, sorted.
    ended: Vec<f64>,
    /// Moments and sizes of the steps of the cumulative hazard.
    steps: Vec<(f64, f64)>,
    /// Ticks that the current run has lasted; none where there is none.
    age: usize,
    /// The last ticks, oldest first.
    recent: std::collections::VecDeque<bool>,
    /// How many of them had spot.
    recent_up: usize,
}

impl Runs {
    fn see(&mut self, up: bool, tick_h: f64) {
        self.recent.push_back(up);
        self.recent_up += usize::from(up);
        if self.recent.len() as f64 * tick_h > WINDOW_H && self.recent.pop_front() == Some(true) {
            self.recent_up -= 1;
        }
        if up {
            self.age += 1;
        } else if self.age > 0 {
            let length = self.age as f64 * tick_h;
            let at = self.ended.partition_point(|other| *other < length);
            self.ended.insert(at, length);
            self.age = 0;
            self.steps.clear();
            let all = self.ended.len();
            let mut from = 0;
            while let Some(length) = self.ended.get(from).copied() {
                let until = self.ended.partition_point(|other| *other <= length);
                self.steps.push((length, (until - from) as f64 / (all - from) as f64));
                from = until;
            }
        }
    }

    fn availability(&self) -> f64 {
        self.recent_up as f64 / self.recent.len().max(1) as f64
    }

    /// Expected hours to come of an instance begun or held now.
    fn life(&self, tick_h: f64) -> f64 {
        let (mut life, mut survives, mut at) = (0.0, 1.0, self.age.saturating_sub(1) as f64 * tick_h);
        for (length, step) in &self.steps {
            if *length > at {
                life += survives * (length - at);
                survives *= (-step).exp();
                at = *length;
            }
        }
        let tail = self.steps.last().map_or(1e-8, |(_, step)| *step);
        life + survives * tick_h / (1.0 - (-tail).exp())
    }
}

/// SkyNomad's rule.
#[derive(Debug, Clone)]
pub struct SkyNomad {
    runs: Vec<Runs>,
    /// Work left at the beginning of each of the last ticks, milliseconds, oldest first.
    left: std::collections::VecDeque<i64>,
}

/// Hours over which progress is counted.
const PROGRESS_H: f64 = 10.0;

impl SkyNomad {
    /// With all that was seen before tick `start`; until it is seen again, a zone is as it was.
    pub fn new(market: &Market, start: usize) -> Self {
        let mut result =
            Self { runs: vec![Runs::default(); market.places.names.len()], left: std::collections::VecDeque::new() };
        let mut last = None;
        for tick in 0..start {
            if market.saw(tick, start) {
                last = Some(market.sight(tick));
            }
            if let Some(sight) = &last {
                result.see(sight, market.places.tick_ms);
            }
        }
        result
    }

    fn see(&mut self, sight: &Sight<'_>, tick_ms: i64) {
        let tick_h = tick_ms as f64 / 3.6e6;
        self.runs.iter_mut().enumerate().for_each(|(zone, runs)| runs.see(sight.has(zone), tick_h));
    }

    /// Expected lives, hours, by zone.
    fn lives(&self, view: &ZonesView<'_>) -> Vec<f64> {
        let (tick_h, left_h) = (view.tick_ms as f64 / 3.6e6, view.left_ms as f64 / 3.6e6);
        self.runs.iter().map(|runs| runs.life(tick_h).min(left_h)).collect()
    }

    /// The share of the work left that on-demand will have to do: where a line of recent progress meets the last moment for on-demand.
    fn on_demand_share(&self, job: &DeadlineJob, view: &ZonesView<'_>) -> f64 {
        let (time, deadline) = (view.elapsed_ms as f64, job.deadline_ms as f64);
        let done = (job.work_ms - view.work_ms) as f64;
        if time <= 0.0 {
            return 0.0;
        }
        if (done - time).abs() < 1.0 {
            return 0.5;
        }
        let since = self.left.len() as f64 * view.tick_ms as f64;
        let before = self.left.front().copied().unwrap_or(view.work_ms);
        let rate = ((before - view.work_ms) as f64 / since.max(1.0)).clamp(0.0, 1.0);
        if (rate - 1.0).abs() < 1e-6 {
            return 0.0;
        }
        let late = job.work_ms as f64 + 2.0 * job.changeover_ms as f64 - deadline;
        let meets = (rate * time - done + late) / (rate - 1.0);
        if meets >= deadline {
            0.0
        } else if meets <= 0.0 {
            1.0
        } else {
            ((deadline - meets) / (deadline - time)).clamp(0.0, 1.0)
        }
    }

    /// What an hour of progress is worth, dollars.
    fn worth(&self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>, lives: &[f64]) -> f64 {
        let (work_h, left_h, setup_h) =
            (view.work_ms as f64 / 3.6e6, view.left_ms as f64 / 3.6e6, job.changeover_ms as f64 / 3.6e6);
        let list = places.on_demand.iter().copied().fold(f64::INFINITY, f64::min);
        // Price with changeovers, and hours of work, of each zone.
        let mut offers: Vec<(f64, f64)> = Vec::new();
        for (zone, (runs, life)) in self.runs.iter().zip(lives).enumerate() {
            let (works, price) = ((life - setup_h).max(0.0) / life.max(1e-9), view.sight.costs(zone));
            let hours = runs.availability() * left_h * works;
            if hours > 0.0 && price.is_finite() {
                offers.push((price / works, hours));
            }
        }
        offers.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut on_demand_h = self.on_demand_share(job, view) * work_h;
        let mut spot_h = work_h - on_demand_h;
        let (mut cost, mut used) = (0.0, 0);
        for (price, hours) in offers {
            if spot_h <= 0.0 {
                break;
            }
            let takes = hours.min(spot_h);
            cost += takes * price;
            spot_h -= takes;
            used += 1;
        }
        on_demand_h += spot_h.max(0.0);
        cost += on_demand_h * list;
        let moves = (used + usize::from(on_demand_h > 0.0)).saturating_sub(1) as f64 * places.egress;
        MARKUP * (cost + moves) / work_h.max(1e-6)
    }
}

impl ZonesPilot for SkyNomad {
    fn hold(&mut self, job: &DeadlineJob, places: &Places, view: &ZonesView<'_>) -> ZoneHolding {
        self.see(&view.sight, view.tick_ms);
        let lives = self.lives(view);
        let worth = self.worth(job, places, view, &lives);
        self.left.push_back(view.work_ms);
        if self.left.len() as f64 * view.tick_ms as f64 / 3.6e6 > PROGRESS_H {
            self.left.pop_front();
        }
        let setup_h = job.changeover_ms as f64 / 3.6e6;
        let list = |zone: usize| places.on_demand.get(zone).copied().unwrap_or(f64::INFINITY);
        let held = match view.held {
            ZoneHolding::Idle => 0.0,
            ZoneHolding::Spot(zone) => worth - view.sight.costs(zone),
            ZoneHolding::OnDemand(zone) => worth - list(zone),
        };
        let margin = if view.held == ZoneHolding::Idle { 0.0 } else { 0.5 + 0.05 * worth + 0.01 * places.egress };
        let mut best = (held, view.held);
        let mut offer = |value: f64, what: ZoneHolding| {
            if value >= 0.0 && value > held + margin && value > best.0 && what != view.held {
                best = (value, what);
            }
        };
        for zone in view.sight.zones() {
            let life = lives.get(zone).copied().unwrap_or(0.0).max(1e-9);
            if life > setup_h {
                let value =
                    worth * (life - setup_h) / life - view.sight.costs(zone) - places.moves(view.at, zone) / life;
                offer(value, ZoneHolding::Spot(zone));
            }
        }
        for zone in 0..places.names.len() {
            let moves = view.at.is_some_and(|at| places.region.get(zone) != Some(&at));
            let penalty = if moves { setup_h * worth + places.egress } else { 0.0 };
            offer(worth - list(zone) - penalty, ZoneHolding::OnDemand(zone));
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::zones::market::tests::places;
    use crate::cloud::zones::market::travel;

    const HOUR: i64 = 3_600_000;

    /// Runs of 1, 3 and 3 hours: of three that live an hour one ends, of two that live three both do. A new instance lives 1 + 2·e^(−1/3) + 1·e^(−4/3)/(1 − e^−1).
    #[test]
    fn lives_by_nelson_and_aalen() {
        let mut runs = Runs::default();
        for up in [1, 0, 1, 1, 1, 0, 1, 1, 1, 0] {
            runs.see(up == 1, 1.0);
        }
        assert_eq!(runs.steps, [(1.0, 1.0 / 3.0), (3.0, 1.0)]);
        let by_hand = 1.0 + 2.0 * (-1.0f64 / 3.0).exp() + (-4.0f64 / 3.0).exp() / (1.0 - (-1.0f64).exp());
        assert!((runs.life(1.0) - by_hand).abs() < 1e-12);
        assert!((runs.availability() - 0.7).abs() < 1e-12);
    }

    /// Spot costs 1 in the first zone and 0.5 in the second, which has it in hours 2 and 3 (from 1). Greedy keeps what it has; none of them misses.
    #[test]
    fn five_hours_by_hand() {
        use ZoneHolding::{Idle as I, OnDemand as D, Spot as S};
        let job = DeadlineJob { work_ms: 3 * HOUR, deadline_ms: 5 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let rows: Vec<(Vec<bool>, Vec<f64>)> =
            [(true, false), (true, true), (false, true), (false, false), (false, false)]
                .iter()
                .map(|(a, b)| (vec![*a, *b], vec![1.0, 0.5]))
                .collect();
        let market = Market::from_rows(places(&[0, 0], &[3.0, 2.0], 0.0, HOUR), &rows);
        let held = |pilot: &mut dyn ZonesPilot| {
            let mut held = Vec::new();
            assert!(!travel(pilot, &market, 0, &job, &mut |of| held.push(of)).missed);
            held
        };
        assert_eq!(held(&mut OnDemandZones), [D(1), D(1), D(1)]);
        assert_eq!(held(&mut GreedyZones), [S(0), S(0), S(1)]);
        assert_eq!(held(&mut UniformZones), [S(0), S(0), S(1)]);
        assert_eq!(held(&mut SkyNomad::new(&market, 0)).len(), 3);
        let none = Market::from_rows(places(&[0, 0], &[3.0, 2.0], 0.0, HOUR), &vec![(vec![false; 2], vec![1.0; 2]); 5]);
        let mut held = Vec::new();
        assert!(!travel(&mut GreedyZones, &none, 0, &job, &mut |of| held.push(of)).missed);
        assert_eq!(held, [I, I, D(1), D(1), D(1)]);
    }
}
