//! Microsoft Philly, August to December 2017: the official trace, a joined extract of its jobs, and its node counts.
//!
//! Sources: the `msr-fiddle/philly-traces` repository (job log, machine list, utilisation) and extracts of it that were
//! published beside scheduling studies. Which reader gets a file is told by its column names.
//!
//! Clocks: the job log's times are **UTC**, although they carry no zone and are often taken for Pacific time. Each job
//! id holds the moment its resource manager started, in epoch milliseconds (`application_1512440382012_1`:
//! 2017-12-05 02:19:42 UTC), and the manager's first job was submitted 12 seconds later by the log's own clock
//! (`02:19:54`). The utilisation logs are Pacific time and say so (` PST`, ` PDT`).

mod elements;
mod inventory;
mod jobs;
mod joined;
mod known;
mod nodes;
mod official;
mod utilisation;

pub(crate) use joined::PhillyJoined;
pub(crate) use nodes::PhillyNodes;
pub(crate) use official::Philly;

/// The cluster, as the tables name it.
const CLUSTER: &str = "philly";
/// The cluster's zone: the utilisation logs carry ` PST` and ` PDT`.
const ZONE: &str = "America/Los_Angeles";
