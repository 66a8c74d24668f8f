//! What can happen to a pool, in the order in which it does at one instant.

/// An event; the order of the variants is the order within an instant. Submissions come between [`Event::Quota`] and
/// [`Event::Relaxed`]; they are already in order and need no heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The segment is done.
    End { segment: u32 },
    /// A node is back in service.
    Repair { node: u32 },
    /// A node fails.
    Fail { node: u32 },
    /// A group of nodes takes the size with this index.
    Resize { group: u32, size: u32 },
    /// A VC takes the quota with this index.
    Quota { vc: u16, quota: u32 },
    /// A job has waited for its locality timeout.
    Relaxed { job: u32 },
    /// The segment has reached its expected end without ending.
    Outlived { segment: u32 },
    /// A decision is due.
    Decide,
}
