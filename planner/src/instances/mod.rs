//! Which instances to rent for which job, and how many: least cost within a deadline, or least time within a budget, from measured throughputs.
//!
//! ```text
//! throughputs ──scaling──▶ steps a second on n GPUs (measured, or forecast between) ─┐
//! offers (price, GPUs, limits) ──option──▶ ways to run each job: instance, number, market, time, cost ──choose──▶ one way for each job
//!                                                                                   ├──heldout──▶ what choosing by forecasts costs
//!                                                                                   └──across──▶ what taking one machine for several costs
//! ```
//!
//! A job has **steps** to make and perhaps a **deadline**. It runs on n GPUs of one type, on ⌈n / GPUs of an instance⌉ instances of one offer. On several it is as fast as measured with each GPU on a machine of its own, where that was measured:
//!
//! ```text
//! time = start + steps / rate(type, n) · stretch         stretch: checkpoints, interruptions and absence of spot; 1 on demand
//! cost = instances · price · time, in whole billing units
//! ```
//!
//! Questions of this kind are asked by MLCloudPrice (DISPA 2020: which GPU type for which job), Cynthia and FC² (how many workers for a time, or for a budget), and Jahani and others (many jobs on many types of
//! machines, least rent within bounds of time). They differ in how throughput is known; here it is measured, and [`scaling`] forecasts it between measured numbers of GPUs.
//!
//! Worked example: 1,000,000 steps. One GPU makes 10 a second and costs 3 an hour: 27.8 h and 83.33. Four make 36 a second and cost 12 an hour: 7.7 h and 92.59. Within 24 h it is the four, without a
//! deadline the one.

pub mod across;
pub mod answer;
pub mod choose;
pub mod emit;
pub mod heldout;
pub mod job;
pub mod option;
pub mod scaling;
