//! Description of a trace: the catalogue of statistics, each with its definition, or one line
//! saying why the data do not allow it.
//!
//! Every topic is one file here: a serialisable answer (its JSON form), how it is computed ([`Topic::of`]) and how it is
//! told to a person ([`Topic::section`]). [`Description::new`] runs all of them over the same
//! [`JobFacts`].
//!
//! Complexity: O(n log n) in jobs and samples; memory O(n).

mod opening;
mod quality;
mod summary;
mod topic;

pub mod arrival;
pub mod backlog;
pub mod calendar;
pub mod delay;
pub mod duration;
pub mod failure;
pub mod fragment;
pub mod limits;
pub mod locality;
pub mod lost;
pub mod pool;
pub mod power;
pub mod recurrence;
pub mod repeated;
pub mod sharing;
pub mod size;
pub mod status;
pub mod tables;
pub mod usage;
pub mod users;
pub mod vc;
pub mod wait;

use schemars::JsonSchema;
use serde::Serialize;

pub use opening::GPU_ENERGY;
pub use power::{Energy, EnergyOf, Metered, PowerAt};
pub use quality::Quality;
pub use summary::TraceSummary;
pub use topic::{Missing, Topic, TopicResult};

use crate::facts::{Capacity, JobFacts};
use crate::report::{Chart, Report, Section};
use crate::trace::{Selected, SourceRecord, Trace};

/// Version of the JSON form; a change that breaks its readers raises it.
pub const SCHEMA: &str = "describe/3";

macro_rules! description {
    ($( $(#[$doc:meta])* $field:ident: $topic:ty, )*) => {
        /// Everything a trace says. A topic the data do not allow is `null`, and `missing` says why.
        #[derive(Debug, Serialize, JsonSchema)]
        pub struct Description {
            /// Version of this form.
            pub schema: String,
            /// Files the trace was read from.
            pub sources: Vec<SourceRecord>,
            /// Notes of the readers on the source.
            pub notes: Vec<String>,
            /// Selection that the trace was cut to, if any.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub selected: Option<Selected>,
            /// Quality of the rows read.
            pub quality: Quality,
            $( $(#[$doc])* pub $field: Option<$topic>, )*
            /// Topics the data do not allow, each with the reason.
            pub missing: Vec<Missing>,
            /// Time that a source without jobs covers, in words.
            #[serde(skip)]
            observed: Option<String>,
            /// The whole time in one chart.
            #[serde(skip)]
            overview: Option<Chart>,
        }

        impl Description {
            /// Computes every topic of `trace`.
            pub fn new(trace: &Trace) -> Self {
                let facts = JobFacts::new(trace);
                let mut missing = Vec::new();
                Self {
                    schema: SCHEMA.to_owned(),
                    sources: trace.sources.clone(),
                    notes: trace.notes.iter().cloned().chain(Capacity::assumption(trace)).collect(),
                    selected: trace.selected.clone(),
                    quality: Quality::new(trace),
                    $( $field: topic::attempt(&facts, &mut missing), )*
                    missing,
                    observed: summary::observed(trace),
                    overview: opening::overview(&facts),
                }
            }

            /// The sections of the report, in the catalogue's order; those the data do not allow carry the reason.
            fn sections(&self) -> Vec<Section> {
                vec![$( topic::tell(self.$field.as_ref(), &self.missing), )*]
            }
        }
    };
}

description! {
    /// A1: the trace at a glance.
    summary: TraceSummary,
    /// A2: job sizes by count and by GPU time.
    size: size::Size,
    /// A3: how long jobs run.
    duration: duration::Duration,
    /// A4 and A5: how long jobs wait.
    wait: wait::Wait,
    /// A6: how jobs end.
    status: status::Status,
    /// A7: load by hour, weekday and month.
    calendar: calendar::CalendarLoad,
    /// A8: load by VC.
    vc: vc::VcLoads,
    /// A9: waiting that a shared pool could serve.
    pool: pool::Poolable,
    /// A10: concentration over users.
    users: users::Users,
    /// A11: what GPUs that are given do.
    usage: usage::Usage,
    /// A12: how the free GPUs lie over nodes.
    fragment: fragment::Fragmentation,
    /// A13: spread over nodes, and why jobs waited.
    locality: locality::Locality,
    /// A14: work that comes back.
    recurrence: recurrence::Recurrence,
    /// A15: failures.
    failure: failure::Failure,
    /// A16: fractions of GPUs.
    sharing: sharing::Sharing,
    /// A17: power and energy.
    power: power::Power,
    /// A18: how jobs arrive.
    arrival: arrival::ArrivalPattern,
    /// A19: what waits at the end, and why.
    backlog: backlog::Backlog,
    /// A20: GPU-hours lost, by user and by VC.
    lost: lost::Lost,
    /// A21: work that fails again and again.
    repeated: repeated::Repeated,
    /// A22: time asked for and time used.
    limits: limits::TimeLimits,
}

impl Description {
    /// The report: the row of figures, the whole time, what the trace holds in a sentence, then the questions with the topics that answer them.
    pub fn report(&self, title: &str) -> Report {
        let mut report = Report::new(title, self.subtitle());
        report.notes.clone_from(&self.notes);
        report.figures = self.figures();
        report.overview.clone_from(&self.overview);
        report.sections = opening::arrange(self.sections());
        report.summary = self.sentences();
        report.quality = Some(self.quality.table());
        report.provenance = self
            .sources
            .iter()
            .map(|source| {
                let size = crate::report::format::bytes(source.size_bytes);
                (source.name.clone(), format!("{}, {size}, SHA-256 {}", source.reader, source.sha256))
            })
            .collect();
        report.provenance.push(("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        report
    }

    fn subtitle(&self) -> String {
        let when =
            self.summary.as_ref().map(TraceSummary::subtitle).or_else(|| self.observed.clone()).unwrap_or_default();
        match &self.selected {
            Some(selected) => format!("{when}; {}", selected.in_short()),
            None => when,
        }
    }

    /// The summary: what the trace is, and what became of its rows if some are missing.
    fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(summary) = &self.summary {
            sentences.push(summary.sentence());
        } else if let Some(observed) = &self.observed {
            sentences.push(format!("The source holds no jobs; what it samples spans {observed}."));
        }
        if self.quality.is_lossy() {
            sentences.push(self.quality.sentence());
        }
        sentences
    }
}

/// The JSON Schema of [`Description`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Description).to_value()
}
