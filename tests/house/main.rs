//! The order of the house: every dependency is used, modules do not depend on each other in a circle, plans import no plans, and names are given once.
//!
//! The sources are read as they lie in the repository, without their comments, texts and unit tests; see [`source`]. What is exempt stands
//! here, by name and with its reason, and a test fails once an exemption is needed no more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod circles;
mod dependencies;
mod names;
mod plans;
mod source;
mod words;

use std::path::{Path, PathBuf};

/// The crates of the workspace, the lowest first.
const MEMBERS: [&str; 10] = [
    "analytics",
    "analytics/query",
    "predictors",
    "planner/sim",
    "planner/replay",
    "planner/plan",
    "planner/rounds",
    "planner",
    "cli",
    "tests",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
