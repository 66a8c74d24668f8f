//! Microsoft Philly, August to December 2017: the official trace, a joined extract of its jobs, and its node counts.
//!
//! Sources: the `msr-fiddle/philly-traces` repository (job log, machine list, utilisation) and extracts of it that were
//! published beside scheduling studies. The three readers share nothing but the cluster's name and zone; which of them
//! gets a file is told by its column names.

mod joined;

pub(crate) use joined::PhillyJoined;

/// The cluster, as the tables name it.
const CLUSTER: &str = "philly";
/// The cluster's zone: the utilisation logs carry ` PST` and ` PDT`.
const ZONE: &str = "America/Los_Angeles";
