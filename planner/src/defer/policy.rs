//! How a job is decided: when it starts, and whether it pauses.
//!
//! | policy | start | pauses | knows |
//! |---|---|---|---|
//! | now | at submission | no | nothing |
//! | window, cleanest | where the window of the expected run has the least, within the bound | no | a forecast, an expected run |
//! | window, most a time | where the window saves most for each hour from submission to its end | no | the same |
//! | window, worth | where the window saves most beyond so much for each hour waited | no | the same |
//! | table | as a table of the day says for its class and hour: where the window of the class's median run has the least, within the bound | no | a forecast as of the end of the day before |
//! | threshold | in the first hour at or below a percentile of the last days, as of the end of the day before, or when the bound ends | no | past hours |
//! | two thresholds | as *threshold*; pauses in an hour above a higher percentile, and resumes as it started | yes | past hours |
//! | hours | in the cheapest hours that hold the run within run and bound | yes | a forecast, the run |
//! | free hours | the same with the values that came, where resuming costs nothing | yes | all: a bound |
//!
//! *Window, cleanest* with the mean of the like is the Lowest Carbon Window of GAIA (Hanafy and others, ASPLOS 2024), *most a time* its Carbon Saving per Waiting Time, and *hours* is Wait Awhile as GAIA compares with it (Wiesner and
//! others, Middleware 2021). *Two thresholds* follows the idea of LACS (Bostandoost and others, arXiv 2404.15211) and of the double threshold before it (Lechowicz and others, arXiv 2303.17551): the run is unknown,
//! switching costs, and what is running goes on to a higher intensity than what is paused resumes at. Their thresholds come from bounds on intensity and run, for a competitive ratio; ours are percentiles of
//! past days. So it is their idea as read, and not their algorithm.
//!
//! A **day** is one of UTC. *Table* and *threshold* can be written down once a day, and are what a plan may choose; the others are decided for each job by itself, and stand beside it.
//!
//! Each takes a **bound** on the wait: end less submission less run, what resuming costs included.
//!
//! O(1). Worked example: *window, cleanest* with a bound of 2 h: hours of 400, 400, 100 and 300 g/kWh and a run of 1 h from 0:30: from 2:00 on it emits 100 per kW, and it waits 90 min.

use schemars::JsonSchema;
use serde::Serialize;

use super::forecast::ForecastBy;
use super::job::DeferJob;

/// Where the expected run of a job is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedRun {
    /// The mean of the last two alike.
    Predicted,
    /// The mean of its size class.
    SizeMean,
    /// The recorded run: a perfect prediction.
    Recorded,
}

impl ExpectedRun {
    /// The expected run of a job, ms.
    pub fn of(self, job: &DeferJob) -> i64 {
        match self {
            Self::Predicted => job.predicted_ms,
            Self::SizeMean => job.size_mean_ms,
            Self::Recorded => job.run_ms,
        }
    }

    /// In words, after "for".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Predicted => "the predicted run",
            Self::SizeMean => "the mean run of the size class",
            Self::Recorded => "the true run",
        }
    }
}

/// Goal by which a window is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowGoal {
    /// The one with the least.
    Cleanest,
    /// The one that saves most for each hour from submission to its end.
    MostATime,
    /// The one that saves most beyond so much for each hour waited, in whole parts of a value × thousandths of a GPU.
    Worth(i64),
}

/// A percentile of the hours of the last days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct PastPercentile {
    /// Percent.
    pub percent: u8,
    /// Days.
    pub days: u16,
}

/// How a job is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeferPolicy {
    /// Starts at once.
    Now,
    /// Starts with a window.
    Window {
        /// Goal of the window.
        goal: WindowGoal,
        /// Forecast that the window goes by.
        by: ForecastBy,
        /// How long it is.
        runs: ExpectedRun,
    },
    /// Starts as a table of the day says.
    Table(ForecastBy),
    /// Starts in an hour at or below a percentile.
    Threshold(PastPercentile),
    /// Starts and resumes at or below one percentile, and pauses above another.
    TwoThresholds {
        /// Percent of the lower one, and days of both.
        resume: PastPercentile,
        /// Percent of the higher one.
        pause: u8,
    },
    /// Runs in the cheapest hours of a forecast, with the run known.
    Hours(ForecastBy),
    /// Runs in the cheapest hours that came, where resuming costs nothing.
    FreeHours,
}

impl DeferPolicy {
    /// The window that is expected to be cleanest.
    pub fn cleanest(by: ForecastBy, runs: ExpectedRun) -> Self {
        Self::Window { goal: WindowGoal::Cleanest, by, runs }
    }

    /// The bound that nothing beats that does not pause: the future and the run are known.
    pub fn oracle() -> Self {
        Self::cleanest(ForecastBy::Known, ExpectedRun::Recorded)
    }

    /// The forecast that it takes.
    pub fn forecast(self) -> Option<ForecastBy> {
        match self {
            Self::Window { by, .. } | Self::Table(by) | Self::Hours(by) => Some(by),
            Self::Now | Self::Threshold(_) | Self::TwoThresholds { .. } | Self::FreeHours => None,
        }
    }

    /// The percentiles that it takes.
    pub fn percentiles(self) -> Vec<PastPercentile> {
        match self {
            Self::Threshold(at) => vec![at],
            Self::TwoThresholds { resume, pause } => vec![resume, PastPercentile { percent: pause, ..resume }],
            Self::Now | Self::Window { .. } | Self::Table(_) | Self::Hours(_) | Self::FreeHours => Vec::new(),
        }
    }

    /// Description in words.
    pub fn in_words(self) -> String {
        match self {
            Self::Now => "at once".to_owned(),
            Self::Window { goal, by, runs } => {
                let goal = match goal {
                    WindowGoal::Cleanest => "cleanest window",
                    WindowGoal::MostATime => "window that saves most a time",
                    WindowGoal::Worth(_) => "window that is worth its wait",
                };
                format!("{goal} for {}, by {}", runs.in_words(), by.in_words())
            }
            Self::Table(by) => {
                format!("cleanest window for the median run of the class, by {} once a day", by.in_words())
            }
            Self::Threshold(at) => {
                format!("first hour within the lowest {} % of {} days", at.percent, at.days)
            }
            Self::TwoThresholds { resume, pause } => format!(
                "hours within the lowest {} % of {} days, with pauses above the lowest {pause} %",
                resume.percent, resume.days
            ),
            Self::Hours(by) => format!("cleanest hours that hold the true run, by {}", by.in_words()),
            Self::FreeHours => "cleanest hours that came, resuming free".to_owned(),
        }
    }
}

/// Percent and days of thresholds that are tried.
pub const THRESHOLDS: [PastPercentile; 8] = [
    PastPercentile { percent: 10, days: 7 },
    PastPercentile { percent: 20, days: 7 },
    PastPercentile { percent: 30, days: 7 },
    PastPercentile { percent: 50, days: 7 },
    PastPercentile { percent: 10, days: 28 },
    PastPercentile { percent: 20, days: 28 },
    PastPercentile { percent: 30, days: 28 },
    PastPercentile { percent: 50, days: 28 },
];

/// Percent of two thresholds that are tried, over 7 days.
pub const PAIRS: [(u8, u8); 4] = [(20, 50), (30, 50), (30, 70), (50, 80)];
