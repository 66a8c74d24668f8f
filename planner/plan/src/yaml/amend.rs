//! One value of a file set, put in or taken out where it stands; comments, order, quotes and what else is in the file stay as they are.
//!
//! A value is found by its path in an object ([`Step`]). A scalar is written over in its line; a key that is missing is put behind a sibling of one line, with the
//! indentation of its siblings (in `{…}` before the first); a key that is to go goes with its line. The new text is then read again: it must hold what the old one held
//! with this one value changed, and nothing else, or the file stays as it is and the reason is told. So a way of writing that is not understood is never spoiled.
//!
//! O(bytes) a change. Worked example: in a queue with `quota: 8 # ours` and no limit, a quota of 9 and a limit of 12 give `quota: 9 # ours` and
//! below it `limit: 12`.

use serde_json::{Map, Value};
use tracecast_analytics::report::quote::yaml;
use yaml_rust2::scanner::TScalarStyle;

use crate::error::Result;
use tracecast_replay::yaml::{Content, Node, nodes, objects, values};

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The value under a key.
    Key(String),
    /// The item of a list whose `key` is `is`, or a list in which `is` lies.
    Item {
        /// The key.
        key: &'static str,
        /// Value of the key.
        is: String,
    },
}

/// A file that is being amended.
#[derive(Debug, Clone)]
pub struct Amended {
    file: String,
    text: String,
    /// Objects of the file as they are now.
    objects: Vec<Value>,
}

impl Amended {
    /// The file as it is.
    ///
    /// # Errors
    /// Names the line where it is no YAML.
    pub fn new(file: &str, text: &str) -> Result<Self> {
        Ok(Self { file: file.to_owned(), text: text.to_owned(), objects: values(file, text)? })
    }

    /// Returns the objects as they are now; a change leaves their order.
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// The text as it is now.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sets the value at a path of an object, or takes it out; what was there before, where that is something else.
    ///
    /// # Errors
    /// Why the file is left as it is.
    pub fn set(
        &mut self,
        object: usize,
        path: &[Step],
        to: Option<&Value>,
    ) -> std::result::Result<Option<Changed>, String> {
        let mut wanted = self.objects.clone();
        let at = wanted.get_mut(object).ok_or("there is no such object")?;
        let Some(before) = put(at, path, to)? else { return Ok(None) };
        let nodes = nodes(&self.file, &self.text).map_err(|error| error.to_string())?;
        let node = objects(&nodes).into_iter().nth(object).ok_or("there is no such object")?;
        let text = Text::new(&self.text).amended(node, path, to)?;
        if values(&self.file, &text).ok().as_ref() != Some(&wanted) {
            return Err("it is written in a way that is not changed safely here".to_owned());
        }
        (self.text, self.objects) = (text, wanted);
        Ok(Some(Changed { before }))
    }
}

/// Result of a change.
#[derive(Debug, PartialEq)]
pub struct Changed {
    /// Value before the change.
    pub before: Option<Value>,
}

/// Whether an item of a list is the one that is meant.
fn is_meant(item: &Value, key: &str, is: &str) -> bool {
    match item.get(key) {
        Some(Value::String(text)) => text == is,
        Some(Value::Array(list)) => list.iter().any(|one| one.as_str() == Some(is)),
        _ => false,
    }
}

/// Sets a value in `at`; what was there before, or `None` if nothing changes. Numbers that stand as texts stay texts.
fn put(at: &mut Value, path: &[Step], to: Option<&Value>) -> std::result::Result<Option<Option<Value>>, String> {
    match path {
        [] => Err("the path is empty".to_owned()),
        [Step::Key(key), rest @ ..] => {
            let map = at.as_object_mut().ok_or_else(|| format!("{key} would stand in what is no mapping"))?;
            match (map.get_mut(key), rest) {
                (None, rest) => {
                    let Some(to) = to else { return Ok(None) };
                    map.insert(key.clone(), nested(rest, to));
                    Ok(Some(None))
                }
                (Some(old), []) => {
                    let before = Some(old.clone());
                    let Some(to) = to else {
                        map.remove(key);
                        return Ok(Some(before));
                    };
                    if is_same(old, to) {
                        return Ok(None);
                    }
                    *old = if old.is_string() { Value::String(plain(to)) } else { to.clone() };
                    Ok(Some(before))
                }
                (Some(inner), rest) => put(inner, rest, to),
            }
        }
        [Step::Item { key, is }, rest @ ..] => {
            let items = at.as_array_mut().ok_or_else(|| format!("what should be a list of {key} is none"))?;
            match items.iter_mut().find(|item| is_meant(item, key, is)) {
                Some(item) => put(item, rest, to),
                None => Err(format!("there is none with the {key} {is}")),
            }
        }
    }
}

/// A value below the steps that lead to it.
fn nested(path: &[Step], to: &Value) -> Value {
    path.iter().rev().fold(to.clone(), |inner, step| match step {
        Step::Key(key) => Value::Object(Map::from_iter([(key.clone(), inner)])),
        Step::Item { key, is } => {
            let mut item = Map::from_iter([((*key).to_owned(), Value::from(is.as_str()))]);
            item.extend(inner.as_object().cloned().unwrap_or_default());
            Value::Array(vec![Value::Object(item)])
        }
    })
}

/// Whether two values mean the same: `8`, `8.0` and `"8"` do.
fn is_same(old: &Value, new: &Value) -> bool {
    let number = |of: &Value| of.as_f64().or_else(|| of.as_str()?.trim().parse::<f64>().ok());
    old == new || matches!((number(old), number(new)), (Some(old), Some(new)) if old == new)
}

/// A scalar as text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text in lines, each with its end.
struct Text<'a>(Vec<&'a str>);

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.split_inclusive('\n').collect())
    }

    /// The text with one value changed, as far as that can be done line by line.
    fn amended(&self, at: &Node, path: &[Step], to: Option<&Value>) -> std::result::Result<String, String> {
        match (path, &at.content) {
            ([Step::Key(key), rest @ ..], Content::Map(pairs)) => {
                let found = pairs.iter().find(|(name, _)| name.text() == Some(key));
                match (found, rest, to) {
                    (None, rest, Some(to)) => self.inserted(at, pairs, key, &nested(rest, to)),
                    (Some((_, value)), [], Some(to)) => self.replaced(value, to),
                    (Some((name, value)), [], None) => self.removed(at, pairs.len(), name, value),
                    (Some((_, value)), rest, to) => self.amended(value, rest, to),
                    (None, _, None) => Err("there is nothing to take out".to_owned()),
                }
            }
            ([Step::Item { key, is }, rest @ ..], Content::List(items)) => {
                let item = items.iter().find(|item| is_meant(&item.value(), key, is));
                self.amended(item.ok_or_else(|| format!("there is none with the {key} {is}"))?, rest, to)
            }
            _ => Err("it is not built as expected".to_owned()),
        }
    }

    /// Returns the rest of its line from `node` on, and the position of that in bytes.
    fn from(&self, node: &Node) -> Option<(&'a str, usize)> {
        let line = self.0.get(node.line.checked_sub(1)?)?;
        let at = line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(node.col)?;
        Some((line.get(at..)?, at))
    }

    /// Whether nothing but blanks stands before a node in its line.
    fn begins(&self, node: &Node) -> bool {
        let lead = self.from(node).and_then(|(_, at)| self.0.get(node.line - 1)?.get(..at));
        lead.is_some_and(|lead| lead.chars().all(|letter| letter == ' '))
    }

    /// Bytes that a scalar takes in its line, if it lies in one.
    fn extent(&self, node: &Node) -> Option<usize> {
        let Content::Scalar(text, style) = &node.content else { return None };
        let (rest, _) = self.from(node)?;
        match style {
            TScalarStyle::Plain => (!text.is_empty() && rest.starts_with(text.as_str())).then_some(text.len()),
            TScalarStyle::DoubleQuoted => {
                let mut escaped = true;
                let end = rest.char_indices().find(|(_, letter)| {
                    let ends = *letter == '"' && !escaped;
                    escaped = !std::mem::take(&mut escaped) && *letter == '\\';
                    ends
                });
                end.map(|(at, _)| at + 1)
            }
            TScalarStyle::SingleQuoted => {
                let body = rest.strip_prefix('\'')?;
                let mut from = 0;
                loop {
                    let at = from + body.get(from..)?.find('\'')?;
                    if !body.get(at + 1..)?.starts_with('\'') {
                        return Some(at + 2);
                    }
                    from = at + 2;
                }
            }
            TScalarStyle::Literal | TScalarStyle::Folded => None,
        }
    }

    /// Returns all lines, one of them changed by `edit`.
    fn with(&self, line: usize, edit: impl FnOnce(&str) -> String) -> std::result::Result<String, String> {
        let place = line.checked_sub(1).filter(|place| *place < self.0.len()).ok_or("a line is missing")?;
        let (before, from) = self.0.split_at(place);
        let [one, after @ ..] = from else { return Err("a line is missing".to_owned()) };
        Ok(before.concat() + &edit(one) + &after.concat())
    }

    fn replaced(&self, value: &Node, to: &Value) -> std::result::Result<String, String> {
        let (Some(length), Some((_, at)), Content::Scalar(_, style)) =
            (self.extent(value), self.from(value), &value.content)
        else {
            return Err("its value is empty, or takes more than a line".to_owned());
        };
        let new = match style {
            // JSON has no texts without quotes, so a text that has none stands in YAML.
            TScalarStyle::Plain if value.value().is_string() => inline(to),
            TScalarStyle::Plain => to.to_string(),
            _ => Value::String(plain(to)).to_string(),
        };
        self.with(value.line, |line| {
            let (before, rest) = line.split_at(at);
            format!("{before}{new}{}", rest.get(length..).unwrap_or_default())
        })
    }

    fn removed(&self, map: &Node, siblings: usize, name: &Node, value: &Node) -> std::result::Result<String, String> {
        let in_braces = self.from(map).is_none_or(|(rest, _)| rest.starts_with('{'));
        let last = self.last_line(name, value).filter(|_| siblings > 1 && !in_braces && self.begins(name));
        let last = last.ok_or("it shares its line with others, or takes several")?;
        let lines = self.0.iter().enumerate().filter(|(at, _)| !(name.line..=last).contains(&(at + 1)));
        Ok(lines.map(|(_, line)| *line).collect())
    }

    /// The last line of a key with a value that is a scalar in its line, or a mapping of such in the lines below it.
    fn last_line(&self, name: &Node, value: &Node) -> Option<usize> {
        match &value.content {
            Content::Map(pairs) if value.line == name.line + 1 => {
                let below = |line: usize, (name, value): &(Node, Node)| {
                    (name.line == line + 1 && self.begins(name)).then(|| self.last_line(name, value))?
                };
                pairs.iter().try_fold(name.line, below)
            }
            _ => (value.line == name.line && self.extent(value).is_some()).then_some(name.line),
        }
    }

    fn inserted(
        &self,
        map: &Node,
        pairs: &[(Node, Node)],
        key: &str,
        value: &Value,
    ) -> std::result::Result<String, String> {
        let (rest, at) = self.from(map).ok_or("a line is missing")?;
        if rest.starts_with('{') {
            let comma = if pairs.is_empty() { "" } else { ", " };
            return self.with(map.line, |line| {
                let (before, rest) = line.split_at(at + 1);
                format!("{before}{}: {value}{comma}{rest}", Value::from(key))
            });
        }
        let Some((first, _)) = pairs.first() else { return Err("it is not built as expected".to_owned()) };
        let ending = if self.0.iter().any(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
        let mut lines = String::new();
        block(key, value, first.col, ending, &mut lines);
        let one_line = |(name, value): &&(Node, Node)| name.line == value.line && self.extent(value).is_some();
        if let Some((name, _)) = pairs.iter().rev().find(one_line) {
            return self.with(name.line, |line| {
                if line.ends_with('\n') {
                    format!("{line}{lines}")
                } else {
                    format!("{line}{ending}{}", lines.trim_end())
                }
            });
        }
        // All siblings take several lines: before the first that begins a line of its own.
        let below = pairs.iter().map(|(name, _)| name).find(|name| self.begins(name));
        self.with(below.ok_or("it is not built as expected")?.line, |line| format!("{lines}{line}"))
    }
}

/// A key and its value in block style, `indent` blanks in.
fn block(key: &str, value: &Value, indent: usize, ending: &str, out: &mut String) {
    let blanks = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push_str(&format!("{blanks}{}:{ending}", word(key)));
            for (key, value) in map {
                block(key, value, indent + 2, ending, out);
            }
        }
        _ => out.push_str(&format!("{blanks}{}: {}{ending}", word(key), inline(value))),
    }
}

/// A value in one line.
fn inline(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), word)
}

/// A text without quotes, where nothing can take it for something else.
fn word(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    let taken = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_plain && !taken.contains(&text.to_ascii_lowercase().as_str()) { text.to_owned() } else { yaml(text) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
#[path = "amend_tests.rs"]
mod tests;
