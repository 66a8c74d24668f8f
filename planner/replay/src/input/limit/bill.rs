//! Charges of jobs to their accounts: `TRESBillingWeights` of their partition.
//!
//! Slurm's usage is of *billing*: Σ weight × resource of what a job has, or the greatest of these under `PriorityFlags=MAX_TRES`; of a partition without weights the processors. Here GPUs and processors are billed where the
//! partition has weights; where it has none, a job is charged what jobs compete for, mostly GPUs, and a note says that Slurm would charge processors. O(jobs).
//!
//! Worked number: with `GRES/gpu=2.0,CPU=0.25` a job of 3 GPUs and 16 processors is charged 10 for every second, with `MAX_TRES` 6.

use std::collections::BTreeSet;

use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use super::LimitFile;
use super::priority::{is_none, pairs};

/// Billing weights of a partition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Billing {
    gpus: f64,
    cpus: f64,
    most: bool,
}

impl Billing {
    /// Reads `TRESBillingWeights`; what is of something else is added to `unheeded`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str, unheeded: &mut BTreeSet<String>) -> Result<Option<Self>, String> {
        if is_none(text) {
            return Ok(None);
        }
        let mut result = Self { gpus: 0.0, cpus: 0.0, most: false };
        for (name, weight) in pairs(text)? {
            match name.as_str() {
                "gres/gpu" => result.gpus = weight,
                "cpu" => result.cpus = weight,
                _ if weight == 0.0 => {}
                _ => {
                    unheeded.insert(format!("TRESBillingWeights of {name}"));
                }
            }
        }
        // Weights of what is not charged here, such as GPUs of a type, would leave all usage at 0.
        Ok((result.gpus > 0.0 || result.cpus > 0.0).then_some(result))
    }

    /// Sets whether a job is billed for the dearest of its resources alone.
    fn of_the_most(self, most: bool) -> Self {
        Self { most, ..self }
    }

    /// Charge of a job with so many GPUs and processors, thousandths.
    fn charge(self, gpus: f64, cpus: f64) -> u64 {
        let (gpus, cpus) = (self.gpus * gpus, self.cpus * cpus);
        let billed = if self.most { gpus.max(cpus) } else { gpus + cpus };
        (billed * 1000.0).round().clamp(0.0, 1e15) as u64
    }
}

impl LimitFile {
    /// Returns the charges of jobs (partition, amount of what jobs compete for, processors),
    /// thousandths; empty where that is the amount for all. Assumptions are added to `notes`.
    pub(in crate::input) fn bill<'t>(
        &self,
        resource: Resource,
        jobs: impl Iterator<Item = (&'t str, f64, Option<f64>)>,
        notes: &mut Vec<String>,
    ) -> Vec<u64> {
        let (mut unbilled, mut unknown) = (0u64, 0u64);
        let of = |(partition, amount, cpus): (&str, f64, Option<f64>)| {
            let billing = self.partitions.iter().find(|of| of.name == partition).and_then(|of| of.billing);
            let Some(billing) = billing.map(|billing| billing.of_the_most(self.priority.bills_most)) else {
                unbilled += 1;
                return (amount * 1000.0).round().max(0.0) as u64;
            };
            let (gpus, own) = match resource {
                Resource::Gpus => (amount, None),
                Resource::Cpus => (0.0, Some(amount)),
                Resource::Nodes => (0.0, None),
            };
            let cpus = own.or(cpus);
            unknown += u64::from(billing.cpus > 0.0 && cpus.is_none());
            billing.charge(gpus, cpus.unwrap_or(0.0))
        };
        let charges: Vec<u64> = jobs.map(of).collect();
        let file = &self.file;
        if unbilled > 0 {
            let jobs = format::counted(unbilled, "job is", "jobs are");
            notes.push(format!(
                "For the fair share of accounts {jobs} charged {} × time, as the partition has no TRESBillingWeights in {file}. Slurm charges processors then: for that, give the partition TRESBillingWeights = \"cpu=1\".",
                resource.many()
            ));
        }
        if unknown > 0 {
            let jobs = format::counted(unknown, "job has", "jobs have");
            notes.push(format!(
                "{jobs} no recorded processors, for which TRESBillingWeights of {file} charges nothing."
            ));
        }
        notes.push(format!("What accounts of {file} used before the replay begins is taken for 0."));
        if self.unenforced.is_some() {
            notes.push(format!(
                "Accounts of {file} are charged for a job only up to the last PriorityCalcPeriod that ended before it did, as Slurm does where it enforces no limits."
            ));
        }
        if unbilled == charges.len() as u64 { Vec::new() } else { charges }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_is_billed() {
        let mut unheeded = BTreeSet::new();
        let billing = Billing::parse("GRES/gpu=2.0,CPU=0.25,Mem=0.1G", &mut unheeded).unwrap().unwrap();
        // 2 × 3 + 0.25 × 16, or the greater of the two.
        assert_eq!((billing.charge(3.0, 16.0), billing.of_the_most(true).charge(3.0, 16.0)), (10_000, 6_000));
        assert_eq!(unheeded.into_iter().collect::<Vec<_>>(), ["TRESBillingWeights of mem"]);
        assert_eq!(Billing::parse("(null)", &mut BTreeSet::new()).unwrap(), None);
        assert!(Billing::parse("gpu", &mut BTreeSet::new()).is_err());
    }

    #[test]
    fn partitions_bill_their_jobs() {
        let file = "[[account]]\nName = \"a\"\n[[partition]]\nPartitionName = \"p\"\nTRESBillingWeights = \"cpu=1\"\n";
        let file = LimitFile::parse("f", file).unwrap();
        let charged = |jobs: &[(&'static str, f64, Option<f64>)]| {
            let mut notes = Vec::new();
            let charges = file.bill(Resource::Gpus, jobs.iter().copied(), &mut notes);
            (charges, notes.join(" "))
        };
        let (charges, notes) = charged(&[("p", 2.0, Some(8.0)), ("p", 2.0, None), ("q", 0.5, Some(8.0))]);
        assert_eq!(charges, [8_000, 0, 500]);
        assert!(notes.contains("1 job is charged GPUs") && notes.contains("1 job has no recorded"), "{notes}");
        assert!(charged(&[("q", 2.0, None)]).0.is_empty());
    }
}
