//! Bounds on requests: impossible ones are refused before they are predicted or kept, such as times
//! long before the model's own or after tomorrow, sizes beyond the cluster, and texts too long to
//! be remembered. Not responsible for how events follow each other: that is the model's part.
//!
//! * A time lies no more than ten years before the model was trained (and before now), and no more than a day after both: a scheduler's clock
//!   may be ahead. A model of a record without true dates was trained in 1970, so that such times pass with it.
//! * GPUs are at most those of the cluster, if it is known how many it has, and [`MOST_GPUS`] anyway.
//! * A job's identifier, user and VC have at most [`LONGEST_ID`] bytes, its name [`LONGEST_NAME`]: with the model's own bounds on jobs, users
//!   and groups this bounds what is remembered.
//!
//! Worked example: `submit_ms` 1700000000 are seconds (2023), as milliseconds the 20th of January 1970: with a model trained in 2023 the body
//! is refused, and the client told to send milliseconds.

use tracecast_analytics::time::{DAY_MS, FARTHEST_MS, format_utc};

use super::refusal::Refusal;
use crate::job::{Event, Submission};

/// Most GPUs of a job.
const MOST_GPUS: f64 = 1e6;
/// Most CPUs, or seconds, that a job asks for (31,700 years).
const MOST_AMOUNT: f64 = 1e12;
/// Longest run, seconds: 317 years.
const MOST_RUN_S: f64 = 1e10;
/// Longest identifier of a job, user or VC, bytes.
const LONGEST_ID: usize = 512;
/// Longest name of a job, bytes.
const LONGEST_NAME: usize = 4096;
/// Times before the model was trained by more are taken for a mistake: ten years.
const BEFORE_MS: i64 = 3652 * DAY_MS;
/// Times later than now by more are.
const AFTER_MS: i64 = DAY_MS;

/// Bounds on times, sizes and texts of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    earliest_ms: i64,
    latest_ms: i64,
    most_gpus: f64,
    of_cluster: bool,
}

impl Bounds {
    /// Bounds for a model trained at `trained_ms`, at `now_ms`, on a cluster of so many GPUs.
    pub(super) fn new(trained_ms: Option<i64>, now_ms: i64, cluster_gpus: Option<f64>) -> Self {
        let trained_ms = trained_ms.unwrap_or(now_ms);
        Self {
            earliest_ms: trained_ms.min(now_ms).saturating_sub(BEFORE_MS).max(-FARTHEST_MS),
            latest_ms: trained_ms.max(now_ms).saturating_add(AFTER_MS).min(FARTHEST_MS),
            most_gpus: cluster_gpus.unwrap_or(MOST_GPUS),
            of_cluster: cluster_gpus.is_some(),
        }
    }

    /// Checks a moment called `name` of what `of` says.
    pub(super) fn time(&self, ms: i64, name: &str, of: &str) -> Result<(), Refusal> {
        if (self.earliest_ms..=self.latest_ms).contains(&ms) {
            return Ok(());
        }
        let (earliest, latest) = (format_utc(self.earliest_ms), format_utc(self.latest_ms));
        let seconds = ms.checked_mul(1000).is_some_and(|ms| (self.earliest_ms..=self.latest_ms).contains(&ms));
        let remedy = if seconds {
            "send milliseconds since 1970; this number looks like seconds"
        } else {
            "send milliseconds since 1970 in UTC, and check the clock of the machine that sends them"
        };
        let result = format!("{name} of {of} is {ms}, {} UTC; possible is {earliest} to {latest}", format_utc(ms));
        Err(Refusal::bad(result, remedy))
    }

    /// Checks what is told of a job at submission.
    pub(super) fn submission(&self, job: &Submission, of: &str) -> Result<(), Refusal> {
        id(&job.job_id, "job_id", of)?;
        let texts = [("user", &job.user, LONGEST_ID), ("vc", &job.vc, LONGEST_ID), ("name", &job.name, LONGEST_NAME)];
        for (name, text, longest) in texts {
            length(text.as_deref().unwrap_or_default(), name, longest, of)?;
        }
        let numbers = [
            ("gpus", Some(job.gpus), self.most_gpus),
            ("cpus", job.cpus, MOST_AMOUNT),
            ("limit_s", job.limit_s, MOST_AMOUNT),
        ];
        for (name, number, most) in numbers {
            let Some(number) = number.filter(|number| !(0.0..=most).contains(number)) else { continue };
            let remedy = if number > most && name == "gpus" && self.of_cluster {
                format!(
                    "send at most {most}, which the cluster has; if it has grown, start the server with --cluster-gpus"
                )
            } else {
                format!("send a number from 0 to {most}, or leave it out if it is unknown")
            };
            return Err(Refusal::bad(format!("{name} of {of} is {number}"), remedy));
        }
        self.time(job.submit_ms, "submit_ms", of)
    }

    /// Checks an event.
    pub(super) fn event(&self, event: &Event, of: &str) -> Result<(), Refusal> {
        match event {
            Event::Submitted(job) => self.submission(job, of),
            Event::Started { job_id, time_ms } => {
                id(job_id, "job_id", of)?;
                self.time(*time_ms, "time_ms", of)
            }
            Event::Ended { job_id, time_ms, run_s, .. } => {
                id(job_id, "job_id", of)?;
                if let Some(run) = run_s.filter(|run| !(0.0..=MOST_RUN_S).contains(run)) {
                    let remedy = format!("send seconds from 0 to {MOST_RUN_S}, or leave it out");
                    return Err(Refusal::bad(format!("run_s of {of} is {run}"), remedy));
                }
                self.time(*time_ms, "time_ms", of)
            }
        }
    }
}

fn id(text: &str, name: &str, of: &str) -> Result<(), Refusal> {
    length(text, name, LONGEST_ID, of)
}

fn length(text: &str, name: &str, longest: usize, of: &str) -> Result<(), Refusal> {
    if text.len() <= longest {
        return Ok(());
    }
    let result = format!("{name} of {of} has {} bytes", text.len());
    Err(Refusal::bad(result, format!("send at most {longest} bytes")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// 2023-11-14 22:13:20.
    const NOW: i64 = 1_700_000_000_000;

    fn refused(checked: Result<(), Refusal>) -> String {
        format!("{:?}", checked.unwrap_err())
    }

    #[test]
    fn times_and_sizes_that_cannot_be_are_refused_with_what_would_mend_them() {
        let bounds = Bounds::new(Some(NOW - 30 * DAY_MS), NOW, Some(320.0));
        let job = |submit_ms, gpus| Submission { job_id: "a".into(), submit_ms, gpus, ..Submission::default() };
        assert!(bounds.submission(&job(NOW, 320.0), "job 0").is_ok());
        assert!(bounds.submission(&job(NOW + DAY_MS, 0.0), "job 0").is_ok());
        assert!(bounds.submission(&job(NOW - 9 * 365 * DAY_MS, 0.0), "job 0").is_ok());
        let seconds = refused(bounds.submission(&job(NOW / 1000, 1.0), "job 0"));
        assert!(seconds.contains("1970-01-20") && seconds.contains("looks like seconds"), "{seconds}");
        let zero = refused(bounds.submission(&job(0, 1.0), "job 0"));
        assert!(zero.contains("1970-01-01 00:00:00") && zero.contains("check the clock"), "{zero}");
        assert!(refused(bounds.submission(&job(NOW + 2 * DAY_MS, 1.0), "job 0")).contains("2023-11-16"));
        let large = refused(bounds.submission(&job(NOW, 4000.0), "job 7"));
        assert!(large.contains("gpus of job 7 is 4000") && large.contains("at most 320"), "{large}");
        assert!(refused(bounds.submission(&job(NOW, f64::NAN), "job 0")).contains("gpus of job 0 is NaN"));
        let long = Submission { user: Some("u".repeat(513)), ..job(NOW, 1.0) };
        assert!(refused(bounds.submission(&long, "job 0")).contains("513 bytes"));
        let ended = |time_ms, run_s| Event::Ended { job_id: "a".into(), time_ms, run_s, failed: None };
        assert!(bounds.event(&ended(NOW, Some(5.0)), "event 0").is_ok());
        assert!(refused(bounds.event(&ended(NOW, Some(1e11)), "event 0")).contains("run_s"));
        assert!(refused(bounds.event(&ended(5, None), "event 0")).contains("time_ms of event 0"));
        // A model of a record without true dates: its own times pass.
        assert!(Bounds::new(Some(5), NOW, None).submission(&job(0, 4000.0), "job 0").is_ok());
    }
}
