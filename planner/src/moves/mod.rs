//! Where a long run goes on as spot prices change, and when it moves: from a history of spot prices and measured throughputs.
//!
//! ```text
//! history of spot prices ──market──▶ offers: instance type, zone, price as steps ─┐
//! throughputs ───────────market──▶ how fast the job is on each ───────────────────┴─run──▶ what a rule costs from a start
//!                                                                                     trial──▶ rule chosen on earlier starts, tested on later ones
//!                                                                                     bound──▶ what no schedule of moves undercuts
//! ```
//!
//! A job has steps to make and no deadline. On an instance it makes v steps a second, with the number of GPUs that is fastest of those that were measured and that the instance has, and pays the spot price p of each moment.
//! With `left` steps to go, at the prices of now,
//!
//! ```text
//! rest here  = left / v · p                    rest elsewhere = (start + left / v) · p + egress, where the region is another
//! ```
//!
//! and a rule with a margin m moves at a check if the least rest elsewhere is below (1 − m) of the rest here. `start` is paid and makes no steps. A price that was not quoted for a week is not trusted: nothing begins there.
//!
//! MLCloudPrice (Narayanan and others, *Analysis and exploitation of dynamic pricing in the public cloud for ML training*, DISPA 2020) asks this, and finds that a move a day at most has nearly all that moving can save. Prices say nothing of whether an instance can be had: [`crate::cloud`]
//! follows availability.
//!
//! Worked example: 360,000 steps are left. Here the job makes 10 steps a second at 1.00 an hour: 10 h and 10.00. There it makes 20 at 1.50 and needs 6 min to start: 5.1 h and 7.65. It moves with any margin below 23.5 %.

pub mod answer;
pub mod bound;
pub mod emit;
pub mod market;
pub mod run;
pub mod trial;
