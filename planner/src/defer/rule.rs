//! The ways to defer that are held against each other.
//!
//! Some know no future. Of these, what can be written down once a day may be the plan: what is tested is then what is emitted. Others know runs, or hours, or both: they say what a better prediction would be worth, and bound all.
//!
//! O(1). Worked example: *window* takes the best of five forecasts for the predicted run; *all known, all wait* takes the hours that came and the true run, and lets every job wait as long as it may.

use schemars::JsonSchema;
use serde::Serialize;

use super::forecast::ForecastBy;
use super::policy::{DeferPolicy, ExpectedRun, PAIRS, PastPercentile, THRESHOLDS, WindowGoal};

/// Where a way to defer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeferRule {
    /// Every job starts at once.
    Now,
    /// The cleanest window for the mean run of the size class, with one bound for all and no target.
    AllWait,
    /// The cleanest window by the clock: the mean of all earlier days.
    Clock,
    /// The cleanest window for the median run of the class, by a table written once a day.
    Table,
    /// Hours at or below a percentile.
    Threshold,
    /// The cleanest window for the mean run of the size class.
    WindowSizeMean,
    /// The cleanest window for the predicted run.
    Window,
    /// The window that saves most a time.
    MostATime,
    /// The window that is worth its wait.
    Worth,
    /// The cleanest window, with runs known.
    KnownRun,
    /// The cleanest window for the predicted run, with hours known.
    KnownHours,
    /// Pauses and resumes at two percentiles.
    TwoThresholds,
    /// The cheapest hours by forecast, with runs known; pauses.
    Hours,
    /// The best of those that can be written down once a day.
    Plan,
    /// The best of the same, chosen on the later weeks.
    Hindsight,
    /// All is known, and the mean wait is that of the plan.
    SameWait,
    /// All is known, and all wait as long as they may.
    Oracle,
    /// The oracle, with pauses that cost nothing.
    FreeOracle,
}

impl DeferRule {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 18] = [
        Self::Now,
        Self::AllWait,
        Self::Clock,
        Self::Table,
        Self::Threshold,
        Self::WindowSizeMean,
        Self::Window,
        Self::MostATime,
        Self::Worth,
        Self::KnownRun,
        Self::KnownHours,
        Self::TwoThresholds,
        Self::Hours,
        Self::Plan,
        Self::Hindsight,
        Self::SameWait,
        Self::Oracle,
        Self::FreeOracle,
    ];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Now => "start at once",
            Self::AllWait => "cleanest window, all wait (GAIA)",
            Self::Clock => "cleanest window by the clock",
            Self::Table => "cleanest window, a table a day",
            Self::Threshold => "lowest hours, a limit a day",
            Self::WindowSizeMean => "cleanest window, mean run of the size",
            Self::Window => "cleanest window, predicted run",
            Self::MostATime => "most a time, predicted run",
            Self::Worth => "worth its wait, predicted run",
            Self::KnownRun => "cleanest window, run known",
            Self::KnownHours => "cleanest window, hours known",
            Self::TwoThresholds => "two thresholds, pauses, run unknown",
            Self::Hours => "cleanest hours, pauses, run known",
            Self::Plan => "the plan",
            Self::Hindsight => "the plan's ways, with hindsight",
            Self::SameWait => "all known, the plan's mean wait",
            Self::Oracle => "all known, all wait",
            Self::FreeOracle => "all known, all wait, pauses free",
        }
    }

    /// Rules that the plan may be: they can be written down once a day.
    pub const WRITTEN: [Self; 2] = [Self::Threshold, Self::Table];

    /// Whether it knows what nobody can.
    pub fn knows(self) -> bool {
        matches!(
            self,
            Self::KnownRun
                | Self::KnownHours
                | Self::Hours
                | Self::Hindsight
                | Self::SameWait
                | Self::Oracle
                | Self::FreeOracle
        )
    }

    /// Whether jobs pause.
    pub fn pauses(self) -> bool {
        matches!(self, Self::TwoThresholds | Self::Hours | Self::FreeOracle)
    }

    /// The policies of which it takes the best.
    pub fn policies(self) -> Vec<DeferPolicy> {
        let windows = |goal: WindowGoal, runs: ExpectedRun| {
            ForecastBy::TRIED.map(|by| DeferPolicy::Window { goal, by, runs }).to_vec()
        };
        match self {
            Self::AllWait | Self::WindowSizeMean => windows(WindowGoal::Cleanest, ExpectedRun::SizeMean),
            Self::Clock => vec![DeferPolicy::cleanest(ForecastBy::Clock, ExpectedRun::Predicted)],
            Self::Table => ForecastBy::TRIED.map(DeferPolicy::Table).to_vec(),
            Self::Threshold => THRESHOLDS.map(DeferPolicy::Threshold).to_vec(),
            Self::Window => windows(WindowGoal::Cleanest, ExpectedRun::Predicted),
            Self::MostATime => windows(WindowGoal::MostATime, ExpectedRun::Predicted),
            Self::Worth => windows(WindowGoal::Worth(0), ExpectedRun::Predicted),
            Self::KnownRun => windows(WindowGoal::Cleanest, ExpectedRun::Recorded),
            Self::KnownHours => vec![DeferPolicy::cleanest(ForecastBy::Known, ExpectedRun::Predicted)],
            Self::TwoThresholds => {
                let pair = |(percent, pause)| DeferPolicy::TwoThresholds {
                    resume: PastPercentile { percent, days: 7 },
                    pause,
                };
                PAIRS.map(pair).to_vec()
            }
            Self::Hours => ForecastBy::TRIED.map(DeferPolicy::Hours).to_vec(),
            Self::SameWait | Self::Oracle => vec![DeferPolicy::oracle()],
            Self::FreeOracle => vec![DeferPolicy::FreeHours],
            Self::Now | Self::Plan | Self::Hindsight => vec![DeferPolicy::Now],
        }
    }
}
