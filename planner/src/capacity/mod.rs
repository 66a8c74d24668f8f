//! `plan capacity`: how many nodes keep the waits within a target.
//!
//! * [`theory`]: what queueing theory says, as a cross-check and as the rule of thumb.

pub mod theory;
