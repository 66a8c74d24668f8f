//! The answer of `plan rent burst` as a report.
//!
//! O(rows). Worked example: a wait of 5,400 s is told as "1 h 30 min".

use tracecast_analytics::report::{
    Axis, Cell, Chart, ChartSeries, Column, Mark, Reference, Report, ReportTable, Section, format, markup,
};

use super::super::heldout::BurstRule;
use super::{BurstAnswer, BurstBody, BurstChoice, BurstWaits};
use crate::market::purchase::months_in_words;
use crate::plan::tell;
use crate::plan::waits::WaitSummary;

/// Curves of cost that are drawn.
const CURVES: usize = 4;

/// Rules that are shown window by window; JSON has all.
const SHOWN: [BurstRule; 6] = [
    BurstRule::OnDemand,
    BurstRule::Newsvendor,
    BurstRule::Nobody,
    BurstRule::Everybody,
    BurstRule::Plan,
    BurstRule::Hindsight,
];

/// Choices, by GPU type.
fn chosen(all: &[BurstChoice]) -> String {
    let several = all.len() > 1;
    let of = |choice: &BurstChoice| {
        if several { format!("{}: {}", choice.gpu, choice.policy.what) } else { choice.policy.what.clone() }
    };
    all.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn wait_cells(waits: &BurstWaits) -> Vec<Cell> {
    [waits.all.cells(), vec![Cell::Percent(waits.cloud)]].concat()
}

fn wait_columns() -> Vec<Column> {
    [WaitSummary::columns(), vec![Column::number("Jobs in the cloud")]].concat()
}

/// The answer as a report.
pub fn report(answer: &BurstAnswer) -> Report {
    let body = &answer.body;
    let subtitle = format!(
        "offers of {}, over {}; 95 % of the jobs, and of those of each size, are to wait no longer than {}, and none longer than {}",
        body.offers,
        months_in_words(body.horizon_months),
        format::duration(body.target_p95_s),
        format::duration(body.most_wait_s)
    );
    let windows = tell::windows("burst-windows", &answer.trial, &SHOWN, Column::number("Mean wait"), &|rule| {
        Cell::Duration(rule.figures.mean_wait_s)
    });
    let sections = vec![body.pools_section(), tested(answer), body.sizes_section(), body.targets_section(), windows];
    tell::report(
        answer,
        ("How many GPUs of one's own, and who waits for them?", subtitle),
        [body.pools_in_words(), tested_in_words(answer)].concat(),
        sections,
    )
}

/// Outcome of the plan on later windows, in sentences.
fn tested_in_words(answer: &BurstAnswer) -> Vec<String> {
    let (trial, body) = (&answer.trial, &answer.body);
    let chance = if body.somebody_waits() && trial.beyond_simplest.low <= 0.0 { ", which may be chance," } else { "" };
    let plan = &trial.of.plan.figures;
    vec![
        tell::saved(trial, "plan", body.against(), ""),
        format!(
            "Of that, waiting adds {}{chance} to the best number of nodes with nobody waiting, which saved {}.",
            tell::beyond_simplest(trial),
            format::percent(1.0 - trial.of.simplest.of_baseline)
        ),
        format!(
            "{} {} of the GPU-hours ran in the cloud.",
            plan.waits.all.in_words(&body.mean_wait_s),
            format::percent(plan.cloud_share)
        ),
        tell::predicted(body.predicted_within_twice),
    ]
}

fn tested(answer: &BurstAnswer) -> Section {
    let columns = tell::columns(
        "Who waits | #Own GPUs | #In use | #GPU-hours in the cloud | #Mean wait | #95 % wait up to | #Of a size | #Longest",
    );
    tell::rules("burst-tested", &answer.trial, answer.body.against(), columns, &|rule| {
        let rule = &rule.figures;
        vec![
            chosen(&rule.chosen).into(),
            Cell::float(rule.own_gpus, 0),
            Cell::opt(rule.own_used, Cell::Percent),
            Cell::Percent(rule.cloud_share),
            Cell::Duration(rule.waits.all.mean_s),
            Cell::Duration(rule.waits.all.p95_s),
            Cell::Duration(rule.p95_of_sizes_s),
            Cell::Duration(rule.waits.all.longest_s),
        ]
    })
    .with_definition("Every rule has the number of nodes and the threshold that cost least on the weeks before the split, of those with which 95 % of the jobs, and of those of each size class with at least 20, waited no longer than the target, in all of them and in either half. A rule for which none did is all on demand, or, with `--nodes`, nobody waiting; all waiting without limit is then shown as it is.")
    .with_definition("**Limits**: whether the target was kept. **Of a size**: the longest wait that 95 % of the jobs of a size class did not exceed. It is what the target is for.")
    .with_definition("**Runs known** is the same with a perfect prediction of run times. **Hindsight** knows the later windows, and the runs; it cannot be had. All wait without limit breaks the limit of the longest wait, and is in neither choice.")
    .with_definition("NJW, AJW, LJW and SWW are the names of The Waiting Game (Ambati and others, 2020).")
}

impl BurstBody {
    /// What the plan to come costs, how closely its nodes are known, and what they cost to buy, in sentences.
    fn pools_in_words(&self) -> Vec<String> {
        let mut said = vec![format!(
            "The plan to come costs **{} a month** ({} to {} over resampled weeks or days), where {} costs {}.",
            self.money(self.cost_per_month.value),
            self.money(self.cost_per_month.low),
            self.money(self.cost_per_month.high),
            self.against(),
            self.money(self.baseline_per_month.value)
        )];
        for pool in &self.pools {
            let (low, high) = pool.nodes_alike;
            let gpu = if self.pools.len() > 1 { format!("{}: ", pool.gpu) } else { String::new() };
            if low < high && self.nodes_given.is_none() {
                said.push(format!(
                    "{gpu}**{} to {}** keep the target for at most 3 % more than {}: so closely the number is known at best.",
                    format::count(u64::from(low)),
                    format::counted(u64::from(high), "node", "nodes"),
                    format::count(u64::from(pool.nodes))
                ));
            }
            if let (Some(purchase), Some(years)) = (pool.purchase.filter(|purchase| *purchase > 0.0), pool.years) {
                said.push(format!(
                    "{gpu}To buy the nodes costs **{}**. It is counted as spread over {} of use, whatever --horizon is; used for less, they cost more than is said here.",
                    self.money(purchase),
                    months_in_words(years * 12.0)
                ));
            }
        }
        said
    }

    fn cost_column(&self) -> Column {
        Column::number(format!("{} a month", self.currency))
    }

    fn pools_section(&self) -> Section {
        let mut columns = vec![
            Column::text("GPU"),
            Column::text("Node"),
            Column::text("How"),
            Column::number("Nodes"),
            Column::number("GPUs"),
            Column::text("Who waits"),
            Column::number("In use"),
            Column::number("GPU-hours in the cloud"),
            Column::number("Pool a month"),
            Column::number("Cloud a month"),
            Column::number("All on demand"),
        ];
        if self.nodes_given.is_some() {
            columns.pop();
            columns.push(Column::number("Nobody waiting"));
        }
        let mut table = ReportTable::new("The pool to come", columns);
        let mut waits = ReportTable::new("Waits with it", [vec![Column::text("GPU")], wait_columns()].concat());
        for pool in &self.pools {
            let how = pool.months.map_or_else(
                || pool.how.in_words().to_owned(),
                |months| format!("{} for {}", pool.how.in_words(), months_in_words(months)),
            );
            table.rows.push(vec![
                pool.gpu.as_str().into(),
                pool.offer.as_str().into(),
                how.into(),
                Cell::Int(i64::from(pool.nodes)),
                Cell::float(f64::from(pool.nodes) * pool.gpus_per_node, 0),
                pool.policy.what.as_str().into(),
                Cell::opt(pool.own_used, Cell::Percent),
                Cell::Percent(pool.cloud_share),
                Cell::float(pool.own_per_month, 0),
                Cell::float(pool.cloud_per_month, 0),
                Cell::float(pool.baseline_per_month, 0),
            ]);
            waits.rows.push([vec![pool.gpu.as_str().into()], wait_cells(&pool.waits)].concat());
        }
        let mut section =
            Section::new("burst-pool", "The pool, and who waits for it").with_table(table).with_table(waits);
        for curve in self.curves.iter().take(CURVES) {
            let series = curve.lines.iter();
            let series =
                series.map(|(name, points)| ChartSeries::new(name.as_str(), Mark::Line, points.clone())).collect();
            let chart = Chart::xy(
                format!("burst-cost-{}", markup::slug(&curve.gpu)),
                format!("Cost a month over GPUs of the pool: {}", curve.gpu),
                Axis::linear("GPUs of the pool"),
                Axis::linear(format!("{} a month", self.currency)),
                series,
            )
            .with_reference(Reference::Vertical { at: curve.chosen, label: "chosen".to_owned() })
            .with_reading(
                "Few GPUs leave much to the cloud, many are paid for and stand idle. Who waits fills the gaps.",
            );
            section = section.with_chart(chart);
        }
        section.with_definition(
            "The pool is paid around the clock. **In use**: share of its GPU-hours. What does not fit, and does not wait or has waited long enough, runs in the cloud from then on to its end.",
        )
    }

    fn sizes_section(&self) -> Section {
        let columns = vec![Column::text("GPUs"), Column::number("Jobs")];
        let mut table = ReportTable::new("Later jobs under the plan", [columns, wait_columns()].concat());
        for size in &self.sizes {
            let head = vec![size.size.id().into(), Cell::Int(size.waits.all.jobs as i64)];
            table.rows.push([head, wait_cells(&size.waits)].concat());
        }
        Section::new("burst-sizes", "Who waits, and who runs in the cloud").with_table(table)
    }

    fn targets_section(&self) -> Section {
        let mut table = ReportTable::new(
            "Other targets",
            vec![
                Column::number("95 % are to wait up to"),
                Column::number("Own GPUs"),
                Column::text("Who waits"),
                self.cost_column(),
            ],
        );
        for target in &self.targets {
            table.rows.push(vec![
                Cell::Duration(target.target_s),
                Cell::float(target.own_gpus, 0),
                chosen(&target.chosen).into(),
                Cell::float(target.cost_per_month, 0),
            ]);
        }
        Section::new("burst-targets", "What shorter waits would cost").with_table(table).with_definition(
            "The best of what was tried on all weeks of the record. The number of nodes is refined for the target asked for alone.",
        )
    }
}
