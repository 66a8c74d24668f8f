//! Tests of changed, untouched and refused files.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::yaml::stream;

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

fn item(key: &'static str, is: &str) -> Step {
    Step::Item { key, is: is.to_owned() }
}

/// The text after some changes of the first object, and what was refused.
fn after(text: &str, changes: &[(&[Step], Option<Value>)]) -> (String, Vec<String>) {
    let mut file = Amended::new("q.yaml", text).unwrap();
    let refused = changes.iter().filter_map(|(path, to)| file.set(0, path, to.as_ref()).err()).collect();
    (file.text().to_owned(), refused)
}

#[test]
fn the_worked_example() {
    let (text, refused) =
        after("quota: 8 # ours\n", &[(&[key("quota")], Some(json!(9))), (&[key("limit")], Some(json!(12)))]);
    assert_eq!((text.as_str(), refused.len()), ("quota: 9 # ours\nlimit: 12\n", 0));
}

/// A ClusterQueue as somebody wrote it, with comments, an unknown key, quotes and letters that are not ASCII.
const QUEUE: &str = "\
# Müller's queue: ask before you touch it
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: vision   # the größte
  annotations: {owner: 'it''s me', \"a\\\"b\": c}
spec:
  x-ours:
    - keep
  resourceGroups:
  - coveredResources: [cpu, \"nvidia.com/gpu\"]
    flavors:
    - name: a100
      resources:
      - name: cpu
        nominalQuota: 64
      - name: nvidia.com/gpu
        nominalQuota: \"8\"  # since March
        borrowingLimit: 4
  preemption:
    reclaimWithinCohort: Never
";

fn quota(of: &str) -> Vec<Step> {
    vec![
        key("spec"),
        key("resourceGroups"),
        item("coveredResources", "nvidia.com/gpu"),
        key("flavors"),
        item("name", "a100"),
        key("resources"),
        item("name", "nvidia.com/gpu"),
        key(of),
    ]
}

#[test]
fn a_queue_keeps_its_comments_quotes_and_unknown_keys() {
    let cohort = [key("spec"), key("cohort")];
    let (text, refused) = after(
        QUEUE,
        &[
            (&quota("nominalQuota"), Some(json!(16))),
            (&quota("borrowingLimit"), None),
            (&quota("lendingLimit"), Some(json!(3))),
            (&cohort, Some(json!("all"))),
            (&[key("spec"), key("fairSharing"), key("weight")], Some(json!(2))),
            (&[key("metadata"), key("annotations"), key("plan")], Some(json!("no"))),
            (&[key("spec"), key("preemption"), key("reclaimWithinCohort")], Some(json!("Any"))),
        ],
    );
    assert_eq!(refused, Vec::<String>::new());
    let expected = QUEUE
        .replace("nominalQuota: \"8\"", "nominalQuota: \"16\"")
        .replace("        borrowingLimit: 4\n", "        lendingLimit: 3\n")
        .replace("  x-ours:\n", "  cohort: all\n  fairSharing:\n    weight: 2\n  x-ours:\n")
        .replace("{owner", "{\"plan\": \"no\", owner")
        .replace(": Never", ": Any");
    assert_eq!(text, expected);
}

#[test]
fn what_says_the_same_is_left_as_it_is() {
    let mut file = Amended::new("q.yaml", QUEUE).unwrap();
    assert_eq!(file.set(0, &quota("nominalQuota"), Some(&json!(8))), Ok(None));
    assert_eq!(file.set(0, &quota("lendingLimit"), None), Ok(None));
    assert_eq!(file.set(0, &quota("borrowingLimit"), Some(&json!(5))), Ok(Some(Changed { before: Some(json!(4)) })));
    assert_eq!(file.text(), QUEUE.replace("Limit: 4", "Limit: 5"));
}

#[test]
fn json_and_ends_of_lines_are_kept() {
    let json = "{\"kind\": \"A\",\r\n \"spec\": {\"quota\": 8, \"deep\": {}}\r\n}\r\n";
    let changes: [(&[Step], _); 3] = [
        (&[key("spec"), key("quota")], Some(json!(9))),
        (&[key("spec"), key("deep"), key("x")], Some(json!("y"))),
        (&[key("spec"), key("limit")], Some(json!(3))),
    ];
    let (text, refused) = after(json, &changes);
    assert_eq!(refused, Vec::<String>::new());
    assert_eq!(text, "{\"kind\": \"A\",\r\n \"spec\": {\"limit\": 3, \"quota\": 9, \"deep\": {\"x\": \"y\"}}\r\n}\r\n");
    let (text, _) = after("{\"a\": null, \"b\": 1}", &[(&[key("a")], Some(json!("x"))), (&[key("b")], Some(json!(2)))]);
    assert_eq!(text, "{\"a\": \"x\", \"b\": 2}");
    let (text, _) = after("a:\n  b: 1\n  c: 2\nd: 3\n", &[(&[key("a")], None)]);
    assert_eq!(text, "d: 3\n");
    let (text, _) = after("a: 1\r\nb: 2", &[(&[key("c")], Some(json!(3)))]);
    assert_eq!(text, "a: 1\r\nb: 2\r\nc: 3");
}

#[test]
fn what_cannot_be_changed_safely_is_refused_and_left() {
    for (text, path, to, why) in [
        ("a: |\n  8\n", vec![key("a")], Some(json!(9)), "more than a line"),
        ("a:\n- b: 1\n", vec![key("a"), item("b", "2"), key("c")], Some(json!(9)), "there is none with the b 2"),
        ("- a: 1\n", vec![key("a")], Some(json!(1)), "no mapping"),
        ("a: {b: 1, c: 2}\n", vec![key("a"), key("b")], None, "shares its line"),
        ("a: 8\n", vec![key("a")], None, "shares its line"),
        ("a:\n  b: 1\n  # ours\n  c: 2\nd: 3\n", vec![key("a")], None, "shares its line"),
    ] {
        let (left, refused) = after(text, &[(&path, to)]);
        assert_eq!(left, text);
        assert!(refused.len() == 1 && refused[0].contains(why), "{refused:?}");
    }
    let mut file = Amended::new("q.yaml", "a: 1\n---\nkind: XList\nitems:\n- b: 2\n- b: 3\n").unwrap();
    assert_eq!(file.objects().len(), 3);
    file.set(2, &[key("b")], Some(&json!(4))).unwrap();
    assert_eq!(file.text(), "a: 1\n---\nkind: XList\nitems:\n- b: 2\n- b: 4\n");
    assert!(file.set(3, &[key("b")], Some(&json!(4))).is_err());
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..99).prop_map(Value::from),
        "[a-z #:\"é]*".prop_map(Value::from)
    ];
    let inner = leaf.prop_recursive(3, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 1..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-d]", inner, 1..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// Lines that a key with this value takes in block style, where it can be taken out.
fn lines(value: &Value) -> usize {
    1 + value.as_object().into_iter().flatten().map(|(_, value)| lines(value)).sum::<usize>()
}

proptest! {
    /// One value is what it should be, every other line stays, and a value of one line in block style can always be set.
    #[test]
    fn nothing_else_changes(
        value in values(),
        path in prop::collection::vec("[a-e]", 1..4),
        to in prop_oneof![(100..999).prop_map(|to| Some(Value::from(to))), Just(None)],
        as_json in any::<bool>(),
    ) {
        let text = if as_json {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            stream(&[("of theirs".to_owned(), value.clone())])
        };
        let steps: Vec<Step> = path.iter().map(|name| key(name)).collect();
        let mut file = Amended::new("q.yaml", &text).unwrap();
        let pointer = format!("/{}", path.join("/"));
        let outcome = file.set(0, &steps, to.as_ref());
        let now = file.objects()[0].clone();
        prop_assert_eq!(&super::values("q.yaml", file.text()).unwrap()[0], &now);
        let old: Vec<&str> = text.lines().collect();
        let kept = file.text().lines().filter(|line| old.contains(line)).count();
        match outcome {
            Ok(Some(changed)) => {
                prop_assert_eq!(changed.before.as_ref(), value.pointer(&pointer));
                match &to {
                    Some(to) => prop_assert!(is_same(now.pointer(&pointer).unwrap(), to)),
                    None => prop_assert!(now.pointer(&pointer).is_none()),
                }
                let taken = changed.before.as_ref().filter(|_| to.is_none()).map_or(1, lines);
                prop_assert!(kept + taken >= old.len(), "{}\n{}", text, file.text());
            }
            Ok(None) | Err(_) => prop_assert_eq!(file.text(), &text),
        }
        let scalar = value.pointer(&pointer).is_some_and(|result| !result.is_object() && !result.is_array());
        if to.is_some() && scalar {
            prop_assert!(file.text() != text, "a scalar can be set: {}", text);
        }
    }
}
