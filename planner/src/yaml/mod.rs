//! YAML of others: [written](write) so that it cannot be misread, [read](tracecast_replay::yaml) with the lines it stands in, and [amended](amend) where it stands, with what else is
//! written there.
//!
//! Worked example: of `spec: {quota: 8} # ours`, with the quota set to 9, `spec: {quota: 9} # ours` is left.

pub(crate) mod amend;
pub(crate) mod write;

pub(crate) use write::{document, stream};
