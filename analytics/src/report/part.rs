//! The questions of a report with the analyses that answer them: which sentences lead, and which charts stand in the open.
//!
//! Worked example: five analyses answer where GPU time goes; the first sentences of four lead, and the first charts of two stand below them.

use super::chart::Chart;
use super::model::{Block, Report, Section};
use super::opening::Question;

/// Sentences with which a question is answered before its first chart.
pub const MOST_SENTENCES: usize = 4;
/// Charts of a question that stand in the open; the others are folded with their analyses.
const OPEN_CHARTS: usize = 2;

/// A question with what answers it.
#[derive(Debug, Clone)]
pub struct ReportPart<'r> {
    /// The question.
    pub question: Question,
    /// Analyses that answer the question, in the order given.
    pub sections: Vec<&'r Section>,
}

impl<'r> ReportPart<'r> {
    /// The first sentence of the finding of each analysis, at most [`MOST_SENTENCES`], with the analysis it is from.
    #[must_use]
    pub fn sentences(&self) -> Vec<(&'r Section, String)> {
        let told = self.sections.iter().map(|section| (*section, first_sentence(&section.finding)));
        told.filter(|(_, sentence)| !sentence.is_empty()).take(MOST_SENTENCES).collect()
    }

    /// The charts that stand in the open: the first of the first analyses that have one.
    #[must_use]
    pub fn charts(&self) -> Vec<&'r Chart> {
        let first = |section: &&'r Section| {
            section.blocks.iter().find_map(|block| match block {
                Block::Chart(chart) => Some(chart),
                _ => None,
            })
        };
        self.sections.iter().filter_map(first).take(OPEN_CHARTS).collect()
    }
}

impl Report {
    /// The questions that some analysis answers.
    #[must_use]
    pub fn parts(&self) -> Vec<ReportPart<'_>> {
        let of = |question: Question| {
            let sections: Vec<&Section> =
                self.sections.iter().filter(|s| s.unavailable.is_none() && s.question == Some(question)).collect();
            (!sections.is_empty()).then_some(ReportPart { question, sections })
        };
        Question::ALL.into_iter().filter_map(of).collect()
    }

    /// Analyses that answer none of the questions, in the order of [`Report::available`].
    #[must_use]
    pub fn others(&self) -> Vec<&Section> {
        self.available().into_iter().filter(|section| section.question.is_none()).collect()
    }
}

/// The text up to the first full stop that a blank follows.
#[must_use]
pub fn first_sentence(text: &str) -> String {
    text.split_once(". ").map_or_else(|| text.to_owned(), |(first, _)| format!("{first}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, ChartSeries, Mark};

    fn section(id: &str, question: Question) -> Section {
        let points = vec![(0.0, 1.0), (1.0, 2.0)];
        let chart = |id: String| {
            let series = ChartSeries::new("a", Mark::Line, points.clone());
            Chart::xy(id, "c", Axis::linear(""), Axis::linear(""), vec![series])
        };
        Section::new(id, id)
            .with_finding(format!("First of {id}. Second."))
            .with_chart(chart(format!("{id}-1")))
            .with_chart(chart(format!("{id}-2")))
            .answering(question)
    }

    #[test]
    fn a_question_is_answered_in_few_sentences_and_two_charts() {
        let mut report = Report::new("t", "");
        for id in ["a", "b", "c", "d", "e"] {
            report.sections.push(section(id, Question::Use));
        }
        report.sections.push(section("w", Question::Wait).with_gpu_hours(Some(1.0)));
        report.sections.push(Section::new("other", "Other"));
        report.sections.push(Section::not_available("x", "X", "no meters").answering(Question::Draw));
        let parts = report.parts();
        assert_eq!(parts.iter().map(|part| part.question).collect::<Vec<_>>(), [Question::Wait, Question::Use]);
        let told: Vec<String> = parts[1].sentences().into_iter().map(|(_, sentence)| sentence).collect();
        assert_eq!(told, ["First of a.", "First of b.", "First of c.", "First of d."]);
        assert_eq!(parts[1].charts().iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(), ["a-1", "b-1"]);
        assert_eq!(report.others().len(), 1);
    }
}
