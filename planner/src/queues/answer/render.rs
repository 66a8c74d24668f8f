//! The answer of `plan queues` as a report.
//!
//! O(candidates + VCs). Worked example: a mean wait that falls from 60 to 24 min is told as "falls from 1 h to 24 min".

use tracecast_analytics::report::{
    Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, Report, ReportTable, Section, format,
};
use tracecast_analytics::time::to_the_minute;

use super::super::setup::{QueueChange, by_predicted_gpu_time};
use super::super::share::Sharing;
use super::alike::{self, Alike, in_short, nodes};
use super::grown::{growth_section, when_grown};
use super::{QueuesAblation, QueuesAnswer, QueuesBody, QueuesCandidate, VcPlan, WaitOf};
use crate::plan::incentive::SLACK;
use crate::plan::tell;
use crate::replay::compare::IntervalEstimate;
use crate::sim::Order;

/// Setups that a table shows of those that were searched.
const MOST_SEARCHED: usize = 20;
/// VCs that a chart shows.
const MOST_VCS: usize = 20;

/// The answer as a report.
pub fn report(answer: &QueuesAnswer) -> Report {
    let later = format::counted(answer.trial.today.jobs, "job", "jobs");
    let chosen = format!(
        "chosen by {} on jobs before {}, tested on {later} from then on",
        answer.body.objective.in_words(),
        to_the_minute(&answer.trial.eval_from)
    );
    let mut sections = vec![what_to_set(answer), tested(answer)];
    sections.extend(each_change(answer));
    sections.extend(growth_section(answer));
    sections.extend(answer.body.pooling.as_ref().map(|check| check.section("queues-pooling", "the later jobs")));
    sections.extend([on_the_front(answer), tried(answer)]);
    tell::report(answer, ("How should queues share the nodes?", chosen), summary(answer), sections)
}

fn summary(answer: &QueuesAnswer) -> Vec<String> {
    let mut said = Vec::new();
    let held = &answer.trial;
    if answer.body.chosen > 0 {
        let shorter = held.mean_wait_change_s.filter(|change| change.high < 0.0);
        let change = shorter.map_or_else(String::new, |change| {
            format!(
                " (shorter by {} to {}, 95 % interval)",
                format::duration(-change.high),
                format::duration(-change.low)
            )
        });
        let waits = format!(
            "from {} to **{}**{change}, the 95 % quantile from {} to **{}**.",
            format::duration(held.today.mean_wait_s),
            format::duration(held.recommended.mean_wait_s),
            format::duration(held.today.p95_wait_s),
            format::duration(held.recommended.p95_wait_s)
        );
        said.push(match answer.body.setup().filter(|_| !answer.is_advised()) {
            None => format!("On the later jobs the mean wait goes {waits}"),
            Some(best) => {
                let best = format!("What was best on the earlier jobs: {} ({}).", nodes(best), best.order);
                if held.recommended == held.today {
                    format!("{best} The later jobs would wait as long as today.")
                } else {
                    format!("{best} On the later jobs the mean wait would go {waits}")
                }
            }
        });
    } else {
        said.push(format!(
            "The later jobs wait {} on average today, and {} at the 95 % quantile.",
            format::duration(held.today.mean_wait_s),
            format::duration(held.today.p95_wait_s)
        ));
    }
    said.extend(held.objective.in_words());
    if held.cannot_run > 0 {
        said.push(format!(
            "**{} that run today could not run** as chosen: they ask for more than the ceiling of their VC.",
            format::counted(held.cannot_run, "later job", "later jobs")
        ));
    }
    said.extend(held.stops().map(|stops| format!("{stops}.")));
    said.extend(held.under_kueue.as_ref().map(|under| {
            let lends = under.lends.map_or_else(String::new, |part| {
                format!(" Each queue there lends {} of its own share at most.", format::percent(part))
            });
            format!(
                "Kueue, with the quotas that --emit kueue writes and first come first served, would have them wait {} on average and {} at the 95 % quantile.{lends}",
                format::duration(under.later.mean_wait_s),
                format::duration(under.later.p95_wait_s)
            )
        }));
    if let (Some(needed), true) = (held.nodes_instead, answer.is_advised()) {
        said.push(format!(
            "With everything else as today, the same mean wait would take {} nodes instead of {}{}.",
            format::count(needed),
            format::count(held.nodes),
            if held.nodes_change {
                ", both counted when the last job comes, as the number changes over the record"
            } else {
                ""
            }
        ));
    }
    said.extend(when_grown(answer));
    said.extend(overloaded(answer));
    said.extend(incentive(answer));
    said.extend(without_the_order(&answer.body).filter(|_| answer.is_advised()));
    said.extend(simpler(answer));
    said.extend(than_today(answer));
    said.extend(matters(answer));
    said.extend(beyond_list(answer));
    said.extend(naive(answer));
    if answer.is_advised() {
        said.push(format!(
                "The best of what was allowed, by {} and seen with hindsight, waits {} on average, {} at the 95 % quantile.",
                answer.body.objective.in_words(),
                format::duration(held.oracle.mean_wait_s),
                format::duration(held.oracle.p95_wait_s)
            ));
    }
    said
}

/// Sentence on the later waits under the emitted files, which cannot set the order; `None` if they
/// can, or nothing else changes; where the chosen is advised.
pub(super) fn without_the_order(body: &QueuesBody) -> Option<String> {
    let set = body.setup().filter(|set| set.changes.contains(&QueueChange::Order))?;
    let alone = body.in_todays_order.filter(|_| set.sharing != Sharing::AsToday)?;
    let by_weights = matches!(set.setup.policy.order, Order::FairShare(_) | Order::Multifactor(_) | Order::FewestGpus);
    let is_set = by_weights || by_predicted_gpu_time(&set.setup.policy);
    (!is_set).then(|| {
            format!(
                "No emitted file sets that order, which takes a plugin that asks `serve` or `model predict duration`. What the files set, without it, has the later jobs wait {} on average, {} at the 95 % quantile.",
                format::duration(alone.mean_wait_s),
                format::duration(alone.p95_wait_s)
            )
        })
}

/// Where no order, or no sharing at all, catches up.
fn overloaded(answer: &QueuesAnswer) -> Option<String> {
    if let Some(load) = answer.body.offered_load.filter(|load| *load > 1.0) {
        return Some(format!(
            "**All VCs together ask for {} times the GPU time that there is** from the first job to the last, if each run counts whole, also what of it is after the last job. If jobs went on to come so, no way to share the nodes would keep up. `plan nodes` says how many it would take.",
            format::float(load, 2)
        ));
    }
    let over =
        answer.body.vcs.iter().filter_map(|vc| Some((vc.vc.as_str(), vc.offered_load.filter(|load| *load > 1.0)?)));
    let over: Vec<String> = over.map(|(vc, load)| format!("{vc} ({})", format::float(load, 2))).collect();
    (!over.is_empty()).then(|| {
            format!(
                "More GPU time than their own share has is asked for by {} (times as much): on nodes of their own no order of jobs catches up, and only sharing or a larger share does.",
                over.join(", ")
            )
        })
}

/// Whether a VC is worse off than on nodes of its own.
fn incentive(answer: &QueuesAnswer) -> Option<String> {
    if answer.body.vcs.len() < 2 {
        return None;
    }
    let worse: Vec<String> = answer
        .trial
        .worse
        .iter()
        .filter(|worse| worse.beyond_interval)
        .map(|worse| {
            format!(
                "{} ({} instead of {})",
                worse.vc,
                format::duration(worse.p95_wait_s),
                format::duration(worse.private_p95_wait_s)
            )
        })
        .collect();
    Some(if worse.is_empty() {
        "No VC with at least 20 later jobs has a 95 % wait that is longer than on nodes of its own by more than chance."
            .to_owned()
    } else {
        format!("**Longer than on nodes of their own**, by more than chance, is the 95 % wait of {}.", worse.join(", "))
    })
}

/// Whether the chosen without a change could have been chosen in its place.
fn could_be(answer: &QueuesAnswer, of: &QueuesAblation) -> bool {
    of.allowed && of.allowed_draws.zip(answer.body.growth.as_ref()).is_none_or(|(draws, growth)| draws == growth.draws)
}

/// A sentence on the change that matters most, where there are several.
fn matters(answer: &QueuesAnswer) -> Option<String> {
    let most = answer.body.ablation.first().filter(|_| answer.is_advised() && answer.body.ablation.len() > 1)?;
    let chosen = answer.trial.recommended.mean_wait_s;
    // What gains nothing may be what makes the rest allowed.
    let needed = answer.body.ablation.iter().filter(|of| !could_be(answer, of) && of.later.mean_wait_s <= chosen);
    let needed: Vec<&str> = needed.map(|of| of.change.in_words()).collect();
    let needed = match needed.as_slice() {
        [] => String::new(),
        names => format!(
            " The later jobs would wait no longer without {}, but the plan would not be allowed without it: keep it.",
            names.join(", or without ")
        ),
    };
    Some(format!(
        "Of the {} changes, {} matters most: without it alone the later jobs would wait {} on average.{needed}",
        answer.body.ablation.len(),
        most.change.in_words(),
        format::duration(most.later.mean_wait_s)
    ))
}

/// What the search found beyond the list.
fn beyond_list(answer: &QueuesAnswer) -> Option<String> {
    let tried = answer.body.candidates.iter().filter(|of| of.round > 0).count();
    let simple = answer.body.candidates.get(answer.body.list_choice).filter(|_| tried > 0)?;
    let searched = format!("{} more were searched from there", format::count(tried as u64));
    Some(if answer.body.chosen == answer.body.list_choice {
        format!("Beside the list, {searched}; none was better by more than chance on the earlier jobs.")
    } else {
        format!(
            "Of the list alone, {} ({}) would have been chosen, with a mean wait of the later jobs of {}; {searched}.",
            simple.sharing.in_words(),
            simple.order,
            format::duration(simple.later.mean_wait_s)
        )
    })
}

/// VCs that wait longer than today, where today is not nodes of their own.
fn than_today(answer: &QueuesAnswer) -> Option<String> {
    let longer = |vc: &&VcPlan| {
        let (Some(today), Some(chosen)) = (vc.today, vc.recommended) else { return false };
        chosen.p95_wait_s > today.p95_wait_s * (1.0 + SLACK.0) + SLACK.1
    };
    let names: Vec<&str> = answer.body.vcs.iter().filter(longer).map(|vc| vc.vc.as_str()).collect();
    (answer.is_advised() && !names.is_empty())
        .then(|| format!("**Longer than today** is the 95 % wait of the later jobs of {}.", names.join(", ")))
}

/// What the earlier jobs would have chosen, where something simpler does as well.
fn simpler(answer: &QueuesAnswer) -> Option<String> {
    let best = answer.body.candidates.get(answer.body.best).filter(|_| answer.body.best != answer.body.chosen)?;
    Some(format!(
        "On the earlier jobs {} ({}) was best. The later jobs would wait {} on average under it, which is no less by more than chance, so what is simpler is advised.",
        nodes(best),
        best.order,
        format::duration(best.later.mean_wait_s)
    ))
}

/// Effect of one pool without shares.
fn naive(answer: &QueuesAnswer) -> Option<String> {
    let pool = answer.body.sharing_alone(Sharing::OnePool).filter(|_| answer.is_advised())?;
    let why = match (pool.allowed, answer.body.setup()?.sharing) {
        (true, Sharing::OnePool) => return None,
        (true, _) => "It was allowed",
        (false, _) => "It was not allowed",
    };
    Some(format!(
        "One pool without shares, with nothing else changed, waits {} on average. {why}.",
        format::duration(pool.later.mean_wait_s)
    ))
}

fn what_to_set(answer: &QueuesAnswer) -> Section {
    let (set, by_vc) = match answer.is_advised() {
        true => ("What to set from now on", "What to set, VC by VC"),
        false => ("What the VCs have, and keep", "VC by VC, with what the choice would have done"),
    };
    let mut table = ReportTable::new(
        by_vc,
        vec![
            Column::text("VC"),
            Column::number(format!("Own share, {}", answer.body.resource.many())),
            Column::text(format!("At most, {}", answer.body.resource.many())),
            Column::number("Offered load, whole record"),
            Column::number("Later jobs"),
            Column::number("95 % wait today"),
            Column::number("On its own nodes"),
            Column::number("As chosen"),
            Column::text("As chosen less own nodes, 95 % interval"),
        ],
    );
    let p95 = |of: Option<WaitOf>| Cell::opt(of, |of| Cell::Duration(of.p95_wait_s));
    for vc in &answer.body.vcs {
        table.rows.push(vec![
            vc.vc.as_str().into(),
            Cell::float(vc.own_gpus, 0),
            vc.most_gpus.map_or_else(|| "all".to_owned(), |most| format::float(most, 0)).into(),
            Cell::opt(vc.offered_load, |value| Cell::Float { value, digits: 2 }),
            Cell::Int(vc.recommended.map_or(0, |of| of.jobs as i64)),
            p95(vc.today),
            p95(vc.private),
            p95(vc.recommended),
            vc.p95_wait_change_s.map_or_else(|| "too few jobs".to_owned(), |of| of.ends_as_durations()).into(),
        ]);
    }
    table.note = Some(
            "The own share is that at the end of the data. Offered load is the GPU time that the VC's jobs of the whole record ask for, over that of its own share from the first submission to the last; above 1, no order on its own nodes catches up. The later jobs alone have another, which stands beside what queueing theory says.".to_owned(),
        );
    Section::new("queues-set", set).with_table(table)
}

fn tested(answer: &QueuesAnswer) -> Section {
    let held = &answer.trial;
    let mut table = ReportTable::new(
        "The later jobs",
        vec![Column::text("How"), Column::number("Mean wait"), Column::number("95 % quantile")],
    );
    let chosen = if answer.is_advised() { "as chosen" } else { picked(answer) };
    let rows = [
        ("as today", held.today),
        ("each VC on its own nodes", held.private),
        (chosen, held.recommended),
        ("best with hindsight", held.oracle),
    ];
    // Where nothing was better on the earlier jobs, the chosen is today.
    for (how, of) in rows.into_iter().filter(|(how, _)| answer.body.chosen > 0 || *how != chosen) {
        table.rows.push(vec![how.into(), Cell::Duration(of.mean_wait_s), Cell::Duration(of.p95_wait_s)]);
    }
    Section::new("queues-tested", "What it does to later jobs").with_table(table).with_chart(by_vc(answer))
}

/// 95 % wait by VC on nodes of its own and as chosen.
fn by_vc(answer: &QueuesAnswer) -> Chart {
    let mut vcs: Vec<(&str, WaitOf, WaitOf)> =
        answer.body.vcs.iter().filter_map(|vc| Some((vc.vc.as_str(), vc.private?, vc.recommended?))).collect();
    vcs.sort_by(|a, b| b.1.p95_wait_s.total_cmp(&a.1.p95_wait_s).then(a.0.cmp(b.0)));
    vcs.truncate(MOST_VCS);
    let series = |name: &str, of: &dyn Fn(&(&str, WaitOf, WaitOf)) -> WaitOf| {
        BarSeries::new(name, vcs.iter().map(|vc| Some(of(vc).p95_wait_s)).collect())
    };
    Chart::rows(
        "queues-by-vc",
        "95 % wait by VC",
        Axis::duration("95 % quantile of the wait"),
        BarLayout::Grouped,
        vcs.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        vec![series("on its own nodes", &|of| of.1), series("as chosen", &|of| of.2)],
    )
    .with_reading("A VC whose second bar is the longer one lost by sharing.")
}

/// Waits with each change taken back.
fn each_change(answer: &QueuesAnswer) -> Option<Section> {
    let mut table = ReportTable::new(
        "The chosen without one change",
        vec![
            Column::text("Without"),
            Column::number("Earlier: mean"),
            Column::number("95 %"),
            Column::number("Later: mean"),
            Column::number("95 %"),
            Column::text("Verdict"),
        ],
    );
    let row = |what: &str, earlier: WaitOf, later: WaitOf, verdict: &str| {
        let of = |seconds: f64| Cell::Duration(seconds);
        vec![
            what.into(),
            of(earlier.mean_wait_s),
            of(earlier.p95_wait_s),
            of(later.mean_wait_s),
            of(later.p95_wait_s),
            verdict.into(),
        ]
    };
    let chosen = answer.body.setup().filter(|_| !answer.body.ablation.is_empty())?;
    table.rows.push(row("nothing", chosen.earlier, chosen.later, picked(answer)));
    for of in &answer.body.ablation {
        let draws = of.allowed_draws.zip(answer.body.growth.as_ref()).filter(|_| !could_be(answer, of));
        let verdict = match draws {
            _ if !of.allowed => "not allowed".to_owned(),
            Some((draws, growth)) => format!("allowed in {draws} of {} draws of more work", growth.draws),
            None => String::new(),
        };
        table.rows.push(row(of.change.in_words(), of.earlier, of.later, &verdict));
    }
    Some(Section::new("queues-changes", "Which change matters").with_table(table))
}

/// What no allowed way beats on the earlier jobs, and how surely it shortens the waits of the later
/// ones.
fn on_the_front(answer: &QueuesAnswer) -> Section {
    let mut table = ReportTable::new(
        "Ways that no allowed way beats in both waits of the earlier jobs",
        vec![
            Column::text("Nodes"),
            Column::text("Order"),
            Column::number("Earlier: mean"),
            Column::number("95 %"),
            Column::number("Later: mean"),
            Column::text("Less today's, 95 % interval"),
            Column::number("Later: 95 %"),
            Column::text("Less today's, 95 % interval"),
            Column::text("Verdict"),
        ],
    );
    let interval =
        |of: Option<IntervalEstimate>| of.map_or_else(|| "no job ran".to_owned(), |of| of.ends_as_durations());
    let on_front = answer.body.candidates.iter().enumerate().filter(|(_, of)| of.on_front);
    let rows = on_front
        .zip(&answer.body.pareto)
        .map(|((at, of), point)| (at, of, (point.mean_wait_change_s, point.p95_wait_change_s)));
    for row in alike::merged(rows, answer.body.chosen) {
        let (nodes, order) = row.named();
        let (of, (mean_change, p95_change)) = (row.lead, row.beside);
        table.rows.push(vec![
            nodes.into(),
            order.into(),
            Cell::Duration(of.earlier.mean_wait_s),
            Cell::Duration(of.earlier.p95_wait_s),
            Cell::Duration(of.later.mean_wait_s),
            interval(mean_change).into(),
            Cell::Duration(of.later.p95_wait_s),
            interval(p95_change).into(),
            if row.has_chosen { picked(answer) } else { "" }.into(),
        ]);
    }
    let section = Section::new("queues-pareto", "The Pareto front").with_table(table).with_definition(
            "Intervals are of the difference to today, job by job, by the moving-block bootstrap. A negative one is a gain.",
        );
    let off = answer.body.setup().filter(|of| !of.on_front);
    off.into_iter().map(|of| off_the_front(answer, of)).fold(section, Section::with_text)
}

/// A sentence that the chosen setup is not on the Pareto front, and what it was chosen by instead.
fn off_the_front(answer: &QueuesAnswer, chosen: &QueuesCandidate) -> String {
    let why = if answer.body.growth.as_ref().is_some_and(|growth| growth.of_both.is_some()) {
        "it has to hold with more work as well".to_owned()
    } else {
        format!("it was chosen by {}", answer.body.objective.in_words())
    };
    format!(
        "What was chosen is not on the front, as {why}: {} ({}), with which the earlier jobs wait {} on average and {} at the 95 % quantile.",
        nodes(chosen),
        chosen.order,
        format::duration(chosen.earlier.mean_wait_s),
        format::duration(chosen.earlier.p95_wait_s)
    )
}

fn tried(answer: &QueuesAnswer) -> Section {
    let mut columns = vec![
        Column::text("Nodes"),
        Column::text("Order"),
        Column::number("Earlier: mean"),
        Column::number("95 %"),
        Column::number("Later: mean"),
        Column::number("95 %"),
    ];
    columns.extend(answer.body.growth.as_ref().map(|_| Column::text("With more work, allowed in draws")));
    columns.push(Column::text("Verdict"));
    let mut table = ReportTable::new("Every way that was tried", columns);
    let shown = shown(answer);
    if shown.len() < answer.body.candidates.len() {
        let all = format::count(answer.body.candidates.len() as u64);
        table.note = Some(format!("Of {all}: the list, and the {MOST_SEARCHED} that cost least of what was searched."));
    }
    let ways = |at: usize| answer.body.growth.as_ref().map(|growth| (growth.draws, growth.ways.get(at)));
    let in_draws = |at: usize| ways(at).map(|(draws, way)| way.map_or_else(String::new, |way| way.in_draws(draws)));
    let rows = alike::merged(shown.into_iter().map(|(at, of)| (at, of, in_draws(at))), answer.body.chosen);
    let same = rows.iter().any(Alike::is_several).then_some(
            "**Same outcome**: ways with which all figures of a row are the same. Where nodes and orders both have several, each goes with each. The first changes the least.",
        );
    for row in rows {
        let (nodes, order) = row.named();
        let of = row.lead;
        let is_today = answer.body.candidates.first().is_some_and(|today| std::ptr::eq(today, of));
        let mut cells = vec![
            nodes.into(),
            order.into(),
            Cell::Duration(of.earlier.mean_wait_s),
            Cell::Duration(of.earlier.p95_wait_s),
            Cell::Duration(of.later.mean_wait_s),
            Cell::Duration(of.later.p95_wait_s),
        ];
        cells.extend(row.beside.as_deref().map(Cell::from));
        cells.push(
            match row.has_chosen {
                true => picked(answer).to_owned(),
                false if is_today && !answer.is_advised() => "kept".to_owned(),
                false => verdict(of),
            }
            .into(),
        );
        table.rows.push(cells);
    }
    let section = Section::new("queues-tried", "What was chosen from")
            .with_table(table)
            .with_chart(front(answer))
            .with_definition("**Borrow**: one pool of all nodes, in which jobs that keep a VC within its own share go before all others; a VC may use all, or so many times its share.")
            .with_definition("**Reclaim**: when such a job does not fit, jobs that borrow are stopped for it, the last started first, and begin anew. What they lose counts as waiting. Under a backfill it is replayed without reservations, as in the scan skip.")
            .with_definition("**No shares**: one pool in which no VC has anything of its own.")
            .with_definition("**Shares moved**: the sizes of shares as much of the way from today's to what each VC asked for before the split.")
            .with_definition("**For 1 h**: a part of each share that is kept for jobs of so long at most.")
            .with_definition("**On the front**: no allowed way is better in the mean or the 95 % wait of the earlier jobs without being worse in the other.")
            .with_definition(format!(
                "**Wrongs**: a VC is wronged if its mean or 95 % wait in a half of the earlier time is more than {} and {} longer than on its own nodes.",
                format::percent(SLACK.0),
                format::duration(SLACK.1)
            ));
    same.into_iter().fold(section, Section::with_definition)
}

/// The verdict of the chosen: what was best on the earlier jobs is followed, or not.
fn picked(answer: &QueuesAnswer) -> &'static str {
    match (answer.is_advised(), answer.body.chosen) {
        (true, _) => "chosen",
        (false, 0) => "kept",
        (false, _) => "best on the earlier jobs, not followed",
    }
}

/// The list, the chosen and the best of what was searched, in the order in which they were tried.
fn shown(answer: &QueuesAnswer) -> Vec<(usize, &QueuesCandidate)> {
    let mut searched: Vec<&QueuesCandidate> =
        answer.body.candidates.iter().filter(|of| of.round > 0 && of.allowed).collect();
    searched.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let most = searched.get(MOST_SEARCHED).map_or(f64::INFINITY, |of| of.cost);
    let shown =
        |at: usize, of: &QueuesCandidate| of.round == 0 || at == answer.body.chosen || (of.allowed && of.cost < most);
    answer.body.candidates.iter().enumerate().filter(|(at, of)| shown(*at, of)).collect()
}

fn front(answer: &QueuesAnswer) -> Chart {
    let kind = |at: usize, of: &QueuesCandidate| match of.allowed {
        _ if at == answer.body.chosen => picked(answer),
        true => "allowed",
        false => "not allowed",
    };
    let kinds = ["allowed", "not allowed", picked(answer)].map(|name| {
        let of = answer.body.candidates.iter().enumerate().filter(|(at, of)| kind(*at, of) == name);
        let points = of.map(|(_, of)| (of.earlier.mean_wait_s.max(1.0), of.earlier.p95_wait_s.max(1.0)));
        ChartSeries::new(name, Mark::Points, points.collect())
    });
    Chart::xy(
            "queues-front",
            "Ways to share, on the earlier jobs",
            // The good ways lie within minutes of each other, and today may be hours away.
            Axis::log_duration("Mean wait"),
            Axis::log_duration("95 % quantile of the wait"),
            kinds.into_iter().filter(|series| !series.points.is_empty()).collect(),
        )
        .with_reading("Each point is a way to share with a policy. Left and below is better. A wait under a second is drawn at one second.")
}

/// Why a candidate was not chosen.
fn verdict(of: &QueuesCandidate) -> String {
    match in_short(&of.wronged) {
        _ if !of.complete => "some jobs could not run".to_owned(),
        Some(who) => format!("wrongs {who}"),
        None if of.on_front => "on the front".to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
