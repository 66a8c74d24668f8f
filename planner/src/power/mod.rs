//! Power-down of nodes: who sleeps when, what it saves and whom it hurts.

pub mod config;
pub mod plan;
pub mod policy;
