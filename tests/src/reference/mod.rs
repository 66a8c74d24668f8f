//! References: slow programs that are plainly right, for the engines to be compared with.
//!
//! * [`helios`] replays the jobs of one VC as the public Helios simulator does, second by second, and makes small
//!   nasty workloads for it.
//! * [`naive`] does what the contract of the replay says, in the plainest way, for every policy.
//! * [`philly`] reads the public Philly jobs on which its waits are known.

pub mod helios;
pub mod naive;
pub mod philly;
