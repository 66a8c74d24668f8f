//! What-ifs, told.

use crate::audit::account::{Account, share};
use crate::audit::whatif::cap::{CapLine, Fleet, FleetLine, PowerCaps};
use crate::audit::whatif::reclaim::Reclaim;
use crate::report::format::{compact, counted, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};

use super::energy;

fn fleet_sentence(fleet: &Fleet) -> String {
    let name = fleet.gpu_type.as_deref().unwrap_or("GPUs of unknown type");
    if let Some(why) = &fleet.why_not {
        return format!("{name}: {why}.");
    }
    let taken = match (&fleet.studied_as, fleet.mapped) {
        (Some(study_result), true) => format!(", **taken for {study_result} as you said**"),
        _ => String::new(),
    };
    // The cap that saves most, and the one that saves most at hardly any slow-down.
    let best = |most: f64| {
        let allowed = fleet.caps.iter().filter(move |line| line.slowdown <= most);
        allowed.max_by(|a, b| a.saved_kwh.value.total_cmp(&b.saved_kwh.value)).filter(|line| line.saved_kwh.value > 0.0)
    };
    let words = |line: &FleetLine| {
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

pub(super) fn power_caps(caps: &PowerCaps, account: &Account) -> Section {
    let finding = caps.fleet.iter().map(fleet_sentence).collect::<Vec<_>>().join(" ");
    let series = |of: fn(&CapLine) -> (f64, f64, f64)| -> Vec<ChartSeries> {
        caps.studies
            .iter()
            .map(|study| {
                let points = study.caps.iter().map(|cap| (cap.cap_w, of(cap).0)).collect();
                let band = study.caps.iter().map(|cap| (cap.cap_w, of(cap).1, of(cap).2)).collect();
                ChartSeries::new(study.gpu_type.clone(), Mark::Line, points).with_band(band)
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
        let mut table = ReportTable::new(format!("Caps on {name}"), columns);
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

pub(super) fn reclaimed(result: &Reclaim, account: &Account) -> Section {
    let mut table = ReportTable::new(
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
    for line in &result.lines {
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
    let finding = result.lines.first().map_or_else(String::new, |line| {
        let kwh = line.energy_kwh.map_or_else(String::new, |kwh| format!(" and {} kWh", compact(kwh)));
        format!(
            "Handing GPUs back once they were idle for {} min would free **{}** GPU-hours{kwh}, {} of those held with a utilisation known.",
            compact(line.after_min),
            compact(line.gpu_hours),
            line.share_of_held.map_or_else(|| "an unknown share".to_owned(), percent)
        )
    });
    let known = share(result.held_gpu_hours, account.allocated_gpu_hours).map(|share| share.min(1.0));
    let mut section = Section::new("idle-reclaim", "What if: idle GPUs handed back")
        .with_finding(finding)
        .with_coverage(format!(
            "Utilisation is known for {} GPU-hours held{}",
            compact(result.held_gpu_hours),
            known.map_or_else(String::new, |share| format!(", {} of all", percent(share)))
        ))
        .with_table(table);
    if result.by_vc.iter().any(|line| line.vc.is_some()) {
        let mut vcs =
            ReportTable::new("By VC, after the shortest time", vec![Column::text("VC"), Column::number("GPU-hours")]);
        for line in &result.by_vc {
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
