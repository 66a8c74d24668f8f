//! A17: power and energy of GPUs and nodes: what meters read, what that adds up to, and whose energy it is.
//!
//! * **Energy**: trapezoid rule per meter, gaps up to three times the meter's median gap bridged, with the share of time
//!   bridged. Where GPUs also count energy, the increases of the counter stand beside it, with the gap between the two over
//!   the moments both cover.
//! * **Idle**: a GPU reading with a utilisation of at most 1 %; readings without a utilisation are neither idle nor busy.
//! * **Nodes** are totalled over one sensor each, see [`super::node_power`].
//! * **A GPU cut into instances** reports the board's power on each: one of them is counted, and no job is charged.
//! * Power usage effectiveness (PUE) is not applied: this is energy at the meters, without cooling and distribution.
//!
//! Complexity: O(n log n) in readings.
//!
//! Worked number: a GPU at 100 W (idle), 300 W (busy) and 100 W (idle) at 0, 60 and 120 s drew 24,000 J, of which the idle
//! readings, standing for 30 s each, drew 6,000 J: 25 %.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::energy::{Energy, EnergyOf, Metered, Meters, OverTime, Owners, PowerAt, kwh};
use super::facts::{JobFacts, SizeClass};
use super::node_power::NodePower;
use super::samples::{Holder, HolderSource, Readings};
use super::status::words;
use super::summary::{count, int};
use super::topic::{Topic, TopicResult, hours, share};
use crate::report::format::{compact, duration, float, percent};
use crate::report::{Axis, Cell, Chart, Column, Mark, Section, Series, Table};
use crate::schema::Table as _;
use crate::stats;
use crate::stats::ecdf::CurvePoint;
use crate::stats::sampled::counter_step;
use crate::stats::sum::NeumaierSum;

/// A GPU of at most this utilisation is idle.
const IDLE: f64 = 0.01;

/// Users that the report shows.
const SHOWN: usize = 15;

/// GPUs that do nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Idle {
    /// Readings with both power and utilisation.
    pub known_readings: u64,
    /// Those over all readings with power.
    pub coverage: f64,
    /// Idle ones over them.
    pub reading_share: f64,
    /// Power of an idle GPU, watts.
    pub idle_w: Option<stats::quantile::Summary>,
    /// Power of a GPU that works, watts.
    pub busy_w: Option<stats::quantile::Summary>,
    /// Energy drawn while idle, kilowatt-hours.
    pub idle_kwh: f64,
    /// Energy drawn while working, kilowatt-hours.
    pub busy_kwh: f64,
    /// That over the energy of all readings with a utilisation.
    pub idle_energy_share: Option<f64>,
    /// GPU-hours idle.
    pub idle_gpu_hours: f64,
    /// Energy drawn while idle and held by a job, kilowatt-hours; `null` if holders are unknown.
    pub held_idle_kwh: Option<f64>,
}

/// Energy as GPUs count it themselves.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Counted {
    /// GPUs with a counter.
    pub gpus: u64,
    /// Sum of the increases, kilowatt-hours; long gaps are covered too.
    pub energy_kwh: f64,
    /// Times a counter began again; what it counted between the last reading and the reset is lost.
    pub resets: u64,
    /// Increases over the stretches that the trapezoid rule bridges as well, kilowatt-hours.
    pub compared_kwh: f64,
    /// The trapezoid rule over the same stretches, kilowatt-hours.
    pub compared_trapezoid_kwh: f64,
    /// The trapezoid rule over the counter, less 1.
    pub trapezoid_excess: Option<f64>,
}

/// Power and energy of GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GpuPower {
    /// Readings: one GPU at one moment.
    pub readings: u64,
    /// Readings with power over all readings.
    pub coverage: f64,
    /// What the meters read.
    pub metered: Option<Metered>,
    /// Instances of cut GPUs that were left out, as they report their board's power again.
    pub instances_left_out: u64,
    /// What the counters say.
    pub counted: Option<Counted>,
    /// GPUs that do nothing.
    pub idle: Option<Idle>,
    /// How it was found which job held a GPU.
    pub holders: HolderSource,
    /// Energy by who held the GPU.
    pub by_holder: Vec<EnergyOf>,
    /// Energy of listed jobs by VC.
    pub by_vc: Vec<EnergyOf>,
    /// By user.
    pub by_user: Vec<EnergyOf>,
    /// By the state the job ended in.
    pub by_state: Vec<EnergyOf>,
    /// By the job's size.
    pub by_size: Vec<EnergyOf>,
    /// Power of all GPUs together over time.
    pub over_time: Vec<PowerAt>,
}

/// Energy that accounting reports for jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportedEnergy {
    /// Jobs with an energy.
    pub jobs: u64,
    /// Those over all jobs.
    pub job_coverage: f64,
    /// Their GPU time over that of all jobs.
    pub gpu_time_coverage: Option<f64>,
    /// Jobs among them for which it is 0.
    pub zero_jobs: u64,
    /// Sum, kilowatt-hours.
    pub energy_kwh: f64,
    /// By state, most first: state, jobs, kilowatt-hours.
    pub by_state: Vec<(String, u64, f64)>,
    /// By VC, most first; `null` for jobs without one.
    pub by_vc: Vec<(Option<String>, u64, f64)>,
}

/// Power and energy. Parts without data are `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Power {
    /// Of GPUs.
    pub gpus: Option<GpuPower>,
    /// Of nodes.
    pub nodes: Option<NodePower>,
    /// Of jobs, from accounting.
    pub reported: Option<ReportedEnergy>,
    /// Whether times are true dates.
    #[serde(skip)]
    dated: bool,
    /// The cluster's own zone.
    #[serde(skip)]
    zone: String,
}

impl Topic for Power {
    const ID: &'static str = "power";
    const CODE: &'static str = "A17";
    const TITLE: &'static str = "Power and energy";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let (gpus, nodes, reported) = (GpuPower::of(facts), NodePower::of(facts), ReportedEnergy::of(facts));
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
                "Energy: the trapezoid rule over each meter's readings. A gap of up to three times the meter's median gap \
                 is bridged, a longer one adds nothing; the share of time bridged is given.",
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
                parts.push(format!("GPUs are idle in {} of the readings{energy}.", percent(idle.reading_share)));
            }
        }
        if let Some(total) = self.nodes.as_ref().and_then(|nodes| nodes.total.as_ref()) {
            parts.push(format!(
                "A node draws **{} W** on average (p10 {} W, p99 {} W); {} nodes drew {}.",
                float(total.power_w.mean, 0),
                float(total.power_w.p10, 0),
                float(total.power_w.p99, 0),
                count(total.energy.meters),
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

    pub(super) fn over_time(&self, id: &str, title: &str, points: &[PowerAt]) -> Chart {
        let zone = jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC);
        let x = if self.dated { Axis::time("Time", zone) } else { Axis::duration("Time since the trace began") };
        let points =
            points.iter().map(|p| (p.ts as f64 / 1_000.0, p.power_w.map_or(f64::NAN, |watts| watts / 1_000.0)));
        Chart::xy(id, title, x, Axis::linear("Power (kW)"), vec![Series::new("power", Mark::Line, points.collect())])
            .with_reading(
                "Each point is the mean over up to a 600th of the time metered. Times at which fewer than nine tenths of \
                 the usual number of meters read are left out.",
            )
    }
}

pub(super) fn curve_chart(id: &str, title: &str, curve: &[CurvePoint]) -> Chart {
    Chart::xy(
        id,
        title,
        Axis::linear("Power (W)"),
        Axis::share("Share of readings"),
        vec![Series::new("readings", Mark::Step, curve.iter().map(|p| (p.x, p.fraction)).collect())],
    )
    .with_reading("A steep rise at the left is idle power; the right end is the most that was drawn.")
}

/// What is gathered of idle GPUs.
#[derive(Debug, Default)]
struct Idling {
    idle_w: Vec<f64>,
    busy_w: Vec<f64>,
    busy_j: NeumaierSum,
    idle_j: NeumaierSum,
    idle_s: NeumaierSum,
    held_idle_j: NeumaierSum,
}

impl Idling {
    fn add(&mut self, util: f64, watts: f64, hold_s: f64, holder: Holder) {
        if util > IDLE {
            self.busy_w.push(watts);
            self.busy_j.add(watts * hold_s);
            return;
        }
        self.idle_w.push(watts);
        self.idle_j.add(watts * hold_s);
        self.idle_s.add(hold_s);
        if holder.held() == Some(true) {
            self.held_idle_j.add(watts * hold_s);
        }
    }

    fn finish(self, with_power: u64, holders: HolderSource) -> Option<Idle> {
        let (idle, busy) = (self.idle_w.len() as f64, self.busy_w.len() as f64);
        Some(Idle {
            known_readings: (self.idle_w.len() + self.busy_w.len()) as u64,
            coverage: share(idle + busy, with_power as f64)?,
            reading_share: share(idle, idle + busy)?,
            idle_w: stats::quantile::Summary::of_vec(self.idle_w),
            busy_w: stats::quantile::Summary::of_vec(self.busy_w),
            idle_kwh: kwh(self.idle_j.value()),
            busy_kwh: kwh(self.busy_j.value()),
            idle_energy_share: share(self.idle_j.value(), self.idle_j.value() + self.busy_j.value()),
            idle_gpu_hours: hours(self.idle_s.value()),
            held_idle_kwh: (holders != HolderSource::Unknown).then(|| kwh(self.held_idle_j.value())),
        })
    }
}

/// What is gathered of counters.
#[derive(Debug, Default)]
struct Counting {
    gpus: u64,
    resets: u64,
    energy_j: NeumaierSum,
    compared_j: NeumaierSum,
    compared_trapezoid_j: NeumaierSum,
}

impl Counting {
    /// Adds one GPU's counter readings.
    fn add(&mut self, counter: &[f64]) {
        self.gpus += u64::from(!counter.is_empty());
        for (before, after) in counter.iter().zip(counter.iter().skip(1)) {
            let (increase, reset) = counter_step(*before, *after);
            self.energy_j.add(increase);
            self.resets += u64::from(reset);
        }
    }

    fn finish(self) -> Option<Counted> {
        let (counter, trapezoid) = (self.compared_j.value(), self.compared_trapezoid_j.value());
        (self.gpus > 0).then(|| Counted {
            gpus: self.gpus,
            energy_kwh: kwh(self.energy_j.value()),
            resets: self.resets,
            compared_kwh: kwh(counter),
            compared_trapezoid_kwh: kwh(trapezoid),
            trapezoid_excess: share(trapezoid, counter).map(|ratio| ratio - 1.0),
        })
    }
}

impl GpuPower {
    fn of(facts: &JobFacts<'_>) -> Option<Self> {
        let samples = &facts.trace.gpu_samples;
        if samples.power_w.is_all_unknown() && samples.energy_j_cum.is_all_unknown() {
            return None;
        }
        let all = Readings::of(facts)?;
        // Boards of which instances report, with the name that is counted: the first, which is the board's own if it reports.
        let mut cut: BTreeMap<(Option<u32>, &str), Option<&str>> = BTreeMap::new();
        for gpu in all.gpus().filter(super::samples::Gpu::is_instance) {
            cut.extend(gpu.board().map(|board| (board, None)));
        }
        for gpu in all.gpus() {
            let reports = || {
                gpu.readings().any(|r| r.value(&samples.power_w).or_else(|| r.value(&samples.energy_j_cum)).is_some())
            };
            let Some(counted) = gpu.board().and_then(|board| cut.get_mut(&board)) else { continue };
            if reports() && counted.is_none_or(|counted| gpu.name().is_some_and(|name| name < counted)) {
                *counted = gpu.name();
            }
        }
        let mut over = OverTime::of(
            (0..samples.len()).filter(|ix| samples.power_w.get(*ix).is_some()).filter_map(|ix| samples.ts.get(ix)),
        );
        let (mut readings, mut with_power, mut instances_left_out) = (0, 0, 0);
        let (mut meters, mut idling, mut counting) = (Meters::default(), Idling::default(), Counting::default());
        let mut owners = Owners::new(facts.len());
        let (mut points, mut beside, mut counter) = (Vec::new(), Vec::new(), Vec::new());
        for gpu in all.gpus() {
            let counted = gpu.board().and_then(|board| cut.get(&board));
            if counted.is_some_and(|counted| *counted != gpu.name()) {
                instances_left_out += u64::from(gpu.is_instance());
                continue;
            }
            points.clear();
            beside.clear();
            counter.clear();
            for reading in gpu.readings() {
                readings += 1;
                let energy = reading.value(&samples.energy_j_cum);
                counter.extend(energy.filter(|_| reading.ts.is_some()));
                let Some(watts) = reading.value(&samples.power_w) else { continue };
                with_power += 1;
                // Utilisation and jobs are those of an instance, power is the board's.
                let util = reading.value(&samples.util_ratio).filter(|_| counted.is_none());
                let holder = if counted.is_none() { reading.holder } else { Holder::Unknown };
                if let Some(ts) = reading.ts {
                    points.push((ts, watts));
                    beside.push((util, holder, energy));
                } else {
                    meters.add_untimed(watts);
                    if let Some(util) = util {
                        idling.add(util, watts, 0.0, holder);
                    }
                }
            }
            let integral = meters.add(&points);
            over.add(&points, &integral);
            counting.add(&counter);
            for (((_, watts), (util, holder, _)), hold_s) in points.iter().zip(&beside).zip(meters.hold_s()) {
                owners.add(*holder, *watts, *hold_s);
                if let Some(util) = util {
                    idling.add(*util, *watts, *hold_s, *holder);
                }
            }
            let ends = points.iter().zip(&beside);
            for ((a, (.., before)), (b, (.., after))) in ends.clone().zip(ends.skip(1)) {
                let (Some(before), Some(after)) = (before, after) else { continue };
                let (increase, reset) = counter_step(*before, *after);
                if !reset && integral.bridges(b.0 - a.0) {
                    counting.compared_j.add(increase);
                    counting.compared_trapezoid_j.add((a.1 + b.1) / 2.0 * (b.0 - a.0) as f64 / 1_000.0);
                }
            }
        }
        let jobs = &facts.trace.jobs;
        Some(Self {
            readings,
            coverage: share(with_power as f64, readings as f64).unwrap_or(0.0),
            metered: meters.finish(),
            instances_left_out,
            counted: counting.finish(),
            idle: idling.finish(with_power, all.source),
            holders: all.source,
            by_holder: owners.by_holder(),
            by_vc: owners.by(facts, |job| jobs.vc.get(job)),
            by_user: owners.by(facts, |job| jobs.user.get(job)),
            by_state: owners.by(facts, |job| Some(facts.state(job).id())),
            by_size: owners.by(facts, |job| facts.gpus(job).map(|gpus| SizeClass::of(gpus).name())),
            over_time: over.finish(),
        })
    }

    fn tell(&self, mut section: Section, power: &Power) -> Section {
        if let Some(metered) = &self.metered {
            section = section.with_chart(curve_chart(
                "gpu-power-cdf",
                "Share of the readings in which a GPU draws at most so much",
                &metered.curve,
            ));
        }
        if self.over_time.iter().any(|point| point.power_w.is_some()) {
            section =
                section.with_chart(power.over_time("gpu-power", "Power of all metered GPUs together", &self.over_time));
        }
        section = section.with_table(self.table());
        if !self.by_state.is_empty() {
            section = section.with_table(self.owners());
        }
        if let Some(counted) = &self.counted {
            let gap = counted.trapezoid_excess.map_or_else(String::new, |excess| {
                format!(
                    " Where both are known the readings give {} {} than the counters.",
                    percent(excess.abs()),
                    if excess < 0.0 { "less" } else { "more" }
                )
            });
            section = section.with_text(format!(
                "The energy counters of {} GPUs rose by {} kWh, with {} resets.{gap}",
                count(counted.gpus),
                compact(counted.energy_kwh),
                count(counted.resets)
            ));
        }
        if self.instances_left_out > 0 {
            section = section.with_text(format!(
                "{} instances of cut GPUs report their board's power again and are left out; the energy of such boards is \
                 charged to no job.",
                count(self.instances_left_out)
            ));
        }
        section.with_gpu_hours(self.idle.as_ref().map(|idle| idle.idle_gpu_hours)).with_definition(
            "Idle: a reading with a GPU utilisation of at most 1 %; readings without a utilisation are neither. A reading \
             stands for half of the bridged gap on either side. The section is ranked by GPU-hours idle.",
        )
    }

    fn covers(&self) -> String {
        let bridged = self.metered.as_ref().map_or_else(String::new, |metered| covered(&metered.energy, "GPUs"));
        format!("{} readings of GPUs, {} with power{bridged}.", count(self.readings), percent(self.coverage))
    }

    fn table(&self) -> Table {
        let mut table = power_table("Power of GPUs", "Readings of GPUs");
        if let Some(metered) = &self.metered {
            table.rows.push(power_row("all".into(), &metered.power_w, metered.energy.known_kwh()));
        }
        if let Some(idle) = &self.idle {
            if let Some(summary) = &idle.idle_w {
                table.rows.push(power_row(
                    "idle".into(),
                    summary,
                    Some(idle.idle_kwh).filter(|_| idle.idle_energy_share.is_some()),
                ));
            }
            if let Some(summary) = &idle.busy_w {
                table.rows.push(power_row(
                    "working".into(),
                    summary,
                    Some(idle.busy_kwh).filter(|_| idle.idle_energy_share.is_some()),
                ));
            }
            if let Some(held) = idle.held_idle_kwh {
                table.note = Some(format!(
                    "While a job held them, idle GPUs drew {} kWh. Utilisation is known for {} of the readings with power.",
                    compact(held),
                    percent(idle.coverage)
                ));
            }
        }
        table
    }

    fn owners(&self) -> Table {
        let mut table = Table::new(
            "Energy of GPUs by who held them",
            vec![
                Column::text("By"),
                Column::text("Group"),
                Column::with_unit("Energy", "kWh"),
                Column::number("Share"),
                Column::number("GPU-hours"),
                Column::with_unit("Mean", "W"),
            ],
        );
        let parts: [(&str, &[EnergyOf]); 5] = [
            ("holder", &self.by_holder),
            ("state", &self.by_state),
            ("size", &self.by_size),
            ("VC", &self.by_vc),
            ("user", &self.by_user),
        ];
        for (by, groups) in parts {
            for of in groups.iter().take(SHOWN) {
                let state =
                    crate::schema::JobState::ALL.into_iter().find(|state| Some(state.id()) == of.group.as_deref());
                let name = match (by, state) {
                    ("state", Some(state)) => words(state),
                    _ => of.group.clone().unwrap_or_else(|| "unknown".to_owned()),
                };
                table.rows.push(vec![
                    by.into(),
                    name.into(),
                    Cell::Compact(of.energy_kwh),
                    Cell::opt(of.share, Cell::Percent),
                    Cell::Compact(of.gpu_hours),
                    Cell::opt(of.mean_w, |value| Cell::Float { value, digits: 0 }),
                ]);
            }
        }
        if self.by_user.len() > SHOWN || self.by_vc.len() > SHOWN {
            table.note = Some(format!("The {SHOWN} VCs and users with the most energy."));
        }
        table
    }
}

pub(super) fn covered(energy: &Energy, what: &str) -> String {
    let mut text = format!("; {} {what}", count(energy.meters));
    if energy.lone_meters > 0 {
        text.push_str(&format!(", {} read only once", count(energy.lone_meters)));
    }
    if energy.zero_meters > 0 {
        text.push_str(&format!(", {} that never read more than 0 W", count(energy.zero_meters)));
    }
    if let (Some(span_h), Some(part)) = (share(energy.span_h, energy.meters as f64), energy.time_coverage) {
        text.push_str(&format!(
            ", on average over {}, {} of which is bridged",
            duration(span_h * 3_600.0),
            percent(part)
        ));
    }
    text
}

pub(super) fn power_table(title: &str, first: &str) -> Table {
    Table::new(
        title,
        vec![
            Column::text(first),
            Column::number("With power"),
            Column::with_unit("Mean", "W"),
            Column::with_unit("p10", "W"),
            Column::with_unit("Median", "W"),
            Column::with_unit("p90", "W"),
            Column::with_unit("p99", "W"),
            Column::with_unit("Energy", "kWh"),
        ],
    )
}

pub(super) fn power_row(name: Cell, power: &stats::quantile::Summary, energy_kwh: Option<f64>) -> Vec<Cell> {
    let mut row = vec![name, int(power.count)];
    row.extend([power.mean, power.p10, power.p50, power.p90, power.p99].map(|value| Cell::Float { value, digits: 0 }));
    row.push(Cell::opt(energy_kwh, Cell::Compact));
    row
}

impl ReportedEnergy {
    fn of(facts: &JobFacts<'_>) -> Option<Self> {
        let jobs = &facts.trace.jobs;
        let mut by_state: BTreeMap<crate::schema::JobState, (u64, NeumaierSum)> = BTreeMap::new();
        let mut by_vc: BTreeMap<Option<&str>, (u64, NeumaierSum)> = BTreeMap::new();
        let (mut known, mut zero_jobs, mut total, mut gpu_s) = (0, 0, NeumaierSum::new(), NeumaierSum::new());
        for job in 0..facts.len() {
            let Some(joules) = jobs.reported_energy_j.get(job) else { continue };
            known += 1;
            zero_jobs += u64::from(joules == 0.0);
            total.add(joules);
            gpu_s.add(facts.gpu_s(job).unwrap_or(0.0));
            for (jobs, sum) in
                [by_state.entry(facts.state(job)).or_default(), by_vc.entry(jobs.vc.get(job)).or_default()]
            {
                *jobs += 1;
                sum.add(joules);
            }
        }
        // Accounting without an energy plug-in writes 0 for every job, which is no measurement.
        if known == zero_jobs {
            return None;
        }
        let mut by_state: Vec<(String, u64, f64)> =
            by_state.into_iter().map(|(state, (jobs, sum))| (words(state), jobs, kwh(sum.value()))).collect();
        by_state.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut by_vc: Vec<(Option<String>, u64, f64)> =
            by_vc.into_iter().map(|(vc, (jobs, sum))| (vc.map(str::to_owned), jobs, kwh(sum.value()))).collect();
        by_vc.sort_by(|a, b| b.2.total_cmp(&a.2));
        Some(Self {
            jobs: known,
            job_coverage: share(known as f64, facts.len() as f64)?,
            gpu_time_coverage: share(gpu_s.value(), facts.total_gpu_s()),
            zero_jobs,
            energy_kwh: kwh(total.value()),
            by_state,
            by_vc,
        })
    }

    fn tell(&self, section: Section) -> Section {
        let mut table = Table::new(
            "Energy that accounting reports",
            vec![Column::text("By"), Column::text("Group"), Column::number("Jobs"), Column::with_unit("Energy", "kWh")],
        );
        for (state, jobs, energy) in &self.by_state {
            table.rows.push(vec!["state".into(), state.as_str().into(), int(*jobs), Cell::Compact(*energy)]);
        }
        for (vc, jobs, energy) in self.by_vc.iter().take(SHOWN) {
            let vc = vc.as_deref().unwrap_or("unknown");
            table.rows.push(vec!["VC".into(), vc.into(), int(*jobs), Cell::Compact(*energy)]);
        }
        section.with_table(table).with_definition(
            "The energy of a job is accounting's own figure. Slurm charges each job on a shared node with the whole node, \
             so the sum may count energy more than once.",
        )
    }

    fn covers(&self) -> String {
        let time =
            self.gpu_time_coverage.map_or_else(String::new, |part| format!(" with {} of the GPU time", percent(part)));
        format!(
            "{} jobs ({} of all){time} have a reported energy, {} of them 0.",
            count(self.jobs),
            percent(self.job_coverage),
            count(self.zero_jobs)
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::{GpuSampleRow, JobRow};

    fn sample(trace: &mut Trace, ts: i64, gpu: &str, watts: f64, util: Option<f64>, job: Option<&str>) {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts * 1_000),
            node: Some("n".into()),
            gpu: Some(gpu.to_owned().into()),
            power_w: Some(watts),
            util_ratio: util,
            job_key: job.map(Into::into),
            ..GpuSampleRow::default()
        });
    }

    #[test]
    fn idle_readings_draw_a_quarter_and_energy_goes_to_who_held_the_gpu() {
        let mut trace = Trace::default();
        trace.jobs.push(JobRow {
            job_key: Some("a".into()),
            vc: Some("v".into()),
            state: Some("completed".into()),
            alloc_gpus: Some(1.0),
            ..JobRow::default()
        });
        sample(&mut trace, 0, "0", 100.0, Some(0.0), None);
        sample(&mut trace, 60, "0", 300.0, Some(0.9), Some("a"));
        sample(&mut trace, 120, "0", 100.0, Some(0.01), Some("a"));
        let power = Power::of(&JobFacts::of(&trace)).unwrap();
        let gpus = power.gpus.as_ref().unwrap();
        let metered = gpus.metered.as_ref().unwrap();
        // 60 · 200 + 60 · 200 J.
        assert!((metered.energy.energy_kwh * 3.6e6 - 24_000.0).abs() < 1e-6);
        let idle = gpus.idle.as_ref().unwrap();
        assert!(
            (idle.idle_energy_share.unwrap() - 0.25).abs() < 1e-12 && (idle.reading_share - 2.0 / 3.0).abs() < 1e-12
        );
        // The last reading is idle and held: 100 W · 30 s.
        assert!((idle.held_idle_kwh.unwrap() * 3.6e6 - 3_000.0).abs() < 1e-6);
        // a: 300 · 60 + 100 · 30 = 21,000 J, no job: 100 · 30 = 3,000 J.
        let holders: Vec<(&str, f64)> =
            gpus.by_holder.iter().map(|of| (of.group.as_deref().unwrap(), (of.energy_kwh * 3.6e6).round())).collect();
        assert_eq!(holders, [("listed jobs", 21_000.0), ("no job", 3_000.0)]);
        assert_eq!((gpus.by_vc[0].group.as_deref(), gpus.by_vc[0].share), (Some("v"), Some(0.875)));
        assert_eq!(gpus.by_user[0].group, None);
        assert_eq!(power.section().gpu_hours.map(|hours| (hours * 3_600.0).round()), Some(60.0));
    }

    #[test]
    fn counters_are_compared_only_where_both_are_known_and_not_across_resets() {
        let mut trace = Trace::default();
        for (ts, energy) in [(0, Some(1_000.0)), (10, Some(2_100.0)), (20, None), (30, Some(50.0)), (40, Some(1_050.0))]
        {
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some(ts * 1_000),
                gpu: Some("0".into()),
                power_w: Some(100.0),
                energy_j_cum: energy,
                ..GpuSampleRow::default()
            });
        }
        let gpus = Power::of(&JobFacts::of(&trace)).unwrap().gpus.unwrap();
        let counted = gpus.counted.unwrap();
        // 1,100 + 50 after the reset + 1,000; both know 0 to 10 and 30 to 40 s: 2,100 against 100 W · 20 s.
        assert_eq!((counted.resets, (counted.energy_kwh * 3.6e6).round()), (1, 2_150.0));
        assert!((counted.trapezoid_excess.unwrap() - (2_000.0 / 2_100.0 - 1.0)).abs() < 1e-12);
        // No utilisation is known: neither idle nor busy.
        assert!(gpus.idle.is_none());
    }

    #[test]
    fn a_cut_boards_power_is_counted_once_and_charged_to_nobody() {
        let mut trace = Trace::default();
        trace.jobs.push(JobRow { job_key: Some("a".into()), ..JobRow::default() });
        for ts in [0, 60] {
            sample(&mut trace, ts, "0/1g.10gb:1", 200.0, Some(0.0), Some("a"));
            sample(&mut trace, ts, "0/1g.10gb:2", 200.0, Some(0.5), Some("a"));
            sample(&mut trace, ts, "1", 100.0, Some(0.5), Some("a"));
        }
        let gpus = Power::of(&JobFacts::of(&trace)).unwrap().gpus.unwrap();
        assert_eq!((gpus.instances_left_out, gpus.readings), (1, 4));
        // 200 W · 60 s of the board and 100 W · 60 s of GPU 1.
        assert!((gpus.metered.unwrap().energy.energy_kwh * 3.6e6 - 18_000.0).abs() < 1e-6);
        let holders: Vec<_> = gpus.by_holder.iter().map(|of| (of.group.as_deref(), of.mean_w)).collect();
        assert_eq!(holders, [(Some("listed jobs"), Some(100.0)), (Some("unknown"), Some(200.0))]);
        assert_eq!(gpus.idle.unwrap().known_readings, 2);
    }

    #[test]
    fn energy_of_jobs_is_summed_with_its_coverage_and_zeros_alone_are_no_measurement() {
        let mut trace = Trace::default();
        for (key, joules) in [("a", Some(3.6e6)), ("b", Some(0.0)), ("c", None), ("d", Some(7.2e6))] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                run_s: Some(10.0),
                alloc_gpus: Some(1.0),
                reported_energy_j: joules,
                state: Some(if key == "d" { "failed" } else { "completed" }.into()),
                ..JobRow::default()
            });
        }
        let reported = Power::of(&JobFacts::of(&trace)).unwrap().reported.unwrap();
        assert_eq!((reported.jobs, reported.job_coverage, reported.gpu_time_coverage), (3, 0.75, Some(0.75)));
        assert_eq!((reported.zero_jobs, reported.energy_kwh), (1, 3.0));
        assert_eq!(reported.by_state, [("failed".to_owned(), 1, 2.0), ("completed".to_owned(), 2, 1.0)]);

        let mut trace = Trace::default();
        trace.jobs.push(JobRow { job_key: Some("a".into()), reported_energy_j: Some(0.0), ..JobRow::default() });
        assert!(Power::of(&JobFacts::of(&trace)).is_err());
    }
}
