//! `plan share couples` and `simulate --share`: which job types should share GPUs with which,
//! within which limits, and what that would do to the jobs.
//!
//! * [`engine`]: the replay of jobs on GPUs that may hold two, and its contract.
//! * [`evidence`]: the pairs of a GPU type as they were measured, and forecasts of them that never saw them.
//! * [`policy`]: the rule of the plan, and the published ones beside it.
//! * [`couples`]: the measured couples that keep an SLO, without a trace.
//! * [`class`]: job types in classes in which every two may share.
//! * [`job_type`]: job types as they are and as a policy is told them, by what jobs use.
//! * [`pool`]: GPUs divided among classes, as they can be set.
//! * [`setting`]: the jobs in two parts, the GPUs, and the threshold of the rule. [`figures`]: how jobs fared.
//! * [`study`]: the rule chosen on earlier jobs, and every policy on later ones.
//! * [`way`]: time slicing or MPS, where pairs were measured in both ways.
//! * [`simulated`]: a trace replayed under policies that are named, for `simulate --share`.
//! * [`answer`]: the answer as data, and as a report. [`emit`]: the configuration as Slurm and Kubernetes read it. [`against`]: the same as a patch to a site's own files.

pub mod against;
pub mod answer;
pub mod class;
pub mod couples;
pub mod emit;
pub mod engine;
pub mod evidence;
pub mod figures;
pub mod job_type;
pub mod policy;
pub mod pool;
pub mod setting;
pub mod simulated;
pub mod study;
pub mod way;

pub use setting::SharingRequest;
