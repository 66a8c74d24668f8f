//! Objects of Kubernetes in a file: YAML documents or JSON, lists taken apart, each value with where it begins.
//!
//! JSON is YAML. Plain scalars are what YAML 1.2 takes them for: `8` is a number, `"8"` a text, `true` a truth. Anchors are not followed, so that a small file cannot grow.
//! O(bytes). Worked example: a file with a List of two ClusterQueues and, after `---`, a Cohort, holds three objects.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};
use yaml_rust2::Event;
use yaml_rust2::parser::Parser;
use yaml_rust2::scanner::TScalarStyle;

use crate::error::{Error, Result};

/// How deep values may lie in each other.
const DEEPEST: usize = 64;

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// First line, from 1.
    pub line: u64,
    /// The object itself.
    pub content: Value,
}

/// A value, and where it begins.
#[derive(Debug)]
pub struct Node {
    /// First line, from 1.
    pub line: usize,
    /// Letters before it in its line.
    pub col: usize,
    /// The value.
    pub content: Content,
}

/// Contents of a value.
#[derive(Debug)]
pub enum Content {
    /// A text, and how it is quoted.
    Scalar(String, TScalarStyle),
    /// A sequence.
    List(Vec<Node>),
    /// Keys, which are scalars, and values, in order.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(text, _) => Some(text),
            _ => None,
        }
    }

    /// The value under a key.
    fn get(&self, key: &str) -> Option<&Self> {
        let Content::Map(pairs) = &self.content else { return None };
        pairs.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
    }

    /// The value without its place.
    pub fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(text, style) => scalar(text, *style),
            Content::List(items) => items.iter().map(Self::value).collect(),
            Content::Map(pairs) => {
                let pairs = pairs.iter().filter_map(|(key, value)| Some((key.text()?.to_owned(), value.value())));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// The object that it is, or those of the list that it is.
    fn objects(&self) -> Vec<&Self> {
        let kind = self.get("kind").and_then(Self::text);
        match self.get("items").map(|items| &items.content) {
            Some(Content::List(items)) if kind.is_some_and(|kind| kind.ends_with("List")) => items.iter().collect(),
            _ => vec![self],
        }
    }
}

/// The objects of a file called `file`.
///
/// # Errors
/// Names the line where the text is no YAML, or holds what is not read.
pub fn documents(file: &str, text: &str) -> Result<Vec<Document>> {
    let nodes = nodes(file, text)?;
    let of = |node: &Node| Document { line: node.line as u64, content: node.value() };
    Ok(objects(&nodes).into_iter().map(of).collect())
}

/// Reads the objects of a file called `file`.
///
/// # Errors
/// Names the line where the text is no YAML, or holds what is not read.
pub fn values(file: &str, text: &str) -> Result<Vec<Value>> {
    Ok(documents(file, text)?.into_iter().map(|document| document.content).collect())
}

/// The objects in documents, those of lists among them.
pub fn objects(nodes: &[Node]) -> Vec<&Node> {
    nodes.iter().flat_map(Node::objects).collect()
}

/// The documents of a file called `file` that hold something.
///
/// # Errors
/// Errors of [`documents`].
pub fn nodes(file: &str, text: &str) -> Result<Vec<Node>> {
    let wrong = |line: usize, what: String| Error::File { file: file.to_owned(), line: line as u64, what };
    let mut parser = Parser::new_from_str(text);
    // Values under construction; of a map also the keys there are, and one whose value is to come.
    let mut open: Vec<(Node, BTreeSet<String>, Option<Node>)> = Vec::new();
    let mut result: Vec<Node> = Vec::new();
    loop {
        let (event, mark) = parser
            .next_token()
            .map_err(|error| wrong(error.marker().line(), format!("this is no YAML: {}", error.info())))?;
        let (line, col) = (mark.line(), mark.col());
        let done = match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart | Event::DocumentEnd | Event::Nothing => continue,
            Event::Alias(_) => return Err(wrong(line, "an alias is not followed; write the value out".to_owned())),
            Event::Scalar(text, style, ..) => {
                let scalar = Node { line, col, content: Content::Scalar(text, style) };
                if let Some((Node { content: Content::Map(_), .. }, _, key @ None)) = open.last_mut() {
                    *key = Some(scalar);
                    continue;
                }
                scalar
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if matches!(open.last(), Some((Node { content: Content::Map(_), .. }, _, None))) {
                    return Err(wrong(line, "a key must be a text".to_owned()));
                }
                if open.len() >= DEEPEST {
                    return Err(wrong(line, format!("values lie more than {DEEPEST} deep in each other")));
                }
                let is_list = matches!(event, Event::SequenceStart(..));
                let content = if is_list { Content::List(Vec::new()) } else { Content::Map(Vec::new()) };
                open.push((Node { line, col, content }, BTreeSet::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((node, ..)) => node,
                None => continue,
            },
        };
        match open.last_mut() {
            None if done.value().is_null() => {}
            None => result.push(done),
            Some((Node { content: Content::List(items), .. }, ..)) => items.push(done),
            Some((Node { content: Content::Map(pairs), .. }, keys, key)) => {
                let Some(key) = key.take() else { continue };
                let name = key.text().unwrap_or_default();
                if !keys.insert(name.to_owned()) {
                    return Err(wrong(key.line, format!("`{name}` is written twice")));
                }
                pairs.push((key, done));
            }
            Some(_) => {}
        }
    }
    Ok(result)
}

fn scalar(text: &str, style: TScalarStyle) -> Value {
    if style != TScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let whole = text.parse::<i64>().map(Number::from).ok();
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
            let real = || text.parse::<f64>().ok().filter(|_| is_number).and_then(Number::from_f64);
            whole.or_else(real).map_or_else(|| Value::String(text.to_owned()), Value::Number)
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
        let result = documents("q.yaml", text).unwrap();
        let kinds: Vec<_> =
            result.iter().map(|document| (document.content["kind"].as_str().unwrap(), document.line)).collect();
        assert_eq!(kinds, [("A", 4), ("B", 6), ("C", 11)]);
        assert_eq!(result[0].content["x"], 8);
        assert_eq!(result[1].content["x"], "8");
        assert_eq!(result[2].content["spec"], serde_json::json!({"weight": "500m", "on": true}));
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
