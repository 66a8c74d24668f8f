//! The programme of an elastic job: the work is shared between lanes so that what it is expected to cost in all is least, and each lane decides for its share.
//!
//! Each lane has the [programme](crate::cloud::programme) of one instance, on [phases](tracecast_predictors::spot::phases) fitted to when at least so many nodes could be had, and a table for every share of the
//! work. At each tick, with V_j(w) the expected cost of lane j if w of the work is its own, what it holds and what it believes now, the shares are those that make Σ V_j(w_j)
//! least. V is not convex, as each beginning costs a changeover. So it is taken along its lower convex hull, whose stretches are handed out by what a unit of work costs in them,
//! the cheapest first. Some lane is left within a stretch, all others at an end of one. Of equal stretches, the lowest lane that can have spot goes first, and then
//! the highest lane that cannot. Then each lane does what its programme says for its share, and a lane without a share waits; a run of spot is used to its end.
//!
//! To keep the shares from now on would cost Σ V_j; they are made anew at each tick, with what each lane has seen. That lanes can help each other out later is not in V,
//! so the programme is as good as that help is small. Lanes come and go together for the most part. Above `MOST_MODELS` lanes, neighbours share a model.
//!
//! **Uncertain work** ([`WorkDistribution`]): the shares are those of so much work as covers what is left with a chance of `LEVEL`, by what is done so far; all of it is shared anew at each tick. A state for each lane's work and what
//! all have done together would be too many, so this is no optimum. To weigh each amount by its chance, as if it were known after the tick, was tried and is worse than the top: it waits for an amount to show that never does.
//!
//! O(models × table) to solve, and O(lanes × shares) a tick. Worked example: two lanes, 10 h left and 12 h of work, no changeover, spot for the whole time in the first and never in the
//! second, on-demand at 3. V_1(w) = w up to 10 h, V_2(w) = 3·w. The first lane has 10 h, the second 2: the stretches cost 1 and 3 an hour.

use crate::cloud::elastic::{LanesPilot, LanesView};
use crate::cloud::job::{DeadlineJob, Holding};
use crate::cloud::programme::{Fitted, Followed, Outlook, Programme};
use crate::cloud::work::WorkDistribution;

/// Most lanes with a model of their own.
const MOST_MODELS: usize = 16;
/// Shares that are tried for a lane, at most.
const MOST_SHARES: f64 = 96.0;

/// The chance with which what is planned for covers an uncertain work.
pub(in crate::cloud) const LEVEL: f64 = 0.97;

/// The lanes whose models are learned: each stands for itself and those after the one before it. Lanes count from 0.
///
/// Worked example: 16 lanes have 16 models; 40 have 16 for three lanes or two each: 2, 4, 7, 9, …, 39.
pub fn modelled(lanes: usize) -> Vec<usize> {
    let models = lanes.min(MOST_MODELS);
    (1..=models).map(|model| lanes * model / models - 1).collect()
}

/// A stretch of a lower convex hull: what a unit of work costs in it, and how much work it is.
type Stretch = (f64, f64);

/// The lower convex hull of costs by share, from the first share on, as stretches; costs end at the first that is infinite.
fn hull(shares: &[(f64, f64)]) -> Vec<Stretch> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let slope = |from: &(f64, f64), to: &(f64, f64)| (to.1 - from.1) / (to.0 - from.0);
    for next in shares.iter().take_while(|(_, cost)| cost.is_finite()) {
        while let [.., before, last] = corners.as_slice()
            && slope(before, last) >= slope(last, next)
        {
            corners.pop();
        }
        corners.push(*next);
    }
    corners
        .windows(2)
        .filter_map(|pair| Some((slope(pair.first()?, pair.get(1)?), pair.get(1)?.0 - pair.first()?.0)))
        .collect()
}

/// Hands out work to lanes by their stretches, the cheapest first; of equals the lane that comes first in `order`. What no stretch takes is shared equally.
fn share(stretches: &[Vec<Stretch>], order: impl Fn(usize) -> usize, work: f64) -> Vec<f64> {
    let mut all: Vec<(f64, usize, f64, usize)> = Vec::new();
    for (lane, of) in stretches.iter().enumerate() {
        all.extend(of.iter().map(|(slope, length)| (*slope, order(lane), *length, lane)));
    }
    // Stable, so that the stretches of a lane stay in their order.
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut shares = vec![0.0; stretches.len()];
    let mut left = work;
    for (_, _, length, lane) in all {
        let taken = length.min(left);
        shares[lane] += taken;
        left -= taken;
    }
    let each = left / stretches.len().max(1) as f64;
    shares.iter_mut().for_each(|share| *share += each);
    shares
}

/// The policy of lanes that follows programmes.
#[derive(Debug, Clone)]
pub struct Shared<'a> {
    /// The lane that each model was learned on, and what is believed of it.
    models: Vec<(usize, Followed<'a>)>,
    /// What is known of the work where it is uncertain, of each lane if it were shared equally.
    work: Option<&'a WorkDistribution>,
}

impl<'a> Shared<'a> {
    /// Combines the programmes of the lanes that are [modelled], for work that may be uncertain;
    /// the job's own work is the top of it then.
    pub fn new(lanes: usize, fitted: impl IntoIterator<Item = &'a Fitted>, work: Option<&'a WorkDistribution>) -> Self {
        Self { models: modelled(lanes).into_iter().zip(fitted.into_iter().map(Followed::new)).collect(), work }
    }

    /// The work that is shared, milliseconds of one node: all that is left, or where that is uncertain so much as covers it with a chance of `LEVEL`.
    fn planned(&self, job: &DeadlineJob, view: &LanesView<'_>) -> f64 {
        let Some(work) = self.work else { return view.work_ms as f64 };
        let lanes = view.lanes.len() as f64;
        let done_ms = job.work_ms as f64 - view.work_ms as f64 / lanes;
        (work.left_at(done_ms, LEVEL) * lanes).min(view.work_ms as f64)
    }
}

impl LanesPilot for Shared<'_> {
    fn hold(&mut self, job: &DeadlineJob, view: &LanesView<'_>, next: &mut [Holding]) {
        let seen: Vec<(usize, Option<(&Programme, Outlook)>)> =
            self.models.iter_mut().map(|(lane, of)| (*lane, of.see(*lane < view.up, view.left_ms))).collect();
        // A lane that can have spot asks a model that saw it.
        let model = |lane: usize| {
            let own = seen.iter().position(|(top, _)| lane <= *top)?;
            let up = lane < view.up && seen.get(own).is_some_and(|(top, _)| *top >= view.up);
            let (_, result) = seen.get(if up { own.saturating_sub(1) } else { own })?;
            result.as_ref()
        };
        let stretches: Vec<Vec<Stretch>> = (0..next.len())
            .map(|lane| {
                let Some((programme, outlook)) = model(lane) else { return Vec::new() };
                let left = view.left_ms as f64;
                let step = programme.step_ms().max(left / MOST_SHARES);
                let shares = (0..=(left / step) as usize).map(|count| {
                    let own = (count as f64 * step).floor();
                    (own, programme.worth(outlook, &view.one(lane, own as i64)))
                });
                hull(&shares.collect::<Vec<_>>())
            })
            .collect();
        let order = |lane: usize| if lane < view.up { lane } else { view.up + view.lanes.len() - 1 - lane };
        let shares = share(&stretches, order, self.planned(job, view));
        for ((lane, next), own) in next.iter_mut().enumerate().zip(shares) {
            let own = view.one(lane, own.ceil() as i64);
            *next = match model(lane) {
                None => Holding::OnDemand,
                Some(_) if own.work_ms == 0 && own.holding != Holding::Spot => Holding::Idle,
                Some((programme, outlook)) => programme.choice(outlook, &own),
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    /// Two lanes with V_1(w) = w up to 10 and V_2(w) = 3·w: of 12 the first has 10 and the second 2. And a lane whose beginning costs 4: its hull from 0 to 8 costs 1.5 an hour.
    #[test]
    fn the_worked_example() {
        let costs = |of: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
            (0..=10).map(|hour| (f64::from(hour), of(f64::from(hour)))).collect()
        };
        let [one, two] = [costs(&|work| work), costs(&|work| 3.0 * work)];
        assert_eq!(hull(&one), [(1.0, 10.0)]);
        assert_eq!(share(&[hull(&one), hull(&two)], |lane| lane, 12.0), [10.0, 2.0]);
        // What is beyond all stretches is shared equally.
        assert_eq!(share(&[hull(&one), hull(&two)], |lane| lane, 24.0), [12.0, 12.0]);
        let begun = costs(&|work| if work == 0.0 { 0.0 } else { 4.0 + work + 2.0 * (work - 8.0).max(0.0) });
        assert_eq!(hull(&begun), [(1.5, 8.0), (3.0, 2.0)]);
        let ends = [(0.0, 0.0), (1.0, 1.0), (2.0, f64::INFINITY), (3.0, 1.0)];
        assert_eq!(hull(&ends), [(1.0, 1.0)]);
    }

    #[test]
    fn many_lanes_share_models() {
        assert_eq!(modelled(1), [0]);
        assert_eq!(modelled(16), (0..16).collect::<Vec<_>>());
        assert_eq!(modelled(40).get(..4), Some([1, 4, 6, 9].as_slice()));
        assert_eq!(modelled(40).last(), Some(&39));
    }
}
