//! The answer of `plan rent fleet` as a report.
//!
//! O(rows). Worked example: 4 reserved, 3 to 5 in the draws, is told as "4 (3 to 5)".

use tracecast_analytics::report::{
    Axis, Cell, Chart, ChartSeries, Column, Mark, Reference, Report, ReportTable, Section, format,
};
use tracecast_analytics::time::to_the_minute;

use super::super::rule::FleetRule;
use super::advise::{cheaper_in_words, reserving_in_words};
use super::{FleetAnswer, FleetBody, FleetMixRow};
use crate::market::purchase::months_in_words;
use crate::plan::tell;
use crate::plan::verdict::Verdict;

/// Rules that are shown window by window; JSON has all.
const SHOWN: [FleetRule; 6] = [
    FleetRule::OnDemand,
    FleetRule::Uncommitted,
    FleetRule::NewsvendorSpot,
    FleetRule::Mix,
    FleetRule::Buying,
    FleetRule::Hindsight,
];

/// Curves of load that are drawn.
const CURVES: usize = 4;

/// The answer as a report.
pub fn report(answer: &FleetAnswer) -> Report {
    let (trial, body) = (&answer.trial, &answer.body);
    let subtitle = format!(
        "offers of {}, over {}{}",
        body.offers,
        months_in_words(body.horizon_months),
        body.zone.as_ref().map_or_else(String::new, |zone| format!("; times in {zone}"))
    );
    let mut sections = vec![body.mix_section(), tested(answer)];
    sections.extend(body.carbon.as_ref().map(|carbon| body.carbon_section(carbon, trial)));
    // Where nothing can be committed to, no use of a commitment is worth it.
    sections.extend((!body.break_even.is_empty()).then(|| body.break_even_section()));
    sections.push(body.sensitivity_section());
    sections.extend((!body.stress.is_empty()).then(|| body.stress_section()));
    sections.extend(body.buying_section());
    sections.push(body.demand_section());
    let column = Column::number("GPU-h waiting");
    sections.push(tell::windows("fleet-windows", trial, &SHOWN, column, &|rule| {
        Cell::float(rule.figures.waiting_gpu_hours, 0)
    }));
    let question = "How much to reserve, and what to run on demand and on spot?";
    tell::report(answer, (question, subtitle), in_words(answer), sections)
}

/// What the mix costs, and what came of it on later windows, in sentences.
fn in_words(answer: &FleetAnswer) -> Vec<String> {
    let (trial, body) = (&answer.trial, &answer.body);
    let standing = body.standing_in_words(answer.verdict);
    let nothing_better = answer.verdict == Verdict::NothingBetter;
    // Said once.
    let on_demand = match standing {
        Some(_) => String::new(),
        None => format!(", where all on demand costs {}", body.money(body.on_demand_per_month.value)),
    };
    let mut said: Vec<String> = standing.into_iter().collect();
    said.extend((!nothing_better).then(|| {
        format!(
            "The mix to come costs **{} a month** ({} to {} over resampled weeks or days){on_demand}.",
            body.money(body.cost_per_month.value),
            body.money(body.cost_per_month.low),
            body.money(body.cost_per_month.high),
        )
    }));
    let of = &trial.of;
    if nothing_better && of.plan.amount == of.baseline.amount {
        said.push(
            "The mix that was chosen before the split is all on demand too, so there is nothing to compare on the later windows."
                .to_owned(),
        );
    } else {
        let beside = format!(
            ", where nothing reserved saved {} and the newsvendor {}",
            format::percent(1.0 - of.simplest.of_baseline),
            format::percent(1.0 - of.naive.of_baseline)
        );
        said.push(tell::saved(trial, "mix", "all on demand", &beside));
    }
    said.extend(cheaper_in_words(trial, body, answer.verdict));
    said.extend(reserving_in_words(trial, body));
    if body.waiting_gpu_hours_per_week > 0.0 {
        said.push(format!(
            "**{} GPU-hours a week wait**, as the limits of the offers leave no room for them; they are in no cost.",
            format::compact(body.waiting_gpu_hours_per_week)
        ));
    }
    said.extend(body.buying_in_words(trial));
    said.extend((!body.stress.is_empty()).then(|| body.stress_in_words()));
    said.extend(body.carbon.as_ref().map(|carbon| body.carbon_in_words(carbon, trial)));
    said
}

fn tested(answer: &FleetAnswer) -> Section {
    let columns = tell::columns("#GPUs reserved | #Of these in use | #GPU-hours that wait");
    tell::rules("fleet-tested", &answer.trial, "all on demand", columns, &|rule| {
        let rule = rule.figures;
        vec![
            Cell::float(rule.committed_gpus, 0),
            Cell::opt(rule.committed_used, Cell::Percent),
            Cell::float(rule.waiting_gpu_hours, 0),
        ]
    })
    .with_definition("Every rule knows the hours before the split, as they were known then, and no others; **hindsight** knows the later windows, all of them together, and cannot be had. It rents: nodes that are bought may cost less than it. **Limits**: whether no more work was left without GPUs than with all on demand.")
    .with_definition("The peak, the mean and the newsvendor reserve what is cheapest by the GPU and run the rest on demand, without spot; the last of them stands again with spot for the rest.")
}

impl FleetBody {
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
            .with_definition(if self.reserves_nothing {
                "Nothing is reserved, as what reserving adds may be chance: on the weeks of the record another mix may cost less.".to_owned()
            } else if self.gap > 0.0 {
                format!("The search ended before all other mixes were ruled out: another may cost up to {} less.", format::percent(self.gap))
            } else {
                "On the weeks of the record no other mix costs less: all sums of commitments were costed or ruled out.".to_owned()
            })
    }

    fn break_even_section(&self) -> Section {
        let mut table = tell::table(
            "From which use on a commitment is worth it",
            &format!(
                "GPU | Offer | How | Commitment | #{} a GPU-hour | #On demand, {} | #Break-even use | #GPUs of this load above it | #Their use",
                self.currency, self.currency
            ),
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
        let mut table = tell::table(
            "All spot of a zone gone at the worst moment",
            &format!(
                "Zone | #Hours | From | #GPUs at once | #GPU-hours elsewhere | #GPU-hours done again | #GPU-hours that wait | #{} more",
                self.currency
            ),
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
        let mut table = tell::table(
            "What jobs need",
            "GPU | #Jobs | #GPU-hours a week | #Paid for | #Mean GPUs | #Most GPUs | #May run on spot",
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
