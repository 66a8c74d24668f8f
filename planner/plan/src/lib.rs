//! The spine of every plan: from evidence of the past to a [`Recommendation`] for the days to come.
//!
//! ```text
//! request → evidence (the past) → candidates, fitted on *learn* → scored on *choose* → criterion → refitted → scored on *report*, beside doing
//! nothing, the naive rule and the oracle → effect → decided forward from the last instant of the data → Recommendation → emitted, reported
//! ```
//!
//! Plain types and free functions. A plan (such as `power`, `cloud` or `queues`) brings its candidates, how they are scored,
//! and its bound; what is the same for all plans stands here: the [windows](window) of time and the [weeks] it is tried on, the [intervals](interval) of what it
//! meant, the [trial], its [verdict], what a [forecast] is worth to it, the [answer] and how it is [told](tell), the [`Recommendation`], and [what it emits](emit). So do [costs of checkpoints](checkpoint), [waits], and [queueing theory](queueing) with the [traffic](offered) that jobs are to it.
//!
//! No plan is imported here.

pub mod answer;
pub mod checkpoint;
pub mod emit;
pub mod error;
pub mod forecast;
pub mod incentive;
pub mod interval;
pub mod money;
pub mod offered;
pub mod programme;
pub mod queueing;
pub mod recommendation;
pub mod slug;
pub mod tell;
pub mod trial;
pub mod verdict;
pub mod waits;
pub mod week;
pub mod weeks;
pub mod window;
pub mod yaml;

pub use emit::Emitted;
pub use error::{Error, Result};
pub use recommendation::{
    Assurance, Basis, Confidence, Effect, Harm, Recommendation, Regret, SIZES_UNKNOWN, WORTH, nothing_advised,
    unadvised, worth,
};
