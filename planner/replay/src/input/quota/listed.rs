//! Where a queue of a file stands among the others: which lie above it, and who was created before it. The same for KAI's queues and Volcano's.
//!
//! Queues that jobs wait in come first, then those above others; within both the order is the file's.
//!
//! O(queues²). Worked example: `all`, and `a` and `b` below it, are a, b and all, two of them leaves, and the parent of both leaves is 2.

use serde_json::Value;

use super::Place;
use crate::error::{Error, Result};

/// A queue as it is listed in a file.
#[derive(Debug, Clone)]
pub(super) struct ListedQueue {
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) parent: Option<String>,
    created: Option<String>,
}

/// Where a queue stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuePlace {
    /// Position in the file.
    pub(super) at: usize,
    /// The place of the queue above it.
    pub(super) parent: Option<u16>,
    /// How many were created before it.
    pub(super) created: u32,
}

impl ListedQueue {
    /// The queue of an object, below `parent`.
    ///
    /// # Errors
    /// If it has no name, or the time of its creation is no text.
    pub(super) fn new(name: &str, parent: Option<String>, object: &Value, place: &Place<'_>) -> Result<Self> {
        if name.is_empty() {
            return Err(place.wrong("it has no metadata.name"));
        }
        let created = place.text(object, "/metadata/creationTimestamp")?;
        Ok(Self { name: name.to_owned(), line: place.line, parent, created })
    }
}

/// Whether one of the queues lies below that of a name.
pub(super) fn is_above<'q>(mut queues: impl Iterator<Item = &'q ListedQueue>, name: &str) -> bool {
    queues.any(|queue| queue.parent.as_deref() == Some(name))
}

/// The places of queues, and how many are leaves. `field` is what a queue above is called, and `export` how all are exported.
///
/// # Errors
/// If a queue above is not in the file.
pub(super) fn places(
    file: &str,
    queues: &[&ListedQueue],
    field: &str,
    export: &str,
) -> Result<(Vec<QueuePlace>, usize)> {
    let lies_above = |at: &usize| is_above(queues.iter().copied(), &queues[*at].name);
    let (above, mut order): (Vec<usize>, Vec<usize>) = (0..queues.len()).partition(lies_above);
    let leaves = order.len();
    order.extend(above);
    let mut created: Vec<(&Option<String>, &str)> =
        queues.iter().map(|queue| (&queue.created, queue.name.as_str())).collect();
    created.sort_unstable();
    let place = |at: &usize| {
        let ListedQueue { name, line, parent, .. } = queues[*at];
        let parent = match parent {
            None => None,
            Some(parent) => match order.iter().position(|other| queues[*other].name == *parent) {
                Some(at) => u16::try_from(at).ok(),
                None => {
                    let what = format!("Queue {name}: its {field} {parent} is not in the file; {export}");
                    return Err(Error::File { file: file.to_owned(), line: *line, what });
                }
            },
        };
        let rank = created.iter().position(|(_, other)| other == name).unwrap_or(0);
        Ok(QueuePlace { at: *at, parent, created: u32::try_from(rank).unwrap_or(u32::MAX) })
    };
    Ok((order.iter().map(place).collect::<Result<_>>()?, leaves))
}
