//! Recently learnt events, so that one which a client posts again, as its answer was lost, is
//! learnt once: also when its job has ended and is forgotten, and after a restart. Not responsible
//! for what an event means, nor for events that contradict each other: that is the model's part.
//!
//! An event is known by 128 bits of its own JSON (FNV-1a), the same however it was written. The last [`REMEMBERED`] that were learnt are
//! remembered, in some 14 MB; a retry that comes after as many others is told apart by the model alone. Refused events are not remembered, as
//! what was missing may have come since. O(bytes) an event.
//!
//! Worked example: an end is posted, learnt, and posted again: the second is refused as learnt before. A start that was refused, as its job
//! was unknown, is learnt when it comes again after the submission.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Write};

use crate::job::Event;

/// Events remembered.
pub(super) const REMEMBERED: usize = 1 << 18;

/// Message for the client of an event that was learnt before.
pub(super) const LEARNT_BEFORE: &str = "this event was learnt before";

/// 128 bits that stand for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(u128);

/// Takes in bytes by FNV-1a.
struct Sum(u128);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Identity {
    pub(super) fn new(event: &Event) -> Self {
        let mut sum = Sum(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        // Texts and numbers always have a JSON form; the sum refuses no byte.
        let _ = serde_json::to_writer(&mut sum, event);
        Self(sum.0)
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

/// The events learnt last.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    /// The oldest first.
    order: VecDeque<Identity>,
    known: HashSet<Identity>,
}

impl Recent {
    /// Takes up what a snapshot holds, the oldest first.
    pub(super) fn restore(identities: &[Identity]) -> Self {
        let mut recent = Self::default();
        identities.iter().for_each(|identity| recent.remember(*identity));
        recent
    }

    pub(super) fn knows(&self, identity: Identity) -> bool {
        self.known.contains(&identity)
    }

    pub(super) fn remember(&mut self, identity: Identity) {
        if !self.known.insert(identity) {
            return;
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(identity);
    }

    /// Identities for a snapshot: the oldest first.
    pub(super) fn identities(&self) -> Vec<Identity> {
        self.order.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(job: usize) -> Event {
        Event::Ended { job_id: job.to_string(), time_ms: 1, run_s: None, failed: None }
    }

    #[test]
    fn the_last_events_are_known_and_no_more_than_the_bound() {
        // The offset basis of the standard (draft-eastlake-fnv) is the hash of nothing; "a" is this.
        let mut sum = Sum(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert!(sum.write_all(b"a").is_ok());
        assert_eq!(sum.0, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        let mut recent = Recent::default();
        for job in 0..REMEMBERED + 2 {
            recent.remember(Identity::new(&ended(job)));
            recent.remember(Identity::new(&ended(job)));
        }
        assert_eq!((recent.order.len(), recent.known.len()), (REMEMBERED, REMEMBERED));
        let knows = |job| recent.knows(Identity::new(&ended(job)));
        assert_eq!([0, 1, 2, REMEMBERED + 1].map(knows), [false, false, true, true]);
        let again = Recent::restore(&recent.identities());
        assert_eq!(again.order, recent.order);
    }
}
