//! Utilisation: how much of a GPU a job will use, on average, and how much GPU memory at most, before it starts.
//!
//! ```text
//! Trace ──history──▶ jobs with their telemetry ──past, walk──▶ what was known at a start ──┐             ┌──backtest──▶ scores beside the baselines
//!                          └─────profile──▶ profiles of job types (CSV)                    ├─learner──▶──┤
//! profiles of job types ──held_out──▶ graph-level features, families left out ─────────────┘             └──forecast──▶ what jobs will use that have not run
//! ```
//!
//! This is the first half of Horus (Yeung et al., HotCloud 2020): utilisation from what is known of a model's graph; where no graph is known, from the telemetry of
//! the job's recurring group so far. [`history`] joins telemetry to jobs, [`profile`] makes of it
//! the table of profiles that `model backtest interference` and `plan
//! sharing` take, `past` is what was known at a moment and `walk` goes through the jobs, [`model`] names the models and `learner` fits them. [`backtest`] tests them in order of time and
//! [`held_out`] on families that were left out, [`score`] says how good they are and [`answer`]
//! prints it. [`at_submission`](mod@at_submission) is what sharing of GPUs is driven by. [`asked`] reads what is asked about jobs that have not run, [`model predict demand`]
//! says it with the
//! model that is chosen in the same way, and [`prediction`] prints it.
//!
//! Utilisation is in percent and memory in MiB, and all is learned on ln(1 + value), as the published error is of that scale. Worked number: 40 % forecast where
//! 50 % came is an error of ln 51 − ln 41 = 0.22.

pub mod answer;
pub mod asked;
pub mod at_submission;
pub mod backtest;
pub mod forecast;
pub mod held_out;
pub mod history;
mod learner;
pub mod model;
mod past;
pub mod prediction;
pub mod profile;
pub mod score;
mod walk;
