//! Objects of Kubernetes in a file: YAML documents or JSON, lists taken apart, each with the line it begins in.
//!
//! JSON is YAML. Plain scalars are what YAML 1.2 takes them for: `8` is a number, `"8"` a text, `true` a truth. Anchors are not followed, so that a small file cannot grow.
//! O(bytes). Worked example: a file with a List of two ClusterQueues and, after `---`, a Cohort, holds three objects.

use serde_json::{Map, Number, Value};
use yaml_rust2::Event;
use yaml_rust2::parser::Parser;
use yaml_rust2::scanner::TScalarStyle;

use crate::error::{Error, Result};

/// How deep values may lie in each other.
const DEEPEST: usize = 64;

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// Where it begins, from 1.
    pub(super) line: u64,
    pub(super) content: Value,
}

/// A value under construction.
enum Open {
    List(Vec<Value>),
    /// Its entries, and a key whose value is to come.
    Object(Map<String, Value>, Option<String>),
}

/// The objects of a file called `file`.
///
/// # Errors
/// Names the line where the text is no YAML, or holds what is not read.
pub(super) fn documents(file: &str, text: &str) -> Result<Vec<Document>> {
    let wrong = |line: usize, what: String| Error::File { file: file.to_owned(), line: line as u64, what };
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<(Open, usize)> = Vec::new();
    let mut found: Vec<Document> = Vec::new();
    // Where items of a list of objects begin: the lines of mappings two levels down.
    let mut items: Vec<usize> = Vec::new();
    loop {
        let (event, mark) = parser
            .next_token()
            .map_err(|error| wrong(error.marker().line(), format!("this is no YAML: {}", error.info())))?;
        let line = mark.line();
        let done = match event {
            Event::StreamEnd => break,
            Event::DocumentStart => {
                items.clear();
                continue;
            }
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => continue,
            Event::Alias(_) => return Err(wrong(line, "an alias is not followed; write the value out".to_owned())),
            Event::Scalar(text, style, ..) => {
                if let Some((Open::Object(_, key @ None), _)) = open.last_mut() {
                    *key = Some(text);
                    continue;
                }
                (scalar(text, style), line)
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if matches!(open.last(), Some((Open::Object(_, None), _))) {
                    return Err(wrong(line, "a key must be a text".to_owned()));
                }
                if open.len() >= DEEPEST {
                    return Err(wrong(line, format!("values lie more than {DEEPEST} deep in each other")));
                }
                let is_list = matches!(event, Event::SequenceStart(..));
                if !is_list && open.len() == 2 {
                    items.push(line);
                }
                open.push((if is_list { Open::List(Vec::new()) } else { Open::Object(Map::new(), None) }, line));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((Open::List(list), line)) => (Value::Array(list), line),
                Some((Open::Object(object, _), line)) => (Value::Object(object), line),
                None => continue,
            },
        };
        let (value, line) = done;
        match open.last_mut() {
            None => take_apart(&mut found, value, line, &items),
            Some((Open::List(list), _)) => list.push(value),
            Some((Open::Object(object, key), _)) => {
                let Some(key) = key.take() else { continue };
                if object.insert(key.clone(), value).is_some() {
                    return Err(wrong(line, format!("`{key}` is written twice")));
                }
            }
        }
    }
    Ok(found)
}

/// Adds an object, or those of a list.
fn take_apart(found: &mut Vec<Document>, mut content: Value, line: usize, items: &[usize]) {
    let is_list = content.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match content.get_mut("items").map(Value::take) {
        Some(Value::Array(list)) if is_list => {
            for (at, content) in list.into_iter().enumerate() {
                found.push(Document { line: items.get(at).copied().unwrap_or(line) as u64, content });
            }
        }
        Some(other) => {
            content["items"] = other;
            found.push(Document { line: line as u64, content });
        }
        None if content.is_null() => {}
        None => found.push(Document { line: line as u64, content }),
    }
}

fn scalar(text: String, style: TScalarStyle) -> Value {
    if style != TScalarStyle::Plain {
        return Value::String(text);
    }
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let whole = text.parse::<i64>().map(Number::from).ok();
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
            let real = || text.parse::<f64>().ok().filter(|_| is_number).and_then(Number::from_f64);
            whole.or_else(real).map_or_else(|| Value::String(text.clone()), Value::Number)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn documents_lists_and_json_are_objects_with_their_lines() {
        let text = "---\nkind: List\nitems:\n- kind: A\n  x: 8\n- kind: B\n  x: \"8\"\n---\n# nothing\n---\nkind: C\nspec: {weight: 500m, on: true}\n";
        let found = documents("q.yaml", text).unwrap();
        let kinds: Vec<_> =
            found.iter().map(|document| (document.content["kind"].as_str().unwrap(), document.line)).collect();
        assert_eq!(kinds, [("A", 4), ("B", 6), ("C", 11)]);
        assert_eq!(found[0].content["x"], 8);
        assert_eq!(found[1].content["x"], "8");
        assert_eq!(found[2].content["spec"], serde_json::json!({"weight": "500m", "on": true}));
        let json = documents(
            "q.json",
            "{\"kind\": \"ClusterQueueList\",\n \"items\": [{\"kind\": \"A\"},\n {\"kind\": \"B\"}]}",
        )
        .unwrap();
        assert_eq!(json.iter().map(|document| document.line).collect::<Vec<_>>(), [2, 3]);
        assert!(documents("q.yaml", "").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_line() {
        let told = |text: &str| documents("q.yaml", text).unwrap_err().to_string();
        assert!(
            told("kind: A\nx: [1, 2\ny: 3\n").contains("q.yaml, line 3: this is no YAML"),
            "{}",
            told("kind: A\nx: [1, 2\ny: 3\n")
        );
        assert!(told("kind: A\nkind: B\n").contains("`kind` is written twice"));
        assert!(told("a: &x 1\nb: *x\n").contains("alias"));
        // Flow and block style alike, however long.
        for deep in ["[".repeat(5_000), "- ".repeat(100_000)] {
            let told = told(&deep);
            assert!(told.contains("recursion limit") || told.contains("more than 64 deep"), "{told}");
        }
    }
}
