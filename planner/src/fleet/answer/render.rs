//! The answer of `plan fleet` as a report.
//!
//! O(rows). Worked example: 4 reserved, 3 to 5 in the draws, is told as "4 (3 to 5)".

use tracecast_analytics::report::{
    Axis, Cell, Chart, ChartSeries, Column, Mark, Reference, Report, ReportTable, Section, format,
};
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::time::to_the_minute;

use super::super::rule::FleetRule;
use super::{FleetAnswer, FleetMixRow, FleetVerdict, FleetWindow};
use crate::market::purchase::months_in_words;

/// What a rule cost in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct InWindow<'a> {
    from: &'a str,
    of_on_demand: f64,
    waiting_gpu_hours: f64,
}

/// What a rule cost over windows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WindowSpan<'a> {
    best: InWindow<'a>,
    median: f64,
    worst: InWindow<'a>,
}

/// Curves of load that are drawn.
const CURVES: usize = 4;

impl FleetAnswer {
    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("How much to reserve, and what to run on demand and on spot? {}", self.title),
            format!(
                "offers of {}, over {}{}",
                self.offers,
                months_in_words(self.horizon_months),
                self.zone.as_ref().map_or_else(String::new, |zone| format!("; times in {zone}"))
            ),
        );
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.mix_section(), self.tested()];
        report.sections.extend(self.carbon.as_ref().map(|carbon| self.carbon_section(carbon)));
        // Where nothing can be committed to, no use of a commitment is worth it.
        report.sections.extend((!self.break_even.is_empty()).then(|| self.break_even_section()));
        report.sections.push(self.sensitivity_section());
        report.sections.extend((!self.stress.is_empty()).then(|| self.stress_section()));
        report.sections.extend(self.buying_section());
        report.sections.push(self.demand_section());
        report
    }

    fn summary(&self) -> Vec<String> {
        let held = &self.held_out;
        let mut said = vec![self.action.clone()];
        let standing = self.standing_in_words();
        let nothing_better = self.verdict == FleetVerdict::NothingBetter;
        // Said once.
        let on_demand = if standing.is_some() {
            String::new()
        } else {
            format!(", where all on demand costs {}", self.money(self.on_demand_per_month.value))
        };
        said.extend(standing);
        said.extend((!nothing_better).then(|| {
            format!(
                "The mix to come costs **{} a month** ({} to {} over resampled weeks or days){on_demand}.",
                self.money(self.cost_per_month.value),
                self.money(self.cost_per_month.low),
                self.money(self.cost_per_month.high),
            )
        }));
        let rule = |by: FleetRule| self.rule(by);
        let costs = |by: FleetRule| rule(by).map(|rule| rule.cost_per_month);
        if nothing_better && costs(FleetRule::Mix) == costs(FleetRule::OnDemand) {
            said.push(
                "The mix that was chosen before the split is all on demand too, so there is nothing to compare on the later windows."
                    .to_owned(),
            );
        } else if let (Some(mix), Some(free), Some(naive)) =
            (rule(FleetRule::Mix), rule(FleetRule::Uncommitted), rule(FleetRule::Newsvendor))
        {
            said.push(format!(
                "Chosen on {} before {} and priced on {} after: the mix saved **{} of all on demand** ({} to {}, {}), where nothing reserved saved {} and the \
                 newsvendor {}. It cost {} more than the best mix with hindsight, and saved least from {} on: {}.",
                held.chosen_on,
                to_the_minute(&held.split),
                format::counted(held.windows.len() as u64, "window", "windows"),
                format::percent(held.saving.value),
                format::percent(held.saving.low),
                format::percent(held.saving.high),
                held.interval,
                format::percent(1.0 - free.of_on_demand),
                format::percent(1.0 - naive.of_on_demand),
                format::percent(mix.regret),
                to_the_minute(&held.worst_window),
                format::percent(held.worst_saving)
            ));
        }
        said.extend(self.cheaper_in_words());
        said.extend(self.reserving_in_words());
        if self.waiting_gpu_hours_per_week > 0.0 {
            said.push(format!(
                "**{} GPU-hours a week wait**, as the limits of the offers leave no room for them; they are in no cost.",
                format::compact(self.waiting_gpu_hours_per_week)
            ));
        }
        said.extend(self.buying_in_words());
        if !self.stress.is_empty() {
            said.push(self.stress_in_words());
        }
        said.extend(self.carbon.as_ref().map(|carbon| self.carbon_in_words(carbon)));
        said.extend(self.confidence.map(|confidence| self.confidence_in_words(confidence)));
        said
    }

    fn cost_column(&self) -> Column {
        Column::number(format!("{} a month", self.currency))
    }

    fn mix_table(&self, title: &str, rows: &[FleetMixRow]) -> ReportTable {
        let mut table = ReportTable::new(
            title,
            vec![
                Column::text("GPU"),
                Column::text("Offer"),
                Column::text("Zone"),
                Column::text("How"),
                Column::text("Commitment"),
                Column::text("Number"),
                Column::number("Mean"),
                Column::number("Most"),
                Column::number("GPUs each"),
                Column::number(format!("{} an hour", self.currency)),
                Column::number("Longer runs"),
                self.cost_column(),
            ],
        );
        for row in rows {
            let number = match (row.count, row.low, row.high) {
                (Some(count), Some(low), Some(high)) => format!("{count} ({low} to {high})"),
                (Some(count), ..) => count.to_string(),
                (None, ..) => "as needed".to_owned(),
            };
            table.rows.push(vec![
                row.gpu.as_str().into(),
                row.offer.as_str().into(),
                row.zone.as_deref().unwrap_or("").into(),
                row.how.in_words().into(),
                row.months.map_or_else(String::new, months_in_words).into(),
                number.into(),
                Cell::float(row.mean_instances, 2),
                Cell::float(row.peak_instances, 1),
                Cell::float(row.gpus_per_instance, 0),
                Cell::float(row.price_per_h, 3),
                Cell::Percent(row.overhead - 1.0),
                Cell::float(row.cost_per_month, 0),
            ]);
        }
        table
    }

    fn mix_section(&self) -> Section {
        let mut section = Section::new("fleet-mix", "What to reserve, and what to rent by the hour")
            .with_table(self.mix_table("The mix to come", &self.mix));
        for curve in self.curves.iter().take(CURVES) {
            let id = format!("fleet-load-{}", tracecast_analytics::report::markup::slug(&curve.gpu));
            let chart = Chart::xy(
                id,
                format!("GPUs needed, by share of the hours: {}", curve.gpu),
                Axis::share("Share of the hours"),
                Axis::linear("GPUs"),
                vec![
                    ChartSeries::new("all jobs", Mark::Line, curve.points.clone()),
                    ChartSeries::new("must not be interrupted", Mark::Line, curve.firm.clone()),
                ],
            )
            .with_reference(Reference::Horizontal { at: curve.committed, label: "reserved".to_owned() })
            .with_reading(
                "What lies under the line of the reserved GPUs runs on them; what lies above is rented by the hour.",
            );
            section = section.with_chart(chart);
        }
        section
            .with_definition("**Number**: instances that are committed to, with the 2.5 % and 97.5 % ends of 40 draws of the record's weeks (days, if there are fewer than four). These are draws of what was, and not of the years to come: what turns out best on later weeks, as hindsight finds, may lie outside. **Mean** and **most** are instances in use in an hour.")
            .with_definition("**Longer runs**: how many per cent longer jobs run on spot, as they write checkpoints and are interrupted. It is in the cost.")
            .with_definition("What is rented is whole instances, hour by hour: **mean** is over all hours, and is no whole number for that.")
            .with_definition(if self.gap > 0.0 {
                format!("The search ended before all other mixes were ruled out: another may cost up to {} less.", format::percent(self.gap))
            } else {
                "On the weeks of the record no other mix costs less: all sums of commitments were costed or ruled out.".to_owned()
            })
    }

    fn tested(&self) -> Section {
        let mut table = ReportTable::new(
            "Chosen before, priced after",
            vec![
                Column::text("Rule"),
                Column::number("GPUs reserved"),
                Column::number("Of these in use"),
                self.cost_column(),
                Column::number("Of all on demand"),
                Column::number("Beyond hindsight"),
                Column::number("GPU-hours that wait"),
            ],
        );
        for rule in &self.held_out.by {
            table.rows.push(vec![
                rule.what.as_str().into(),
                Cell::float(rule.committed_gpus, 0),
                Cell::opt(rule.committed_used, Cell::Percent),
                Cell::float(rule.cost_per_month, 0),
                Cell::Percent(rule.of_on_demand),
                Cell::Percent(rule.regret),
                Cell::float(rule.waiting_gpu_hours, 0),
            ]);
        }
        let windows = self.windows_table();
        Section::new("fleet-tested", "What came of it on later windows")
            .with_table(table)
            .with_table(windows)
            .with_definition("Every rule knows the hours before the split, as they were known then, and no others; **hindsight** knows the later windows, all of them together, and cannot be had. It rents: nodes that are bought may cost less than it.")
            .with_definition("The peak, the mean and the newsvendor reserve what is cheapest by the GPU and run the rest on demand, without spot; the last of them stands again with spot for the rest.")
    }

    /// What each rule cost in its best, middle and worst window.
    fn windows_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            format!("Cost over {}, of all on demand in the same one", self.windows_in_words()),
            vec![
                Column::text("Rule"),
                Column::number("Best"),
                Column::text("From"),
                Column::number("Median"),
                Column::number("Worst"),
                Column::text("From"),
                Column::number("GPU-h waiting"),
            ],
        );
        for of in self.held_out.by.iter().filter(|of| of.by != FleetRule::OnDemand) {
            let Some(WindowSpan { best, median, worst }) = self.window_span(of.by) else { continue };
            table.rows.push(vec![
                of.what.as_str().into(),
                Cell::Percent(best.of_on_demand),
                to_the_minute(best.from).into(),
                Cell::Percent(median),
                Cell::Percent(worst.of_on_demand),
                to_the_minute(worst.from).into(),
                Cell::float(worst.waiting_gpu_hours, 0),
            ]);
        }
        table.note = Some("The JSON has every window (`held_out.windows`).".to_owned());
        table
    }

    fn windows_in_words(&self) -> String {
        format::counted(self.held_out.windows.len() as u64, "window", "windows")
    }

    /// The windows in which a rule cost the least and the most of all on demand in the same one, and the middle of all; of an even number the mean of the two in the middle. Nothing where all on demand costs nothing.
    fn window_span(&self, by: FleetRule) -> Option<WindowSpan<'_>> {
        let of = |window: &'_ FleetWindow, rule: FleetRule| window.by.iter().find(|of| of.by == rule).cloned();
        let mut found: Vec<InWindow<'_>> = Vec::new();
        for window in &self.held_out.windows {
            let (Some(rule), Some(steady)) = (of(window, by), of(window, FleetRule::OnDemand)) else { continue };
            if steady.cost > 0.0 {
                found.push(InWindow {
                    from: &window.from,
                    of_on_demand: rule.cost / steady.cost,
                    waiting_gpu_hours: rule.waiting_gpu_hours,
                });
            }
        }
        found.sort_by(|a, b| a.of_on_demand.total_cmp(&b.of_on_demand));
        let (best, worst) = (found.first()?, found.last()?);
        let median = quantile(&found.iter().map(|of| of.of_on_demand).collect::<Vec<_>>(), 0.5)?;
        Some(WindowSpan { best: *best, median, worst: *worst })
    }

    fn break_even_section(&self) -> Section {
        let mut table = ReportTable::new(
            "From which use on a commitment is worth it",
            vec![
                Column::text("GPU"),
                Column::text("Offer"),
                Column::text("How"),
                Column::text("Commitment"),
                Column::number(format!("{} a GPU-hour", self.currency)),
                Column::number(format!("On demand, {}", self.currency)),
                Column::number("Break-even use"),
                Column::number("GPUs of this load above it"),
                Column::number("Their use"),
            ],
        );
        for row in &self.break_even {
            table.rows.push(vec![
                row.gpu.as_str().into(),
                row.offer.as_str().into(),
                row.how.in_words().into(),
                row.months.map_or_else(String::new, months_in_words).into(),
                Cell::float(row.per_gpu_h, 3),
                Cell::float(row.on_demand_per_gpu_h, 3),
                Cell::Percent(row.utilisation),
                Cell::float(row.gpus_above, 0),
                Cell::opt(row.used, Cell::Percent),
            ]);
        }
        Section::new("fleet-break-even", "From which use on it is worth it")
            .with_table(table)
            .with_definition("A commitment is paid in every hour, on-demand only in those in which it is used. The **break-even use** is the one price over the other. The GPUs **above it** are those that this load needs for at least that share of the hours, in whole instances, with on-demand as the only other way. On-demand counts at the price of a GPU of the cheapest instance; small needs pay more, as instances are rented whole.")
            .with_definition("A commitment longer than the horizon counts as paid to its end within it. A node of one's own counts as its price over its life, its electricity around the clock and its yearly cost.")
    }

    fn sensitivity_section(&self) -> Section {
        let mut table = ReportTable::new(
            "Other prices, other demand",
            vec![
                Column::text("If"),
                Column::number("GPUs to reserve"),
                self.cost_column(),
                Column::number(format!("With this mix, {}", self.currency)),
                Column::number(format!("All on demand, {}", self.currency)),
            ],
        );
        for row in &self.sensitivity {
            table.rows.push(vec![
                row.what.as_str().into(),
                Cell::float(row.committed_gpus, 0),
                Cell::float(row.cost_per_month, 0),
                Cell::float(row.kept_cost_per_month, 0),
                Cell::float(row.on_demand_per_month, 0),
            ]);
        }
        Section::new("fleet-sensitivity", "What if prices or demand were others")
            .with_table(table)
            .with_definition("**With this mix**: what is reserved stays as it is, and the rest is rented. More demand multiplies that of every hour.")
    }

    fn stress_section(&self) -> Section {
        let mut table = ReportTable::new(
            "All spot of a zone gone at the worst moment",
            vec![
                Column::text("Zone"),
                Column::number("Hours"),
                Column::text("From"),
                Column::number("GPUs at once"),
                Column::number("GPU-hours elsewhere"),
                Column::number("GPU-hours done again"),
                Column::number("GPU-hours that wait"),
                Column::number(format!("{} more", self.currency)),
            ],
        );
        for loss in &self.stress {
            table.rows.push(vec![
                loss.zone.as_deref().unwrap_or("not named").into(),
                Cell::Int(i64::from(loss.hours)),
                to_the_minute(&loss.from).into(),
                Cell::float(loss.gpus, 0),
                Cell::float(loss.moved_gpu_hours, 0),
                Cell::float(loss.lost_gpu_hours, 1),
                Cell::float(loss.waiting_gpu_hours, 0),
                Cell::float(loss.extra_cost, 0),
            ]);
        }
        Section::new("fleet-stress", "What if all spot of a zone goes at once")
            .with_table(table)
            .with_definition("The hours of the record are served with the mix and no spot of that zone, from each hour on, beside the same hours with all spot; the worst beginning is told. Done again is half a checkpoint interval and a restart of each GPU, on demand.")
    }

    fn buying_section(&self) -> Option<Section> {
        let buying = self.buying.as_ref()?;
        let section = Section::new("fleet-buying", "What nodes of one's own would change")
            .with_table(self.mix_table("The mix where nodes can be bought", &buying.mix))
            .with_definition(
                "The cost of a node is that of an hour over its whole life: it holds if the load stays for that long.",
            );
        Some(section)
    }

    fn demand_section(&self) -> Section {
        let mut table = ReportTable::new(
            "What jobs need",
            vec![
                Column::text("GPU"),
                Column::number("Jobs"),
                Column::number("GPU-hours a week"),
                Column::number("Paid for"),
                Column::number("Mean GPUs"),
                Column::number("Most GPUs"),
                Column::number("May run on spot"),
            ],
        );
        for of in &self.demand {
            table.rows.push(vec![
                of.gpu.as_str().into(),
                Cell::Int(of.jobs as i64),
                Cell::float(of.gpu_hours_per_week, 0),
                Cell::float(of.paid_gpu_hours_per_week, 0),
                Cell::float(of.mean_gpus, 1),
                Cell::float(of.peak_gpus, 0),
                Cell::Percent(of.flexible_share),
            ]);
        }
        Section::new("fleet-demand", "What the jobs need").with_table(table).with_definition(
            "**Paid for**: the GPUs of the whole instances that cover the peak of each hour, with all on demand, so it is more than jobs hold.",
        )
    }
}
