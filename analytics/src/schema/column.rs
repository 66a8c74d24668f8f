//! Columns: numbers with unknowns, labels (few distinct texts) and texts (many distinct).

use std::collections::HashMap;

/// A column of numbers, each known or unknown. Integers and times are `Numbers<i64>`, amounts `Numbers<f64>`.
///
/// Nothing is allocated until the first known value, so an unused column is free.
#[derive(Debug, Clone, Default)]
pub struct Numbers<T> {
    len: usize,
    values: Vec<T>,
    known: Vec<u64>,
}

impl<T: Copy + Default> Numbers<T> {
    /// Appends a value. Amortised O(1).
    pub fn push(&mut self, value: Option<T>) {
        let ix = self.len;
        self.len += 1;
        if let Some(value) = value {
            self.values.resize(ix, T::default());
            self.values.push(value);
            self.known.resize(ix / 64 + 1, 0);
            if let Some(word) = self.known.get_mut(ix / 64) {
                *word |= 1 << (ix % 64);
            }
        }
    }

    /// The value of row `ix`, `None` if unknown or out of range.
    pub fn get(&self, ix: usize) -> Option<T> {
        let word = self.known.get(ix / 64)?;
        if word >> (ix % 64) & 1 == 1 { self.values.get(ix).copied() } else { None }
    }

    /// Sets the value of row `ix`; out of range is ignored.
    pub fn set(&mut self, ix: usize, value: Option<T>) {
        if ix >= self.len {
            return;
        }
        match value {
            Some(value) => {
                if self.values.len() <= ix {
                    self.values.resize(ix + 1, T::default());
                }
                if self.known.len() <= ix / 64 {
                    self.known.resize(ix / 64 + 1, 0);
                }
                if let (Some(slot), Some(word)) = (self.values.get_mut(ix), self.known.get_mut(ix / 64)) {
                    *slot = value;
                    *word |= 1 << (ix % 64);
                }
            }
            None => {
                if let Some(word) = self.known.get_mut(ix / 64) {
                    *word &= !(1 << (ix % 64));
                }
            }
        }
    }

    /// Sets the values for which `drop` holds to unknown; how many there were.
    pub(crate) fn forget(&mut self, drop: impl Fn(T) -> bool) -> usize {
        let mut forgotten = 0;
        for ix in 0..self.values.len() {
            if self.get(ix).is_some_and(&drop) {
                self.set(ix, None);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Rows, known or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no row has a known value.
    pub fn is_all_unknown(&self) -> bool {
        self.known.iter().all(|word| *word == 0)
    }

    /// Rows with a known value.
    pub fn known_count(&self) -> usize {
        self.known.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<T>> + '_ {
        (0..self.len).map(|ix| self.get(ix))
    }

    /// Returns the rows in the order that `order` names.
    pub fn permuted(&self, order: &[u32]) -> Self {
        if self.is_all_unknown() {
            return Self { len: order.len(), values: Vec::new(), known: Vec::new() };
        }
        let mut out = Self::default();
        for ix in order {
            out.push(self.get(*ix as usize));
        }
        out
    }
}

/// A column of few distinct texts (users, VCs, states), held as codes into a list.
#[derive(Debug, Clone, Default)]
pub struct Label {
    len: usize,
    codes: Vec<u32>,
    values: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
}

/// The code of an unknown label.
const UNKNOWN: u32 = u32::MAX;

impl Label {
    /// Appends a value. Amortised O(length of the text).
    pub fn push(&mut self, value: Option<&str>) {
        let ix = self.len;
        self.len += 1;
        if let Some(value) = value {
            let code = self.code_for(value);
            self.codes.resize(ix, UNKNOWN);
            self.codes.push(code);
        }
    }

    /// Sets the value of row `ix`; out of range is ignored.
    pub fn set(&mut self, ix: usize, value: Option<&str>) {
        if ix >= self.len || (value.is_none() && self.codes.len() <= ix) {
            return;
        }
        let code = value.map_or(UNKNOWN, |value| self.code_for(value));
        if self.codes.len() <= ix {
            self.codes.resize(ix + 1, UNKNOWN);
        }
        if let Some(slot) = self.codes.get_mut(ix) {
            *slot = code;
        }
    }

    fn code_for(&mut self, value: &str) -> u32 {
        if let Some(code) = self.index.get(value) {
            return *code;
        }
        // More than 4 billion distinct texts do not fit in memory long before this saturates.
        let code = u32::try_from(self.values.len()).unwrap_or(UNKNOWN - 1);
        self.values.push(value.into());
        self.index.insert(value.into(), code);
        code
    }

    /// The text of row `ix`, `None` if unknown or out of range.
    pub fn get(&self, ix: usize) -> Option<&str> {
        self.code(ix).and_then(|code| self.name(code))
    }

    /// The code of row `ix`, `None` if unknown or out of range. Codes count from 0 in order of first appearance.
    pub fn code(&self, ix: usize) -> Option<u32> {
        self.codes.get(ix).copied().filter(|code| *code != UNKNOWN)
    }

    /// The text a code stands for.
    pub fn name(&self, code: u32) -> Option<&str> {
        self.values.get(code as usize).map(AsRef::as_ref)
    }

    /// Number of distinct texts (some may be unused after [`Label::set`]).
    pub fn distinct(&self) -> usize {
        self.values.len()
    }

    /// Rows, known or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no row has a known value.
    pub fn is_all_unknown(&self) -> bool {
        self.codes.iter().all(|code| *code == UNKNOWN)
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> + '_ {
        (0..self.len).map(|ix| self.get(ix))
    }

    /// Returns the rows in the order that `order` names.
    pub fn permuted(&self, order: &[u32]) -> Self {
        let mut out = Self::default();
        for ix in order {
            out.push(self.get(*ix as usize));
        }
        out
    }
}

/// A column of many distinct texts (job keys, node lists), held end to end in one buffer.
#[derive(Debug, Clone, Default)]
pub struct Text {
    len: usize,
    /// End of each text in `bytes`; rows past the end of this list are unknown.
    ends: Vec<usize>,
    known: Numbers<i64>,
    bytes: String,
}

impl Text {
    /// Appends a value. Amortised O(length of the text).
    pub fn push(&mut self, value: Option<&str>) {
        self.len += 1;
        self.known.push(value.map(|_| 0));
        if let Some(value) = value {
            self.ends.resize(self.len - 1, self.bytes.len());
            self.bytes.push_str(value);
            self.ends.push(self.bytes.len());
        }
    }

    /// The text of row `ix`, `None` if unknown or out of range.
    pub fn get(&self, ix: usize) -> Option<&str> {
        self.known.get(ix)?;
        let end = *self.ends.get(ix)?;
        let start = if ix == 0 { 0 } else { *self.ends.get(ix - 1)? };
        self.bytes.get(start..end)
    }

    /// Rows, known or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no row has a known value.
    pub fn is_all_unknown(&self) -> bool {
        self.known.is_all_unknown()
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> + '_ {
        (0..self.len).map(|ix| self.get(ix))
    }

    /// Returns the rows in the order that `order` names.
    pub fn permuted(&self, order: &[u32]) -> Self {
        let mut out = Self::default();
        for ix in order {
            out.push(self.get(*ix as usize));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknowns_are_not_zero_and_cost_nothing_until_a_value_comes() {
        let mut numbers = Numbers::<i64>::default();
        for _ in 0..100 {
            numbers.push(None);
        }
        assert!(numbers.is_all_unknown() && numbers.values.capacity() == 0);
        numbers.push(Some(0));
        numbers.push(None);
        assert_eq!((numbers.len(), numbers.get(99), numbers.get(100), numbers.get(101)), (102, None, Some(0), None));
        assert_eq!(numbers.known_count(), 1);
        numbers.set(3, Some(7));
        numbers.set(100, None);
        assert_eq!((numbers.get(3), numbers.get(100), numbers.known_count()), (Some(7), None, 1));
    }

    #[test]
    fn labels_and_texts_keep_unknown_apart_from_empty() {
        let mut label = Label::default();
        let mut text = Text::default();
        for value in [None, Some("a"), Some(""), None, Some("a")] {
            label.push(value);
            text.push(value);
        }
        assert_eq!(label.iter().collect::<Vec<_>>(), [None, Some("a"), Some(""), None, Some("a")]);
        assert_eq!(text.iter().collect::<Vec<_>>(), [None, Some("a"), Some(""), None, Some("a")]);
        assert_eq!(label.distinct(), 2);
        assert_eq!(text.permuted(&[4, 0]).iter().collect::<Vec<_>>(), [Some("a"), None]);
        assert_eq!(label.permuted(&[2, 3]).iter().collect::<Vec<_>>(), [Some(""), None]);
    }
}
