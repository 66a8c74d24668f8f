//! Compares the JSON form of a description with expected values, and knows which of its values nobody has checked.
//!
//! A path is written as `size.by_gpus[0].jobs`. Numbers, flags, nulls and empty lists must each be checked once; texts
//! need not. [`Checker::finish`] fails with every mismatch and every value left over, so a new number in a description
//! fails the tests until a check of it is written.

use std::collections::BTreeSet;

use serde_json::Value;

/// Relative tolerance of sums of floats taken in another order.
pub const SUM: f64 = 1e-9;

/// A description as JSON, with what has been checked of it.
pub struct Checker {
    value: Value,
    checked: BTreeSet<String>,
    mismatches: Vec<String>,
}

impl Checker {
    pub fn new(value: Value) -> Self {
        Self { value, checked: BTreeSet::new(), mismatches: Vec::new() }
    }

    /// The value at `path`; a path that leads nowhere is a mismatch and reads as null.
    pub fn value(&mut self, path: &str) -> Value {
        match self.value.pointer(&pointer(path)) {
            Some(value) => value.clone(),
            None => {
                self.mismatches.push(format!("{path}: absent"));
                Value::Null
            }
        }
    }

    pub fn mismatch(&mut self, text: String) {
        self.mismatches.push(text);
    }

    /// The number at `path`, marked as checked: for values that are checked by what follows from them.
    pub fn read(&mut self, path: &str) -> f64 {
        self.checked.insert(path.to_owned());
        let found = self.value(path);
        found.as_f64().unwrap_or_else(|| {
            self.mismatches.push(format!("{path}: {found} is no number"));
            f64::NAN
        })
    }

    /// The number at `path` is `expected`, to a relative tolerance.
    pub fn number(&mut self, path: &str, expected: f64, tolerance: f64) {
        let found = self.read(path);
        let near = (found - expected).abs() <= tolerance * expected.abs() + 1e-12;
        if !near {
            self.mismatches.push(format!("{path}: {found} instead of {expected}"));
        }
    }

    /// The whole number at `path` is `expected`.
    pub fn count(&mut self, path: &str, expected: u64) {
        self.checked.insert(path.to_owned());
        let found = self.value(path);
        if found.as_u64() != Some(expected) {
            self.mismatches.push(format!("{path}: {found} instead of {expected}"));
        }
    }

    /// Checks a number as [`Checker::number`] does, or null for `None`.
    pub fn option(&mut self, path: &str, expected: Option<f64>, tolerance: f64) {
        match expected {
            Some(expected) => self.number(path, expected, tolerance),
            None => self.null(path),
        }
    }

    pub fn null(&mut self, path: &str) {
        self.checked.insert(path.to_owned());
        let found = self.value(path);
        if !found.is_null() {
            self.mismatches.push(format!("{path}: {found} instead of null"));
        }
    }

    pub fn flag(&mut self, path: &str, expected: bool) {
        self.checked.insert(path.to_owned());
        let found = self.value(path);
        if found.as_bool() != Some(expected) {
            self.mismatches.push(format!("{path}: {found} instead of {expected}"));
        }
    }

    pub fn text(&mut self, path: &str, expected: &str) {
        let found = self.value(path);
        if found.as_str() != Some(expected) {
            self.mismatches.push(format!("{path}: {found} instead of {expected:?}"));
        }
    }

    /// The list at `path` has `expected` entries.
    pub fn list(&mut self, path: &str, expected: usize) {
        let found = self.length(path);
        if found != expected {
            self.mismatches.push(format!("{path}: {found} entries instead of {expected}"));
        }
    }

    /// Entries of the list at `path`.
    pub fn length(&mut self, path: &str) -> usize {
        self.checked.insert(path.to_owned());
        let found = self.value(path);
        match found.as_array() {
            Some(entries) => entries.len(),
            None => {
                self.mismatches.push(format!("{path}: {found} is no list"));
                0
            }
        }
    }

    /// Checks that the topic is null, and that one entry of `missing` says why. The topics' entries
    /// stand in the catalogue's order.
    pub fn missing(&mut self, topics: &[&str]) {
        self.list("missing", topics.len());
        for (ix, topic) in topics.iter().enumerate() {
            self.null(topic);
            self.text(&format!("missing[{ix}].topic"), topic);
            for field in ["code", "reason"] {
                let path = format!("missing[{ix}].{field}");
                if self.value(&path).as_str().is_none_or(str::is_empty) {
                    self.mismatches.push(format!("{path} says nothing"));
                }
            }
        }
    }

    /// Changes every number below a key that `chosen` chooses a little, so that each of its checks must fail.
    pub fn spoil(&mut self, chosen: fn(&str) -> bool) {
        fn change(value: &mut Value, chosen: fn(&str) -> bool, now: bool) {
            match value {
                Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| change(value, chosen, chosen(key))),
                Value::Array(items) => items.iter_mut().for_each(|item| change(item, chosen, now)),
                Value::Number(number) if now => {
                    let whole = number.as_u64().map(|whole| Value::from(whole + 1));
                    *value = whole.unwrap_or_else(|| Value::from(number.as_f64().unwrap() * 1.001 + 1e-6));
                }
                _ => {}
            }
        }
        change(&mut self.value, chosen, false);
    }

    /// The numbers below a key that `chosen` chooses of which no check failed.
    pub fn unharmed(&self, chosen: fn(&str) -> bool) -> Vec<String> {
        let mut values = Vec::new();
        leaves("", &self.value, &mut values);
        let failed: BTreeSet<&str> =
            self.mismatches.iter().map(|text| text.split(": ").next().unwrap_or_default()).collect();
        let counts = |path: &String| {
            let key = path.rsplit('.').next().unwrap_or_default().split('[').next().unwrap_or_default();
            chosen(key) && self.value.pointer(&pointer(path)).is_some_and(Value::is_number)
        };
        // A parameter of a fit is judged by the likelihood that follows from it.
        let judged = |path: &String| match path.split_once(".params[") {
            Some((fit, _)) => failed.contains(format!("{fit}.log_likelihood").as_str()),
            None => failed.contains(path.as_str()),
        };
        values.into_iter().filter(|path| counts(path) && !judged(path)).collect()
    }

    /// Fails with what did not match and what was not checked.
    pub fn finish(self, what: &str) {
        self.finish_below(what, &[""]);
    }

    /// Finishes as [`Checker::finish`] does, for the topics `below` alone.
    pub fn finish_below(self, what: &str, below: &[&str]) {
        let mut values = Vec::new();
        leaves("", &self.value, &mut values);
        values.retain(|path| below.iter().any(|topic| path.starts_with(topic)));
        let unchecked: Vec<&String> = values.iter().filter(|path| !self.checked.contains(*path)).collect();
        let shown = |lines: Vec<String>| {
            let more = lines.len().saturating_sub(60);
            let mut text: String = lines.into_iter().take(60).map(|line| format!("\n  {line}")).collect();
            if more > 0 {
                text.push_str(&format!("\n  and {more} more"));
            }
            text
        };
        let wrong = self.mismatches.len();
        assert!(
            self.mismatches.is_empty() && unchecked.is_empty(),
            "{what}: {wrong} mismatches{}\n{} of {} values not checked{}",
            shown(self.mismatches),
            unchecked.len(),
            values.len(),
            shown(unchecked.into_iter().cloned().collect())
        );
        println!("{what}: {} values checked", values.len());
    }
}

/// The path as a JSON pointer.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    for part in path.split('.') {
        let (name, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        pointer.push('/');
        pointer.push_str(name);
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            pointer.push('/');
            pointer.push_str(index);
        }
    }
    pointer
}

/// Paths of all numbers, flags, nulls and empty lists.
fn leaves(path: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(&path, value, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (ix, item) in items.iter().enumerate() {
                leaves(&format!("{path}[{ix}]"), item, out);
            }
        }
        Value::String(_) => {}
        _ => out.push(path.to_owned()),
    }
}

#[test]
fn every_number_flag_null_and_empty_list_must_be_checked() {
    let value =
        serde_json::json!({ "a": [{ "n": 1, "s": "x" }, { "n": null }], "b": { "f": true, "e": [] }, "p": [[1, 2.5]] });
    let mut out = Vec::new();
    leaves("", &value, &mut out);
    assert_eq!(out, ["a[0].n", "a[1].n", "b.e", "b.f", "p[0][0]", "p[0][1]"]);
    let all = |skip: &str| {
        let mut checker = Checker::new(value.clone());
        checker.number("a[0].n", 1.0, 0.0);
        checker.null("a[1].n");
        checker.list("b.e", 0);
        checker.flag("b.f", true);
        checker.count("p[0][0]", 1);
        checker.number("p[0][1]", 2.5, 0.0);
        checker.checked.remove(skip);
        std::panic::catch_unwind(|| checker.finish("sample")).is_ok()
    };
    assert!(all(""));
    assert!(!all("p[0][1]"), "a value nobody checked fails");
    let mut wrong = Checker::new(value.clone());
    wrong.number("a[0].n", 1.001, SUM);
    assert_eq!(wrong.mismatches.len(), 1);
}
