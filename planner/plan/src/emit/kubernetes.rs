//! Objects of Kubernetes as plans write them, and the program that sets labels of nodes.
//!
//! O(text). Worked example: `object("v1", "Queue", "a", {})` is `{"apiVersion": "v1", "kind": "Queue", "metadata": {"name": "a"}, "spec": {}}`.

use serde_json::{Map, Value, json};

/// An object.
pub fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A ConfigMap.
pub fn config_map(name: &str, namespace: &str, data: &Map<String, Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

/// The end of a program that sets `labels` to its first argument, which is called `what`, on the nodes that are the others.
pub fn labels(what: &str, labels: &[&str]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| format!("\"{label}=${what}\"")).collect();
    format!(
        "set -eu\n{what}=$1\nshift\nfor node in \"$@\"; do\n  kubectl label node \"$node\" --overwrite {}\ndone\n",
        labels.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let result = object("v1", "Queue", "a", &json!({}));
        assert_eq!(result, json!({"apiVersion": "v1", "kind": "Queue", "metadata": {"name": "a"}, "spec": {}}));
        assert!(labels("class", &["a/b", "c"]).contains("--overwrite \"a/b=$class\" \"c=$class\"\n"));
    }
}
