//! An audit told to a person: sentences, tables and charts of an [`Answer`], each with what it rests on.

use jiff::tz::TimeZone;

use super::account::eu::FieldBasis;
use super::account::{Account, Bounded, Carbon, Charge, Cost};
use super::answer::Answer;
use super::ledger::{Basis, Use};
use super::whatif::cap::{Fleet, PowerCaps};
use super::whatif::reclaim::Reclaim;
use crate::report::format::{self, compact, count, counted, percent};
use crate::report::{
    Axis, BarLayout, BarSeries, Cell, Chart, Column, Mark, Report, Section, Series, Step, StepKind, Table,
};
use crate::time::HOUR_MS;

/// Rows of a ranking.
const MOST_ROWS: usize = 20;
/// More than this share of the total is a difference to tell.
const EXACT: f64 = 1e-9;

/// What energy was spent on, in words.
fn use_words(spent_on: Use) -> &'static str {
    match spent_on {
        Use::Active => "Work above idle",
        Use::IdleAllocated => "Idle power of GPUs that jobs hold",
        Use::IdleUnallocated => "Idle power of GPUs that nobody holds",
        Use::Overhead => "Nodes beside their GPUs",
        Use::Residual => "Residual: meter less all parts",
    }
}

fn basis_words(basis: Basis) -> &'static str {
    match basis {
        Basis::Counter => "Energy counters",
        Basis::Power => "Integrated power readings",
        Basis::Bridged => "Short gaps bridged",
        Basis::Model => "Model of utilisation or state",
    }
}

fn energy(value: f64) -> Cell {
    Cell::Compact(value)
}

/// `12 (10 to 15)`, or `12` where nothing is open.
fn bounded(amount: Bounded, unit: &str) -> String {
    let value = compact(amount.value);
    if compact(amount.lower) == value && compact(amount.upper) == value {
        return format!("**{value}** {unit}");
    }
    format!("**{value}** {unit} ({} to {} with gaps at their bounds)", compact(amount.lower), compact(amount.upper))
}

/// Of which energy carbon and cost are.
fn drawn(account: &Account) -> &'static str {
    if account.pue.is_some() { "facility energy" } else { "IT energy alone (no PUE was given)" }
}

/// `readings cover 98.2 % of device time`.
fn coverage(account: &Account) -> String {
    account.coverage.map_or_else(
        || "How much of the device time has readings is unknown".to_owned(),
        |share| format!("Readings cover {} of device time", percent(share)),
    )
}

impl Answer {
    /// The report.
    pub fn report(&self) -> Report {
        let account = &self.account;
        let title = format!("Energy audit: {}", self.title);
        let mut report = Report::new(title, self.window.words());
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        let mut sections = vec![self.where_it_went(), self.whose()];
        sections.extend(self.carbon());
        sections.extend(account.cost.as_ref().map(|cost| self.cost(cost)));
        sections.extend(self.intensity());
        sections.extend(self.power_caps.as_ref().map(|caps| power_caps(caps, account)));
        sections.push(match &self.reclaim {
            None => Section::not_available("idle-reclaim", "Idle GPUs handed back", "It was not asked for."),
            Some(Reclaim { why_not: Some(why), .. }) => {
                Section::not_available("idle-reclaim", "Idle GPUs handed back", format!("Not known: {why}."))
            }
            Some(found) => reclaimed(found, account),
        });
        sections.push(eu(account));
        sections.push(self.factor_section());
        for missing in &account.missing {
            let id = crate::report::markup::slug(&missing.figure);
            let why = format!("There is {}.", missing.why.trim_start_matches("there is "));
            let why = if missing.why.starts_with("no ") { why } else { sentence(&missing.why) };
            sections.push(Section::not_available(id, missing.figure.clone(), why));
        }
        report.sections = sections;
        let kept = |source: &crate::trace::SourceRecord| {
            let size = format::bytes(source.size_bytes);
            (source.name.clone(), format!("{}, {size}, SHA-256 {}", source.reader, source.sha256))
        };
        report.provenance = self.sources.iter().map(kept).collect();
        report.provenance.push(("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        report
    }

    fn summary(&self) -> Vec<String> {
        let account = &self.account;
        let mut said = vec![format!("IT equipment drew {}. {}.", bounded(account.it_kwh, "kWh"), coverage(account))];
        if let (Some(facility), Some(pue)) = (account.facility_kwh, &account.pue) {
            said.push(format!("The facility drew {} at a PUE of {}.", bounded(facility, "kWh"), pue.words()));
        }
        let kwh = |spent_on: Use| {
            let line = account.by_use.iter().find(|line| line.spent_on == spent_on);
            line.and_then(|line| line.share).filter(|share| *share > 0.0)
        };
        if let Some(work) = kwh(Use::Active) {
            let idle = [Use::IdleAllocated, Use::IdleUnallocated].into_iter().filter_map(kwh).sum::<f64>();
            said.push(format!(
                "**{}** of IT energy was work above idle, {} was idle power of GPUs.",
                percent(work),
                percent(idle)
            ));
        }
        if let Some(carbon) = &account.location {
            said.push(carbon_sentence("Location-based", carbon, account));
        }
        if let Some(carbon) = &account.market {
            said.push(carbon_sentence("Market-based", carbon, account));
        }
        if let Some(cost) = &account.cost {
            said.push(self.cost_sentence(cost));
        }
        if let Some(sci) = &account.sci {
            said.push(format!("SCI is {} a GPU hour held by a job.", bounded(sci.g_per_gpu_hour, "g")));
        }
        if !account.missing.is_empty() {
            let names: Vec<&str> = account.missing.iter().map(|missing| missing.figure.as_str()).collect();
            said.push(format!("Not given, for want of a factor or of data: {}.", names.join("; ")));
        }
        said
    }

    fn time_axis(&self) -> Axis {
        if self.window.has_dates {
            Axis::time(format!("Time ({})", self.zone), TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC))
        } else {
            Axis::duration("Time since the trace began")
        }
    }

    /// A value by hour as a curve that is interrupted where it is unknown and where hours have no energy.
    fn hourly(&self, value: impl Fn(&super::account::HourLine) -> Option<f64>) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        let mut next: Option<i64> = None;
        for line in &self.account.by_hour {
            if let Some(expected) = next.filter(|expected| *expected != line.hour_ms) {
                points.push((expected as f64 / 1_000.0, f64::NAN));
            }
            points.push((line.hour_ms as f64 / 1_000.0, value(line).unwrap_or(f64::NAN)));
            next = Some(line.hour_ms + HOUR_MS);
        }
        // The last hour is as long as the others.
        if let (Some(end), Some(last)) = (next, points.last().map(|point| point.1)) {
            points.push((end as f64 / 1_000.0, last));
        }
        points
    }

    fn waterfall(&self) -> Chart {
        let account = &self.account;
        let of = |spent_on: Use| {
            let line = account.by_use.iter().find(|line| line.spent_on == spent_on);
            line.map_or(0.0, |line| line.energy_kwh.value)
        };
        let mut steps = Vec::new();
        let it = account.it_kwh.value;
        if let Some(facility) = account.facility_kwh {
            steps.push(Step::total("Facility", facility.value));
            steps.push(Step::change("Cooling, power supply and other losses", it - facility.value));
        }
        let metered = if account.metered_kwh.is_some() { "IT equipment, as metered" } else { "IT equipment" };
        steps.push(Step::total(metered, it));
        let (residual, overhead) = (of(Use::Residual), of(Use::Overhead));
        if residual.abs() > EXACT * it.abs() {
            steps.push(Step::change("Meter less all parts (residual)", -residual));
        }
        steps.push(Step::change("Nodes beside their GPUs", -overhead));
        let gpus = it - residual - overhead;
        if gpus.abs() > EXACT * it.abs() {
            steps.push(Step::total("GPUs", gpus));
            steps.push(Step::change("Idle, held by nobody", -of(Use::IdleUnallocated)));
            steps.push(Step::total("GPUs held or at work", gpus - of(Use::IdleUnallocated)));
            steps.push(Step::change("Their idle power", -of(Use::IdleAllocated)));
            steps.push(Step::total("Work above idle", of(Use::Active)));
        }
        // What nothing was spent on needs no row.
        steps.retain(|step| step.kind == StepKind::Total || step.value != 0.0);
        Chart::waterfall("energy-waterfall", "From the meter to useful work", Axis::linear("Energy (kWh)"), steps)
            .with_reading(
                "Each row begins where the one above ends. Idle power is what a GPU draws without work; work is what it draws above that, \
                 **whether or not the work was worth it**.",
            )
    }

    fn where_it_went(&self) -> Section {
        let account = &self.account;
        let mut uses = Table::new(
            "IT energy by what it was spent on",
            vec![
                Column::text("Spent on"),
                Column::with_unit("Energy", "kWh"),
                Column::number("Share"),
                Column::with_unit("At least", "kWh"),
                Column::with_unit("At most", "kWh"),
                Column::number("Measured"),
            ],
        );
        let row = |name: &str, amount: Bounded, share: Option<f64>, measured: Option<f64>| {
            vec![
                Cell::from(name),
                energy(amount.value),
                Cell::opt(share, Cell::Percent),
                energy(amount.lower),
                energy(amount.upper),
                Cell::opt(measured, Cell::Percent),
            ]
        };
        let modelled = account.by_basis.iter().find(|line| line.basis == Basis::Model).and_then(|line| line.share);
        let measured = (account.it_kwh.value > 0.0).then(|| (1.0 - modelled.unwrap_or(0.0)).clamp(0.0, 1.0));
        uses.rows = account
            .by_use
            .iter()
            .map(|line| row(use_words(line.spent_on), line.energy_kwh, line.share, line.measured))
            .collect();
        uses.rows.push(row("IT equipment", account.it_kwh, None, measured));
        uses.rows.extend(account.facility_kwh.map(|facility| row("Facility (times PUE)", facility, None, measured)));
        let mut bases = Table::new(
            "How it is known",
            vec![Column::text("Basis"), Column::with_unit("Energy", "kWh"), Column::number("Share")],
        );
        for line in &account.by_basis {
            let share = Cell::opt(line.share, Cell::Percent);
            bases.rows.push(vec![Cell::from(basis_words(line.basis)), energy(line.energy_kwh), share]);
        }
        let curve = self.hourly(|line| Some(line.energy_kwh));
        let by_hour = Chart::xy(
            "energy-by-hour",
            "IT energy by hour",
            self.time_axis(),
            Axis::linear("Energy (kWh an hour)"),
            vec![Series::new("IT energy", Mark::Area, curve)],
        )
        .with_reading("The area is what IT equipment drew in each hour; a gap is an hour without any energy known.");
        let found = format!("IT equipment drew {}. {}", bounded(account.it_kwh, "kWh"), self.conservation());
        Section::new("where", "Where the energy went")
            .with_finding(found)
            .with_coverage(format!("{}; {} of audit", coverage(account), counted(account.hours, "hour", "hours")))
            .with_chart(self.waterfall())
            .with_table(uses)
            .with_table(bases)
            .with_chart(by_hour)
            .with_definition("**At least, at most**: gaps in the telemetry at idle power and at the most the device can draw. They hold neither errors of meters nor of factors.")
            .with_definition("**Measured**: the share that counters and power readings tell, short gaps bridged; the rest is a model.")
            .with_definition("**Residual**: what whole-node meters read beyond the sum of all parts; below 0 if the parts read more.")
    }

    /// Whether parts add up, in words.
    fn conservation(&self) -> String {
        let kept = &self.account.conservation;
        let worst = [kept.uses_relative, kept.owners_relative].into_iter().flatten().map(f64::abs).fold(0.0, f64::max);
        let parts = if worst <= EXACT {
            "The parts add up to it, by what it was spent on and by owner (to 1e-9).".to_owned()
        } else {
            format!("**The parts miss it by {worst:.1e} of the total.**")
        };
        match (self.account.metered_kwh, kept.meter_difference_kwh) {
            (Some(metered), Some(difference)) => {
                let from = if difference.abs() <= EXACT * metered.abs() { "equal to it" } else { "different from it" };
                format!("Whole-node meters read **{}** kWh; the total is {from}. {parts}", compact(metered))
            }
            _ => format!(
                "Whole-node meters do not cover every node, so there is no meter to hold the total against. {parts}"
            ),
        }
    }

    fn charges(&self, title: &str, lines: &[Charge], users: bool) -> Table {
        let account = &self.account;
        let mut columns = vec![Column::text("VC")];
        if users {
            columns.push(Column::text("User"));
        }
        columns.extend([
            Column::with_unit("IT energy", "kWh"),
            Column::number("Share"),
            Column::number("Measured"),
            Column::with_unit("Work", "kWh"),
            Column::with_unit("Idle", "kWh"),
            Column::with_unit("Overhead", "kWh"),
        ]);
        let currency = account.cost.as_ref().and_then(|cost| cost.currency.clone()).unwrap_or_default();
        if account.facility_kwh.is_some() {
            columns.push(Column::with_unit("Facility", "kWh"));
        }
        if account.location.is_some() {
            columns.push(Column::with_unit("CO₂, location", "kg"));
        }
        if partly(account.location.as_ref().and_then(|carbon| carbon.covered)) {
            columns.push(Column::number("Of its energy"));
        }
        if account.market.is_some() {
            columns.push(Column::with_unit("CO₂, market", "kg"));
        }
        if account.cost.is_some() {
            columns.push(if currency.is_empty() {
                Column::number("Cost")
            } else {
                Column::with_unit("Cost", currency)
            });
        }
        if partly(account.cost.as_ref().and_then(|cost| cost.covered)) {
            columns.push(Column::number("Of its energy"));
        }
        let mut table = Table::new(title, columns);
        let owners = lines.iter().filter(|line| !line.nobody);
        for line in owners.take(MOST_ROWS).chain(lines.iter().filter(|line| line.nobody)) {
            let name = |name: Option<&String>| {
                if line.nobody {
                    "nobody, or not known".to_owned()
                } else {
                    name.cloned().unwrap_or_else(|| "unknown".to_owned())
                }
            };
            let mut row = vec![Cell::from(name(line.vc.as_ref()))];
            if users {
                row.push(if line.nobody { Cell::from("") } else { Cell::from(name(line.user.as_ref())) });
            }
            row.extend([
                energy(line.energy_kwh.value),
                Cell::opt(super::account::share(line.energy_kwh.value, account.it_kwh.value), Cell::Percent),
                Cell::opt(line.measured, Cell::Percent),
                energy(line.active_kwh),
                energy(line.idle_kwh),
                energy(line.overhead_kwh),
            ]);
            row.extend(line.facility_kwh.map(energy));
            if account.location.is_some() {
                row.push(Cell::opt(line.location_kg, Cell::Compact));
            }
            if partly(account.location.as_ref().and_then(|carbon| carbon.covered)) {
                row.push(Cell::opt(line.location_covered, Cell::Percent));
            }
            if account.market.is_some() {
                row.push(Cell::opt(line.market_kg, Cell::Compact));
            }
            if account.cost.is_some() {
                row.push(Cell::opt(line.cost, Cell::Compact));
            }
            if partly(account.cost.as_ref().and_then(|cost| cost.covered)) {
                row.push(Cell::opt(line.cost_covered, Cell::Percent));
            }
            table.rows.push(row);
        }
        let hidden = lines.iter().filter(|line| !line.nobody).count().saturating_sub(MOST_ROWS);
        if hidden > 0 {
            table.note = Some(format!("{} more in the JSON form.", count(hidden as u64)));
        }
        table
    }

    fn whose(&self) -> Section {
        let account = &self.account;
        let owned: Vec<&Charge> = account.by_vc.iter().filter(|line| !line.nobody).collect();
        if owned.is_empty() {
            let why = "No energy could be given to a job: the source does not tell which GPUs jobs held when.";
            return Section::not_available("whose", "Whose energy it is", why);
        }
        let nobody = account.by_vc.iter().find(|line| line.nobody).map_or(0.0, |line| line.energy_kwh.value);
        let of_all = super::account::share(nobody, account.it_kwh.value);
        let finding = format!(
            "Jobs of {} account for **{}** kWh; **{}** kWh{} belong to nobody, or to jobs that are not known.",
            counted(owned.len() as u64, "VC", "VCs"),
            compact(owned.iter().map(|line| line.energy_kwh.value).sum()),
            compact(nobody),
            of_all.map_or_else(String::new, |share| format!(" ({})", percent(share)))
        );
        let shown: Vec<&&Charge> = owned.iter().take(MOST_ROWS).collect();
        let series = |name: &str, of: fn(&Charge) -> f64| {
            BarSeries::new(name, shown.iter().map(|line| Some(of(line).max(0.0))).collect())
        };
        let chart = Chart::rows(
            "energy-by-vc",
            "IT energy by VC",
            Axis::linear("Energy (kWh)"),
            BarLayout::Stacked,
            shown.iter().map(|line| line.vc.clone().unwrap_or_else(|| "unknown".to_owned())).collect(),
            vec![
                series("Work above idle", |line| line.active_kwh),
                series("Idle power of GPUs held", |line| line.idle_kwh),
                series("Share of nodes' overhead", |line| line.overhead_kwh),
            ],
        )
        .with_reading("Each bar is all energy of the jobs of one VC.");
        let mut jobs = Table::new(
            "Jobs with most energy",
            vec![
                Column::text("Job"),
                Column::text("VC"),
                Column::text("User"),
                Column::number("GPU-hours"),
                Column::with_unit("IT energy", "kWh"),
                Column::with_unit("Idle", "kWh"),
                Column::number("Readings"),
            ],
        );
        for job in account.jobs.iter().take(10) {
            let text = |name: &Option<String>| name.clone().map_or(Cell::Missing, Cell::from);
            jobs.rows.push(vec![
                Cell::from(job.job_key.clone()),
                text(&job.vc),
                text(&job.user),
                Cell::Compact(job.gpu_hours),
                energy(job.energy_kwh),
                energy(job.idle_kwh),
                Cell::opt(job.coverage, Cell::Percent),
            ]);
        }
        let difference = account.conservation.jobs_difference_kwh;
        let total = owned.iter().map(|line| line.energy_kwh.value).sum::<f64>();
        if difference.abs() > EXACT * total.abs() {
            jobs.note = Some(format!(
                "Jobs together have {} kWh more than their owners: that of jobs whose VC and user are not known.",
                compact(difference)
            ));
        }
        let held = account.allocated_gpu_hours;
        Section::new("whose", "Whose energy it is")
            .with_finding(finding)
            .with_coverage(format!("{}; jobs held {} of {} GPU-hours seen", coverage(account), compact(held), compact(account.gpu_hours)))
            .with_chart(chart)
            .with_table(self.charges("By VC", &account.by_vc, false))
            .with_table(self.charges("By VC and user", &account.by_user, true))
            .with_table(jobs)
            .with_definition("**Nobody, or not known**: idle power of GPUs without a job, overhead of nodes without one, work of GPUs whose job is not known, and the residual. With the owners these add up to the total of every figure.")
            .with_definition("**Overhead** of a node is shared among the jobs on it; carbon and cost follow the energy hour by hour.")
    }

    fn carbon(&self) -> Option<Section> {
        let account = &self.account;
        let first = account.location.as_ref().or(account.market.as_ref())?;
        let mut table = Table::new(
            "Carbon of the electricity (scope 2)",
            vec![
                Column::text("Basis"),
                Column::with_unit("CO₂ equivalent", "kg"),
                Column::with_unit("At least", "kg"),
                Column::with_unit("At most", "kg"),
                Column::with_unit("Mean", "g/kWh"),
                Column::number("Energy covered"),
                Column::with_unit("Not covered", "kWh"),
                Column::with_unit("Total × mean", "kg"),
            ],
        );
        for (name, carbon) in [("Location-based", &account.location), ("Market-based", &account.market)] {
            let Some(carbon) = carbon else { continue };
            table.rows.push(vec![
                Cell::from(name),
                Cell::opt(carbon.kg.map(|kg| kg.value), Cell::Compact),
                Cell::opt(carbon.kg.map(|kg| kg.lower), Cell::Compact),
                Cell::opt(carbon.kg.map(|kg| kg.upper), Cell::Compact),
                Cell::opt(carbon.mean_g_per_kwh, Cell::Compact),
                Cell::opt(carbon.covered, Cell::Percent),
                energy(carbon.uncovered_kwh),
                Cell::opt(carbon.mean_times_mean_kg, Cell::Compact),
            ]);
        }
        table.note = Some(
            "The last column is what total energy times the mean of the hours' intensities would give: not the figure, but how wrong it would be."
                .to_owned(),
        );
        let mut section = Section::new("carbon", "Carbon")
            .with_finding(carbon_sentence(
                if account.location.is_some() { "Location-based" } else { "Market-based" },
                first,
                account,
            ))
            .with_coverage(format!(
                "An intensity is known for {} of the energy; {}",
                first.covered.map_or_else(|| "an unknown share".to_owned(), percent),
                coverage(account).to_lowercase()
            ));
        if account.location.as_ref().is_some_and(|carbon| carbon.kg.is_some()) {
            let series = vec![Series::new("CO₂", Mark::Area, self.hourly(|line| line.location_kg))];
            section = section.with_chart(
                Chart::xy(
                    "carbon-by-hour",
                    "Carbon by hour, location-based",
                    self.time_axis(),
                    Axis::linear("CO₂ equivalent (kg an hour)"),
                    series,
                )
                .with_reading(
                    "Energy of each hour times the grid's intensity in that hour. A gap is an hour without either.",
                ),
            );
            let varies =
                account.location.as_ref().is_some_and(|carbon| carbon.least_g_per_kwh != carbon.most_g_per_kwh);
            if varies {
                let series = vec![Series::new("Intensity", Mark::Step, self.hourly(|line| line.g_per_kwh))];
                section = section.with_chart(
                    Chart::xy(
                        "carbon-intensity",
                        "Carbon intensity of the grid",
                        self.time_axis(),
                        Axis::linear("g/kWh"),
                        series,
                    )
                    .with_reading("What a kilowatt-hour emitted in each hour of the audit."),
                );
            }
        }
        Some(section.with_table(table).with_definition(format!(
            "Carbon is of {}. **Location-based** takes the grid's intensity hour by hour, **market-based** what contracts and the residual mix say (GHG Protocol, scope 2).",
            drawn(account)
        )))
    }

    fn cost_sentence(&self, cost: &Cost) -> String {
        let unit = cost.currency.clone().unwrap_or_else(|| "(currency not stated)".to_owned());
        let least = if cost.demand_is_lower_bound { "at least " } else { "" };
        let Some(energy) = cost.energy else {
            let demand = cost
                .demand
                .map_or_else(String::new, |demand| format!(" Demand cost {least}**{}** {unit}.", compact(demand)));
            return format!("No hour of the audit has a price, so the cost of energy is not known.{demand}");
        };
        let mut said = format!("Energy cost {}", bounded(energy, &unit));
        if let (Some(demand), Some(total)) = (cost.demand, cost.total) {
            said = format!("{said} and demand {least}**{}**, **{}** together", compact(demand), compact(total));
        }
        format!("{said}; {}", covered_words(cost.covered, cost.hours_without, "a price"))
    }

    fn cost(&self, cost: &Cost) -> Section {
        let mut section = Section::new("cost", "Cost").with_finding(self.cost_sentence(cost)).with_coverage(format!(
            "A price is known for {} of the energy",
            cost.covered.map_or_else(|| "an unknown share".to_owned(), percent)
        ));
        let unit = cost.currency.clone().unwrap_or_else(|| "money".to_owned());
        let series = vec![Series::new("Cost", Mark::Step, self.hourly(|line| line.cost))];
        if cost.covered.is_some_and(|covered| covered > 0.0) {
            section = section.with_chart(
                Chart::xy("cost-by-hour", "Cost of energy by hour", self.time_axis(), Axis::linear(format!("{unit} an hour")), series)
                    .with_reading("Energy of each hour times its price; below zero where the price is. A gap is an hour without either."),
            );
        }
        if !cost.months.is_empty() {
            let mut table = Table::new(
                "Demand",
                vec![
                    Column::text("Month"),
                    Column::text("Highest hour (UTC)"),
                    Column::with_unit("Power", "kW"),
                    Column::number("Part of the month audited"),
                    Column::with_unit("Charge for that part", unit.clone()),
                ],
            );
            for month in &cost.months {
                table.rows.push(vec![
                    Cell::from(month.month.clone()),
                    Cell::from(crate::time::format_utc(month.peak_hour_ms)),
                    Cell::Compact(month.peak_kw),
                    Cell::Percent(month.share_of_month),
                    Cell::Compact(month.charge),
                ]);
            }
            if cost.demand_is_lower_bound {
                table.note = Some("A lower bound: the peak may lie outside the window, or within an hour.".to_owned());
            }
            section = section.with_table(table);
        }
        section.with_definition(format!(
            "Cost is of {}, hour by hour. Owners are charged for demand by their share of the peak hour.",
            drawn(&self.account)
        ))
    }

    fn intensity(&self) -> Option<Section> {
        let account = &self.account;
        if account.sci.is_none() && account.water.is_none() {
            return None;
        }
        let mut said = Vec::new();
        let mut table =
            Table::new("Per GPU hour", vec![Column::text("Figure"), Column::number("Value"), Column::text("Unit")]);
        if let Some(sci) = &account.sci {
            said.push(format!(
                "Software carbon intensity is {} a GPU hour held by a job.",
                bounded(sci.g_per_gpu_hour, "g")
            ));
            let mut row = |name: &str, value: Option<f64>, unit: &str| {
                table.rows.push(vec![Cell::from(name), Cell::opt(value, Cell::Compact), Cell::from(unit)]);
            };
            row("SCI, a GPU hour held by a job", Some(sci.g_per_gpu_hour.value), "g");
            row("SCI, any GPU hour", sci.g_per_gpu_hour_seen, "g");
            row("Operational, E · I", Some(sci.operational_kg.value), "kg");
            row("Embodied, M", sci.embodied_kg, "kg");
            row("GPU hours held, R", Some(sci.gpu_hours), "h");
        }
        if let Some(water) = &account.water {
            said.push(format!("Water: {} at {} L a kWh of IT energy.", bounded(water.litres, "L"), water.l_per_kwh));
        }
        let mut section = Section::new("intensity", "Carbon per GPU hour, and water").with_finding(said.join(" "));
        if let Some(sci) = &account.sci {
            let basis = if sci.extrapolated > 0.0 {
                format!("The intensity of {} of the energy is that of other hours", percent(sci.extrapolated))
            } else {
                "Every hour has an intensity".to_owned()
            };
            let embodied = if sci.embodied_kg.is_none() { "; embodied carbon is left out" } else { "" };
            section = section.with_table(table).with_coverage(format!("{basis}{embodied}"));
        }
        Some(section.with_definition("**SCI** = (E · I + M) / R of ISO/IEC 21031:2024, location-based."))
    }

    fn factor_section(&self) -> Section {
        if self.factors.is_empty() {
            let why = "No factor was given; name a factor file with --factors, or --pue, --carbon and --price.";
            return Section::not_available("factors", "Factors", why);
        }
        let mut table =
            Table::new("Factors used", vec![Column::text("Factor"), Column::text("Value"), Column::text("Source")]);
        for factor in &self.factors {
            let source = factor.source.clone().unwrap_or_else(|| "not stated".to_owned());
            table.rows.push(vec![
                Cell::from(factor.name.clone()),
                Cell::from(factor.value.clone()),
                Cell::from(source),
            ]);
        }
        let stated = self.factors.iter().filter(|factor| factor.source.is_some()).count();
        let all = self.factors.len() as u64;
        Section::new("factors", "Factors")
            .with_finding(format!("{}, {} with a source.", counted(all, "factor", "factors"), stated))
            .with_table(table)
    }
}

/// Whether some of the energy is covered and some is not.
fn partly(covered: Option<f64>) -> bool {
    covered.is_some_and(|covered| covered > 0.0 && covered < 1.0)
}

/// `98.2 % of the energy has a price (12 hours do not)`.
fn covered_words(covered: Option<f64>, without: u64, what: &str) -> String {
    let share = covered.map_or_else(|| "an unknown share".to_owned(), percent);
    if without == 0 {
        return format!("all of the energy has {what}.");
    }
    format!("{share} of the energy has {what}, {} not.", counted(without, "hour does", "hours do"))
}

fn carbon_sentence(name: &str, carbon: &Carbon, account: &Account) -> String {
    let Some(kg) = carbon.kg else {
        return format!("{name}: no hour of the audit has a carbon intensity, so there is no figure.");
    };
    let difference = carbon.mean_times_mean_difference.filter(|difference| difference.abs() >= 0.000_5);
    let compared = difference.map_or_else(String::new, |difference| {
        let more = if difference > 0.0 { "more" } else { "less" };
        format!(" Total energy times mean intensity would say {} {more}.", percent(difference.abs()))
    });
    format!(
        "{name}, {} emitted {} of CO₂ equivalent; {}{compared}",
        drawn(account),
        bounded(kg, "kg"),
        covered_words(carbon.covered, carbon.hours_without, "an intensity")
    )
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

fn fleet_sentence(fleet: &Fleet) -> String {
    let name = fleet.gpu_type.as_deref().unwrap_or("GPUs of unknown type");
    if let Some(why) = &fleet.why_not {
        return format!("{name}: {why}.");
    }
    let taken = match (&fleet.studied_as, fleet.mapped) {
        (Some(studied), true) => format!(", **taken for {studied} as you said**"),
        _ => String::new(),
    };
    // The cap that saves most, and the one that saves most at hardly any slow-down.
    let best = |most: f64| {
        let allowed = fleet.caps.iter().filter(move |line| line.slowdown <= most);
        allowed.max_by(|a, b| a.saved_kwh.value.total_cmp(&b.saved_kwh.value)).filter(|line| line.saved_kwh.value > 0.0)
    };
    let words = |line: &super::whatif::cap::FleetLine| {
        format!(
            "{} W ({} of the highest) saves **{}** kWh ({} to {}) at a slow-down of {}",
            compact(line.cap_w),
            percent(line.cap_ratio),
            compact(line.saved_kwh.value),
            compact(line.saved_kwh.lower),
            compact(line.saved_kwh.upper),
            percent(line.slowdown - 1.0)
        )
    };
    match (best(f64::INFINITY), best(1.05)) {
        (Some(most), Some(mild)) if most.cap_w != mild.cap_w => {
            format!("{name}{taken}: a cap of {}, one of {}.", words(most), words(mild))
        }
        (Some(most), _) => format!("{name}{taken}: a cap of {}.", words(most)),
        _ => format!("{name}{taken}: no cap saves energy."),
    }
}

fn power_caps(caps: &PowerCaps, account: &Account) -> Section {
    let finding = caps.fleet.iter().map(fleet_sentence).collect::<Vec<_>>().join(" ");
    let series = |of: fn(&super::whatif::cap::CapLine) -> (f64, f64, f64)| -> Vec<Series> {
        caps.studies
            .iter()
            .map(|study| {
                let points = study.caps.iter().map(|cap| (cap.cap_w, of(cap).0)).collect();
                let band = study.caps.iter().map(|cap| (cap.cap_w, of(cap).1, of(cap).2)).collect();
                Series::new(study.gpu_type.clone(), Mark::Line, points).with_band(band)
            })
            .collect()
    };
    let caps_w = || caps.studies.iter().flat_map(|study| study.caps.iter().map(|cap| cap.cap_w));
    let (least, most) = (caps_w().fold(f64::INFINITY, f64::min), caps_w().fold(0.0, f64::max));
    let energy_chart = Chart::xy(
        "power-cap-energy",
        "Energy for a unit of work under a power cap",
        Axis::linear("Cap (W)").within(least, most),
        Axis::linear("Energy over that at the highest cap").as_percent(),
        series(|cap| (cap.energy_ratio.p50, cap.energy_ratio.p25, cap.energy_ratio.p75)),
    )
    .with_reading(
        "Median of the workloads measured, shaded from the lower to the upper quartile. Below 100 % is saved.",
    );
    let slow_chart = Chart::xy(
        "power-cap-slowdown",
        "Time for a unit of work under a power cap",
        Axis::linear("Cap (W)").within(least, most),
        Axis::linear("Time over that at the highest cap").as_percent(),
        series(|cap| (cap.slowdown.p50, cap.slowdown.p25, cap.slowdown.p75)),
    )
    .with_reading("Median of the workloads measured, shaded from the lower to the upper quartile.");
    let mut section = Section::new("power-caps", "What if: power caps")
        .with_finding(finding)
        .with_coverage(
            caps.studies
                .iter()
                .map(|study| {
                    let most = study.caps.iter().map(|cap| cap.workloads).max().unwrap_or(0);
                    format!("{}: {}", study.gpu_type, counted(most, "workload", "workloads"))
                })
                .collect::<Vec<_>>()
                .join(", "),
        )
        .with_chart(energy_chart)
        .with_chart(slow_chart);
    for fleet in caps.fleet.iter().filter(|fleet| !fleet.caps.is_empty()) {
        let name = fleet.gpu_type.as_deref().unwrap_or("GPUs of unknown type");
        let mut columns = vec![
            Column::with_unit("Cap", "W"),
            Column::number("Of the highest"),
            Column::with_unit("Saved", "kWh"),
            Column::with_unit("At least", "kWh"),
            Column::with_unit("At most", "kWh"),
            Column::number("Of all IT energy"),
            Column::number("Slow-down"),
            Column::number("More GPU-hours"),
            Column::with_unit("Overhead of these", "kWh"),
        ];
        let carbon = account.location.as_ref().is_some_and(|carbon| carbon.mean_g_per_kwh.is_some());
        if carbon {
            columns.push(Column::with_unit("CO₂ saved", "kg"));
        }
        let mut table = Table::new(format!("Caps on {name}"), columns);
        for line in &fleet.caps {
            let mut row = vec![
                Cell::Compact(line.cap_w),
                Cell::Percent(line.cap_ratio),
                energy(line.saved_kwh.value),
                energy(line.saved_kwh.lower),
                energy(line.saved_kwh.upper),
                Cell::opt(line.saved_share, Cell::Percent),
                Cell::Percent(line.slowdown - 1.0),
                Cell::Compact(line.extra_gpu_hours),
                energy(line.extra_overhead_kwh),
            ];
            row.extend(line.saved_kg.map(energy));
            table.rows.push(row);
        }
        section = section.with_table(table);
    }
    section.with_definition(
        "Measured on single-GPU trainings at full load (form of Zeus, NSDI 2023) and applied to the energy of GPUs that jobs held. The bounds \
         take quartiles of the workloads, and count idle power of held GPUs once as work and once not. Work that is not bound by the GPU is \
         slowed less.",
    )
}

fn reclaimed(found: &Reclaim, account: &Account) -> Section {
    let mut table = Table::new(
        "GPUs handed back",
        vec![
            Column::with_unit("After", "min"),
            Column::number("Times"),
            Column::number("Jobs"),
            Column::number("GPU-hours"),
            Column::number("Of GPU-hours held"),
            Column::with_unit("Energy in them", "kWh"),
            Column::number("Power known"),
        ],
    );
    for line in &found.lines {
        table.rows.push(vec![
            Cell::Compact(line.after_min),
            Cell::Int(line.times as i64),
            Cell::Int(line.jobs as i64),
            Cell::Compact(line.gpu_hours),
            Cell::opt(line.share_of_held, Cell::Percent),
            Cell::opt(line.energy_kwh, Cell::Compact),
            Cell::opt(line.power_coverage, Cell::Percent),
        ]);
    }
    let finding = found.lines.first().map_or_else(String::new, |line| {
        let kwh = line.energy_kwh.map_or_else(String::new, |kwh| format!(" and {} kWh", compact(kwh)));
        format!(
            "Handing GPUs back once they were idle for {} min would free **{}** GPU-hours{kwh}, {} of those held with a utilisation known.",
            compact(line.after_min),
            compact(line.gpu_hours),
            line.share_of_held.map_or_else(|| "an unknown share".to_owned(), percent)
        )
    });
    let known = super::account::share(found.held_gpu_hours, account.allocated_gpu_hours).map(|share| share.min(1.0));
    let mut section = Section::new("idle-reclaim", "What if: idle GPUs handed back")
        .with_finding(finding)
        .with_coverage(format!(
            "Utilisation is known for {} GPU-hours held{}",
            compact(found.held_gpu_hours),
            known.map_or_else(String::new, |share| format!(", {} of all", percent(share)))
        ))
        .with_table(table);
    if found.by_vc.iter().any(|line| line.vc.is_some()) {
        let mut vcs =
            Table::new("By VC, after the shortest time", vec![Column::text("VC"), Column::number("GPU-hours")]);
        for line in &found.by_vc {
            let name = line.vc.clone().unwrap_or_else(|| "unknown".to_owned());
            vcs.rows.push(vec![Cell::from(name), Cell::Compact(line.gpu_hours)]);
        }
        section = section.with_table(vcs);
    }
    section.with_definition(
        "**Idle**: a GPU utilisation of at most 1 % in every reading of a stretch in which one job holds the GPU. A lower bound: time before the \
         first and after the last such reading is not counted. The energy is saved only where a GPU handed back is switched off.",
    )
}

fn eu(account: &Account) -> Section {
    let known = account.eu.iter().filter(|field| field.basis != FieldBasis::Missing).count();
    let mut table = Table::new(
        "Fields of Delegated Regulation (EU) 2024/1364",
        vec![
            Column::text("Symbol"),
            Column::text("Field"),
            Column::number("Value"),
            Column::text("Unit"),
            Column::text("Known from"),
            Column::text("Note"),
        ],
    );
    for field in account.eu.iter().filter(|field| field.basis != FieldBasis::Missing) {
        let value = match (&field.text, field.value) {
            (Some(text), _) => Cell::from(text.clone()),
            (None, value) => Cell::opt(value, Cell::Compact),
        };
        let basis = match field.basis {
            FieldBasis::Audited => "this audit",
            FieldBasis::Computed => "audited and stated values",
            FieldBasis::Stated => "the factor file",
            FieldBasis::Missing => "",
        };
        let text = |text: &Option<String>| Cell::from(text.clone().unwrap_or_default());
        table.rows.push(vec![
            text(&field.symbol),
            Cell::from(field.name.clone()),
            value,
            text(&field.unit),
            Cell::from(basis),
            text(&field.note),
        ]);
    }
    let missing: Vec<&str> = account
        .eu
        .iter()
        .filter(|field| field.basis == FieldBasis::Missing)
        .map(|field| field.symbol.as_deref().unwrap_or(&field.name))
        .collect();
    if !missing.is_empty() {
        table.note = Some(format!("Not known: {}. Give them under `[site]` in the factor file.", missing.join(", ")));
    }
    Section::new("eu", "Fields of the EU reporting scheme")
        .with_finding(format!("**{known}** of {} fields are known.", account.eu.len()))
        .with_table(table)
        .with_definition("Article 12 of Directive (EU) 2023/1791: data centres of 500 kW of installed IT power and more report once a year; energy here is of the audited window.")
}
