//! What to change, and the whole report around it: the library side of `tracecast report`.
//!
//! [`report`] takes a trace and gives the document and its data. It asks every plan that a trace can feed (queues and their order, nodes that sleep, jobs that wait for
//! clean hours) and counts work that keeps failing and time limits. What they recommend, five at most, stands before the description of the trace, and the sections of the plans
//! behind it.
//!
//! **Threshold**: a change is recommended where its interval leaves out no effect and the effect is at least 5 % of what it changes, or where it
//! spares at least 1 % of the GPU time. The surest stand first, and of those as sure the one that saves the largest share of what it changes. Where nothing is
//! worth changing the report says so. What could not be judged stands beside it with the reason, and so do plans that take more than a record: prices, targets, measured speeds.
//!
//! Worked number: a mean wait of 60 min that falls by 4 min (2 to 6) is clear, and below 5 %: it is told under what was left alone.

pub mod card;
mod defer;
pub mod failing;
pub mod limits;
mod power;
mod queues;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::audit::{self, account, answer::Beside, factors, factors::Factors};
use tracecast_analytics::describe::pool::Poolable;
use tracecast_analytics::describe::{Description, GPU_ENERGY, Topic as _};
use tracecast_analytics::energy::meter;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::opening::MOST_CARDS;
use tracecast_analytics::report::{Changes, Figure, Question, Report, Section, format};
use tracecast_analytics::watch::Watch;

use crate::error::Result;
use crate::plan::Recommendation;
use crate::plan::verdict::Verdict;
use crate::queues::pooling::{self, Pooling};

/// Version of the data of a report; a change that breaks its readers raises it.
pub const SCHEMA: &str = "report/2";

/// Parts of a report that are told to who watches: the description, one pool, queues, power, clean hours, failing work and limits, energy.
const PARTS: usize = 7;

/// Plans that take more than a record, and what: none is asked here.
const UNASKED: [(&str, &str); 3] = [
    ("How many nodes", "How long jobs may wait is for you to say: `tracecast plan nodes TRACE --target-p95 1h`."),
    (
        "What to rent and what to own",
        "A record has no prices: `tracecast plan rent fleet TRACE --offers OFFERS` says what to commit to, and `tracecast plan rent burst TRACE --offers OFFERS` what to own.",
    ),
    (
        "Jobs that share GPUs, and GPUs cut into slices",
        "A record does not say how fast jobs run side by side: `tracecast plan share couples TRACE --pairs PAIRS` and `tracecast plan share mig` take measured speeds.",
    ),
];

/// What the row of figures calls the energy of an audit.
const IT_ENERGY: &str = "Energy of IT";

/// Request for a report.
#[derive(Debug, Clone, Default)]
pub struct ReportRequest {
    /// Heading of the report.
    pub title: String,
    /// How the trace is named on a command line, for the commands that the report gives.
    pub trace: String,
    /// Whether replays and plans are left out, which take most of the time.
    pub quick: bool,
}

/// `report.json`: what to change, the description of a trace, and the replay on one pool beside it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportData {
    /// Version of this form.
    pub report_schema: String,
    /// Recommended changes, the most worthwhile first; empty where nothing is worth it.
    pub recommendations: Vec<Recommendation>,
    /// What was looked at and left alone, or could not be told.
    pub left_alone: Vec<LeftAlone>,
    /// The description, as `describe --format json` gives it.
    #[serde(flatten)]
    pub description: Description,
    /// The replay on one pool; `null` where the trace does not allow it.
    pub pooling: Option<Pooling>,
    /// Why it does not.
    pub pooling_missing: Option<String>,
}

/// Something that was looked at and left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftAlone {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// Whether it was judged, and is not worth a change; `false` where the trace did not allow that.
    pub judged: bool,
}

impl LeftAlone {
    /// What, and whether it was judged, with why.
    fn named(&self) -> (String, String) {
        let what = if self.judged { self.what.clone() } else { format!("{} (not judged)", self.what) };
        (what, self.why.clone())
    }
}

/// The JSON Schema of [`ReportData`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(ReportData).to_value()
}

/// Whether a plan was judged: on sizes, days or jobs that do not suffice, "change nothing" says nothing.
fn is_judged(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::SizesUnknown | Verdict::TooShort | Verdict::Untested)
}

/// An error in one line.
pub(crate) fn in_a_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    match first.split_once("; write a file") {
        Some(_) => "The source does not say how many GPUs its VCs have.".to_owned(),
        None => format!("{}.", first.strip_prefix("cluster: ").unwrap_or(first).trim_end_matches('.')),
    }
}

/// The whole report on a trace, and its data. `watch` is told of each capability that was asked.
///
/// # Errors
/// If the trace's carbon intensities contradict each other.
pub fn report(trace: &Trace, request: &ReportRequest, watch: &dyn Watch) -> Result<(Report, ReportData)> {
    watch.more(PARTS);
    let description = Description::new(trace);
    watch.made();
    let mut document = description.report(&request.title);
    // What needs the cluster as a whole, and why it is not looked at.
    let without = match (&trace.selected, request.quick) {
        (Some(selected), _) => Some(selected.refusal()),
        (None, true) => Some("it is left out by --quick".to_owned()),
        (None, false) => None,
    };
    let why = || without.as_ref().map(|why| format!("Not looked at: {why}."));
    let facts = JobFacts::new(trace);
    let loaded = without.clone().map_or_else(|| pooling::loaded(trace, &facts), Err);
    let pooling = loaded.as_ref().map_err(String::clone).and_then(|loaded| pooling::compare(&facts, loaded));
    add_pooling(&mut document, &pooling);
    watch.made();
    let asked = |ask: &dyn Fn() -> Asked| {
        let asked = why().map_or_else(ask, Asked::refused);
        watch.made();
        asked
    };
    let queues = asked(&|| queues::ask(trace, &loaded, &pooling));
    let power = asked(&|| power::ask(trace));
    let defer = asked(&|| defer::ask(trace));
    let mut gathered = Gathered::default();
    gathered.add("Queues: shared nodes and another order", queues.found);
    gathered.add("Nodes to sleep", power.found);
    gathered.add("Waiting for hours of cleaner electricity", defer.found);
    gathered.add("Work that keeps failing", failing::look(trace));
    gathered.add("Time limits", limits::look(trace));
    watch.made();
    let Gathered { mut recommended, mut left_alone } = gathered;
    // Stable: of those that save as much, in the order gathered.
    recommended
        .sort_by(|(a_saves, a), (b_saves, b)| b.confidence.cmp(&a.confidence).then_with(|| b_saves.total_cmp(a_saves)));
    let mut recommendations: Vec<Recommendation> =
        recommended.into_iter().take(MOST_CARDS).map(|(_, recommendation)| recommendation).collect();
    let nothing = nothing(&left_alone);
    let unasked = UNASKED.map(|(what, why)| LeftAlone { what: what.to_owned(), why: why.to_owned(), judged: false });
    left_alone.extend(unasked);
    for recommendation in &mut recommendations {
        if let Some(command) = &mut recommendation.command {
            *command = command.replace("TRACE", &request.trace);
        }
    }
    for left in &mut left_alone {
        left.why = left.why.replace("TRACE", &request.trace);
    }
    document.changes = Some(Changes {
        cards: recommendations.iter().map(card::card).collect(),
        nothing: nothing.replace("TRACE", &request.trace),
        passed_over: left_alone.iter().map(LeftAlone::named).collect(),
    });
    if trace.selected.is_none() {
        add_energy(&mut document, trace)?;
    }
    watch.made();
    // Beside what was found of the same question, a section says which plan it is of.
    let of_plans = [
        (Question::Wait, "Plan of queues: ", queues.sections),
        (Question::Sleep, "", power.sections),
        (Question::Draw, "Plan to wait for cleaner hours: ", defer.sections),
    ];
    for (question, plan, sections) in of_plans {
        let told = |section: Section| Section { title: format!("{plan}{}", section.title), ..section };
        document.sections.extend(sections.into_iter().map(|section| told(section).answering(question)));
    }
    for note in power.notes {
        // The quality section has these.
        if !document.notes.contains(&note) && !trace.warnings().contains(&note) {
            document.notes.push(note);
        }
    }
    let (pooling, pooling_missing) = match pooling {
        Ok(pooling) => (Some(pooling), None),
        Err(reason) => (None, Some(reason)),
    };
    let data = ReportData {
        report_schema: SCHEMA.to_owned(),
        recommendations,
        left_alone,
        description,
        pooling,
        pooling_missing,
    };
    Ok((document, data))
}

/// What a plan said.
struct Asked {
    /// Findings, or why the plan could not judge.
    found: std::result::Result<Found, String>,
    /// Sections of the plan's report.
    sections: Vec<Section>,
    /// Assumptions, in sentences.
    notes: Vec<String>,
}

impl Asked {
    /// Nothing, for a reason.
    fn refused(why: String) -> Self {
        Self { found: Err(why), sections: Vec::new(), notes: Vec::new() }
    }
}

/// Findings of a plan.
#[derive(Debug)]
pub struct Found {
    /// Recommended change, if any is worth it.
    pub recommendation: Option<Recommendation>,
    /// Saving, a share of what changes.
    pub saves: f64,
    /// What was looked at, and why nothing should change, in a sentence.
    pub looked_at: String,
}

impl Found {
    /// Nothing to change.
    fn nothing(looked_at: String) -> Self {
        Self { recommendation: None, saves: 0.0, looked_at }
    }
}

/// Findings so far.
#[derive(Default)]
struct Gathered {
    /// Recommendations, each with the share that it saves of what it changes.
    recommended: Vec<(f64, Recommendation)>,
    left_alone: Vec<LeftAlone>,
}

impl Gathered {
    /// Adds a recommendation, or under `what` why there is none.
    fn add(&mut self, what: &str, found: std::result::Result<Found, String>) {
        match found {
            Ok(Found { recommendation: Some(recommendation), saves, .. }) => {
                self.recommended.push((saves, recommendation));
            }
            Ok(found) => self.left_alone.push(LeftAlone { what: what.to_owned(), why: found.looked_at, judged: true }),
            Err(why) => self.left_alone.push(LeftAlone { what: what.to_owned(), why, judged: false }),
        }
    }
}

/// What is said where no change is recommended: what was judged is not worth one, and what could not be judged stands beside it with its reason.
fn nothing(left_alone: &[LeftAlone]) -> String {
    const NONE: &str = "No change that was judged has an effect whose interval leaves out none and that is at least 5 % of what it changes.";
    let (judged, unjudged): (Vec<_>, Vec<_>) = left_alone.iter().partition(|left| left.judged);
    if unjudged.is_empty() {
        return format!("**Nothing is worth changing.** {NONE}");
    }
    let why = |left: &&LeftAlone| format!("{} ({})", left.what.to_lowercase(), left.why.trim_end_matches('.'));
    let listed = format!("Could not be judged: {}.", unjudged.iter().map(why).collect::<Vec<_>>().join("; "));
    if judged.is_empty() {
        return format!(
            "**Nothing could be judged**, so this says neither that all is well nor what to change. {listed}"
        );
    }
    format!("**Nothing that could be judged is worth changing.** {NONE} {listed}")
}

/// Puts the replay on one pool, and what theory says of it, behind the shares of waiting that met idle GPUs.
fn add_pooling(document: &mut Report, pooling: &std::result::Result<Pooling, String>) {
    let (section, theory) = match pooling {
        Ok(found) => (found.section(), found.theory_section()),
        Err(reason) => (Pooling::unavailable(reason), None),
    };
    let place = document.sections.iter().position(|other| other.id == Poolable::ID).map_or(0, |at| at + 1);
    let place = place.min(document.sections.len());
    let added = std::iter::once(section).chain(theory).map(|section| section.answering(Question::Wait));
    document.sections.splice(place..place, added);
}

/// Puts where the energy went before what devices draw, with what the trace itself holds of factors; the figure of the row is the audit's.
fn add_energy(document: &mut Report, trace: &Trace) -> Result<()> {
    let metering = meter::Options { threads: rayon::current_num_threads(), ..meter::Options::default() };
    // Without power nothing can be audited, which the catalogue says already.
    let Ok(ledger) = meter::measure(trace, &metering) else { return Ok(()) };
    let used = factors::load(Factors::default(), trace)?;
    let account = account::account(&ledger, &used.loaded);
    let beside = Beside { of_readings: true, factors: used.records, notes: used.notes, ..Beside::default() };
    let answer = audit::answer::Answer::new(trace, &ledger, account, beside);
    let it = answer.account.it_kwh;
    if let Some(figure) = document.figures.iter_mut().find(|figure| figure.name == GPU_ENERGY) {
        let span = format::duration((answer.window.to_ms - answer.window.from_ms) as f64 / 1000.0);
        let modelled = if it.value > 0.0 { it.modelled / it.value } else { 0.0 };
        let note = if modelled > 0.0 {
            format!("in {span}, {} of it modelled", format::percent(modelled))
        } else {
            format!("in {span}, all of it metered")
        };
        // Another quantity than the GPUs' meters alone, under another name.
        *figure = Figure::new(IT_ENERGY, format!("{} kWh", format::compact(it.value)), note);
    }
    let mut told = answer.report();
    // What was drawn comes before where it went.
    if let (Some(headline), Some(first)) = (told.summary.first(), told.sections.first_mut()) {
        first.finding = format!("{headline} {}", first.finding);
    }
    let kept = told.sections.into_iter().filter(|section| section.unavailable.is_none());
    let kept = kept.filter(|section| !["eu", "factors"].contains(&section.id.as_str()));
    let sections: Vec<Section> = kept
        .map(|section| Section { id: format!("audit-{}", section.id), question: Some(Question::Draw), ..section })
        .collect();
    let place = document.sections.iter().position(|section| section.question == Some(Question::Draw));
    let place = place.unwrap_or(document.sections.len());
    document.sections.splice(place..place, sections);
    Ok(())
}
