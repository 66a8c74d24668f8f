//! How many replicas of an inference service are up when, on which terms, and whether that held on requests that were not seen.
//!
//! A [log of requests](requests) says when how many tokens came and went; a [table](service) says what one replica does. The [replay] serves the requests on replicas
//! that come and go, token by token, and says what each request waited. A [rule] decides slot by slot how many replicas there should be, from the past alone: a
//! constant, a reactive autoscaler, or a forecast. Each is [chosen](choose) on the earlier half of the log and [tested](heldout) on the later one, beside the
//! [least that any schedule costs](optimum) that knows the demand. The [answer] advises what was chosen only if the later half speaks for it; [emit] writes it for
//! KEDA and SkyServe.
//!
//! Nothing is measured here: what a replica does is what the table says.

pub mod answer;
pub mod choose;
pub mod emit;
pub mod heldout;
pub mod optimum;
pub mod replay;
pub mod requests;
pub mod rule;
pub mod service;
pub mod target;
