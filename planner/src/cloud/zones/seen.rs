//! What is seen of a zone that may be chosen among others: its costs on past windows, what is expected of it, and whether its spot has been away.
//!
//! Worked example: of a zone with four windows of choice and two later ones there are six costs, and three moments: the beginnings of the two, and the end of the data.

/// Later windows without overlap below which nothing is said with more than low confidence.
pub(in crate::cloud) const FEW: usize = 3;

/// One zone, as it is to be chosen among others.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cloud) struct ZoneSeen {
    /// Name of the trace.
    pub(in crate::cloud) trace: String,
    /// Cost of the policy on each window, those of choice first, as a share of all on-demand.
    pub(in crate::cloud) shares: Vec<f64>,
    /// Expected cost by the programme at the beginning of each of the later windows, and at the end
    /// of the data.
    pub(in crate::cloud) expected: Vec<Option<f64>>,
    /// Whether spot was not there for a day before each of these.
    pub(in crate::cloud) gone: Vec<bool>,
    /// Dollars an hour of on-demand, where known.
    pub(in crate::cloud) on_demand: Option<f64>,
}

impl ZoneSeen {
    /// Whether spot was not there for a day before one of these moments.
    pub(in crate::cloud) fn is_gone(&self, at: usize) -> bool {
        self.gone.get(at).copied().unwrap_or(false)
    }
}
