//! A17: power and energy of GPUs and nodes: what meters read, what that adds up to, and whose energy it is.
//!
//! * **Energy** is what the energy ledger reads ([`meter`]): counters first, else power, gaps of up to three sample periods
//!   bridged, with the share of the time that readings tell. What a model fills beyond is not in it. Where GPUs count energy,
//!   counters and power are compared over the moments both cover.
//! * **Idle**: a GPU reading with a utilisation of at most 1 %; readings without a utilisation are neither idle nor busy.
//! * **Nodes** are totalled over one sensor each, see [`crate::schema::sensor`].
//! * **A GPU cut into instances** reports the board's power on each: one of them is counted, and no job is charged.
//! * Power usage effectiveness (PUE) is not applied: this is energy at the meters, without cooling and distribution.
//!
//! Complexity: O(n log n) in readings.
//!
//! Worked number: a GPU at 100 W (idle), 300 W (busy) and 100 W (idle) at 0, 60 and 120 s drew 24,000 J, of which the idle
//! readings, standing for 30 s each, drew 6,000 J: 25 %.

mod counter;
mod display;
mod energy;
mod gpus;
mod idle;
mod nodes;
mod reported;

use schemars::JsonSchema;
use serde::Serialize;

pub use counter::Counted;
pub use energy::{Energy, EnergyOf, Metered, PowerAt};
pub use gpus::GpuPower;
pub use idle::Idle;
pub use nodes::{NodePower, SensorPower};
pub use reported::ReportedEnergy;

use super::topic::{Topic, TopicResult};
use crate::energy::meter::{self, Devices};
use crate::facts::JobFacts;
use crate::report::format::{compact, counted, float, percent};
use crate::report::{Axis, Chart, ChartSeries, Mark, Section};
use crate::time::DAY_MS;

/// Users that the report shows.
const SHOWN: usize = 15;

/// Power and energy. Parts without data are `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Power {
    /// Power of GPUs.
    pub gpus: Option<GpuPower>,
    /// Power of nodes.
    pub nodes: Option<NodePower>,
    /// Energy of jobs, from accounting.
    pub reported: Option<ReportedEnergy>,
    /// Whether times are true dates.
    #[serde(skip)]
    dated: bool,
    /// The cluster's own zone.
    #[serde(skip)]
    zone: String,
}

/// Longest time that energy is told of, years: it is kept hour by hour, and no cluster lives longer.
const LONGEST_YEARS: f64 = 50.0;

/// Checks that readings and jobs lie within a time that can be told hour by hour.
fn within_a_lifetime(facts: &JobFacts<'_>) -> Result<(), String> {
    let (of_gpus, of_nodes) = (&facts.trace.gpu_samples, &facts.trace.node_samples);
    let moments = of_gpus.ts.iter().chain(of_nodes.ts.iter()).flatten();
    let jobs = facts.window.into_iter().flat_map(|(from, to)| [from, to]);
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for moment in moments.chain(jobs) {
        (first, last) = (first.min(moment), last.max(moment));
    }
    let years = last.saturating_sub(first) as f64 / (365.25 * DAY_MS as f64);
    if years <= LONGEST_YEARS {
        return Ok(());
    }
    Err(format!(
        "readings and jobs span {years:.0} years, and energy is told hour by hour for at most {LONGEST_YEARS:.0}; leave out what is dated wrongly"
    ))
}

impl Topic for Power {
    const ID: &'static str = "power";
    const CODE: &'static str = "A17";
    const TITLE: &'static str = "Power and energy";
    const NEEDS_ALL_JOBS: bool = true;

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        // Without readings of power or energy there is nothing to measure.
        let (of_gpus, of_nodes) = (&facts.trace.gpu_samples, &facts.trace.node_samples);
        let unread = of_gpus.power_w.is_all_unknown()
            && of_gpus.energy_j_cum.is_all_unknown()
            && of_nodes.power_w.is_all_unknown()
            && of_nodes.energy_j_cum.is_all_unknown();
        if !unread {
            within_a_lifetime(facts)?;
        }
        let devices = if unread {
            Devices::default()
        } else {
            meter::devices(facts.trace, &meter::Options::default()).map_err(|error| error.to_string())?
        };
        let (gpus, nodes) = (GpuPower::new(facts, &devices), NodePower::new(facts, &devices));
        let reported = ReportedEnergy::new(facts);
        if gpus.is_none() && nodes.is_none() && reported.is_none() {
            return Err("the source measures neither power nor energy".to_owned());
        }
        let dated = facts.trace.basis.has_calendar();
        Ok(Self { gpus, nodes, reported, dated, zone: facts.trace.zone.clone() })
    }

    fn section(&self) -> Section {
        let mut section = Self::heading().with_finding(self.finding());
        let mut coverage: Vec<String> = Vec::new();
        if let Some(gpus) = &self.gpus {
            section = gpus.tell(section, self);
            coverage.push(gpus.covers());
        }
        if let Some(nodes) = &self.nodes {
            section = nodes.tell(section, self);
            coverage.push(nodes.covers());
        }
        if let Some(reported) = &self.reported {
            section = reported.tell(section);
            coverage.push(reported.covers());
        }
        section
            .with_coverage(coverage.join(" "))
            .with_definition(
                "Energy is that of the energy ledger, as `tracecast audit` tells it: what an energy counter rose by, else \
                 power along straight lines between readings. A gap of up to three sample periods is bridged. What a \
                 model fills beyond is not in it; the share of the time that readings tell is given.",
            )
            .with_definition(
                "Energy at the meters: power usage effectiveness (cooling, distribution) is not applied, nor is a loss of \
                 power supplies unless the sensor holds it. Readings a sensor cannot have were dropped on reading.",
            )
    }
}

impl Power {
    fn finding(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(gpus) = &self.gpus {
            if let Some(metered) = &gpus.metered {
                parts.push(format!(
                    "A GPU draws **{} W** on average (median {} W, p99 {} W); together they drew {}.",
                    float(metered.power_w.mean, 0),
                    float(metered.power_w.p50, 0),
                    float(metered.power_w.p99, 0),
                    metered.energy.in_words()
                ));
            }
            if let Some(idle) = &gpus.idle {
                let energy = idle
                    .idle_energy_share
                    .map_or_else(String::new, |part| format!(", drawing **{}** of the energy", percent(part)));
                parts.push(format!(
                    "GPUs are at rest (at most 1 % busy) in {} of the readings{energy}.",
                    percent(idle.reading_share)
                ));
            }
        }
        if let Some(total) = self.nodes.as_ref().and_then(|nodes| nodes.total.as_ref()) {
            parts.push(format!(
                "A node draws **{} W** on average (p10 {} W, p99 {} W); {} drew {}.",
                float(total.power_w.mean, 0),
                float(total.power_w.p10, 0),
                float(total.power_w.p99, 0),
                counted(total.energy.meters, "node", "nodes"),
                total.energy.in_words()
            ));
        }
        if let Some(reported) = &self.reported {
            parts.push(format!(
                "Accounting reports {} kWh for {} of the jobs.",
                compact(reported.energy_kwh),
                percent(reported.job_coverage)
            ));
        }
        if parts.is_empty() {
            parts.push("Power is measured by sensors that cannot be added up over nodes; see the table.".to_owned());
        }
        parts.join(" ")
    }

    fn over_time(&self, id: &str, title: &str, points: &[PowerAt]) -> Chart {
        let zone = jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC);
        let x = if self.dated { Axis::time("Time", zone) } else { Axis::duration("Time since the trace began") };
        let points =
            points.iter().map(|p| (p.ts as f64 / 1_000.0, p.power_w.map_or(f64::NAN, |watts| watts / 1_000.0)));
        Chart::xy(
            id,
            title,
            x,
            Axis::linear("Power (kW)"),
            vec![ChartSeries::new("power", Mark::Line, points.collect())],
        )
        .with_reading(
            "Each point is the mean over up to a 600th of the time metered. Times at which fewer than nine tenths of \
                 the most meters that ever read together did are left out, so a gap is meters missing, not power.",
        )
    }
}
