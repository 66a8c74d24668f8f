//! The sections, tables and sentences that every plan has.
//!
//! O(rows). Worked example: of a plan that saved 30 %, the sentence says from which weeks it was chosen, on which it saved that, and in which least.

use std::fmt::Debug;

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};
use tracecast_analytics::time::to_the_minute;

use crate::answer::Answer;
use crate::trial::{RuleInWindow, RuleOverWindows, Trial};
use crate::verdict::saving_interval;

/// The report of an answer. It begins with what to do, what that gives (the first of the plan's own
/// `sentences`), and how sure that is; then come the cautions, the other sentences, what its
/// forecast is worth, what was assumed, and its sections.
pub fn report<T, B>(
    answer: &Answer<T, B>,
    (question, subtitle): (&str, String),
    sentences: Vec<String>,
    sections: Vec<Section>,
) -> Report {
    let mut report = Report::new(format!("{question} {}", answer.title), subtitle);
    let sure = answer.assurance.as_ref().map(|assurance| assurance.sentence().trim_end().to_owned());
    let mut sentences = sentences.into_iter();
    let effect = sentences.next();
    report.summary = std::iter::once(answer.action.clone()).chain(effect).chain(sure).chain(sentences).collect();
    report.cautions.clone_from(&answer.cautions);
    report.notes = answer.forecasting.sentence().into_iter().chain(answer.notes.iter().cloned()).collect();
    report.sections = sections;
    report
}

/// Returns a sentence on what the plan (or mix) saved on the later windows, or cost beyond the
/// baseline; `against` is the baseline in words, `beside` is put after the saving.
pub fn saved<I: PartialEq, R, W>(trial: &Trial<I, R, W>, plan: &str, against: &str, beside: &str) -> String {
    let saving = trial.saving.value;
    let came_to = match saving < 0.0 {
        true => {
            format!("came to **{} more than {against}** (saved {}", format::percent(-saving), saving_interval(trial))
        }
        false => format!("saved **{} of {against}** ({}", format::percent(saving), saving_interval(trial)),
    };
    format!(
        "Chosen on {} before {} and priced on {} after: the {plan} {came_to}, {}){beside}. It {}.",
        trial.chosen_on,
        to_the_minute(&trial.split),
        format::counted(trial.windows.len() as u64, "window", "windows"),
        if trial.blocks > 1 { trial.interval.as_str() } else { "no interval: there is one to draw from" },
        trial.outcome_in_words()
    )
}

/// Returns the saving of the plan beyond the simplest rule, in percentage points with their
/// interval.
pub fn beyond_simplest<I, R, W>(trial: &Trial<I, R, W>) -> String {
    let [value, low, high] = [trial.beyond_simplest.value, trial.beyond_simplest.low, trial.beyond_simplest.high]
        .map(|share| format::float(100.0 * share, 1));
    format!("{value} points ({low} to {high})")
}

/// Returns the accuracy of predicted runs in a sentence; `share` of the later jobs ran within a
/// factor of 2 of them.
pub fn predicted(share: f64) -> String {
    format!("{} of the later jobs ran within a factor of 2 of what was predicted.", format::percent(share))
}

/// The rules over all later windows: what every plan tells of them, then the `columns` and `cells` of this one.
pub fn rules<I, R, W>(
    id: &str,
    trial: &Trial<I, R, W>,
    against: &str,
    columns: Vec<Column>,
    cells: &dyn Fn(&RuleOverWindows<I, R>) -> Vec<Cell>,
) -> Section {
    let amount = trial.unit_in_words();
    let mut table = table(
        "Chosen before, priced after",
        &format!("Rule | #{amount} | #Of the baseline | #Beyond hindsight | Limits"),
    );
    table.columns.extend(columns);
    // Small sites save less than a whole unit.
    let digits = if trial.of.baseline.amount.abs() < 100.0 { 2 } else { 0 };
    table.rows = trial
        .rules
        .iter()
        .map(|rule| {
            let first = vec![
                rule.words.as_str().into(),
                Cell::float(rule.amount, digits),
                Cell::Percent(rule.of_baseline),
                Cell::Percent(rule.regret),
                if rule.kept { "kept" } else { "missed" }.into(),
            ];
            [first, cells(rule)].concat()
        })
        .collect();
    Section::new(id, "What came of it on later windows")
        .with_table(table)
        .with_definition(format!("The **baseline** is {against}."))
}

/// Builds a table of rules by window, with one more column of this plan.
pub fn windows<I: Copy + PartialEq + Debug, R, W>(
    id: &str,
    trial: &Trial<I, R, W>,
    shown: &[I],
    column: Column,
    cell: &dyn Fn(&RuleInWindow<I, W>) -> Cell,
) -> Section {
    let mut table = table("Window by window", &format!("From | To | Rule | #{}", trial.unit));
    table.columns.push(column);
    for window in &trial.windows {
        for rule in window.rules.iter().filter(|rule| shown.contains(&rule.id)) {
            let words = trial.rules.iter().find(|over| over.id == rule.id).map_or("", |over| over.words.as_str());
            table.rows.push(vec![
                to_the_minute(&window.from).into(),
                to_the_minute(&window.to).into(),
                words.into(),
                Cell::float(rule.amount, 0),
                cell(rule),
            ]);
        }
    }
    Section::new(id, "Window by window").with_table(table)
}

/// Columns: their names lie between `|`, and `#` stands before those of numbers.
pub fn columns(names: &str) -> Vec<Column> {
    let column = |name: &str| name.strip_prefix('#').map_or_else(|| Column::text(name), Column::number);
    names.split('|').map(|name| column(name.trim())).collect()
}

/// A table without rows, with these [columns].
pub fn table(title: impl Into<String>, names: &str) -> ReportTable {
    ReportTable::new(title, columns(names))
}

/// A table of what there is and its value.
pub fn values(title: &str, rows: &[(&str, String)]) -> ReportTable {
    let mut table = table(title, "What | Value");
    table.rows = rows.iter().map(|(what, value)| vec![(*what).into(), value.as_str().into()]).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::tests::trial;

    #[test]
    fn a_loss_is_told_as_one() {
        let lost = trial([[100.0, 100.0], [90.0, 90.0], [120.0, 110.0], [50.0, 50.0]]);
        let said = saved(&lost, "plan", "the baseline", "");
        assert!(
            said.contains("the plan came to **15.0 % more than the baseline** (saved −20.0 % to −10.0 %"),
            "{said}"
        );
        let won = trial([[100.0, 100.0], [90.0, 90.0], [60.0, 80.0], [50.0, 80.0]]);
        let said = saved(&won, "plan", "the baseline", "");
        assert!(said.contains("the plan saved **30.0 % of the baseline** (20.0 % to 40.0 %"), "{said}");
    }
}
