//! How many GPUs of one's own (or reserved), and who waits for them rather than going to on-demand in the cloud.
//!
//! [`fleet`](crate::fleet) plans a fleet in which no job waits. Here jobs may wait for a pool that is cheaper than the cloud, for as long as a waiting policy lets them; then they run on demand. An
//! [engine] replays jobs on a pool of any size under any such policy.

pub mod engine;
