//! Who gets which GPU type: policies of allocation on a cluster with GPUs of several types, replayed in rounds.
//!
//! ```text
//! throughputs ──pool──▶ TypedFleet ┐
//! jobs.csv or a draw ──job──▶ GangJob ┴─ replay, round by round: policy ▶ programme ▶ shares of time ▶ rounds ▶ steps ──▶ answer
//!                                                       └ matching, trade                  bound beside it
//! ```
//!
//! Jobs j have steps to make, a gang of n_j GPUs, and a weight. The **throughputs** T_jt say how many steps a second the whole gang makes on GPU type t, which has N_t GPUs. An **allocation** X_jt is the share of its time that a job is to spend on each type:
//! `Σ_t X_jt ≤ 1` and `Σ_j n_j·X_jt ≤ N_t`. Its speed is then `Σ_t T_jt·X_jt`. A [policy] says which allocation, [`programme`] finds it, and [`rounds`] make it come true. Policies that give GPUs to [users](user) instead, by their fair shares or by [credits](karma), make whole gangs of them. Jobs may have deadlines, which two policies know, one of them by [leases](lease); [`late`] says how many must be missed. Nodes may have processors and memory, which jobs depend on and policies divide: [`host`].
//!
//! [`pool`] holds the fleet and the throughputs, [`job`] reads and draws jobs, [`active`] is what a policy sees of them, [`replay`](mod@replay) is the engine, [`bound`](mod@bound) what nobody can undercut; [`answer`] puts policies beside each other. Worked example: in [`policy`].

pub mod active;
pub mod answer;
pub mod bound;
pub mod drf;
pub mod genie;
pub mod host;
pub mod job;
pub mod karma;
pub mod late;
pub mod lease;
pub mod matching;
pub mod node;
pub mod policy;
pub mod pool;
pub mod programme;
pub mod replay;
pub mod room;
pub mod rounds;
pub mod trade;
pub mod user;
