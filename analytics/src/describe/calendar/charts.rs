//! Load and use by hour, day and month, drawn and as tables.
//!
//! O(points). Worked example: 24 submissions at 10 local time are one dark cell of the week, in the column of hour 10.

use super::super::summary;
use super::{CalendarLoad, CalendarUse, NodeUse, WEEKDAYS};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, Reference, ReportTable};

impl CalendarLoad {
    /// Time as the charts tell it: in the cluster's zone.
    pub(super) fn time_axis(&self) -> Axis {
        let zone = jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC);
        if self.has_calendar { Axis::time("Time", zone) } else { Axis::duration("Time since the trace began") }
    }

    pub(super) fn node_chart(&self, nodes: &NodeUse) -> Chart {
        let points = nodes.curve.iter().map(|(ms, value)| (*ms as f64 / 1_000.0, *value)).collect();
        let mut chart = Chart::xy(
            "nodes-in-use",
            "Nodes in use",
            self.time_axis(),
            Axis::linear("Nodes").within(0.0, nodes.peak_nodes.max(nodes.total_nodes.unwrap_or(0.0)) * 1.05),
            vec![ChartSeries::new("in use", Mark::Area, points)],
        )
        .with_reading(
            "Each point is the mean over about a 600th of the series. A node counts as in use when any of its GPUs is.",
        );
        if let Some(there) = nodes.total_nodes {
            chart = chart.with_reference(Reference::Horizontal { at: there, label: "there are".to_owned() });
        }
        chart
    }

    pub(super) fn use_chart(&self, gpus: &CalendarUse) -> Chart {
        let points = gpus.curve.iter().map(|(ms, value)| (*ms as f64 / 1_000.0, *value)).collect();
        let mut chart = Chart::xy(
            "gpus-in-use",
            "GPUs in use",
            self.time_axis(),
            Axis::linear("GPUs").within(0.0, gpus.peak_gpus.max(gpus.capacity_gpus.unwrap_or(0.0)) * 1.05),
            vec![ChartSeries::new("in use", Mark::Area, points)],
        )
        .with_reading("Each point is the mean over about a 600th of the observation. Days without submissions, outages and the ends of the record show here first.");
        if let Some(capacity) = gpus.capacity_gpus {
            chart = chart.with_reference(Reference::Horizontal { at: capacity, label: "there are".to_owned() });
        }
        chart
    }

    pub(super) fn hour_chart(&self) -> Chart {
        Chart::bars(
            "submissions-by-hour",
            "Submissions by hour of day",
            Axis::linear("Jobs an hour"),
            BarLayout::Grouped,
            self.by_hour.iter().map(|hour| hour.hour.to_string()).collect(),
            vec![BarSeries::new("submissions", self.by_hour.iter().map(|hour| hour.submissions).collect())],
        )
        .with_reading("Mean over the days observed, local time. A deep night valley is room for deferrable work or for powering nodes down.")
    }

    pub(super) fn week_chart(&self) -> Chart {
        let values = self
            .submissions_by_weekday_hour
            .iter()
            .map(|row| row.iter().map(|count| Some(*count as f64)).collect())
            .collect();
        Chart::heatmap(
            "submissions-by-week",
            "Submissions by weekday and hour",
            (0..24).map(|hour| hour.to_string()).collect(),
            WEEKDAYS.iter().map(|day| (*day).to_owned()).collect(),
            values,
            Axis::linear("Jobs submitted"),
        )
        .with_reading(
            "Darker is more jobs over the whole observation. A single dark cell is usually one burst, not a habit.",
        )
    }

    pub(super) fn weekday_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "By weekday",
            vec![Column::text("Day"), Column::number("Jobs a day"), Column::number("GPUs in use, mean")],
        );
        let one = |value: f64| Cell::Float { value, digits: 1 };
        for (ix, day) in WEEKDAYS.iter().enumerate() {
            let of = |column: &[Option<f64>]| Cell::opt(column.get(ix).copied().flatten(), one);
            table.rows.push(vec![(*day).into(), of(&self.submissions_by_weekday), of(&self.gpus_in_use_by_weekday)]);
        }
        table
    }

    pub(super) fn month_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Jobs submitted and GPUs in use by month",
            vec![
                Column::text("Month"),
                Column::number("Up to one GPU"),
                Column::number("Several GPUs"),
                Column::number("No GPU or unknown"),
                Column::number("GPUs in use, mean"),
            ],
        );
        for month in &self.by_month {
            table.rows.push(vec![
                Cell::from(month.month.as_str()),
                summary::int(month.single_gpu_jobs),
                summary::int(month.multi_gpu_jobs),
                summary::int(month.other_jobs),
                Cell::opt(month.gpus_in_use, |value| Cell::Float { value, digits: 1 }),
            ]);
        }
        table
    }
}
