//! Windows of time that a plan is tried on, each after the past it is fitted on.
//!
//! A plan promises something for a stretch of days to come. So it is tried on every such stretch that the data allow, back from their end, one after
//! another without overlap, each decided with what came before it and nothing else. A window needs at least as much past as it is long, or what
//! happens in it by chance could not have been seen before.
//!
//! O(windows). Worked example: 73 days in windows of 14 are four windows, from days 17, 31, 45 and 59 on; the first has 17 days of past.

use std::ops::Range;

/// A stretch of slots that is decided for, and the past that is known by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Slots before it.
    pub past: Range<usize>,
    /// Its slots.
    pub ahead: Range<usize>,
}

/// The windows of `length` slots that a series of `slots` allows, in order, each with at least `least` slots of past and as many as it is long.
pub fn rolling(slots: usize, length: usize, least: usize) -> Vec<Window> {
    let length = length.max(1);
    let mut windows: Vec<Window> = Vec::new();
    let mut end = slots;
    while let Some(from) = end.checked_sub(length).filter(|from| *from >= least.max(length)) {
        windows.push(Window { past: 0..from, ahead: from..end });
        end = from;
    }
    windows.reverse();
    windows
}

/// The past of a window cut in two, in order of time: the first two thirds to learn from, the last third to choose on.
pub fn learn_and_choose(past: &Range<usize>) -> (Range<usize>, Range<usize>) {
    let split = past.start + past.len() * 2 / 3;
    (past.start..split, split..past.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let from: Vec<usize> = rolling(73, 14, 4).iter().map(|window| window.ahead.start).collect();
        assert_eq!(from, vec![17, 31, 45, 59]);
        let first = rolling(73, 14, 4).first().cloned();
        assert_eq!(first, Some(Window { past: 0..17, ahead: 17..31 }));
        assert_eq!(learn_and_choose(&(0..60)), (0..40, 40..60));
    }

    #[test]
    fn a_window_has_as_much_past_as_it_is_long() {
        assert_eq!(rolling(31, 14, 4).len(), 1);
        assert_eq!(rolling(27, 14, 4), vec![]);
        assert_eq!(rolling(31, 14, 20), vec![]);
    }
}
