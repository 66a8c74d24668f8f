//! Entries of a Slurm table, and the keys under which a job is looked up in it.
//!
//! The jobs of the 90 days before the last event, and later ones, are grouped by user, stem of their name, VC and size; the predictor is asked once
//! for each group. A group adds to up to five entries, from the most particular (user, stem, size) to that of all jobs. O(jobs + groups).
//!
//! Worked example: `ann` has 30 jobs `train-…` of 4 GPUs and 10 of other names: the entry of `ann` with 4 GPUs mixes both distributions, three to one.

use std::collections::BTreeMap;

use super::{Entry, Tested};
use crate::duration::distribution::{Distribution, mixture_quantile_s};
use crate::duration::predictor::Predictor;
use crate::error::Result;
use crate::feature::name;
use crate::job::Submission;
use crate::timeline::Timeline;

/// Time that a Slurm table looks back for the jobs it has entries for, milliseconds.
const TABLE_MS: i64 = 90 * 86_400_000;

/// Entries of a Slurm table: for each user, name stem, VC and size of `timeline` seen in the 90 days before the last event and later, what the predictor would say of such
/// a job when the last one was submitted. An entry that several kinds of jobs share is of their **mixture**, each kind as often as it was seen: its mean is the mean of theirs, its 95 % quantile
/// that of the mixture ([`mixture_quantile_s`]).
///
/// # Errors
/// If the learner refuses the features.
pub fn entries(predictor: &Predictor, timeline: &Timeline) -> Result<Vec<Entry>> {
    let now_ms = predictor.last_ms();
    // One question a distinct kind of job.
    type KindOfJob = (Option<String>, Option<String>, Option<String>, u64);
    let mut kinds: BTreeMap<KindOfJob, (Submission, u64)> = BTreeMap::new();
    for job in timeline.jobs.iter().filter(|job| job.submission.submit_ms >= now_ms - TABLE_MS) {
        let request = &job.submission;
        let stem = request.name.as_deref().map(name::stem);
        let key = (request.user.clone(), stem, request.vc.clone(), request.gpus.ceil() as u64);
        kinds.entry(key).or_insert_with(|| (request.clone(), 0)).1 += 1;
    }
    // Of a new job of its kind, not of that job itself, and of one that brings no limit: those that do are not given one.
    let request: Vec<Submission> =
        kinds.values().map(|(job, _)| Submission { job_id: String::new(), limit_s: None, ..job.clone() }).collect();
    let said = predictor.laws_as_last_submitted(timeline, &request)?;
    // Distributions and jobs for each key of the table.
    let mut shared: BTreeMap<Key, (Vec<(f64, Distribution)>, u64)> = BTreeMap::new();
    for ((_, (job, jobs)), said) in kinds.iter().zip(&said) {
        for key in keys_of(job) {
            let (distributions, all) = shared.entry(key).or_default();
            distributions.push((*jobs as f64, said.distribution));
            *all += jobs;
        }
    }
    let entry = |(key, (distributions, jobs)): (Key, (Vec<(f64, Distribution)>, u64))| {
        let expected = distributions.iter().map(|(weight, distribution)| weight * distribution.mean_s()).sum::<f64>();
        let (_, user, name_stem, vc, gpus) = key;
        let p95_s = mixture_quantile_s(&distributions, 0.95)?;
        Some(Entry {
            user,
            name_stem,
            vc,
            gpus,
            expected_s: expected / jobs as f64,
            p95_s,
            jobs,
            tested: Tested::default(),
        })
    };
    Ok(shared.into_iter().filter_map(entry).collect())
}

/// Level, user, stem, VC and GPUs of an entry.
pub(super) type Key = (u8, Option<String>, Option<String>, Option<String>, Option<u32>);

/// The entries a job is looked up under, the most particular first, as `job_submit.lua` does it.
pub(super) fn keys_of(job: &Submission) -> Vec<Key> {
    let gpus = u32::try_from(job.gpus.ceil() as u64).ok();
    let (user, stem) = (job.user.clone(), job.name.as_deref().map(name::stem));
    let mut keys = Vec::with_capacity(5);
    if user.is_some() {
        if stem.is_some() {
            keys.push((0, user.clone(), stem, None, gpus));
        }
        keys.push((1, user, None, None, gpus));
    }
    if job.vc.is_some() {
        keys.push((2, None, None, job.vc.clone(), gpus));
    }
    keys.push((3, None, None, None, gpus));
    keys.push((4, None, None, None, None));
    keys
}
