//! The jobs run again on nodes that sleep.
//!
//! [`resim`] replays any policy of power beside nodes that are always on, and says what it does to
//! jobs
//! and energy; [`apply`] puts the rules that were [chosen](super::study) under it. As slow as the
//! replays.
//! Worked example: a job that comes to a node asleep waits for its boot of 5 min.

pub mod apply;
pub mod resim;
