//! An audit told to a person: sentences, tables and charts of an [`Answer`], each with what it rests on.

mod eu;
mod figures;
mod whatif;

use jiff::tz::TimeZone;

use super::account::{Account, Bounded, Charge};
use super::answer::Answer;
use super::whatif::reclaim::Reclaim;
use crate::energy::ledger::{Basis, Use};
use crate::report::format::{self, compact, count, counted, percent};
use crate::report::{
    Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, Report, ReportTable, Section, Step, StepKind,
};
use crate::time::HOUR_MS;

/// Rows of a ranking.
const MOST_ROWS: usize = 20;
/// Share of the total above which a difference is reported.
const EXACT: f64 = 1e-9;

/// Words for a purpose of energy.
fn use_words(spent_on: Use) -> &'static str {
    match spent_on {
        Use::Active => "Work above idle",
        Use::Unsplit => "Work or idle power, not told apart",
        Use::IdleAllocated => "Idle power of GPUs that jobs hold",
        Use::IdleUnallocated => "Idle power of GPUs that nobody holds",
        Use::NodeIdleAllocated => "Idle power of whole nodes, GPUs and all else, that jobs hold",
        Use::NodeIdleUnallocated => "Idle power of whole nodes, GPUs and all else, that nobody holds",
        Use::Overhead => "Nodes beside their GPUs",
        Use::Residual => "Residual: meter less all parts",
    }
}

fn basis_words(basis: Basis) -> &'static str {
    match basis {
        Basis::Counter => "Energy counters",
        Basis::Power => "Integrated power readings",
        Basis::Bridged => "Short gaps bridged",
        Basis::Model => "Modelled: no readings",
    }
}

fn energy(value: f64) -> Cell {
    Cell::Compact(value)
}

/// `12 kWh`, or with what is modelled, its bounds and the coverage beside it: `12 kWh (9 metered, 3 modelled; 10 to 15 with gaps at their
/// bounds; readings cover 75 % of device time)`.
fn total(account: &Account, amount: Bounded, unit: &str) -> String {
    let value = compact(amount.value);
    let mut beside = Vec::new();
    if amount.modelled != 0.0 {
        let (metered, modelled) = (compact(amount.metered()), compact(amount.modelled));
        beside.push(match amount.metered().abs() > EXACT * amount.value.abs() {
            true => format!("{metered} metered, {modelled} modelled"),
            false => "all of it modelled, none metered".to_owned(),
        });
    }
    if compact(amount.lower) != value || compact(amount.upper) != value {
        beside.push(format!("{} to {} with gaps at their bounds", compact(amount.lower), compact(amount.upper)));
    }
    if is_partial(account) {
        beside.push(coverage(account).replacen("Readings", "readings", 1));
    }
    let beside = if beside.is_empty() { String::new() } else { format!(" ({})", beside.join("; ")) };
    format!("**{value}** {unit}{beside}")
}

/// Whether readings leave any of the device time open.
fn is_partial(account: &Account) -> bool {
    account.coverage.is_none_or(|share| share < 1.0)
}

/// Sentences on the part of the window without readings; `None` if readings cover all of it.
fn open_time(answer: &Answer) -> Option<String> {
    let account = &answer.account;
    if !is_partial(account) {
        return None;
    }
    let result = &account.readings;
    let (Some(first), Some(last)) = (result.first_ms, result.last_ms) else {
        return Some("There are no readings: **all energy is modelled, and none is metered**.".to_owned());
    };
    let span = answer.window_of(first, last);
    let outside = first > answer.window.from_ms + HOUR_MS || last + HOUR_MS < answer.window.to_ms;
    let beyond =
        if outside { format!(" All readings lie between {span}; the window goes beyond.") } else { String::new() };
    Some(format!(
        "**The window is covered in part**: {}, and {} of {} have any.{beyond} What a model puts in the rest is told apart from what was metered.",
        coverage(account).replacen("Readings", "readings", 1),
        count(result.hours_read),
        counted(result.window_hours, "hour", "hours"),
    ))
}

/// Words for the energy that carbon and cost are computed from.
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
        let mut report = Report::new(title, self.window.words(&self.zone));
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        let mut sections = vec![self.where_it_went(), self.whose()];
        sections.extend(self.carbon());
        sections.extend(account.cost.as_ref().map(|cost| self.cost(cost)));
        sections.extend(self.intensity());
        sections.extend(self.power_caps.as_ref().map(|caps| whatif::power_caps(caps, account)));
        sections.push(match &self.reclaim {
            None => Section::not_available("idle-reclaim", "Idle GPUs handed back", "It was not asked for."),
            Some(Reclaim { why_not: Some(why), .. }) => {
                Section::not_available("idle-reclaim", "Idle GPUs handed back", format!("Not known: {why}."))
            }
            Some(result) => whatif::reclaimed(result, account),
        });
        sections.push(eu::eu(account));
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

    /// Energy drawn, metered first, and the part of the record that the window is.
    fn headline(&self) -> String {
        let length_ms = self.window.to_ms - self.window.from_ms;
        let days = |ms: i64| format::duration(ms as f64 / 1_000.0);
        let part = (length_ms < self.record_ms - self.record_ms / 10).then(|| {
            let (some, all) = (days(length_ms), days(self.record_ms));
            format!(" **That is in {some} of the {all} that the jobs span**; --from and --to look at other times.")
        });
        self.drawn() + &part.unwrap_or_default()
    }

    /// Energy drawn, metered first.
    fn drawn(&self) -> String {
        let account = &self.account;
        let it = account.it_kwh;
        if it.modelled == 0.0 {
            let beside = if is_partial(account) {
                format!(" {}.", coverage(account))
            } else {
                " Readings cover all of the window.".to_owned()
            };
            return format!("IT equipment drew **{}** kWh, all of it metered.{beside}", compact(it.value));
        }
        if it.metered().abs() <= EXACT * it.value.abs() {
            return format!("**No energy was metered.** A model puts IT equipment at {}.", total(account, it, "kWh"));
        }
        let bounds = if compact(it.lower) == compact(it.upper) {
            String::new()
        } else {
            format!(", or {} to {} kWh with gaps at their bounds", compact(it.lower), compact(it.upper))
        };
        format!(
            "IT equipment drew **{}** kWh by its readings, which cover {} of the device time, and by a model **{}** kWh in the rest: **{}** kWh together{bounds}.",
            compact(it.metered()),
            account.coverage.map_or_else(|| "an unknown part".to_owned(), percent),
            compact(it.modelled),
            compact(it.value)
        )
    }

    fn window_of(&self, from_ms: i64, to_ms: i64) -> String {
        let words = |ms: i64| {
            if self.window.has_dates {
                format!("{} UTC", crate::time::format_utc(ms))
            } else {
                format!("{} after the trace began", format::duration(ms as f64 / 1_000.0))
            }
        };
        format!("{} and {}", words(from_ms), words(to_ms))
    }

    fn summary(&self) -> Vec<String> {
        let account = &self.account;
        let mut said = vec![self.headline()];
        said.extend(open_time(self));
        if let (Some(facility), Some(pue)) = (account.facility_kwh, &account.pue) {
            said.push(format!(
                "With the facility's share it is {} at a PUE of {}.",
                total(account, facility, "kWh"),
                pue.words()
            ));
        }
        let kwh = |spent_on: Use| {
            let line = account.by_use.iter().find(|line| line.spent_on == spent_on);
            line.and_then(|line| line.share).filter(|share| *share > 0.0)
        };
        let (work, either) = (kwh(Use::Active), kwh(Use::Unsplit));
        let idle = [Use::IdleAllocated, Use::IdleUnallocated].into_iter().filter_map(kwh).sum::<f64>();
        let of_nodes = [Use::NodeIdleAllocated, Use::NodeIdleUnallocated].into_iter().filter_map(kwh).sum::<f64>();
        if let Some(either) = either {
            let least = work.unwrap_or(0.0);
            said.push(format!(
                "**{} to {}** of IT energy was work above idle, and {} to {} idle power: the idle power of some GPUs is unknown.",
                percent(least),
                percent(least + either),
                percent(idle + of_nodes),
                percent(idle + of_nodes + either)
            ));
        } else if let Some(work) = work {
            let parts = [
                (idle > 0.0 || of_nodes == 0.0).then(|| format!("{} was idle power of GPUs", percent(idle))),
                (of_nodes > 0.0).then(|| {
                    format!(
                        "{} was idle power of whole nodes, GPUs and all else, as their GPUs have no readings",
                        percent(of_nodes)
                    )
                }),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            said.push(format!("**{}** of IT energy was work above idle, {}.", percent(work), parts.join(", ")));
        }
        if let Some(carbon) = &account.location {
            said.push(figures::carbon_sentence("Location-based", carbon, account));
        }
        if let Some(carbon) = &account.market {
            said.push(figures::carbon_sentence("Market-based", carbon, account));
        }
        if let Some(cost) = &account.cost {
            said.push(self.cost_sentence(cost));
        }
        if let Some(sci) = &account.sci {
            said.push(format!("SCI is {} a GPU hour held by a job.", total(account, sci.g_per_gpu_hour, "g")));
        }
        if !account.missing.is_empty() {
            let names: Vec<&str> = account.missing.iter().map(|missing| missing.figure.as_str()).collect();
            said.push(format!("Not given, for want of a factor or of data: {}.", names.join("; ")));
        }
        said
    }

    fn time_axis(&self) -> Axis {
        if self.window.has_dates {
            Axis::time("Time", TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC))
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
        let metered = if account.it_kwh.modelled == 0.0 {
            "IT equipment, as metered"
        } else {
            "IT equipment, metered and modelled"
        };
        steps.push(Step::total(metered, it));
        let (residual, overhead) = (of(Use::Residual), of(Use::Overhead));
        if residual.abs() > EXACT * it.abs() {
            steps.push(Step::change("Meter less all parts (residual)", -residual));
        }
        steps.push(Step::change("Nodes beside their GPUs", -overhead));
        let gpus = it - residual - overhead;
        if gpus.abs() > EXACT * it.abs() {
            let free = of(Use::IdleUnallocated) + of(Use::NodeIdleUnallocated);
            let held = of(Use::IdleAllocated) + of(Use::NodeIdleAllocated);
            let [all, at_work] = match of(Use::NodeIdleUnallocated) + of(Use::NodeIdleAllocated) {
                0.0 => ["GPUs", "GPUs held or at work"],
                _ => ["GPUs, and nodes whose GPUs have no readings", "Of these held or at work"],
            };
            steps.push(Step::total(all, gpus));
            steps.push(Step::change("Idle, held by nobody", -free));
            steps.push(Step::total(at_work, gpus - free));
            steps.push(Step::change("Their idle power", -held));
            steps.push(Step::change("Work or idle power, not told apart", -of(Use::Unsplit)));
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
        let mut uses = ReportTable::new(
            "IT energy by what it was spent on",
            vec![
                Column::text("Spent on"),
                Column::with_unit("Energy", "kWh"),
                Column::number("Share"),
                Column::with_unit("At least", "kWh"),
                Column::with_unit("At most", "kWh"),
                Column::with_unit("Metered", "kWh"),
                Column::with_unit("Modelled", "kWh"),
                Column::number("Metered share"),
            ],
        );
        let row = |name: &str, amount: Bounded, share: Option<f64>, measured: Option<f64>| {
            vec![
                Cell::from(name),
                energy(amount.value),
                Cell::opt(share, Cell::Percent),
                energy(amount.lower),
                energy(amount.upper),
                energy(amount.metered()),
                energy(amount.modelled),
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
        let mut bases = ReportTable::new(
            "How it is known",
            vec![Column::text("Basis"), Column::with_unit("Energy", "kWh"), Column::number("Share")],
        );
        for line in &account.by_basis {
            let share = Cell::opt(line.share, Cell::Percent);
            bases.rows.push(vec![Cell::from(basis_words(line.basis)), energy(line.energy_kwh), share]);
        }
        uses.note = is_partial(account).then(|| format!("{}.", coverage(account)));
        let curve = self.hourly(|line| Some(line.energy_kwh));
        let read = self.hourly(|line| Some(line.energy_kwh - line.modelled_kwh));
        let by_hour = Chart::xy(
            "energy-by-hour",
            "IT energy by hour",
            self.time_axis(),
            Axis::linear("Energy (kWh an hour)"),
            if account.it_kwh.modelled == 0.0 {
                vec![ChartSeries::new("IT energy", Mark::Area, curve)]
            } else {
                vec![
                    ChartSeries::new("Metered and modelled", Mark::Area, curve),
                    ChartSeries::new("Metered", Mark::Area, read),
                ]
            },
        )
        .with_reading(
            "The area is the energy of IT equipment in each hour; a gap is an hour without any energy known.",
        );
        let result = format!("IT energy is {}. {}", total(account, account.it_kwh, "kWh"), self.conservation());
        Section::new("where", "Where the energy went")
            .with_finding(result)
            .with_coverage(format!("{}; {} of audit", coverage(account), counted(account.hours, "hour", "hours")))
            .with_chart(self.waterfall())
            .with_table(uses)
            .with_table(bases)
            .with_chart(by_hour)
            .with_definition("**At least, at most**: gaps in the telemetry at idle power and at the most the device can draw, which is the larger of its TDP and its highest reading. They hold neither errors of meters nor of factors.")
            .with_definition("**Metered**: what counters and power readings tell, short gaps bridged. **Modelled**: what no reading tells; the notes say how.")
            .with_definition("**Work or idle power, not told apart**: of GPUs whose idle power is unknown, what lies between the least and the most that it can be.")
            .with_definition("**Idle power of whole nodes**: of nodes with a meter whose GPUs have no readings, where nothing tells what they need beside their GPUs. Where meters of their like do, that part stands with the other nodes' under *Nodes beside their GPUs*.")
            .with_definition("**Residual**: what whole-node meters have beyond the sum of all parts; below 0 if the parts have more.")
    }

    /// Conservation check in words.
    fn conservation(&self) -> String {
        let kept = &self.account.conservation;
        let worst = [kept.uses_relative, kept.owners_relative].into_iter().flatten().map(f64::abs).fold(0.0, f64::max);
        let parts = if worst <= EXACT {
            "The parts add up to it, by what it was spent on and by owner (to 1e-9).".to_owned()
        } else {
            format!("**The parts miss it by {worst:.1e} of the total.**")
        };
        match (self.account.node_meters, kept.meter_difference_kwh) {
            (Some(meters), Some(difference)) => {
                let all = meters.read_kwh + meters.filled_kwh;
                let from = if difference.abs() <= EXACT * all.abs() { "equal to" } else { "different from" };
                let filled = if meters.filled_kwh == 0.0 {
                    "it".to_owned()
                } else {
                    format!("it and the {} kWh that a model fills of their gaps", compact(meters.filled_kwh))
                };
                format!(
                    "Whole-node meters read **{}** kWh; the total is {from} {filled}. {parts}",
                    compact(meters.read_kwh)
                )
            }
            _ => format!(
                "Whole-node meters do not cover every node, so there is no meter to hold the total against. {parts}"
            ),
        }
    }

    fn charges(&self, title: &str, lines: &[Charge], users: bool) -> ReportTable {
        let account = &self.account;
        let mut columns = vec![Column::text("VC")];
        if users {
            columns.push(Column::text("User"));
        }
        columns.extend([
            Column::with_unit("IT energy", "kWh"),
            Column::number("Share"),
            Column::with_unit("Modelled", "kWh"),
            Column::with_unit("Work", "kWh"),
            Column::with_unit("Work or idle", "kWh"),
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
        if figures::partly(account.location.as_ref().and_then(|carbon| carbon.covered)) {
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
        if figures::partly(account.cost.as_ref().and_then(|cost| cost.covered)) {
            columns.push(Column::number("Of its energy"));
        }
        let mut table = ReportTable::new(title, columns);
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
                energy(line.energy_kwh.modelled),
                energy(line.active_kwh),
                energy(line.unsplit_kwh),
                energy(line.idle_kwh),
                energy(line.overhead_kwh),
            ]);
            row.extend(line.facility_kwh.map(energy));
            if account.location.is_some() {
                row.push(Cell::opt(line.location_kg, Cell::Compact));
            }
            if figures::partly(account.location.as_ref().and_then(|carbon| carbon.covered)) {
                row.push(Cell::opt(line.location_covered, Cell::Percent));
            }
            if account.market.is_some() {
                row.push(Cell::opt(line.market_kg, Cell::Compact));
            }
            if account.cost.is_some() {
                row.push(Cell::opt(line.cost, Cell::Compact));
            }
            if figures::partly(account.cost.as_ref().and_then(|cost| cost.covered)) {
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
            return Section::not_available("whose", "Whose energy it is", self.without_jobs.clone());
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
                series("Work or idle power, not told apart", |line| line.unsplit_kwh),
                series("Idle power held", |line| line.idle_kwh),
                series("Share of nodes' overhead", |line| line.overhead_kwh),
            ],
        )
        .with_reading("Each bar is all energy of the jobs of one VC.");
        let mut jobs = ReportTable::new(
            "Jobs with most energy",
            vec![
                Column::text("Job"),
                Column::text("VC"),
                Column::text("User"),
                Column::number("GPU-hours"),
                Column::with_unit("IT energy", "kWh"),
                Column::with_unit("Modelled", "kWh"),
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
                energy(job.modelled_kwh),
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
}

/// Capitalises a text and ends it with a full stop.
fn sentence(text: &str) -> String {
    format!("{}.", format::capitalised(text.trim_end_matches('.')))
}
