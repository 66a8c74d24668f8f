//! How many GPUs of one's own (or reserved), and who waits for them rather than going to on-demand in the cloud.
//!
//! `plan rent fleet` plans a fleet in which no job waits. Here jobs may wait for a pool that is
//! cheaper than the cloud, for as long as a [waiting policy](policy) lets them; then they run on
//! demand. An
//! [engine] replays jobs on a pool of any size under any such policy, a [part] holds the jobs of a GPU type beside the prices, and a [search] finds the number of nodes and the policy of least cost with which 95 % of the
//! jobs wait no longer than a target. What it chooses on earlier weeks is [priced on later ones](heldout) beside the usual ways and the best with hindsight; the [answer] advises it only if the
//! later weeks speak for it.
//!
//! Prices come from the offers file of `plan rent fleet`, GPU types are planned one by one, and
//! weeks are cut and billed as there.

pub mod answer;
pub mod engine;
pub mod heldout;
pub mod part;
pub mod policy;
pub mod search;
