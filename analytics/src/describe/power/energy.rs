//! Power meters: the distribution of what they read, the energy under their curves, power over time, and whose energy it is.
//!
//! Energy of all GPUs and of all nodes is that of the energy ledger ([`meter`](crate::energy::meter)), which an audit of the same
//! trace tells, too: by counter, by power, and over gaps of up to three sample periods. What a model fills beyond is not in it, and
//! the share of the time that readings tell is always told with the energy. Single sensors, and power over time, follow the same
//! rule of gaps ([`crate::stats::sampled`]).
//!
//! Complexity: O(readings log readings), plus at most [`BUCKETS`] steps a meter.
//!
//! Worked number: a meter at 100 W for an hour is 0.1 kWh; with half an hour of it missing, 0.05 kWh at 50 % coverage.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::KWH_J;
use crate::describe::topic::{hours, share};
use crate::energy::meter::{Drawn, EnergyPart, Holders};
use crate::report::format::{compact, percent};
use crate::stats;
use crate::stats::ecdf::{CurvePoint, Ecdf};
use crate::stats::sampled::{Integral, Integrator};
use crate::stats::sum::NeumaierSum;

/// Points of power over time, at most.
const BUCKETS: i64 = 600;

/// Kilowatt-hours in so many joules.
pub(super) fn kwh(joules: f64) -> f64 {
    joules / KWH_J
}

/// Energy that meters read.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Energy {
    /// Energy, kilowatt-hours, of the time that readings tell.
    pub energy_kwh: f64,
    /// Time that readings tell, short gaps bridged, hours, summed over meters.
    pub bridged_h: f64,
    /// Time from the first to the last reading, hours, summed over meters; for GPUs of any GPU or meter of their node.
    pub span_h: f64,
    /// Time that readings tell over that.
    pub time_coverage: Option<f64>,
    /// Mean power of a meter over the time that readings tell, watts.
    pub mean_w: Option<f64>,
    /// Meters.
    pub meters: u64,
    /// Meters with a single reading, which have no energy.
    pub lone_meters: u64,
    /// Meters that never read more than 0 W, which may measure nothing.
    pub zero_meters: u64,
}

impl Energy {
    /// The energy, kWh, for tables; `None` where readings cover no time.
    pub(in crate::describe) fn known_kwh(&self) -> Option<f64> {
        (self.bridged_h > 0.0).then_some(self.energy_kwh)
    }

    /// The energy in words, with the share of the time that readings cover.
    pub(super) fn in_words(&self) -> String {
        match (self.known_kwh(), self.time_coverage) {
            (None, _) => "an unknown energy".to_owned(),
            (Some(energy), Some(part)) if part < 0.995 => {
                format!("**{}** kWh in the {} of the time that their readings cover", compact(energy), percent(part))
            }
            (Some(energy), _) => format!("**{}** kWh in the time metered", compact(energy)),
        }
    }
}

/// Power and energy of meters of one kind.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Metered {
    /// Power, watts, each reading of equal weight.
    pub power_w: stats::quantile::Summary,
    /// Share of the readings of at most so many watts.
    pub curve: Vec<CurvePoint>,
    /// Energy of the meters.
    pub energy: Energy,
}

/// Meters of one kind, one added after another.
#[derive(Debug, Default)]
pub(super) struct Meters {
    integrator: Integrator,
    watts: Vec<f64>,
    energy_j: NeumaierSum,
    bridged_s: NeumaierSum,
    span_s: NeumaierSum,
    meters: u64,
    lone_meters: u64,
    zero_meters: u64,
}

impl Meters {
    /// Adds one meter's readings `(ms, watts)` in strictly ascending order of time.
    pub(super) fn add(&mut self, readings: &[(i64, f64)]) -> Integral {
        let integral = self.integrator.integrate(readings);
        if readings.is_empty() {
            return integral;
        }
        self.meters += 1;
        self.lone_meters += u64::from(readings.len() == 1);
        self.zero_meters += u64::from(readings.iter().all(|(_, watts)| *watts <= 0.0));
        self.watts.extend(readings.iter().map(|(_, watts)| *watts));
        self.energy_j.add(integral.value);
        self.bridged_s.add(integral.bridged_s);
        self.span_s.add(integral.span_s);
        integral
    }

    /// Adds a reading without a time, which has power and no energy.
    pub(super) fn add_untimed(&mut self, watts: f64) {
        self.watts.push(watts);
    }

    /// Seconds that each reading of the last meter stands for.
    pub(super) fn hold_s(&self) -> &[f64] {
        self.integrator.hold_s()
    }

    /// The result by the readings added; `None` without one.
    pub(super) fn finish(self) -> Option<Metered> {
        let [energy_j, bridged_s, span_s] = [&self.energy_j, &self.bridged_s, &self.span_s].map(|sum| sum.value());
        self.with([energy_j, bridged_s, span_s])
    }

    /// The result with the energy of the ledger.
    pub(super) fn finish_as(self, drawn: &Drawn) -> Option<Metered> {
        self.with([drawn.read_j, drawn.read_s, drawn.span_s])
    }

    fn with(self, [energy_j, bridged_s, span_s]: [f64; 3]) -> Option<Metered> {
        let curve = Ecdf::new(&self.watts)?.thin(100);
        Some(Metered {
            power_w: stats::quantile::Summary::of_vec(self.watts)?,
            curve,
            energy: Energy {
                energy_kwh: kwh(energy_j),
                bridged_h: hours(bridged_s),
                span_h: hours(span_s),
                time_coverage: share(bridged_s, span_s),
                mean_w: share(energy_j, bridged_s),
                meters: self.meters,
                lone_meters: self.lone_meters,
                zero_meters: self.zero_meters,
            },
        })
    }
}

/// Power of several meters together over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PowerAt {
    /// Beginning of the stretch, ms.
    pub ts: i64,
    /// Mean power of all meters together, watts; `null` where fewer than nine tenths of the
    /// most that ever read together did: what the others drew is unknown then.
    pub power_w: Option<f64>,
    /// Meters that read, mean over the stretch.
    pub meters: f64,
}

/// Energy by stretch of time.
#[derive(Debug)]
pub(super) struct OverTime {
    from: i64,
    to: i64,
    step: i64,
    /// Energy in joules and meter-seconds bridged.
    buckets: Vec<(f64, f64)>,
}

impl OverTime {
    /// Stretches of equal length, at most [`BUCKETS`], from the first to the last of `times`.
    pub(super) fn new(times: impl Iterator<Item = i64>) -> Self {
        let (from, to) = times.fold((i64::MAX, i64::MIN), |(from, to), ts| (from.min(ts), to.max(ts)));
        let span = to.saturating_sub(from).max(0);
        let step = (span / BUCKETS + i64::from(span % BUCKETS > 0)).max(1_000);
        let count = usize::try_from(span / step + i64::from(span % step > 0)).unwrap_or(0);
        Self { from, to, step, buckets: vec![(0.0, 0.0); count] }
    }

    /// Adds one meter.
    pub(super) fn add(&mut self, readings: &[(i64, f64)], integral: &Integral) {
        for (a, b) in readings.iter().zip(readings.iter().skip(1)) {
            let gap = b.0 - a.0;
            if gap <= 0 || !integral.bridges(gap) {
                continue;
            }
            let at = |ts: i64| a.1 + (b.1 - a.1) * (ts - a.0) as f64 / gap as f64;
            let mut start = a.0;
            while start < b.0 {
                let ix = (start - self.from) / self.step;
                let end = (self.from + (ix + 1) * self.step).min(b.0);
                let length_s = (end - start) as f64 / 1_000.0;
                if let Some((joules, held_s)) = usize::try_from(ix).ok().and_then(|ix| self.buckets.get_mut(ix)) {
                    *joules += (at(start) + at(end)) / 2.0 * length_s;
                    *held_s += length_s;
                }
                start = end;
            }
        }
    }

    /// Power over time.
    pub(super) fn finish(self) -> Vec<PowerAt> {
        let length_s = |ts: i64| ((ts + self.step).min(self.to) - ts) as f64 / 1_000.0;
        let begins = (0..).map(|ix: i64| self.from + ix * self.step);
        let mut points: Vec<PowerAt> = begins
            .zip(&self.buckets)
            .map(|(ts, (joules, held_s))| PowerAt {
                ts,
                power_w: Some(joules / length_s(ts)),
                meters: held_s / length_s(ts),
            })
            .collect();
        let most = points.iter().map(|point| point.meters).fold(0.0, f64::max);
        for point in &mut points {
            if point.meters <= 0.0 || point.meters < 0.9 * most {
                point.power_w = None;
            }
        }
        points
    }
}

/// Energy of one group.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EnergyOf {
    /// The group; `null` where it is unknown.
    pub group: Option<String>,
    /// Energy, kilowatt-hours.
    pub energy_kwh: f64,
    /// Share of the energy metered.
    pub share: Option<f64>,
    /// GPU-hours metered.
    pub gpu_hours: f64,
    /// Mean power of a GPU, watts.
    pub mean_w: Option<f64>,
}

impl EnergyOf {
    fn new(group: Option<String>, part: &EnergyPart, total: &EnergyPart) -> Self {
        let (joules, s) = (part.energy_j.value(), part.s.value());
        Self {
            group,
            energy_kwh: kwh(joules),
            share: share(joules, total.energy_j.value()),
            gpu_hours: hours(s),
            mean_w: share(joules, s),
        }
    }
}

fn sum<'p>(parts: impl IntoIterator<Item = &'p EnergyPart>) -> EnergyPart {
    let mut total = EnergyPart::default();
    parts.into_iter().for_each(|part| total.merge(part));
    total
}

/// Energy by who held the GPUs: jobs of the table, none, jobs not in the table, unknown, as far as they drew anything.
pub(super) fn by_holder(holders: &Holders) -> Vec<EnergyOf> {
    let total = total(holders);
    let listed = sum(holders.jobs.values());
    [
        ("listed jobs", &listed),
        ("no job", &holders.nobody),
        ("jobs that are not listed", &holders.unlisted),
        ("unknown", &holders.unknown),
    ]
    .into_iter()
    .filter(|(_, part)| part.s.value() > 0.0)
    .map(|(name, part)| EnergyOf::new(Some(name.to_owned()), part, &total))
    .collect()
}

/// Energy of the listed jobs by a group of theirs, most first; empty if none drew anything.
pub(super) fn by_group<'f>(holders: &Holders, group: impl Fn(usize) -> Option<&'f str>) -> Vec<EnergyOf> {
    let mut sums: BTreeMap<Option<&str>, EnergyPart> = BTreeMap::new();
    for (job, part) in holders.jobs.iter().filter(|(_, part)| part.s.value() > 0.0) {
        sums.entry(group(*job)).or_default().merge(part);
    }
    let total = total(holders);
    let mut groups: Vec<EnergyOf> =
        sums.into_iter().map(|(group, part)| EnergyOf::new(group.map(str::to_owned), &part, &total)).collect();
    // Stable: groups of the same energy stay in order of their names.
    groups.sort_by(|a, b| b.energy_kwh.total_cmp(&a.energy_kwh));
    groups
}

/// Energy of all GPUs from readings.
fn total(holders: &Holders) -> EnergyPart {
    sum(holders.jobs.values().chain([&holders.unlisted, &holders.nobody, &holders.unknown]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn half_an_hour_missing_of_an_hour_is_half_the_energy_and_says_so() {
        let mut meters = Meters::default();
        // The meter that reads 0 W adds a minute to the time bridged (1,800 s) and to the span (3,600 s), and no energy.
        // Every minute for 15 minutes, nothing for 30, every minute for 15: gaps of 1 min bridge up to 3.
        let minutes = (0..=15).chain(45..=60);
        let readings: Vec<(i64, f64)> = minutes.map(|minute| (minute * 60_000, 100.0)).collect();
        let integral = meters.add(&readings);
        meters.add(&[(0, 300.0)]);
        meters.add(&[(0, 0.0), (60_000, 0.0)]);
        let metered = meters.finish().unwrap();
        assert!((metered.energy.energy_kwh - 0.05).abs() < 1e-12);
        assert_eq!(
            (metered.energy.time_coverage, metered.energy.mean_w),
            (Some(1_860.0 / 3_660.0), Some(180_000.0 / 1_860.0))
        );
        assert_eq!((metered.energy.meters, metered.energy.lone_meters, metered.energy.zero_meters), (3, 1, 1));
        // 32 readings of 100 W, one of 300 W and two of 0 W.
        assert!((metered.power_w.mean - 3_500.0 / 35.0).abs() < 1e-9);

        // 3,600 s in stretches of 6 s: 150 with the meter, 300 without, 150 with it.
        let mut over = OverTime::new([0, 3_600_000].into_iter());
        over.add(&readings, &integral);
        let points = over.finish();
        assert_eq!(points.len(), 600);
        assert_eq!(points.iter().filter(|point| point.power_w == Some(100.0) && point.meters == 1.0).count(), 300);
        assert_eq!((points[149].power_w, points[150].power_w, points[450].power_w), (Some(100.0), None, Some(100.0)));
    }

    #[test]
    fn power_over_time_is_the_sum_of_meters_along_their_trapezoids() {
        // One meter rises from 0 to 600 W over 600 s, one holds 50 W: the first second is 0.5 + 50 W.
        let mut over = OverTime::new([0, 600_000].into_iter());
        let mut meters = Meters::default();
        for readings in [[(0, 0.0), (600_000, 600.0)], [(0, 50.0), (600_000, 50.0)]] {
            let integral = meters.add(&readings);
            over.add(&readings, &integral);
        }
        let points = over.finish();
        assert!(
            (points[0].power_w.unwrap() - 50.5).abs() < 1e-9 && (points[599].power_w.unwrap() - 649.5).abs() < 1e-9
        );
        assert_eq!(points[300].meters, 2.0);
    }
}
