//! Events of a pool, in their order within an instant.

/// An event; the order of the variants is the order within an instant. Submissions come between [`Event::Quota`] and
/// [`Event::Relaxed`]; they are already in order and need no heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The segment is done.
    End { segment: u32 },
    /// The grace of a segment that was told to stop is over.
    Expire { segment: u32 },
    /// A node is back in service.
    Repair { node: u32 },
    /// A node fails.
    Fail { node: u32 },
    /// A group of nodes takes the size with this index.
    Resize { group: u32, size: u32 },
    /// A VC takes the quota with this index.
    Quota { vc: u16, quota: u32 },
    /// A node's boot or shutdown ends.
    Settled { node: u32 },
    /// A job has waited for its locality timeout.
    Relaxed { job: u32 },
    /// A job that was stopped for one of another QOS may start again.
    Eligible { job: u32 },
    /// The segment has reached its expected end without ending.
    Outlived { segment: u32 },
    /// A slot of power ends, and another begins.
    Slot,
    /// A node has been without a job for its timeout.
    Idle { node: u32, since_ms: i64 },
    /// A node has been asleep for the minimum.
    Rested { node: u32, since_ms: i64 },
    /// A minute begins after one in which a rate cut short what power was to do.
    Minute,
    /// A day begins after one in which a node had been woken too often to sleep again.
    Day,
    /// A decision is due.
    Decide,
}

impl Event {
    /// Whether the event changes what there is to run on.
    pub(super) fn changes_the_cluster(self) -> bool {
        matches!(self, Self::Repair { .. } | Self::Fail { .. } | Self::Resize { .. } | Self::Quota { .. })
    }

    /// Whether the event is about nodes that sleep and wake, and nothing else waits for it.
    pub(super) fn is_of_power(self) -> bool {
        matches!(
            self,
            Self::Settled { .. } | Self::Slot | Self::Idle { .. } | Self::Rested { .. } | Self::Minute | Self::Day
        )
    }
}
