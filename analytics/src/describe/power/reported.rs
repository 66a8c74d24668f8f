//! Energy that accounting reports for jobs.
//!
//! Accounting without an energy plug-in writes 0 for every job, which is no measurement. What it measures else is the
//! node's energy while the job ran, so jobs that share a node are each charged all of it.
//!
//! O(n log n) in jobs. Worked number: 3.6, 0 and 7.2 MJ of four jobs: three have an energy, 3 kWh in all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::SHOWN;
use super::energy::kwh;
use crate::describe::status::words;
use crate::describe::summary::int;
use crate::describe::topic::share;
use crate::facts::JobFacts;
use crate::report::format::{count, percent};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::JobState;
use crate::stats::sum::NeumaierSum;

/// Energy that accounting reports for jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportedEnergy {
    /// Jobs with an energy.
    pub jobs: u64,
    /// Share of all jobs.
    pub job_coverage: f64,
    /// GPU time of these jobs over that of all jobs.
    pub gpu_time_coverage: Option<f64>,
    /// Jobs among them for which it is 0.
    pub zero_jobs: u64,
    /// Sum, kilowatt-hours.
    pub energy_kwh: f64,
    /// Energy by state, most first: state, jobs, kilowatt-hours.
    pub by_state: Vec<(String, u64, f64)>,
    /// Energy by VC, most first; `null` for jobs without one.
    pub by_vc: Vec<(Option<String>, u64, f64)>,
}

impl ReportedEnergy {
    pub(super) fn new(facts: &JobFacts<'_>) -> Option<Self> {
        let jobs = &facts.trace.jobs;
        let mut by_state: BTreeMap<JobState, (u64, NeumaierSum)> = BTreeMap::new();
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

    pub(super) fn tell(&self, section: Section) -> Section {
        let mut table = ReportTable::new(
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

    pub(super) fn covers(&self) -> String {
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
    use crate::describe::power::Power;
    use crate::describe::topic::Topic;
    use crate::schema::JobRow;

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
        let reported = Power::of(&JobFacts::new(&trace)).unwrap().reported.unwrap();
        assert_eq!((reported.jobs, reported.job_coverage, reported.gpu_time_coverage), (3, 0.75, Some(0.75)));
        assert_eq!((reported.zero_jobs, reported.energy_kwh), (1, 3.0));
        assert_eq!(reported.by_state, [("failed".to_owned(), 1, 2.0), ("completed".to_owned(), 2, 1.0)]);

        let mut trace = Trace::default();
        trace.jobs.push(JobRow { job_key: Some("a".into()), reported_energy_j: Some(0.0), ..JobRow::default() });
        assert!(Power::of(&JobFacts::new(&trace)).is_err());
    }
}
