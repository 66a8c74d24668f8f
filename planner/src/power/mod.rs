//! Power-down of nodes: who sleeps when, what it saves and whom it hurts.
//!
//! | Folder | Holds |
//! |---|---|
//! | [`score`] | what orders of powered nodes mean: sleep, shortage, wakes, energy; the optimum |
//! | [`rule`] | rules, decided slot by slot, and families of their settings |
//! | [`study`] | what the days before choose, what it meant later, and promises under a guard |
//! | [`replay`] | the same rules in a replay of the jobs, on the hook of `sim::power` |
//! | [`forward`] | the next slot and day, the saved plan, and what schedulers are given |
//! | [`request`] | what is asked of a trace: demand in slots, days, figures, nodes |
//! | [`mod@answer`] | the answer, from what is [evaluated](evaluate): JSON, report, advice |
//! | [`rolling`] | promises that would have been made on every window of the past |
//!
//! Each imports only those above it. [`PowerPolicy`](crate::sim::power::PowerPolicy) is the border
//! to
//! the replay, [`PowerPlan`](forward::plan::PowerPlan) the one to configuration; both know nothing
//! of how rules are found. Worked number: Philly's 420 nodes in December 2017 have 290 demanded on
//! average, and the optimum lets 127 sleep at a switching cost of two hours.

pub mod answer;
pub mod evaluate;
pub mod forward;
#[cfg(test)]
mod made;
pub mod replay;
pub mod request;
pub mod rolling;
pub mod rule;
pub mod score;
pub mod study;
