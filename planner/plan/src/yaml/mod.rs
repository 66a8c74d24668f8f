//! YAML of others: [written](mod@write) so that it cannot be misread, [read](tracecast_replay::yaml) with the lines it stands in, and [amended](amend) where it stands, with what else is
//! written there.
//!
//! Worked example: of `spec: {quota: 8} # ours`, with the quota set to 9, `spec: {quota: 9} # ours` is left.

pub mod amend;
pub mod write;

pub use write::{document, stream};
