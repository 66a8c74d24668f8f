//! What a job that begins at a tick is expected to cost in a zone: by a programme, of what was seen up to then and of whether spot can be had now.
//!
//! The [phases](super::phases) are fitted to all ticks before, the programme is solved for the job, and asked what it expects of a job that holds nothing. So a run or an outage that has just begun or has lasted counts, which no mean of
//! earlier windows knows. Of an elastic job, each lane that has a model of its own is asked for an equal share of the work, and stands for those that share its model: that lanes help each other out is not in it.
//!
//! O(models × table). Worked example: spot that was there for 40 days and is there now, at a third of on-demand: a third.

use super::job::{DeadlineJob, Holding, JobView};
use super::policy::{CloudPolicy, Lessons, lanes_programmes, relative};
use super::programme::Followed;
use super::work::WorkDistribution;
use crate::cloud::elastic::optimum::whole_among;
use crate::cloud::elastic::programme::{LEVEL, modelled};
use crate::market::price::ZonePrice;
use crate::plan::window::Window;

/// The programme that is asked what to expect of a policy: its own, or the semi-Markov one.
pub(super) fn programme_of(policy: CloudPolicy) -> CloudPolicy {
    if policy == CloudPolicy::Markov { policy } else { CloudPolicy::SemiMarkov }
}

/// Expected cost of a job that begins at tick `start`, which is seen, and follows the programme of `policy` (the semi-Markov one for a policy without chances), as a share of all on-demand in the zone; nothing where the trace has no such tick, or the programme finds no way.
pub(super) fn expected_share(
    lessons: &Lessons,
    price: Option<&ZonePrice>,
    start: usize,
    (policy, job): (CloudPolicy, &DeadlineJob),
    work: Option<&WorkDistribution>,
) -> Option<f64> {
    let policy = programme_of(policy);
    let Lessons { supply, tick_ms, .. } = lessons;
    let (lanes, tick_ms) = (supply.lanes, *tick_ms);
    let had = *supply.up.get(start)? as usize;
    let window = Window { past: 0..start, ahead: start..start + 1 };
    let job = DeadlineJob { price_ratio: relative(price, &window, job.price_ratio).1, ..*job };
    let amounts = work.map_or_else(|| vec![(job.work_ms, 1.0)], WorkDistribution::amounts);
    let works: Vec<i64> = amounts.iter().map(|(work_ms, _)| *work_ms).collect();
    let job = if lanes > 1 { whole_among(&job, tick_ms, &works) } else { job };
    let learned = lessons.of(start, policy, job.ticks(tick_ms));
    let fitted = lanes_programmes(&learned, lanes, start, tick_ms, &job, work);
    // A lane's programme knows of no distribution.
    let asked_ms = match work {
        Some(work) if lanes > 1 => work.left_at(0.0, LEVEL).min(job.work_ms as f64) as i64,
        _ => job.work_ms,
    };
    let (mut sum, mut first) = (0.0, 0);
    for (top, of) in modelled(lanes).into_iter().zip(&fitted) {
        let up = top < had;
        let (programme, outlook) = Followed::new(of).see(up, job.deadline_ms)?;
        let view = JobView {
            elapsed_ms: 0,
            left_ms: job.deadline_ms,
            work_ms: asked_ms,
            holding: Holding::Idle,
            setup_ms: 0,
            up,
            tick_ms,
        };
        sum += (top + 1 - first) as f64 * programme.worth(&outlook, &view);
        first = top + 1;
    }
    let all: f64 = match work {
        Some(_) if lanes > 1 => DeadlineJob { work_ms: asked_ms, ..job }.on_demand_cost(),
        _ => amounts
            .iter()
            .map(|(work_ms, chance)| chance * DeadlineJob { work_ms: *work_ms, ..job }.on_demand_cost())
            .sum(),
    };
    Some(sum / (all * lanes as f64)).filter(|share| share.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::availability::Supply;

    const HOUR: i64 = 3_600_000;
    const MIN: i64 = 60_000;

    /// Spot without end is expected to cost a third, or a little more as nobody has seen the end, and none at all the whole; where it has just gone, and outages last for days, more is expected than where it has just come.
    #[test]
    fn what_holds_now_counts() {
        let job = DeadlineJob { work_ms: 24 * HOUR, deadline_ms: 30 * HOUR, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let of = |up: Vec<u32>, lanes: usize| {
            let (start, supply) = (up.len() - 1, Supply { lanes, up });
            let of = (CloudPolicy::SemiMarkov, &job);
            expected_share(&Lessons::new(supply, 10 * MIN), None, start, of, None).unwrap_or(f64::NAN)
        };
        let always = of(vec![1; 5000], 1);
        let never = of(vec![0; 5000], 1);
        assert!((always - 1.0 / 3.0).abs() < 0.05 && (never - 1.0).abs() < 0.05, "{always} {never}");
        // Two days up and two down.
        let turns = |until: usize, lanes: u32| {
            (0..until).map(|tick| lanes * u32::from(tick / 288 % 2 == 0)).collect::<Vec<u32>>()
        };
        let (come, gone) = (of(turns(288 * 16 + 2, 1), 1), of(turns(288 * 17 + 2, 1), 1));
        assert!(come + 0.1 < gone, "{come} {gone}");
        // Lanes that come and go together are expected to cost what one does.
        let four = of(turns(288 * 16 + 2, 4), 4);
        assert!((four - come).abs() < 0.1, "{four} {come}");
        let lessons = Lessons::new(Supply::one(&[true; 3]), 10 * MIN);
        assert!(expected_share(&lessons, None, 3, (CloudPolicy::SemiMarkov, &job), None).is_none());
    }

    /// What comes after a tick, of spot or of its price, is in nothing that is expected at that tick, to the bit; what holds at the tick is.
    #[test]
    fn the_future_is_in_no_outlook() {
        let job = DeadlineJob { work_ms: 24 * HOUR, deadline_ms: 30 * HOUR, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let work = WorkDistribution::new(&[(0.5, 12 * HOUR), (1.0, 24 * HOUR)]).ok();
        for (lanes, policy) in [(1, CloudPolicy::SemiMarkov), (1, CloudPolicy::Markov), (4, CloudPolicy::SemiMarkov)] {
            let most = lanes as u32;
            let up: Vec<u32> = (0..1500).map(|tick| if tick % 37 < 11 + tick / 100 { most } else { 0 }).collect();
            let spot: Vec<Option<f64>> = (0..1500).map(|tick| Some(1.0 + 0.1 * (tick % 7) as f64)).collect();
            let of = |up: Vec<u32>, spot: Vec<Option<f64>>, start: usize, work: Option<&WorkDistribution>| {
                let price = ZonePrice { spot, on_demand: Some(3.5), audit: Default::default() };
                let lessons = Lessons::new(Supply { lanes, up }, 10 * MIN);
                expected_share(&lessons, Some(&price), start, (policy, &job), work).map(f64::to_bits)
            };
            for start in [700, 1003] {
                // From `from` on spot is turned round, and costs more.
                let turned = |from: usize| -> (Vec<u32>, Vec<Option<f64>>) {
                    let up = up.iter().enumerate().map(|(tick, up)| if tick < from { *up } else { most - up });
                    let spot = spot.iter().enumerate();
                    let spot = spot.map(|(tick, usd)| usd.map(|usd| if tick < from { usd } else { 2.0 * usd }));
                    (up.collect(), spot.collect())
                };
                for work in [None, work.as_ref()] {
                    let as_it_is = of(up.clone(), spot.clone(), start, work);
                    let after = |from: usize| {
                        let (up, spot) = turned(from);
                        of(up, spot, start, work)
                    };
                    assert!(as_it_is.is_some() && after(start + 1) == as_it_is, "{lanes} {policy:?} {start}");
                    assert!(after(start) != as_it_is, "{lanes} {policy:?} {start}: blind to its own tick");
                }
            }
        }
    }
}
