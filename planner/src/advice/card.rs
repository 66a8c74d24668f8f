//! A recommendation as a card of a report: one way to show it, whatever the plan.
//!
//! Worked example: "Mean wait of a GPU job: **−41 min** (−52 min to −30 min, 95 %), against first come, first served."

use tracecast_analytics::report::{Card, format};

use crate::plan::{Basis, Effect, Recommendation};

/// The card of a recommendation.
pub fn card(recommendation: &Recommendation) -> Card {
    let mut details = Vec::new();
    let mut detail = |name: &str, text: String| {
        if !text.is_empty() {
            details.push((name.to_owned(), text));
        }
    };
    let further: Vec<String> =
        recommendation.effects.iter().skip(1).map(|effect| format!("{}.", told(effect))).collect();
    detail("Also", further.join(" "));
    detail("Interval", recommendation.effects.first().map_or_else(String::new, |effect| effect.interval.clone()));
    if let (Some(regret), Some(first)) = (&recommendation.regret, recommendation.effects.first()) {
        let mut text = format!("{}: {}.", regret.oracle, amount(regret.oracle_change, &first.unit));
        if let (Some(naive), Some(change)) = (&regret.naive, regret.naive_change) {
            text.push_str(&format!(" {naive}: {}.", amount(change, &first.unit)));
        }
        detail("The most there is to gain", text);
    }
    detail("Risk", recommendation.risk.clone());
    detail("Assumes", recommendation.assumptions.join(" "));
    detail("Holds until", recommendation.holds_until.clone());
    let cost = match recommendation.harmed.as_slice() {
        [] => "No group in the data is worse off.".to_owned(),
        harmed => harmed.iter().map(|harm| format!("{}: {}.", harm.who, harm.how_much)).collect::<Vec<_>>().join(" "),
    };
    let basis = match recommendation.basis {
        Basis::LaterDays => "tested on days after those it was chosen on",
        Basis::Replay => "the jobs of the past, replayed",
        Basis::Count => "a count of what happened",
    };
    Card {
        action: recommendation.action.clone(),
        effect: recommendation
            .effects
            .first()
            .map_or_else(String::new, |effect| format!("{}, against {}.", told(effect), recommendation.against)),
        confidence: format!("**{}**: {basis}.", recommendation.confidence.in_words()),
        cost,
        apply: recommendation.apply.clone(),
        command: recommendation.command.clone(),
        undo: recommendation.undo.clone(),
        details,
    }
}

/// An effect without its full stop: what, by how much, between what.
fn told(effect: &Effect) -> String {
    let range = match (effect.low, effect.high) {
        (Some(low), Some(high)) => format!(" ({} to {}, 95 %)", amount(low, &effect.unit), amount(high, &effect.unit)),
        _ => String::new(),
    };
    format!("{}: **{}**{range}", effect.what, amount(effect.change, &effect.unit))
}

/// A change with its sign and unit; seconds as a duration.
fn amount(value: f64, unit: &str) -> String {
    let sign = match value {
        ..0.0 => "−",
        0.0 => "",
        _ => "+",
    };
    match unit {
        "s" => format!("{sign}{}", format::duration(value.abs())),
        "%" => format!("{sign}{}", format::percent(value.abs() / 100.0)),
        "" => format!("{sign}{}", format::compact(value.abs())),
        unit => format!("{sign}{} {unit}", format::compact(value.abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Confidence, Harm, Regret};

    #[test]
    fn a_recommendation_is_told_with_its_interval_its_cost_and_its_bound() {
        let effect = |what: &str, unit: &str, change: f64| Effect {
            what: what.to_owned(),
            unit: unit.to_owned(),
            change,
            low: Some(change * 1.5),
            high: Some(change * 0.5),
            interval: "Blocks of a day.".to_owned(),
        };
        let told = card(&Recommendation {
            plan: "order".to_owned(),
            action: "Serve small jobs first.".to_owned(),
            effects: vec![effect("Mean wait", "s", -3600.0), effect("GPU-hours waited", "GPU-h", -2000.0)],
            against: "first come, first served".to_owned(),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "True run times".to_owned(),
                oracle_change: -7200.0,
                naive_change: None,
                naive: None,
            }),
            harmed: vec![Harm { who: "VC a".to_owned(), how_much: "waits 5 min longer".to_owned() }],
            confidence: Confidence::Medium,
            risk: String::new(),
            assumptions: vec!["Users submit what they did.".to_owned()],
            holds_until: String::new(),
            apply: "Set it.".to_owned(),
            command: None,
            undo: "Unset it.".to_owned(),
        });
        assert_eq!(
            told.effect,
            "Mean wait: **−1 h** (−1 h 30 min to −30 min, 95 %), against first come, first served."
        );
        assert_eq!(told.cost, "VC a: waits 5 min longer.");
        let names: Vec<&str> = told.details.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Also", "Interval", "The most there is to gain", "Assumes"]);
    }
}
