//! `plan nodes`: how many nodes keep the waits within a target.
//!
//! * [`rule`]: rules of thumb; [queueing theory](crate::plan::queueing) is one, and a cross-check.
//! * [`part`]: pools that do not touch one another, with more or fewer nodes. [`search`]: the fewest nodes of one that keep the target, by exact replays.
//! * `heldout`: numbers chosen before a window, tested on it. `forward`: the numbers from now on. [`growth`]: how much more work today's nodes bear.
//! * `pooled`: what one pool of all VCs would need, and who would wait longer in it.
//! * [`mix`]: which kinds of nodes to have, and what another GPU type does, with prices.
//! * [`faults`]: nodes in reserve, time between failures and checkpoints, from a log of faults.
//! * [`answer`]: the answer as data, and as a report. [`emit`]: the nodes as `simulate` and Slurm read them.
//!
//! The steps are those of [every plan](crate::plan). Worked number: 12 nodes needed, 10 to 14, where there are 9: buy 5.

pub mod answer;
pub mod emit;
pub mod faults;
mod forward;
pub mod growth;
mod heldout;
pub mod mix;
pub mod part;
mod pooled;
pub mod rule;
pub mod search;
pub mod tests_kept;

pub use answer::{AskedOfFaults, CapacityRequest, GrownBy};
pub use heldout::NodesBy;
pub use mix::{MixBy, NodeKinds};
