//! Constants that set figures of an audit: each with its value and source, for the reader and for
//! the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A constant that sets a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Constant {
    /// Name of the constant.
    pub name: String,
    /// Value in words, with its unit.
    pub value: String,
    /// Source, with its date of publication.
    pub source: String,
    /// Whether the value is only an assumption.
    pub assumed: bool,
}

impl Constant {
    /// A constant with its value and source.
    pub fn new(name: impl Into<String>, value: impl Into<String>, source: impl Into<String>, assumed: bool) -> Self {
        Self { name: name.into(), value: value.into(), source: source.into(), assumed }
    }
}
