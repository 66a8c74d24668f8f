//! `plan share mig`: which GPUs of a fleet are cut into which slices, for the jobs that they must
//! carry.
//!
//! ```text
//! step times, profiles ──speed──▶ where each job type may go ─┐
//! GPU ──partition──▶ full partitions ─────────────────────────┼─programme─▶ GPUs with each partition ──answer──▶ report, JSON ──emit──▶ files
//! demand, partitions now ─────────────────────────────────────┘
//! ```
//!
//! * [`gpu`]: profiles and placements of the GPUs there are. [`partition`]: what these placements allow.
//! * [`demand`]: what is asked for, and how GPUs are partitioned now. [`speed`]: how fast job types run on slices, and how that is known.
//! * [`programme`]: the fewest GPUs, or the most progress, with a bound.
//! * [`rule`]: fleets beside each other: whole GPUs, one partition for all, and by what a plan takes for the speeds.
//! * [`replay`]: jobs of a trace on slices. [`study`]: a fleet chosen on earlier jobs, held against later ones.
//! * [`answer`]: the answer as data, as advice and as a report. [`emit`]: the configuration as Slurm and Kubernetes read it. [`against`]: the same as a patch to a site's own files of Slurm.

pub mod against;
pub mod answer;
pub mod demand;
pub mod emit;
pub mod gpu;
pub mod partition;
pub mod programme;
pub mod replay;
pub mod rule;
pub mod speed;
pub mod study;

pub use rule::MigRequest;
pub use study::MigStudyRequest;
