//! Values as YAML that cannot be misread.
//!
//! Block style, two blanks a level; every string is quoted as JSON quotes it, which YAML 1.2 reads the same (so that `no`, `1.0` or `12:30` stay
//! strings), and letters that are no ASCII are escaped. Keys are strings as well. A text of plain lines, such as a file within a file, is a block of these lines. O(n).
//!
//! Worked number: `{"a": {"b": [1, "x"]}}` is the three lines `"a":`, `  "b":` and the items `    - 1` and `    - "x"` under it.

use std::collections::BTreeMap;

use serde_json::Value;
use tracecast_analytics::report::quote::{comments, yaml};

/// A stream of documents, comments above each.
pub fn stream(documents: &[(String, Value)]) -> String {
    let mut out = String::new();
    for (comment, document) in documents {
        out.push_str("---\n");
        out.push_str(&comments("#", &comment.lines().map(str::to_owned).collect::<Vec<_>>()));
        node(document, 0, &mut out);
    }
    out
}

/// One value as a document of its own, without a mark of its beginning.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    node(value, 0, &mut out);
    out
}

/// A value, with the end of its last line.
fn node(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            // By name, however the map is kept.
            let pairs: BTreeMap<&String, &Value> = map.iter().collect();
            for (key, value) in pairs {
                out.push_str(&format!("{indent}{}:", yaml(key)));
                below(value, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("{indent}-"));
                below(item, depth, out);
            }
        }
        _ => out.push_str(&format!("{indent}{}\n", scalar(value))),
    }
}

/// Writes the value that follows a key or a dash.
fn below(value: &Value, depth: usize, out: &mut String) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if let Some(lines) = value.as_str().filter(|text| is_lines(text)) {
        let indent = "  ".repeat(depth + 1);
        out.push_str(" |\n");
        lines.lines().for_each(|line| out.push_str(&format!("{indent}{line}\n")));
    } else if nested {
        out.push('\n');
        node(value, depth + 1, out);
    } else {
        out.push_str(&format!(" {}\n", scalar(value)));
    }
}

/// Whether a literal block gives a text back as it is: several lines of printable ASCII, none
/// blank, the first not indented, each with its end.
fn is_lines(text: &str) -> bool {
    let is_plain = |line: &str| !line.trim().is_empty() && line.chars().all(|letter| matches!(letter, ' '..='~'));
    text.ends_with('\n')
        && text.lines().count() > 1
        && !text.starts_with(' ')
        && text.split_terminator('\n').all(is_plain)
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => yaml(text),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    /// Reads what [`stream`] writes, and nothing else: documents without their comments.
    fn read(text: &str) -> Vec<Value> {
        let mut documents: Vec<Vec<(usize, &str)>> = Vec::new();
        for line in text.lines() {
            if line == "---" {
                documents.push(Vec::new());
            } else if !line.starts_with('#') {
                let bare = line.trim_start_matches(' ');
                documents.last_mut().unwrap().push((line.len() - bare.len(), bare));
            }
        }
        documents.into_iter().map(|lines| block(&lines)).collect()
    }

    fn plain(text: &str) -> Value {
        // \U is YAML's alone.
        let mut json = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\\') {
            json.push_str(before);
            if let Some(code) = after.strip_prefix('U') {
                json.push(char::from_u32(u32::from_str_radix(&code[..8], 16).unwrap()).unwrap());
                rest = &code[8..];
            } else {
                json.push('\\');
                json.push_str(&after[..1]);
                rest = &after[1..];
            }
        }
        json.push_str(rest);
        serde_json::from_str(&json).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    /// The key of `line` and what follows its colon.
    fn key(line: &str) -> (String, &str) {
        let mut escaped = false;
        let end = line.char_indices().skip(1).find(|(_, letter)| {
            let end = *letter == '"' && !escaped;
            escaped = *letter == '\\' && !escaped;
            end
        });
        let (name, rest) = line.split_at(end.unwrap().0 + 1);
        (plain(name).as_str().unwrap().to_owned(), rest.strip_prefix(':').unwrap().trim_start())
    }

    fn block(lines: &[(usize, &str)]) -> Value {
        let (depth, head) = lines[0];
        let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].0 == depth).collect();
        let parts =
            starts.iter().enumerate().map(|(n, at)| &lines[*at..starts.get(n + 1).copied().unwrap_or(lines.len())]);
        let value = |rest: &str, part: &[(usize, &str)]| match rest {
            "" => block(&part[1..]),
            "|" => part[1..]
                .iter()
                .map(|(at, line)| format!("{}{line}\n", " ".repeat(at - depth - 2)))
                .collect::<String>()
                .into(),
            plainly => plain(plainly),
        };
        if head.starts_with('-') {
            return parts.map(|part| value(part[0].1[1..].trim_start(), part)).collect();
        }
        let pairs = parts.map(|part| {
            let (name, rest) = key(part[0].1);
            (name, value(rest, part))
        });
        Value::Object(pairs.collect::<Map<_, _>>())
    }

    #[test]
    fn nothing_is_left_to_guess() {
        let value = json!({"a": {"b": [1, "no", {"c": "1.0", "d": []}]}, "é\"\n": "12:30 # x", "t": true, "z": {}});
        let text = stream(&[("about\nit".to_owned(), value.clone())]);
        assert_eq!(
            text,
            "---\n# about\n# it\n\"a\":\n  \"b\":\n    - 1\n    - \"no\"\n    -\n      \"c\": \"1.0\"\n      \"d\": []\n\"t\": true\n\"z\": {}\n\
             \"\\u00e9\\\"\\u000a\": \"12:30 # x\"\n"
        );
        assert_eq!(read(&text), [value]);
    }

    #[test]
    fn a_file_within_a_file_is_lines() {
        let text = stream(&[(
            String::new(),
            json!({"data": {"a.yaml": "x:\n  - # 1\n---\n", "one": "x\n", "odd": "a\n\nb\n"}}),
        )]);
        assert_eq!(
            text,
            "---\n\"data\":\n  \"a.yaml\": |\n    x:\n      - # 1\n    ---\n  \"odd\": \"a\\u000a\\u000ab\\u000a\"\n  \"one\": \"x\\u000a\"\n"
        );
        assert_eq!(read(&text)[0]["data"]["a.yaml"], "x:\n  - # 1\n---\n");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            "([ a:#-]{0,3}\n){1,3}".prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
        ];
        let inner = leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..5).prop_map(Value::from),
                prop::collection::btree_map("[a-z:\"#]{0,6}", inner, 1..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-z:\"# ]{0,6}", inner, 1..5)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in values()) {
            prop_assert_eq!(read(&stream(&[(String::new(), value.clone())])), vec![value]);
        }
    }
}
