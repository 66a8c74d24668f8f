//! What the report says of changes, of more work and of the front.

use tracecast_analytics::Trace;
use tracecast_analytics::report::{Block, Plot};

use super::super::super::emit::tests::plan;
use super::super::super::journal::SearchRun;
use super::super::super::search::QueuesRequest;
use super::super::super::search::tests::{request, uneven};
use super::super::super::setup::QueueChange;
use super::super::QueuesAblation;
use super::*;
use crate::plan::verdict::Verdict;
use crate::replay::growth::Growth;

#[test]
fn what_the_incentive_needs_is_not_called_needless() {
    let mut answer = plan(Sharing::Borrowing { ceiling: None, reclaim: true }, None);
    let later = answer.trial.recommended;
    let without = |change: QueueChange, allowed: bool, mean_wait_s: f64| QueuesAblation {
        change,
        allowed,
        allowed_draws: None,
        cost: 1.0,
        earlier: later,
        later: WaitOf { mean_wait_s, ..later },
    };
    let shorter = later.mean_wait_s - 1.0;
    answer.body.ablation =
        vec![without(QueueChange::Sharing, true, 1e6), without(QueueChange::Reclaim, false, shorter)];
    let said = matters(&answer).unwrap();
    assert!(said.contains("no longer without reclaiming, but the plan would not be allowed"), "{said}");
    answer.body.ablation[1].allowed = true;
    let said = matters(&answer).unwrap();
    assert!(!said.contains("reclaiming"), "{said}");
    // Today it would be allowed, and with more work in two of three draws alone.
    let growth = Growth::new(1.3, Vec::new(), 3, 1).unwrap();
    let asked = QueuesRequest { growth: Some(growth), ..request(None) };
    let grown = crate::queues::plan(&Trace::default(), &uneven(300), String::new(), &asked, SearchRun::default());
    answer.body.growth = grown.unwrap().body.growth;
    answer.body.ablation[1].allowed_draws = Some(2);
    let said = matters(&answer).unwrap();
    assert!(said.contains("no longer without reclaiming, but the plan would not be allowed"), "{said}");
    let table = format!("{:?}", each_change(&answer));
    assert!(table.contains("allowed in 2 of 3 draws of more work"), "{table}");
    answer.body.ablation[1].allowed_draws = Some(3);
    assert!(!matters(&answer).unwrap().contains("reclaiming"));
}

#[test]
fn who_asks_for_more_than_it_has_is_told_and_so_is_a_theory_that_fails() {
    // Jobs of a ask for 6 GPUs × 18 min in every 10 min, of its 8 GPUs: 1.35 times as much. b asks for 1/8 of its node.
    let mut answer = plan(Sharing::OnePool, None);
    let loads: Vec<f64> = answer.body.vcs.iter().map(|vc| (vc.offered_load.unwrap() * 100.0).round() / 100.0).collect();
    assert_eq!(loads, [1.35, 0.13]);
    assert!((answer.body.offered_load.unwrap() - 0.74).abs() < 0.01);
    let said = report(&answer).summary.join(" ");
    assert!(said.contains("asked for by Vision_A (1.35)"), "{said}");
    assert!(answer.body.pooling.as_ref().unwrap().without_end == ["a"], "{:?}", answer.body.pooling);
    assert!(report(&answer).sections.iter().any(|section| section.id == "queues-pooling"));
    answer.body.offered_load = Some(1.2);
    let said = report(&answer).summary.join(" ");
    assert!(said.contains("ask for 1.20 times the GPU time that there is") && !said.contains("(1.35)"), "{said}");
    answer.body.pooling.as_mut().unwrap().differs = true;
    // Theory that the replays do not bear out stands with the theory, and not among what leads.
    let report = report(&answer);
    assert!(!report.summary.join(" ").contains("theory"), "{:?}", report.summary);
    let section = report.sections.iter().find(|section| section.id == "queues-pooling").unwrap();
    assert!(section.finding.contains("the replays differ by more than 3 times"), "{}", section.finding);
}

#[test]
fn what_holds_with_more_work_is_told_with_its_price_and_for_each_way() {
    let growth = Growth::new(1.3, Vec::new(), 3, 1).unwrap();
    let asked = QueuesRequest { growth: Some(growth), ..request(None) };
    let mut answer =
        crate::queues::plan(&Trace::default(), &uneven(300), String::new(), &asked, SearchRun::default()).unwrap();
    let (ways, chosen) = (answer.body.candidates.len(), answer.body.chosen);
    let grown = answer.body.growth.as_mut().unwrap();
    assert_eq!(grown.ways.len(), ways);
    assert_eq!(grown.ways.get(chosen), grown.of_both.as_ref());
    assert!(grown.ways.iter().zip(0..).all(|(way, at)| way.candidate == at));
    // Pretends that another way is best today and wrongs b with more work.
    let other = (1..ways).find(|at| *at != chosen).unwrap();
    (grown.ways[other].allowed_draws, grown.ways[other].wronged) = (2, vec!["b".to_owned()]);
    grown.of_todays_demand = grown.ways[other].clone();
    answer.body.candidates[chosen].earlier.mean_wait_s = 22.0 * 60.0;
    answer.body.candidates[other].earlier.mean_wait_s = 14.0 * 60.0;
    let said = when_grown(&answer).join(" ");
    assert!(said.contains("has its price: the earlier jobs wait 22 min on average with it"), "{said}");
    assert!(said.contains("with what is best on today's demand 14 min and"), "{said}");
    let Some(Block::Table(tried)) = super::tried(&answer).blocks.into_iter().next() else { unreachable!("a table") };
    let rows: Vec<String> = tried.rows.iter().map(|row| format!("{row:?}")).collect();
    assert_eq!(rows.iter().filter(|row| row.contains("2 of 3, wrongs b")).count(), 1, "{rows:#?}");
    let chosen = rows.iter().find(|row| row.contains("chosen")).unwrap();
    assert!(chosen.contains("3 of 3"), "{chosen}");
}

#[test]
fn the_chosen_is_marked_on_the_front_or_told_beside_it() {
    let mut answer = plan(Sharing::OnePool, None);
    let chosen = answer.body.chosen;
    answer.body.candidates[chosen].on_front = true;
    let front = on_the_front(&answer);
    let [Block::Table(table)] = front.blocks.as_slice() else { unreachable!("a table alone: {front:?}") };
    assert_eq!(format!("{table:?}").matches("\"chosen\"").count(), 1, "{table:?}");
    answer.body.candidates[chosen].on_front = false;
    let front = on_the_front(&answer);
    let [Block::Table(table), Block::Text(said)] = front.blocks.as_slice() else { unreachable!("{front:?}") };
    assert!(!format!("{table:?}").contains("\"chosen\""), "{table:?}");
    assert!(said.contains("not on the front, as it was chosen by"), "{said}");
    let Plot::Xy(series) = super::front(&answer).plot else { unreachable!("points") };
    let marked = series.iter().find(|series| series.name == "chosen").map(|series| series.points.len());
    assert_eq!(marked, Some(1));
}

/// Regression test: "instead of 28" nodes, which there were months before the jobs.
#[test]
fn nodes_that_were_there_long_before_are_not_those_of_now() {
    let mut loaded = uneven(300);
    loaded.cluster.pools[0].groups[0].sizes = vec![(i64::MIN, 9), (1, 1)];
    let of = |loaded: &crate::replay::input::Loaded| {
        crate::queues::plan(&Trace::default(), loaded, String::new(), &request(None), SearchRun::default()).unwrap()
    };
    let answer = of(&loaded);
    let held = &answer.trial;
    assert!(answer.is_advised() && held.nodes == 2 && held.nodes_change);
    // At most four times as many.
    assert!(held.nodes_instead.is_some_and(|nodes| (3..=8).contains(&nodes)), "{:?}", held.nodes_instead);
    let told = "instead of 2, both counted when the last job comes, as the number changes over the record.";
    let said = report(&answer).summary.join(" ");
    assert!(said.contains(told), "{said}");
    let mut long_ago = uneven(300);
    long_ago.cluster.pools[0].groups[0].sizes = vec![(-2, 9), (-1, 1), (i64::MAX - 1, 5)];
    let same = of(&long_ago);
    assert!(!same.trial.nodes_change && report(&same).summary.join(" ").contains("instead of 2."));
    let same = of(&uneven(300));
    assert!(!same.trial.nodes_change && report(&same).summary.join(" ").contains("instead of 2."));
}

/// What is not followed is not called chosen, and today's way is kept.
#[test]
fn what_is_not_followed_is_not_called_chosen() {
    let mut answer = plan(Sharing::OnePool, None);
    answer.verdict = Verdict::NoSaving;
    let verdicts = |answer: &QueuesAnswer| -> Vec<String> {
        let tried = super::tried(answer);
        let tables = tried.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        let last = |row: &Vec<Cell>| format!("{:?}", row.last().unwrap());
        tables.flat_map(|table| table.rows.iter().map(last)).collect()
    };
    let has = |answer: &QueuesAnswer, what: &str| verdicts(answer).iter().filter(|of| of.contains(what)).count();
    assert_eq!([has(&answer, "chosen"), has(&answer, "not followed"), has(&answer, "kept")], [0, 1, 1]);
    let said = report(&answer).summary.join(" ");
    assert!(said.contains("What was best on the earlier jobs: no shares ("), "{said}");
    answer.verdict = Verdict::Advised;
    assert_eq!([has(&answer, "chosen"), has(&answer, "not followed"), has(&answer, "kept")], [1, 0, 0]);
}
