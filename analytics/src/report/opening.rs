//! Opening of a report, before any analysis: a row of figures, one chart of the whole time, the
//! changes to make, and the questions that its analyses answer. No drawing and no markup beyond
//! `**bold**` and `` `code` ``.
//!
//! A reader who stops after this part has decided: a figure is a name, a value and one line of what it is of; a card says what to do, what that
//! changes, who pays for it and how to apply and undo it.
//!
//! Worked example: "Waiting · 1 h 12 min · mean of the GPU jobs; the median is 3 s".

use super::format;

/// Figures that stand in the row.
pub const MOST_FIGURES: usize = 6;
/// Cards that a report shows.
pub const MOST_CARDS: usize = 5;

/// One figure of the row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figure {
    /// Name of the figure, in a word or two.
    pub name: String,
    /// Value with its unit, formatted.
    pub value: String,
    /// Basis of the figure, in half a line.
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
    /// Action to take: one sentence.
    pub action: String,
    /// Effect, with an interval, against a baseline.
    pub effect: String,
    /// Confidence in the effect, in a word.
    pub confidence: String,
    /// Who pays for the change, and how much.
    pub cost: String,
    /// Instructions to apply the change.
    pub apply: String,
    /// Command that applies it, where there is one.
    pub command: Option<String>,
    /// Instructions to undo the change.
    pub undo: String,
    /// Further details (name, text): risks, assumptions, the bound. Folded.
    pub details: Vec<(String, String)>,
}

/// Changes to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Cards, at most [`MOST_CARDS`], the most worthwhile first.
    pub cards: Vec<Card>,
    /// Text where there is no card.
    pub nothing: String,
    /// Changes that are not worth making or could not be judged: (what, why). Folded.
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
    /// Which nodes could sleep?
    Sleep,
}

impl Question {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] = [Self::Wait, Self::Use, Self::Fail, Self::Draw, Self::Sleep];

    /// The question in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Wait => "Who waits and why?",
            Self::Use => "Where does GPU time go?",
            Self::Fail => "What fails?",
            Self::Draw => "What does it draw?",
            Self::Sleep => "Which nodes could sleep?",
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
            Self::Sleep => "which-could-sleep",
        }
    }
}
