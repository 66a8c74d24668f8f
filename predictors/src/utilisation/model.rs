//! The models that say how much of a GPU a job will use, and what they are tested by: three rules, and three learners on the same features.
//!
//! | name | says |
//! |---|---|
//! | `mean` | the mean of what is known |
//! | `last` | the value of the job of the narrowest group that started last |
//! | `nearest` | the same rule on profiles: the value of the job type nearest in batch size, of the own family if that is known |
//! | `group` | the mean of the narrowest group, drawn towards wider ones; of profiles, the family's mean and one slope against log batch for all families |
//! | `linear` | least squares |
//! | `forest` | a random forest (smartcore) |
//! | `boosted` | boosted trees that learn the quantiles themselves; the number said is the median |
//! | `choice` | in a back-test on profiles: for each group that is left out, the model of least RMSLE on the others |
//!
//! What a rule says is in the modules that know the data (`past`, [`super::held_out`]), what a learner says in `learner`. O(1). Worked example: the second rule is `last` in order of time, and `nearest`
//! where families are left out.

use serde::Serialize;

/// Data left out of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LeftOut")]
pub enum UsageLeftOut {
    /// Later jobs.
    Later,
    /// A family of job types, such as a model at all batch sizes.
    Family,
    /// Some job types; others of their families teach.
    JobType,
}

/// Name of a model in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageModelName {
    /// The mean of what is known.
    Mean,
    /// The value of the job of the narrowest group that started last.
    Last,
    /// The value of the job type nearest in batch size.
    Nearest,
    /// The mean of the group, drawn towards wider ones; of profiles the family's mean and one slope against log batch.
    Group,
    /// Least squares.
    Linear,
    /// A random forest.
    Forest,
    /// Boosted trees.
    Boosted,
    /// For each group that is left out, the model of least RMSLE on the others.
    Choice,
}

impl UsageModelName {
    /// Name as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Last => "last",
            Self::Nearest => "nearest",
            Self::Group => "group",
            Self::Linear => "linear",
            Self::Forest => "forest",
            Self::Boosted => "boosted",
            Self::Choice => "choice",
        }
    }
}

/// A rule or a learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageModel {
    Mean,
    Last,
    Group,
    Linear,
    Forest,
    Boosted,
}

/// Number of rules.
pub(super) const RULES: usize = 3;

impl UsageModel {
    /// All, the rules first.
    pub(super) const ALL: [Self; 6] = [Self::Mean, Self::Last, Self::Group, Self::Linear, Self::Forest, Self::Boosted];

    /// Name of the model where jobs are in order of time, or where job types are left out.
    pub(super) fn named(self, left_out: UsageLeftOut) -> UsageModelName {
        match (self, left_out) {
            (Self::Mean, _) => UsageModelName::Mean,
            (Self::Last, UsageLeftOut::Later) => UsageModelName::Last,
            (Self::Last, UsageLeftOut::Family | UsageLeftOut::JobType) => UsageModelName::Nearest,
            (Self::Group, _) => UsageModelName::Group,
            (Self::Linear, _) => UsageModelName::Linear,
            (Self::Forest, _) => UsageModelName::Forest,
            (Self::Boosted, _) => UsageModelName::Boosted,
        }
    }

    /// Index among the rules; `None` for a learner.
    pub(super) fn rule(self) -> Option<usize> {
        Self::ALL.iter().take(RULES).position(|model| *model == self)
    }
}
