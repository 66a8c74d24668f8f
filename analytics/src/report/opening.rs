//! What a report opens with, before any analysis: a row of figures, one chart of the whole time, what to change, and the questions that its analyses
//! answer. No drawing and no markup beyond `**bold**` and `` `code` ``.
//!
//! A reader who stops after this part has decided: a figure is a name, a value and one line of what it is of; a card says what to do, what that
//! changes, who pays for it and how to apply and undo it.
//!
//! Worked example: "Waiting · 1 h 12 min · mean of the GPU jobs; the median is 3 s".

use super::model::{Block, Report, Section};
use super::{Chart, format};

/// Figures that stand in the row.
pub const MOST_FIGURES: usize = 6;
/// Cards that a report shows.
pub const MOST_CARDS: usize = 5;
/// Sentences with which a question is answered before its first chart.
pub const MOST_SENTENCES: usize = 4;
/// Charts of a question that stand in the open; the others are folded with their analyses.
const OPEN_CHARTS: usize = 2;

/// One figure of the row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figure {
    /// What it is, in a word or two.
    pub name: String,
    /// Its value with its unit, formatted.
    pub value: String,
    /// What it is of, in half a line.
    pub note: String,
}

impl Figure {
    /// A figure.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), note: note.into() }
    }

    /// A figure that the source does not give.
    #[must_use]
    pub fn unknown(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(name, format::MISSING, why)
    }
}

/// One change worth making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Card {
    /// What to do: one sentence.
    pub action: String,
    /// What it changes, with an interval, against what.
    pub effect: String,
    /// How sure that is, in a word.
    pub confidence: String,
    /// Who pays for it, and how much.
    pub cost: String,
    /// How to apply it.
    pub apply: String,
    /// The command that does, where there is one.
    pub command: Option<String>,
    /// How to undo it.
    pub undo: String,
    /// What else there is to know (name, text): risks, assumptions, the bound. Folded.
    pub details: Vec<(String, String)>,
}

/// What to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// At most [`MOST_CARDS`], the most worthwhile first.
    pub cards: Vec<Card>,
    /// What stands where there is no card.
    pub nothing: String,
    /// What was looked at and is not worth changing, or could not be told: (what, why). Folded.
    pub passed_over: Vec<(String, String)>,
}

/// A question that analyses answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Who waits and why?
    Wait,
    /// Where does GPU time go?
    Use,
    /// What fails?
    Fail,
    /// What does it draw?
    Draw,
}

impl Question {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Wait, Self::Use, Self::Fail, Self::Draw];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Wait => "Who waits and why?",
            Self::Use => "Where does GPU time go?",
            Self::Fail => "What fails?",
            Self::Draw => "What does it draw?",
        }
    }

    /// Anchor of its part of a page.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Wait => "who-waits",
            Self::Use => "gpu-time",
            Self::Fail => "what-fails",
            Self::Draw => "what-it-draws",
        }
    }
}

/// A question with what answers it.
#[derive(Debug, Clone)]
pub struct Part<'r> {
    /// The question.
    pub question: Question,
    /// Its analyses, in the order given.
    pub sections: Vec<&'r Section>,
}

impl<'r> Part<'r> {
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
    pub fn parts(&self) -> Vec<Part<'_>> {
        let of = |question: Question| {
            let sections: Vec<&Section> =
                self.sections.iter().filter(|s| s.unavailable.is_none() && s.question == Some(question)).collect();
            (!sections.is_empty()).then_some(Part { question, sections })
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
    use crate::report::{Axis, Mark, Series};

    fn section(id: &str, question: Question) -> Section {
        let points = vec![(0.0, 1.0), (1.0, 2.0)];
        let chart = |id: String| {
            let series = Series::new("a", Mark::Line, points.clone());
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
