//! What predictions are worth in the queue, in the report of a back-test of durations: sentences, a short table, and every order of the choice.
//!
//! The gap that an order closes is (mean wait of the fewest GPUs first − its own) / (the same − that of QSSF on true durations). O(orders). Worked number: 70 min for the fewest GPUs first, 54 min
//! for the order and 44 min for QSSF close 16 / 26 = 62 % of it.

use tracecast_analytics::report::chart::{Axis, Chart, ChartSeries, Mark};
use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use crate::downstream::{Downstream, FEWEST, FIFO, LengthMeasure, ORACLE, QueueOutcome};
use crate::replay::compare::IntervalEstimate;

/// What the order that is handed out (`predicted_duration_s`) did, by the `chosen` model where that was replayed, and the best aged one whose tail is no longer than FIFO's. The latter is
/// picked from the table afterwards, and said to be.
pub(super) fn sentence(downstream: &Downstream, chosen: &str, ranked_at: f64) -> Vec<String> {
    let mut said = Vec::new();
    // Nothing of this is worth more than its queue.
    if let Some(fidelity) = downstream.fidelity.as_ref() {
        let bold = if fidelity.is_close() { "" } else { "**" };
        let nodes = if downstream.fifo_on_record_s.is_some() { " That is on the nodes of the record." } else { "" };
        said.push(format!(
            "{bold}The queue is that of FIFO as it is replayed here.{bold} {}{nodes}",
            fidelity.sentence()
        ));
    }
    // Before all that is told of orders.
    said.extend(other_nodes(downstream));
    if let Some(outcome) = handed_out(downstream, chosen)
        && let (Some(gap), Some(tail)) = (outcome.gap_closed, outcome.p95_of_fifo)
    {
        said.push(format!(
            "Ordering the queue by the {} quantiles that {} predicts (the level that ordered the jobs to choose on best) closes **{}** of the gap in mean wait from the fewest GPUs first to true durations: {}{}, with a 95 % quantile of waits {tail:.2} times FIFO's.",
            format::percent(ranked_at),
            outcome.model.as_deref().unwrap_or("the model"),
            format::percent(gap),
            format::duration(outcome.mean_wait_s),
            change_in_words("the fewest GPUs first", outcome.beside_fewest_s),
        ));
    }
    if downstream.outcomes.iter().all(|outcome| outcome.gap_closed.is_none()) {
        said.push(
            "There is no gap to close: the fewest GPUs first, which needs no prediction, waits no longer on average than QSSF on true durations."
                .to_owned(),
        );
    }
    said.extend(chosen_in_words(downstream));
    if let Some((gap, outcome)) = best_with_hindsight(downstream).and_then(|best| Some((best.gap_closed?, best))) {
        said.push(format!(
            "Of the {} orders by predictions that stop no job, the best whose 95 % quantile is no longer than FIFO's closes {} ({}: a mean wait of {}{}); it is picked with hindsight.",
            format::count(by_predictions(downstream).count() as u64),
            format::percent(gap),
            named(outcome),
            format::duration(outcome.mean_wait_s),
            downstream
                .called(FIFO)
                .map_or_else(String::new, |fifo| format!(", {} under FIFO", format::duration(fifo.mean_wait_s)))
        ));
    }
    said
}

/// Share, and seconds, by which mean waits of the same order on other nodes differ, so that it is told.
const OTHER_WAIT: f64 = 0.05;
const OTHER_WAIT_S: f64 = 60.0;

/// A caution that the replayed queue is not that of the record, where FIFO waits otherwise on the
/// nodes of the replay.
fn other_nodes(downstream: &Downstream) -> Option<String> {
    let (here, record_s) = (downstream.called(FIFO)?.mean_wait_s, downstream.fifo_on_record_s?);
    let (apart, least) = ((here - record_s).abs(), (OTHER_WAIT * record_s.max(here)).max(OTHER_WAIT_S));
    (apart > least).then(|| {
        format!(
            "**The orders below are replayed on the nodes of --site, on which FIFO waits {} on average, and {} on the nodes as they were.** `tracecast cluster SOURCE --over-time` writes the nodes of the record as they changed.",
            format::duration(here),
            format::duration(record_s)
        )
    })
}

/// The order that is handed out (`predicted_duration_s`), by the `chosen` model where that was replayed.
fn handed_out<'d>(downstream: &'d Downstream, chosen: &str) -> Option<&'d QueueOutcome> {
    let is_handed_out = |outcome: &&QueueOutcome| outcome.measure == Some(LengthMeasure::Ranked) && !outcome.ages();
    let all = || downstream.outcomes.iter().filter(is_handed_out);
    all().find(|outcome| outcome.model.as_deref() == Some(chosen)).or_else(|| all().next())
}

/// Orders that go by predictions and stop no job.
fn by_predictions(downstream: &Downstream) -> impl Iterator<Item = &QueueOutcome> {
    downstream.outcomes.iter().filter(|outcome| outcome.model.is_some() && !outcome.preempts && !outcome.oracle)
}

/// Order by predictions with the shortest mean wait among those whose 95 % quantile is no longer
/// than FIFO's, chosen with future data.
fn best_with_hindsight(downstream: &Downstream) -> Option<&QueueOutcome> {
    by_predictions(downstream)
        .filter(|outcome| outcome.p95_of_fifo.is_some_and(|tail| tail <= 1.0))
        .min_by(|a, b| a.mean_wait_s.total_cmp(&b.mean_wait_s))
}

/// The rows to read first: what needs no prediction, what is handed out, what was chosen beforehand, the best with hindsight, and the oracle.
fn in_short(downstream: &Downstream, chosen_model: &str) -> ReportTable {
    let mut table = ReportTable::new(
        "In short",
        vec![
            Column::text("Order"),
            Column::text("Which"),
            Column::number("Mean wait"),
            Column::text("Beside FIFO's"),
            Column::text("Beside the fewest GPUs'"),
            Column::number("95 % wait under"),
            Column::number("95 % over FIFO's"),
        ],
    );
    table.note = Some(
        "Beside: the 95 % interval of the change of the mean wait, job by job, over days drawn anew. Where it holds 0, the difference may be chance. What was picked afterwards has none: it would be too good."
            .to_owned(),
    );
    let chosen = downstream.chosen().filter(|chosen| chosen.ages());
    let rows = [
        ("first come, first served", downstream.called(FIFO), true),
        ("needs no prediction", downstream.called(FEWEST), true),
        ("as predictions are handed out", handed_out(downstream, chosen_model), true),
        ("chosen beforehand", chosen, true),
        ("best by predictions, with hindsight", best_with_hindsight(downstream), false),
        ("knows true durations", downstream.called(ORACLE), true),
    ];
    for (which, outcome, known_before) in rows.into_iter().filter_map(|(which, of, known)| Some((which, of?, known))) {
        table.rows.push(vec![
            named(outcome).into(),
            which.into(),
            Cell::Duration(outcome.mean_wait_s),
            beside(outcome, FIFO, outcome.beside_fifo_s.filter(|_| known_before)),
            beside(outcome, FEWEST, outcome.beside_fewest_s.filter(|_| known_before)),
            Cell::Duration(outcome.p95_wait_s),
            Cell::opt(outcome.p95_of_fifo, |value| Cell::Float { value, digits: 2 }),
        ]);
    }
    table
}

/// The change of the mean wait of another order; itself changes nothing.
fn beside(outcome: &QueueOutcome, other: &str, change: Option<IntervalEstimate>) -> Cell {
    if outcome.order == other {
        return "".into();
    }
    Cell::opt(change, |change| change.ends_as_durations().into())
}

/// How much longer a mean wait is beside that of another order, and whether it may be chance.
fn change_in_words(of: &str, change: Option<IntervalEstimate>) -> String {
    let Some(change) = change else { return String::new() };
    let chance = if change.excludes(0.0) { "" } else { ", **which may be chance**" };
    let (value, ends) = (format::duration_change(change.value), change.ends_as_durations());
    format!(" ({value} beside {of}; {ends} in 95 % of the draws of other days{chance})")
}

/// What the order did that was chosen on an earlier replay, beside FIFO and what needs no prediction; `None` where none was chosen, or FIFO has no tail.
fn chosen_in_words(downstream: &Downstream) -> Option<String> {
    let chosen = downstream.chosen()?;
    let tail = chosen.p95_of_fifo?;
    if !chosen.ages() {
        return Some(
            "On as long a time before, no order that ages waited less than FIFO on average without a longer 95 % quantile, so **FIFO** is what would have been chosen."
                .to_owned(),
        );
    }
    let less = |outcome: &QueueOutcome| outcome.order == chosen.order && outcome.tau() < chosen.tau();
    let why = if downstream.outcomes.iter().any(less) {
        "a step back from the best whose tail was no longer than FIFO's there"
    } else {
        "with the least ageing tried, as the best whose tail was no longer than FIFO's there aged no more than one step further"
    };
    let own = chosen.before.and_then(|before| before.p95_of_fifo).filter(|tail| *tail > 1.0);
    let own = own.map_or_else(String::new, |tail| format!("; its own tail there was {tail:.2} times FIFO's"));
    let closes = chosen.gap_closed.map(|gap| format!("; it closes **{}** of the gap", format::percent(gap)));
    let simpler = downstream.called(FEWEST).filter(|fewest| fewest.mean_wait_s <= chosen.mean_wait_s).map(|fewest| {
        let tail = fewest.p95_of_fifo.map(|tail| format!(", with a 95 % quantile {tail:.2} times FIFO's"));
        format!(
            " **The fewest GPUs first, which needs no prediction, waits no longer**: {}{}{}.",
            format::duration(fewest.mean_wait_s),
            chosen.beside_fewest_s.map_or_else(String::new, |change| {
                let may = if change.excludes(0.0) { "" } else { ", so either may be the better one" };
                format!(", from which the chosen order differs by {}{may}", change.as_durations())
            }),
            tail.unwrap_or_default()
        )
    });
    Some(format!(
        "The order chosen on as long a time before ({}: {why}{own}) waits {} on average where FIFO waits {}{}, with a 95 % quantile {tail:.2} times FIFO's{}.{}",
        named(chosen),
        format::duration(chosen.mean_wait_s),
        downstream.called(FIFO).map_or_else(String::new, |fifo| format::duration(fifo.mean_wait_s)),
        change_in_words("FIFO", chosen.beside_fifo_s),
        closes.unwrap_or_default(),
        simpler.unwrap_or_default()
    ))
}

/// An order with its τ.
fn named(outcome: &QueueOutcome) -> String {
    match ageing(outcome) {
        Some(ageing) => format!("{}, τ = {ageing}", outcome.order),
        None => outcome.order.clone(),
    }
}

/// What an order ages by.
fn ageing(outcome: &QueueOutcome) -> Option<String> {
    let of_wait = |share: f64| format!("{share} × longest wait");
    outcome.ageing_s.map(format::duration).or_else(|| outcome.ageing_share.map(of_wait))
}

/// The orders that the table shows. Of those that age by predictions, the kind that was chosen, with every τ; where none was chosen, the measure that is handed out. All others, but for a quantile of the very level that is handed
/// out: it is the same order.
fn shown(downstream: &Downstream, ranked_at: f64) -> Vec<&QueueOutcome> {
    let chosen = downstream.chosen().filter(|chosen| chosen.ages());
    let is_handed_out = |outcome: &QueueOutcome| outcome.measure == Some(LengthMeasure::Ranked);
    let is_there_twice = |outcome: &QueueOutcome| {
        let same = |other: &QueueOutcome| is_handed_out(other) && other.model == outcome.model;
        outcome.measure.and_then(LengthMeasure::level) == Some(ranked_at) && downstream.outcomes.iter().any(same)
    };
    let shows = |outcome: &&QueueOutcome| match (outcome.ages() && !outcome.oracle, chosen) {
        (true, Some(chosen)) => outcome.order == chosen.order,
        (true, None) => is_handed_out(outcome),
        (false, _) => !is_there_twice(outcome),
    };
    downstream.outcomes.iter().filter(shows).collect()
}

pub(super) fn queue(downstream: &Downstream, chosen: &str, ranked_at: f64) -> Section {
    let mut table = ReportTable::new(
        "Waits under each order",
        vec![
            Column::text("Order"),
            Column::text("τ"),
            Column::number("Mean wait"),
            Column::number("95 % wait under"),
            Column::number("Gap closed"),
            Column::number("95 % over FIFO's"),
        ],
    );
    let tried_before = downstream.outcomes.iter().any(|outcome| outcome.before.is_some());
    if tried_before {
        table.columns.extend([Column::number("Mean wait before"), Column::number("95 % over FIFO's before")]);
    }
    let ratio = |value: f64| Cell::Float { value, digits: 2 };
    let shown = shown(downstream, ranked_at);
    for outcome in &shown {
        let chosen = if outcome.chosen_before { " (chosen before)" } else { "" };
        let mut row = vec![
            format!("{}{chosen}", outcome.order).into(),
            ageing(outcome).unwrap_or_default().into(),
            Cell::Duration(outcome.mean_wait_s),
            Cell::Duration(outcome.p95_wait_s),
            Cell::opt(outcome.gap_closed, Cell::Percent),
            Cell::opt(outcome.p95_of_fifo, ratio),
        ];
        if tried_before {
            row.push(Cell::opt(outcome.before, |before| Cell::Duration(before.mean_wait_s)));
            row.push(Cell::opt(outcome.before.and_then(|before| before.p95_of_fifo), ratio));
        }
        table.rows.push(row);
    }
    let hours = |outcome: &QueueOutcome| (outcome.mean_wait_s / 3600.0, outcome.p95_wait_s / 3600.0);
    let points = |keep: &dyn Fn(&QueueOutcome) -> bool| {
        let mut points: Vec<(f64, f64)> =
            downstream.outcomes.iter().filter(|outcome| keep(outcome)).map(hours).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let aged = |outcome: &QueueOutcome| outcome.ages();
    let alike = |outcome: &QueueOutcome| outcome.ageing_share.is_some();
    let series = vec![
        ChartSeries::new("by jobs alike", Mark::Points, points(&|outcome| alike(outcome) && !outcome.oracle)),
        ChartSeries::new(
            "aged, predicted",
            Mark::Points,
            points(&|outcome| aged(outcome) && !alike(outcome) && !outcome.oracle),
        ),
        ChartSeries::new(
            "not aged",
            Mark::Points,
            points(&|outcome| !aged(outcome) && !outcome.oracle && !outcome.preempts),
        ),
        ChartSeries::new("aged, true durations", Mark::Points, points(&|outcome| aged(outcome) && outcome.oracle)),
    ];
    let chart = Chart::xy(
        "frontier",
        "Mean wait against the 95 % quantile",
        Axis::linear("Mean wait (h)"),
        Axis::linear("95 % quantile of waits (h)"),
        series,
    )
    .with_reading("Each point is an order. Left is better for most jobs, below is better for those that wait longest.");
    let finding = format!(
        "{} replayed, {} of them with a prediction made from what had ended before.",
        format::counted(downstream.jobs as u64, "job", "jobs"),
        format::count(downstream.predicted as u64)
    );
    let before = "Before: in a replay of as long a time before, on which the order that ages is chosen.";
    let others = downstream.outcomes.len() - shown.len();
    let others = (others > 0).then(|| {
        format!(
            "{} by other measures of the same predictions, most of them with ageing, are points of the chart and stand in `outcomes` of the JSON.",
            format::counted(others as u64, "order", "orders")
        )
    });
    let notes: Vec<String> = tried_before.then(|| before.to_owned()).into_iter().chain(others).collect();
    table.note = (!notes.is_empty()).then(|| notes.join(" "));
    let boost = match downstream.pools_with_gamma {
        0 => "γ-boost (arXiv 2404.08826) is not replayed: no pool has the past that its one setting comes from, so it would be FIFO.".to_owned(),
        with_gamma => format!(
            "γ-boost: first the least submission less a boost, which is longer for shorter jobs (arXiv 2404.08826). Its one setting comes from what ended before; {} of {} have one, and in the others the order is that of submission.",
            format::count(with_gamma as u64),
            format::counted(downstream.pools as u64, "pool", "pools")
        ),
    };
    Section::new("queue", "What predictions are worth in the queue")
        .with_finding(finding)
        .with_table(in_short(downstream, chosen))
        .with_chart(chart)
        .with_table(table)
        .with_definition(format!(
            "Measures of what a job is predicted to run. Mean of logs: e to the mean logarithm. Mean within a day: the mean of the runs cut off at a day. Quantile chosen on earlier jobs: that of {}, which `model predict duration` hands out as predicted_duration_s.",
            format::percent(ranked_at)
        ))
        .with_definition("All orders are replayed on the nodes of --site. How near FIFO comes to the record is told of the nodes of the record, where they are known, and of jobs whose start is recorded, so its mean wait is another.")
        .with_definition("Gap closed: (mean wait of the fewest GPUs first − that of the order) / (the same − that of QSSF on true durations).")
        .with_definition("Aged: first the least τ · ln(expected GPU-seconds) + submission; τ = 0 is FIFO. The key stands from submission on.")
        .with_definition("By jobs alike: the same, with an expected run that goes by the jobs of the same VC, user and GPUs that were submitted within half an hour and have ended since, and with a τ that is a share of the longest wait in the pool at the moment. With --site compat=helios these orders are replayed without it, as that simulator does not know them.")
        .with_definition(boost)
        .with_definition("Preemptive orders are another kind of cluster (jobs are stopped and started again at a cost of 7, 30 or 60 s) and stand apart.")
}

#[cfg(test)]
mod tests {
    use tracecast_analytics::report::Block;

    use super::*;

    fn outcome(order: &str, measure: Option<LengthMeasure>, ageing_s: Option<f64>) -> QueueOutcome {
        QueueOutcome {
            order: order.to_owned(),
            model: measure.map(|_| "m".to_owned()),
            measure,
            ageing_s,
            ..QueueOutcome::default()
        }
    }

    /// Regression test: a table of a hundred orders held some of them twice.
    #[test]
    fn the_table_shows_the_orders_of_the_choice() {
        use LengthMeasure::{Mean, Ranked, Upper};
        let mut outcomes = vec![outcome(FIFO, None, None)];
        for (name, measure) in [("mean", Mean), ("80 %", Upper), ("ranked", Ranked)] {
            outcomes.push(outcome(name, Some(measure), None));
            outcomes.extend([1.0, 2.0].map(|tau| outcome(&format!("aged, {name}"), Some(measure), Some(tau))));
        }
        outcomes.push(QueueOutcome { oracle: true, ..outcome("aged, true", None, Some(1.0)) });
        let mut downstream = Downstream { outcomes, ..Downstream::default() };
        let told = |of: &Downstream, ranked_at: f64| -> Vec<String> {
            shown(of, ranked_at).into_iter().map(|outcome| outcome.order.clone()).collect()
        };
        let of_ranked = ["aged, ranked", "aged, ranked", "aged, true"];
        assert_eq!(told(&downstream, 0.7), [[FIFO, "mean", "80 %", "ranked"].as_slice(), &of_ranked].concat());
        // The 80 % quantile is what is handed out.
        assert_eq!(told(&downstream, 0.8), [[FIFO, "mean", "ranked"].as_slice(), &of_ranked].concat());
        // The second of the orders by the mean was chosen.
        downstream.outcomes[3].chosen_before = true;
        let of_mean = ["mean", "aged, mean", "aged, mean"];
        assert_eq!(told(&downstream, 0.8), [[FIFO].as_slice(), &of_mean, &["ranked", "aged, true"]].concat());
        let section = queue(&downstream, "m", 0.8);
        let tables = section.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => table.note.clone(),
            _ => None,
        });
        let notes: Vec<String> = tables.collect();
        assert!(notes.iter().any(|note| note.contains("5 orders by other measures")), "{notes:?}");
    }

    /// Regression test: "the best of all orders that were tried" was chosen from those that age
    /// alone, and its own table showed better ones.
    #[test]
    fn the_best_with_hindsight_is_the_best_of_all_that_go_by_predictions() {
        let of = |order: &str, mean_wait_s: f64, tail: f64, model: bool| QueueOutcome {
            mean_wait_s,
            p95_of_fifo: Some(tail),
            model: model.then(|| "m".to_owned()),
            ..outcome(order, None, None)
        };
        let outcomes = vec![
            of(FIFO, 100.0, 1.0, false),
            of(FEWEST, 10.0, 0.5, false),
            QueueOutcome { ageing_s: Some(1.0), ..of("aged", 60.0, 0.8, true) },
            of("QSSF", 40.0, 0.9, true),
            of("bold", 20.0, 1.1, true),
            QueueOutcome { preempts: true, ..of("stops jobs", 5.0, 0.1, true) },
        ];
        let downstream = Downstream { outcomes, ..Downstream::default() };
        assert_eq!(best_with_hindsight(&downstream).map(|best| best.order.as_str()), Some("QSSF"));
        let short = in_short(&downstream, "m");
        assert_eq!(short.rows.len(), 3, "{short:?}");
    }

    /// Regression test: the replay was said to repeat the record, which it does on the nodes of the
    /// record, and orders were compared on others.
    #[test]
    fn other_nodes_than_those_of_the_record_are_told_first() {
        let fifo = |fifo_on_record_s: Option<f64>| Downstream {
            fifo_on_record_s,
            outcomes: vec![QueueOutcome { mean_wait_s: 7200.0, ..outcome(FIFO, None, None) }],
            ..Downstream::default()
        };
        let told = sentence(&fifo(Some(3600.0)), "m", 0.8);
        assert!(told[0].contains("FIFO waits 2 h on average, and 1 h on the nodes as they were"), "{told:?}");
        for same in [Some(7100.0), None] {
            assert_eq!(other_nodes(&fifo(same)), None);
        }
    }

    #[test]
    fn a_change_that_reaches_nothing_may_be_chance() {
        let change = |high: f64| Some(IntervalEstimate { value: -600.0, low: -1200.0, high });
        let sure = change_in_words("FIFO", change(-60.0));
        assert_eq!(sure, " (−10 min beside FIFO; −20 min to −1 min in 95 % of the draws of other days)");
        assert!(change_in_words("FIFO", change(60.0)).contains("may be chance"));
        assert_eq!(change_in_words("FIFO", None), "");
    }
}
