//! Which kinds of nodes to have: the cheapest mix that keeps the target, by exact replays.
//!
//! * [`kinds`]: the file of kinds, prices and speeds. `way`: how nodes of several kinds stand (in one queue, all of one kind, one apart for some sizes), and the jobs
//!   that each queue has.
//! * `queue`: whether a count of nodes by kind is enough; `search`: the cheapest that is. `rule`: what the plan takes, and the naive rules.
//! * `heldout`: mixes chosen before a window, priced and tested on it. [`answer`]: the answer as data, and as a section of a report.
//!
//! **Speeds.** The simulator's nodes are alike in speed. So a kind stands in one queue with today's only where it has their speed; a kind of another speed has all jobs of
//! a pool, or those of some size classes in a queue of their own, with runs divided by its speed. Nothing is blended.
//!
//! Worked number: 12 jobs at once, ten of one GPU and two of eight, none of which may wait: four nodes of 8 GPUs at 8 an hour cost 32, two of these and three of 4 GPUs at
//! 3 an hour 25.

pub mod answer;
pub(super) mod heldout;
pub mod kinds;
mod queue;
mod render;
mod rule;
mod search;
#[cfg(test)]
mod tests;
mod way;

pub use answer::MixAnswer;
pub use kinds::NodeKinds;
pub use rule::MixBy;
