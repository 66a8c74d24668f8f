//! Windows of time that a plan is tried on, each after the past it is fitted on.
//!
//! A plan promises something for a stretch of days to come. So it is tried on every such stretch that the data allow, back from their end, one after
//! another without overlap, each decided with what came before it and nothing else. A window needs at least as much past as it is long, or what
//! happens in it by chance could not have been seen before.
//!
//! A job that may begin at any moment is tried on windows that begin at moments spread evenly over the data ([`spread`]): they overlap, and the first
//! has no past at all.
//!
//! O(windows). Worked example: 73 days in windows of 14 are four windows, from days 17, 31, 45 and 59 on; the first has 17 days of past. Three windows
//! of 14 days spread over 74 begin on the days 0, 30 and 60.

use std::ops::Range;

/// Stretches on which rules were chosen and priced, and what is drawn for intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretches {
    /// Start of the stretch that the rules were chosen on.
    pub chosen_from: String,
    /// End of that stretch, and start of the windows that the rules are priced on.
    pub split: String,
    /// Stretches that the rules were chosen on, in words, such as "2 weeks".
    pub chosen_on: String,
    /// Beginnings and ends of the later windows, in order of time.
    pub windows: Vec<(String, String)>,
    /// Period that amounts of all windows together are given for, such as "a month".
    pub per: &'static str,
    /// How many of these the windows span together.
    pub spans: f64,
    /// The interval in words: how many draws, and of what.
    pub interval: String,
    /// Whether the windows are long enough for a sure test.
    pub is_long: bool,
}

/// A stretch of slots that is decided for, and the past that is known by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Slots before the window.
    pub past: Range<usize>,
    /// Slots of the window.
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

/// `count` windows of `length` slots that begin at moments spread evenly over `within`: the first at its beginning, the last so that it ends with it.
/// Fewer where there are fewer beginnings, none where one does not fit.
pub fn spread(within: &Range<usize>, length: usize, count: usize) -> Vec<Window> {
    let Some(room) = within.len().checked_sub(length.max(1)) else { return Vec::new() };
    let count = count.min(room + 1);
    (0..count)
        .map(|number| within.start + if count > 1 { room * number / (count - 1) } else { 0 })
        .map(|from| Window { past: 0..from, ahead: from..from + length })
        .collect()
}

/// The past of a window cut in two, in order of time: the first two thirds to learn from, the last third to choose on.
pub fn learn_and_choose(past: &Range<usize>) -> (Range<usize>, Range<usize>) {
    let split = past.start + past.len() * 2 / 3;
    (past.start..split, split..past.end)
}

/// Moment that splits earlier from later jobs, milliseconds from the origin: the requested one,
/// else when two thirds of them are submitted.
pub fn split_ms(submit_ms: &[i64], origin_ms: i64, asked_ms: Option<i64>) -> i64 {
    let two_thirds = submit_ms.get(submit_ms.len() * 2 / 3).copied().unwrap_or(0);
    asked_ms.map_or(two_thirds, |moment| moment - origin_ms)
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
        let begun: Vec<usize> = spread(&(0..74), 14, 3).iter().map(|window| window.ahead.start).collect();
        assert_eq!(begun, vec![0, 30, 60]);
        assert_eq!(
            spread(&(5..8), 2, 9).iter().map(|window| window.ahead.clone()).collect::<Vec<_>>(),
            vec![5..7, 6..8]
        );
        assert!(spread(&(5..8), 4, 9).is_empty());
    }

    #[test]
    fn a_window_has_as_much_past_as_it_is_long() {
        assert_eq!(rolling(31, 14, 4).len(), 1);
        assert_eq!(rolling(27, 14, 4), vec![]);
        assert_eq!(rolling(31, 14, 20), vec![]);
    }
}
