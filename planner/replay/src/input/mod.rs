//! From a trace and the user's files to a workload and a cluster.
//!
//! What is left out is counted with its reason, and what is assumed is said in words, for the report to show.
//!
//! * **Run** of a job: the time its attempts ran, as the source sums it, else from their timestamps, else as the source reports it; without
//!   runs that a failure of a node cut short where the replay repeats it. Jobs that still ran when the record was taken run for as long as is
//!   known, and are not counted; those that never started are left out.
//! * **GPUs**: those given, else those asked for. A part of one GPU is rounded down to thousandths, of which it has at least one, so that
//!   seven sevenths fit on a GPU. A number that is not whole above one is rounded up to the next whole one.
//! * **Time 0** is the first submission that is kept, or the start of the window if jobs ran or waited then.
//!
//! Worked number: of Philly's 111,549 jobs, 68,503 were submitted in October and November 2017 (UTC) to the 11 VCs whose size is known.

pub mod cluster_file;
mod column;
mod failure;
mod host;
mod jobs;
mod kept;
mod known;
mod last_two;
mod limit;
mod near;
mod options;
mod place;
mod quota;
mod recorded;
mod site;
mod switches;

pub use cluster_file::{Wanted, cluster_file};
pub use column::{Column, Matched};
pub use host::Hosts;
pub use jobs::{Excluded, Loaded, load};
pub use known::run_known_at;
pub use last_two::{last_two, last_two_of};
pub use limit::LimitFile;
pub use near::{TopologyRules, of_switches};
pub use options::Options;
pub use place::NodePlaces;
pub use quota::QuotaFile;
pub use quota::{is_of_type, plain_type};
pub use site::{RULES, Site};

#[cfg(test)]
mod tests;
