//! Constants that set figures of an audit: each with its value and where it is from, for the reader and for the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A constant that sets a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Constant {
    /// Which.
    pub name: String,
    /// Its value in words, with its unit.
    pub value: String,
    /// Where it is from, with the date of what was published.
    pub source: String,
    /// Whether it is no more than an assumption.
    pub assumed: bool,
}

impl Constant {
    /// One of them.
    pub fn new(name: impl Into<String>, value: impl Into<String>, source: impl Into<String>, assumed: bool) -> Self {
        Self { name: name.into(), value: value.into(), source: source.into(), assumed }
    }
}
