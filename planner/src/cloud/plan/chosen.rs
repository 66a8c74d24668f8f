//! What a cloud plan chooses from its windows: a policy, and a zone where there are several.
//!
//! Zones that are tried at the same moments: the policy is the one that costs least on the windows of choice, over all zones and without a miss, and the [zone](crate::cloud::zones::choice) is chosen anew for each later window and at the end of the data. What
//! that came to is a candidate of its own, called [`ANEW`]. Otherwise zone and policy are chosen as one, by the least mean on the windows of choice. O(zones × windows × policies).
//! The policy over all zones together is chosen on those windows of choice that have as much past as they are long: without a past a policy decides by its prior, and the plan has the whole record.
//!
//! Worked example: a policy costs 0.5 and 0.7 in two zones, another 0.55 and 0.6. The second is chosen: 0.575 where the first costs 0.6.

use tracecast_analytics::watch::Watch;

use super::super::attempt::{Attempt, on_windows};
use super::super::job::{DeadlineJob, JobRun};
use super::super::moments::{Moments, common_end, disjoint};
use super::super::outlook::expected_share;
use super::super::policy::{CloudPolicy, Lessons};
use super::super::request::CloudRequest;
use super::candidate::{CloudCandidate, candidate, least};
use crate::cloud::zones::attempt_zones_of;
use crate::cloud::zones::choice::{GONE_H, WindowTimes, ZonesCompared, choose};
use crate::cloud::zones::market::{Market, listed_by_all};
use crate::cloud::zones::seen::ZoneSeen;
use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;
use crate::plan::interval::average;
use crate::plan::window::Window;

/// What the zone that is chosen anew for each later window is called among the candidates.
pub(super) const ANEW: &str = "zone chosen anew";

/// A zone, or all of them together, tried on its windows.
pub(super) struct TriedZone<'a> {
    /// Name among the candidates.
    pub(super) name: String,
    /// The zone.
    pub(super) zone: &'a SpotSeries,
    /// What was learned of it.
    pub(super) lessons: Lessons,
    /// What each policy came to on the windows of choice, and on the later ones.
    pub(super) attempts: [Vec<Attempt>; 2],
}

/// The chosen policy and its runs.
pub(super) struct Chosen {
    /// The policy, with what it came to where it is judged.
    pub(super) best: CloudCandidate,
    /// Runs of the policy on the windows of choice and the later ones, in the zone of now.
    pub(super) runs: [Vec<JobRun>; 2],
    /// The zone that it was followed in on each of the later windows, by position among those tried.
    pub(super) later: Vec<usize>,
    /// The zone to begin in, by position among those tried.
    pub(super) place: usize,
    /// Every zone with every policy.
    pub(super) candidates: Vec<CloudCandidate>,
    /// How the zones compare; nothing where they were not tried at the same moments, or there is one.
    pub(super) compared: Option<ZonesCompared>,
}

fn of_zone(tried: &TriedZone<'_>, policy: CloudPolicy) -> CloudCandidate {
    let [early, late] = &tried.attempts;
    let cost = average(early.iter().map(|attempt| attempt.share(policy)));
    candidate(&tried.name, policy, cost, &early.iter().collect::<Vec<_>>(), &late.iter().collect::<Vec<_>>())
}

/// The runs of a policy in a zone, on the windows of choice and the later ones.
fn runs_of(tried: &TriedZone<'_>, policy: CloudPolicy) -> [Vec<JobRun>; 2] {
    tried.attempts.each_ref().map(|attempts| attempts.iter().map(|attempt| attempt.run(policy)).collect())
}

/// Chooses zone and policy as one.
///
/// # Errors
/// If nothing was tried.
pub(super) fn as_one(all: &[TriedZone<'_>], request: &CloudRequest) -> Result<Chosen> {
    let (policies, choices) = request.policies();
    let candidates: Vec<CloudCandidate> =
        all.iter().flat_map(|tried| policies.iter().map(move |policy| of_zone(tried, *policy))).collect();
    let nothing = || Error::no_scenario("no trace is named; name at least one");
    let (at, best) = least(&candidates, choices).ok_or_else(nothing)?;
    let (place, best) = (at / policies.len().max(1), best.clone());
    let tried = all.get(place).ok_or_else(nothing)?;
    let later = vec![place; tried.attempts[1].len()];
    Ok(Chosen { runs: runs_of(tried, best.policy), best, later, place, candidates, compared: None })
}

/// Chooses a policy for all zones, and among the zones, which were tried at the same moments.
///
/// # Errors
/// If nothing was tried, or a market cannot be run.
pub(super) fn among_zones(
    all: &[TriedZone<'_>],
    (series, moments): (&[SpotSeries], &Moments),
    (request, job): (&CloudRequest, &DeadlineJob),
    watch: &dyn Watch,
) -> Result<Chosen> {
    let nothing = || Error::no_scenario("no trace is named; name at least one");
    let early = || all.iter().flat_map(|tried| &tried.attempts[0]);
    let over_all = |policy: CloudPolicy| {
        let early: Vec<&Attempt> = early().collect();
        candidate(ANEW, policy, average(early.iter().map(|attempt| attempt.share(policy))), &early, &[])
    };
    let choices = request.choices(false);
    let pooled: Vec<CloudCandidate> = choices.iter().copied().map(over_all).collect();
    let policy = least(&pooled, choices).map(|(_, of)| of.policy).ok_or_else(nothing)?;
    let [choose_on, report_on] = moments.zones.first().ok_or_else(nothing)?;
    let first = series.first().ok_or_else(nothing)?;
    let hours = |ticks: usize| ticks as f64 * first.tick_ms as f64 / 3.6e6;
    let times = WindowTimes {
        begins_h: choose_on.iter().chain(report_on).map(|window| hours(window.ahead.start)).collect(),
        length_h: report_on.first().map_or(0.0, |window| hours(window.ahead.len())),
        early: choose_on.len(),
        end_h: hours(common_end(series)),
    };
    let seen = seen(all, (series, moments), (request, job), policy);
    let together = together((series, moments), (request, job), watch)?;
    let picked = choose(&seen, &times, policy, disjoint(report_on), together);
    let mut candidates: Vec<CloudCandidate> = Vec::new();
    for of in CloudPolicy::ALL {
        let attempts =
            picked.later.iter().enumerate().filter_map(|(at, place)| all.get(*place)?.attempts.get(1)?.get(at));
        let late: Vec<&Attempt> = attempts.collect();
        let early: Vec<&Attempt> = early().collect();
        let cost = average(early.iter().map(|attempt| attempt.share(of)));
        candidates.push(candidate(ANEW, of, cost, &early, &late));
    }
    let best = candidates.iter().find(|of| of.policy == policy).cloned().ok_or_else(nothing)?;
    // What is bought is bought in the zone of now: those of other zones have other prices.
    let runs = all.get(picked.now).map(|tried| runs_of(tried, policy)).ok_or_else(nothing)?;
    candidates.extend(all.iter().flat_map(|tried| CloudPolicy::ALL.map(|policy| of_zone(tried, policy))));
    Ok(Chosen { best, runs, later: picked.later, place: picked.now, candidates, compared: Some(picked.compared) })
}

/// What is known of each zone at the beginning of each of the later windows, and at the end of its data.
fn seen(
    all: &[TriedZone<'_>],
    (series, moments): (&[SpotSeries], &Moments),
    (request, job): (&CloudRequest, &DeadlineJob),
    policy: CloudPolicy,
) -> Vec<ZoneSeen> {
    let listed = listed_by_all(series);
    let of = |(place, (tried, [_, report_on])): (usize, (&TriedZone<'_>, &[Vec<Window>; 2]))| {
        let price = tried.zone.price.as_ref();
        let expected = |start: usize| {
            expected_share(&tried.lessons, price, start, (CloudPolicy::SemiMarkov, job), request.uncertain.as_ref())
        };
        let last = tried.zone.counts.len().saturating_sub(1);
        let begun: Vec<usize> = report_on.iter().map(|window| window.ahead.start).chain([last]).collect();
        let day = (GONE_H * 3.6e6 / tried.zone.tick_ms.max(1) as f64).ceil() as usize;
        let gone = |at: &usize| {
            let seen = tried.lessons.supply.within(at.saturating_sub(day)..at + 1);
            seen.len() > day && seen.iter().all(|up| *up == 0)
        };
        ZoneSeen {
            trace: tried.name.clone(),
            shares: tried.attempts.iter().flatten().map(|attempt| attempt.share(policy)).collect(),
            expected: begun.iter().map(|start| expected(*start)).collect(),
            gone: begun.iter().map(gone).collect(),
            on_demand: price
                .and_then(|price| price.on_demand_or(request.price_ratio))
                .or_else(|| listed.get(place).copied()),
        }
    };
    all.iter().zip(&moments.zones).enumerate().map(of).collect()
}

/// The windows that have as much past as they are long, all if none has. With less a policy over zones knows little but its prior, and says little of a job that has the whole record behind it.
fn with_past(windows: &[Window]) -> Vec<Window> {
    let known: Vec<Window> = windows.iter().filter(|window| window.past.len() >= window.ahead.len()).cloned().collect();
    if known.is_empty() { windows.to_vec() } else { known }
}

/// The job over all zones together on the later windows: its policy, chosen on the windows of choice that have a past, its costs, and misses; or why it cannot be one job.
type OverZones = std::result::Result<(CloudPolicy, Vec<f64>, usize), String>;

fn together(
    (series, moments): (&[SpotSeries], &Moments),
    (request, job): (&CloudRequest, &DeadlineJob),
    watch: &dyn Watch,
) -> Result<OverZones> {
    let begins = |windows: &[Window]| windows.iter().map(|window| window.ahead.start).collect::<Vec<_>>();
    let mut all = moments.zones.iter().map(|[choose_on, report_on]| (begins(choose_on), begins(report_on)));
    let first = all.next();
    if request.elastic {
        return Ok(Err("an elastic job runs in one zone.".to_owned()));
    }
    if all.any(|of| Some(of) != first) {
        return Ok(Err("the traces do not begin at the same moment.".to_owned()));
    }
    let Some([choose_on, report_on]) = moments.zones.first() else { return Ok(Err("there is none.".to_owned())) };
    let market = match Market::new(series, request.need, request.price_ratio, request.moving.egress()) {
        Ok(market) => market.probed(request.moving.probes),
        Err(why) => return Ok(Err(format!("{why}."))),
    };
    let tried = |policies: &[CloudPolicy], windows: &[Window]| {
        on_windows(windows, watch, |window| {
            attempt_zones_of(policies, &market, window.ahead.start, &[*job], request.uncertain.as_ref())
        })
    };
    let choices = request.choices(true);
    let early = tried(choices, &with_past(choose_on))?;
    let early: Vec<&Attempt> = early.iter().collect();
    let of = |policy: CloudPolicy| {
        candidate("", policy, average(early.iter().map(|attempt| attempt.share(policy))), &early, &[])
    };
    let candidates: Vec<CloudCandidate> = choices.iter().copied().map(of).collect();
    let Some((_, best)) = least(&candidates, choices) else {
        return Ok(Err("each policy missed a deadline on the windows of choice.".to_owned()));
    };
    let late = tried(&[best.policy], report_on)?;
    let costs = late.iter().map(|attempt| attempt.share(best.policy)).collect();
    Ok(Ok((best.policy, costs, late.iter().filter(|attempt| attempt.run(best.policy).missed).count())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// A window at the first tick is chosen on only where there is no other.
    #[test]
    fn windows_without_a_past_count_where_there_are_no_others() {
        let window = |from: usize| Window { past: 0..from, ahead: from..from + 10 };
        let windows = [0, 9, 10, 30].map(window);
        assert_eq!(with_past(&windows), windows[2..]);
        assert_eq!(with_past(&windows[..2]), windows[..2]);
    }

    /// What comes after a later window began is in nothing by which the zone is chosen for it; what the end of the data shows is in what is expected there.
    #[test]
    fn a_zone_is_chosen_by_what_was_seen() {
        let request = CloudRequest {
            work_ms: 12 * HOUR,
            deadline_ms: Some(24 * HOUR),
            changeover_ms: HOUR / 5,
            price_ratio: 3.0,
            is_ratio_given: true,
            starts: 4,
            need: 1,
            ..CloudRequest::default()
        };
        let jobs = request.jobs().unwrap();
        let zone = |name: &str, every: usize, from: usize| {
            let up = |tick: usize| f64::from(u8::from((tick % every < every / 2) == (tick < from)));
            SpotSeries::of_counts(name, HOUR / 2, (0..960).map(up).collect())
        };
        let told = |from: usize| {
            let series = [zone("a", 14, from), zone("b", 40, from)];
            let moments = Moments::of(&series, &jobs, request.starts).unwrap();
            let of = |zone| {
                let lessons = Lessons::new(SpotSeries::supply(zone, 1, false), zone.tick_ms);
                TriedZone { name: zone.name.clone(), zone, lessons, attempts: [Vec::new(), Vec::new()] }
            };
            let all: Vec<TriedZone<'_>> = series.iter().map(of).collect();
            let begins: Vec<usize> = moments.zones[0][1].iter().map(|window| window.ahead.start).collect();
            let seen = seen(&all, (&series, &moments), (&request, &jobs[0]), CloudPolicy::SemiMarkov);
            (begins, seen.into_iter().map(|zone| (zone.expected, zone.gone)).collect::<Vec<_>>())
        };
        let (begins, as_it_is) = told(960);
        assert_eq!(begins.len(), 4);
        for (at, begun) in begins.iter().enumerate() {
            let (_, after) = told(begun + 1);
            for ((expected, gone), (other, other_gone)) in as_it_is.iter().zip(&after) {
                assert!(expected[at].is_some() && expected[..=at] == other[..=at] && gone[..=at] == other_gone[..=at]);
                assert!(expected[at + 1..] != other[at + 1..], "{expected:?}");
            }
            let (_, with) = told(*begun);
            assert!(as_it_is.iter().zip(&with).any(|(one, other)| one.0[at] != other.0[at]), "{with:?}");
        }
    }
}
