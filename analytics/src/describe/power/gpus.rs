//! Power and energy of GPUs: what their meters read, idle GPUs, and who is charged.
//!
//! A board cut into instances is one meter: of the names that report its power one is counted, the board's own if it
//! reports, and its energy is charged to no job, as the readings do not say which instance drew it.
//!
//! Complexity: O(n log n) in readings.
//!
//! Worked number: two instances of a board that both report 200 W, and a whole GPU at 100 W, for 60 s: 18,000 J.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::counter::{Counted, Counting};
use super::display::{covered, curve_chart, power_row, power_table};
use super::energy::{EnergyOf, Metered, Meters, OverTime, PowerAt, by_group, by_holder};
use super::idle::{Idle, Idling};
use super::{Power, SHOWN};
use crate::describe::status::words;
use crate::describe::topic::share;
use crate::energy::meter::{Devices, counter_rise};
use crate::facts::samples::{Gpu, Holder, HolderSource, Readings};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{compact, count, counted, percent};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::{JobState, Table as _};

/// Power and energy of GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GpuPower {
    /// Readings: one GPU at one moment.
    pub readings: u64,
    /// Readings with power over all readings.
    pub coverage: f64,
    /// Power and energy from the meters.
    pub metered: Option<Metered>,
    /// Instances of cut GPUs that were left out, as they report their board's power again.
    pub instances_left_out: u64,
    /// Energy from the counters.
    pub counted: Option<Counted>,
    /// GPUs that do nothing.
    pub idle: Option<Idle>,
    /// Source of which job held a GPU.
    pub holders: HolderSource,
    /// Energy by who held the GPU.
    pub by_holder: Vec<EnergyOf>,
    /// Energy of listed jobs by VC.
    pub by_vc: Vec<EnergyOf>,
    /// Energy by user.
    pub by_user: Vec<EnergyOf>,
    /// Energy by the state that the job ended in.
    pub by_state: Vec<EnergyOf>,
    /// Energy by the job's size.
    pub by_size: Vec<EnergyOf>,
    /// Power of all GPUs together over time.
    pub over_time: Vec<PowerAt>,
}

impl GpuPower {
    pub(super) fn new(facts: &JobFacts<'_>, devices: &Devices) -> Option<Self> {
        let samples = &facts.trace.gpu_samples;
        if samples.power_w.is_all_unknown() && samples.energy_j_cum.is_all_unknown() {
            return None;
        }
        let all = Readings::new(facts)?;
        // Boards of which instances report, with the name that is counted: the first, which is the board's own if it reports.
        let mut cut: BTreeMap<(Option<u32>, &str), Option<&str>> = BTreeMap::new();
        for gpu in all.gpus().filter(Gpu::is_instance) {
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
        let mut over = OverTime::new(
            (0..samples.len()).filter(|ix| samples.power_w.get(*ix).is_some()).filter_map(|ix| samples.ts.get(ix)),
        );
        let (mut readings, mut with_power, mut instances_left_out) = (0, 0, 0);
        let (mut meters, mut idling, mut counting) = (Meters::default(), Idling::default(), Counting::default());
        let (mut points, mut beside) = (Vec::new(), Vec::new());
        for gpu in all.gpus() {
            let counted = gpu.board().and_then(|board| cut.get(&board));
            if counted.is_some_and(|counted| *counted != gpu.name()) {
                instances_left_out += u64::from(gpu.is_instance());
                continue;
            }
            points.clear();
            beside.clear();
            let mut counts = false;
            for reading in gpu.readings() {
                readings += 1;
                let energy = reading.value(&samples.energy_j_cum);
                counts |= energy.is_some() && reading.ts.is_some();
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
            if counts {
                counting.add();
            }
            for (((_, watts), (util, holder, _)), hold_s) in points.iter().zip(&beside).zip(meters.hold_s()) {
                if let Some(util) = util {
                    idling.add(*util, *watts, *hold_s, *holder);
                }
            }
            let ends = points.iter().zip(&beside);
            for ((a, (.., before)), (b, (.., after))) in ends.clone().zip(ends.skip(1)) {
                let (Some(before), Some(after)) = (before, after) else { continue };
                let gap_s = (b.0 - a.0) as f64 / 1_000.0;
                let rise = counter_rise(*before, *after, gap_s).filter(|_| integral.bridges(b.0 - a.0));
                if let Some(rise) = rise {
                    counting.compared_j.add(rise);
                    counting.compared_trapezoid_j.add((a.1 + b.1) / 2.0 * gap_s);
                }
            }
        }
        let jobs = &facts.trace.jobs;
        Some(Self {
            readings,
            coverage: share(with_power as f64, readings as f64).unwrap_or(0.0),
            metered: meters.finish_as(&devices.gpus),
            instances_left_out,
            counted: counting.finish(devices),
            idle: idling.finish(with_power, all.source),
            holders: all.source,
            by_holder: by_holder(&devices.holders),
            by_vc: by_group(&devices.holders, |job| jobs.vc.get(job)),
            by_user: by_group(&devices.holders, |job| jobs.user.get(job)),
            by_state: by_group(&devices.holders, |job| Some(facts.state(job).id())),
            by_size: by_group(&devices.holders, |job| facts.gpus(job).map(|gpus| SizeClass::new(gpus).name())),
            over_time: over.finish(),
        })
    }

    pub(super) fn tell(&self, mut section: Section, power: &Power) -> Section {
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
        if let Some(counter) = &self.counted {
            let gap = counter.trapezoid_excess.map_or_else(String::new, |excess| {
                format!(
                    " Where both are known the readings give {} {} than the counters.",
                    percent(excess.abs()),
                    if excess < 0.0 { "less" } else { "more" }
                )
            });
            section = section.with_text(format!(
                "The energy counters of {} rose by {} kWh, with {} and {}.{gap}",
                counted(counter.gpus, "GPU", "GPUs"),
                compact(counter.energy_kwh),
                counted(counter.resets, "reset", "resets"),
                counted(counter.wraps, "wrap", "wraps")
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
            "At rest: a reading with a GPU utilisation of at most 1 %; readings without a utilisation are neither. A reading \
             stands for half of the bridged gap on either side. The section is ranked by GPU-hours at rest.",
        )
    }

    pub(super) fn covers(&self) -> String {
        let bridged = self.metered.as_ref().map_or_else(String::new, |metered| {
            covered(&metered.energy, &counted(metered.energy.meters, "GPU", "GPUs"))
        });
        format!(
            "{} of GPUs, {} with power{bridged}.",
            counted(self.readings, "reading", "readings"),
            percent(self.coverage)
        )
    }

    fn table(&self) -> ReportTable {
        let mut table = power_table("Power of GPUs", "Readings of GPUs");
        if let Some(metered) = &self.metered {
            table.rows.push(power_row("all".into(), &metered.power_w, metered.energy.known_kwh()));
        }
        if let Some(idle) = &self.idle {
            if let Some(summary) = &idle.idle_w {
                table.rows.push(power_row("at rest".into(), summary, None));
            }
            if let Some(summary) = &idle.busy_w {
                table.rows.push(power_row("working".into(), summary, None));
            }
            // Of idle energy the ledger tells, which also counts the idle power of GPUs that work: one figure of it on a page.
            table.note = Some(format!(
                "At rest: at most 1 % busy. Utilisation is known for {} of the readings with power.",
                percent(idle.coverage)
            ));
        }
        table
    }

    fn owners(&self) -> ReportTable {
        let mut table = ReportTable::new(
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
                let state = JobState::ALL.into_iter().find(|state| Some(state.id()) == of.group.as_deref());
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::describe::topic::Topic;
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
        let power = Power::of(&JobFacts::new(&trace)).unwrap();
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
        // Each reading stands for half of the gap on either side: no job holds the first 30 s, from 100 to 200 W, 4,500 J.
        let holders: Vec<(&str, f64)> =
            gpus.by_holder.iter().map(|of| (of.group.as_deref().unwrap(), (of.energy_kwh * 3.6e6).round())).collect();
        assert_eq!(holders, [("listed jobs", 19_500.0), ("no job", 4_500.0)]);
        assert_eq!((gpus.by_vc[0].group.as_deref(), gpus.by_vc[0].share), (Some("v"), Some(0.8125)));
        assert_eq!(gpus.by_user[0].group, None);
        assert_eq!(power.section().gpu_hours.map(|hours| (hours * 3_600.0).round()), Some(60.0));
    }

    #[test]
    fn counters_are_compared_only_where_both_are_known_and_not_across_resets() {
        let mut trace = Trace::default();
        for (ts, energy) in
            [(0, Some(11_000.0)), (10, Some(12_100.0)), (20, None), (30, Some(50.0)), (40, Some(1_050.0))]
        {
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some(ts * 1_000),
                gpu: Some("0".into()),
                power_w: Some(100.0),
                energy_j_cum: energy,
                ..GpuSampleRow::default()
            });
        }
        let gpus = Power::of(&JobFacts::new(&trace)).unwrap().gpus.unwrap();
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
        let gpus = Power::of(&JobFacts::new(&trace)).unwrap().gpus.unwrap();
        assert_eq!((gpus.instances_left_out, gpus.readings), (1, 4));
        // 200 W · 60 s of the board and 100 W · 60 s of GPU 1.
        assert!((gpus.metered.unwrap().energy.energy_kwh * 3.6e6 - 18_000.0).abs() < 1e-6);
        let holders: Vec<_> = gpus.by_holder.iter().map(|of| (of.group.as_deref(), of.mean_w)).collect();
        assert_eq!(holders, [(Some("listed jobs"), Some(100.0)), (Some("unknown"), Some(200.0))]);
        assert_eq!(gpus.idle.unwrap().known_readings, 2);
    }
}
