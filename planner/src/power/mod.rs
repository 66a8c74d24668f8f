//! Power-down of nodes: who sleeps when, what it saves and whom it hurts.

pub mod answer;
pub mod apply;
pub mod ces;
pub mod config;
pub mod family;
pub mod level;
pub mod optimum;
pub mod plan;
pub mod policy;
pub mod reach;
pub mod resim;
pub mod score;
pub mod simple;
pub mod study;
