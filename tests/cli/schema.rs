//! JSON of every run against its published schema: each is made here on a trace and validated.
//!
//! The checker knows the keywords that our schemas use, and fails on any other, so that it cannot pass over what it does not
//! understand. It is stricter than JSON Schema in one thing: a property that the schema does not describe is a mistake, as
//! whoever reads the schema would not know of it.

use serde_json::Value;

use super::*;

/// Violations of `schema` in `value`; empty if there are none; `root` holds the definitions.
fn wrong(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = open(root, schema, value, at);
    if let Some(object) = value.as_object()
        && let Some(described) = described(root, schema, value)
    {
        let others = object.keys().filter(|name| !described.contains(&name.as_str()));
        found.extend(others.map(|name| format!("{at}.{name} is not described")));
    }
    found
}

/// The properties of `value` that a schema describes, itself or in the ways of it that fit; `None` if it takes any.
fn described<'a>(root: &'a Value, schema: &'a Value, value: &Value) -> Option<Vec<&'a str>> {
    let schema = schema.as_object()?;
    let mut names: Vec<&str> = Vec::new();
    let mut says = false;
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        names.extend(properties.keys().map(String::as_str));
        says = true;
    }
    match schema.get("additionalProperties") {
        None => {}
        Some(Value::Bool(false)) => says = true,
        Some(_) => return None,
    }
    let ways = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
    let fitting = ways.filter(|way| open(root, way, value, "").is_empty());
    for inner in fitting.chain(schema.get("$ref").map(|path| target(root, path))) {
        names.extend(described(root, inner, value)?);
        says = true;
    }
    says.then_some(names)
}

/// The definition that a `$ref` names.
fn target<'a>(root: &'a Value, path: &Value) -> &'a Value {
    let name = path.as_str().and_then(|path| path.strip_prefix("#/$defs/")).expect("a definition");
    &root["$defs"][name]
}

/// Violations of `schema` in `value`, where properties that are not described pass: the other parts
/// of a schema may describe them.
fn open(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let Some(schema) = schema.as_object() else {
        // `true` allows anything.
        return if schema == &Value::Bool(true) { Vec::new() } else { vec![format!("{at}: nothing is allowed here")] };
    };
    let mut found = Vec::new();
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "$defs" | "properties" | "additionalProperties" => {}
            "$ref" => {
                found.extend(open(root, target(root, rule), value, at));
            }
            "type" => {
                let types: Vec<&str> = match rule {
                    Value::String(one) => vec![one],
                    many => many.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect(),
                };
                if !types.iter().any(|name| is(value, name)) {
                    found.push(format!("{at}: {} is no {}", short(value), types.join(" or ")));
                }
            }
            // Whole numbers may be written as 1 or as 1.0 by other programs; ours writes what Rust holds.
            "format" => {
                let name = rule.as_str().unwrap();
                let fits = match name {
                    "uint" | "uint64" => value.is_null() || value.is_u64(),
                    "uint32" => value.is_null() || value.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
                    "uint16" => value.is_null() || value.as_u64().is_some_and(|n| u16::try_from(n).is_ok()),
                    "uint8" => value.is_null() || value.as_u64().is_some_and(|n| u8::try_from(n).is_ok()),
                    "int64" => value.is_null() || value.is_i64(),
                    "int32" => value.is_null() || value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                    "double" | "float" => value.is_null() || value.is_number(),
                    other => panic!("the checker does not know the format {other}"),
                };
                if !fits {
                    found.push(format!("{at}: {} is no {name}", short(value)));
                }
            }
            "minimum" if value.as_f64().is_some_and(|number| number < rule.as_f64().unwrap()) => {
                found.push(format!("{at}: {value} is less than {rule}"));
            }
            "maximum" if value.as_f64().is_some_and(|number| number > rule.as_f64().unwrap()) => {
                found.push(format!("{at}: {value} is more than {rule}"));
            }
            "minItems" if value.as_array().is_some_and(|items| (items.len() as u64) < rule.as_u64().unwrap()) => {
                found.push(format!("{at}: fewer than {rule} items"));
            }
            "maxItems" if value.as_array().is_some_and(|items| (items.len() as u64) > rule.as_u64().unwrap()) => {
                found.push(format!("{at}: more than {rule} items"));
            }
            "minimum" | "maximum" | "minItems" | "maxItems" => {}
            "const" if value != rule => found.push(format!("{at}: {} is not {rule}", short(value))),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: {} is none of {rule}", short(value)));
            }
            "const" | "enum" => {}
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.as_object().is_some_and(|object| !object.contains_key(name.as_str().unwrap())) {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "anyOf" | "oneOf" => {
                let ways: Vec<Vec<String>> =
                    rule.as_array().unwrap().iter().map(|way| open(root, way, value, at)).collect();
                let fitting = ways.iter().filter(|way| way.is_empty()).count();
                if fitting == 0 {
                    // The way that comes nearest tells most.
                    let least = ways.into_iter().min_by_key(Vec::len).unwrap_or_default();
                    found.extend(least.into_iter().map(|what| format!("{what} (nor any other way)")));
                } else if keyword == "oneOf" && fitting > 1 {
                    found.push(format!("{at}: {fitting} of the ways fit, and one must"));
                }
            }
            "prefixItems" => {
                for (index, (item, rule)) in
                    value.as_array().into_iter().flatten().zip(rule.as_array().unwrap()).enumerate()
                {
                    found.extend(wrong(root, rule, item, &format!("{at}[{index}]")));
                }
            }
            "items" => {
                let skipped = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                for (index, item) in value.as_array().into_iter().flatten().enumerate().skip(skipped) {
                    found.extend(wrong(root, rule, item, &format!("{at}[{index}]")));
                }
            }
            other => panic!("the checker does not know the keyword {other}"),
        }
    }
    if let Some(object) = value.as_object() {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, inner) in object {
            let property = properties.and_then(|properties| properties.get(name));
            if let Some(rule) = property.or_else(|| schema.get("additionalProperties").filter(|rule| rule.is_object()))
            {
                found.extend(wrong(root, rule, inner, &format!("{at}.{name}")));
            }
        }
    }
    found
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the checker does not know the type {other}"),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

/// Holds `text` against the schema that `tracecast schema OF` prints.
pub(super) fn check(of: &str, text: &str) {
    let schema = json(&stdout(&tracecast(&["schema", of])));
    let found = wrong(&schema, &schema, &json(text), of);
    assert!(found.is_empty(), "{} things are not as the schema says:\n{}", found.len(), found.join("\n"));
}

/// Runs a command and holds what it prints against a schema.
fn checked(of: &str, command: &[&str]) {
    let output = tracecast(command);
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    check(of, &stdout(&output));
}

const SAMPLE: &str = "datasets/sample";
/// Nodes for any trace.
const NODES: &str = "[[vc]]\nname = \"*\"\nnodes = 40\ngpus_per_node = 8\n";

#[test]
fn the_checker_finds_what_is_wrong() {
    let schema: Value = json(
        r##"{"$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer", "format": "uint8", "minimum": 0}}, "required": ["x"]}},
            "type": "object", "properties": {"p": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}, "k": {"oneOf": [{"const": "a"}, {"const": "b"}]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 2, "maxItems": 2}}}"##,
    );
    let of = |text: &str| wrong(&schema, &schema, &json(text), "$");
    assert_eq!(of(r#"{"p": {"x": 255}, "k": "b", "pair": ["a", 1.5]}"#), Vec::<String>::new());
    assert_eq!(of(r#"{"p": null}"#), Vec::<String>::new());
    for (text, told) in [
        (r#"{"p": {"x": 256}}"#, "is no uint8"),
        (r#"{"p": {"x": -1}}"#, "$.p"),
        (r#"{"p": {}}"#, "\"x\" is missing"),
        (r#"{"p": {"x": 1, "y": 1}}"#, "$.p.y is not described"),
        (r#"{"k": "c"}"#, "$.k"),
        (r#"{"pair": ["a"]}"#, "fewer than 2 items"),
        (r#"{"pair": ["a", "b"]}"#, "$.pair[1]"),
        (r#"{"other": 1}"#, "$.other is not described"),
        ("[]", "is no object"),
    ] {
        assert!(of(text).iter().any(|what| what.contains(told)), "{text}: {:?}", of(text));
    }
}

#[test]
fn descriptions_rollups_and_ledgers() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    for source in [SAMPLE, &source, "tests/fixtures/openb", "tests/fixtures/philly", "tests/fixtures/dcgm"] {
        checked("describe", &["describe", source, "--format", "json"]);
        checked("inspect", &["inspect", source, "--format", "json"]);
    }
    checked("rollup", &["query", "--standard", SAMPLE, "--format", "json"]);
    let out = folder.path("report");
    assert!(tracecast(&["report", "--out", &out]).status.success());
    check("report", &std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap());
    let trace = folder.path("trace");
    assert!(tracecast(&["ingest", &source, "--out", &trace]).status.success());
    check("manifest", &std::fs::read_to_string(Path::new(&trace).join("manifest.json")).unwrap());
    check("manifest", &std::fs::read_to_string(root().join(SAMPLE).join("manifest.json")).unwrap());
}

#[test]
fn replays() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &window::hourly());
    let cluster = folder.file("nodes.toml", NODES);
    let asked = ["simulate", &source, "--site", &cluster, "--format", "json"];
    checked("simulate", &asked);
    checked("simulate", &[&asked[..], &["--compare", "fifo,qssf,sjf", "--from", "2020-04-05"]].concat());
    checked("simulate", &["simulate", SAMPLE, "--to", "2024-03-04", "--format", "json"]);
}

#[test]
fn plans() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &window::hourly());
    let cluster = folder.file("nodes.toml", NODES);
    let asked = ["plan", "power", &source, "--slot", "1h", "--format", "json"];
    checked("plan-power", &[&asked[..], &["--by-vc", "--site", &cluster, "--promise", "5,50"]].concat());
    let counts = folder.file("node_counts.csv", &plan::counts());
    checked("plan-power", &["plan", "power", &counts, "--slot", "1h", "--format", "json"]);
}

#[test]
fn backtests_and_forecasts() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &demand::jobs(500));
    let cluster = folder.file("nodes.toml", NODES);
    let small = ["--trees", "10", "--format", "json"];
    let models = ["--methods", "running_mean,boosted", "--site", &cluster, "--eval-from", "2020-04-18"];
    let spot = folder.file("us-east-1a_v100_1.json", &cloud::regular(1));
    let job = [spot.as_str(), "--work", "12h", "--starts", "2", "--format", "json"];
    checked("plan-rent-job-test", &[&["plan", "rent", "job", "--test"], &job[..]].concat());
    checked("model-backtest-spot", &["model", "backtest", "spot", &spot, "--hours", "1,6", "--format", "json"]);
    let spots = folder.path("spot.tcm");
    let learned = tracecast(&["model", "train", "spot", &spot, "--out", &spots]);
    assert!(learned.status.success(), "{}", stderr(&learned));
    checked("model-predict-spot", &["model", "predict", "spot", "--model", &spots, "--format", "json"]);
    let drawn = allocation::drawn(&folder);
    let drawn: Vec<&str> = drawn.iter().map(String::as_str).chain(["--seeds", "2", "--format", "json"]).collect();
    checked("plan-allocation", &drawn);
    checked("plan-rent-fleet", &[&fleet::SAMPLE[..], &["--format", "json"]].concat());
    checked("plan-rent-burst", &[&burst::SAMPLE[..], &["--format", "json"]].concat());
    checked("plan-defer", &[&defer::SAMPLE[..], &["--format", "json"]].concat());
    let asked = serving::asked(&folder);
    let words: Vec<&str> = asked.iter().map(String::as_str).chain(["--format", "json"]).collect();
    checked("plan-serving", &words);
    checked(
        "plan-queues",
        &["plan", "queues", "datasets/sample", "--models", "none", "--scan", "skip", "--format", "json"],
    );
    checked(
        "plan-nodes",
        &["plan", "nodes", "datasets/sample", "--scan", "skip", "--target-p95", "1h", "--format", "json"],
    );
    checked("plan-rent-job", &[&["plan", "rent", "job", "--slack", "0.8"], &job[..]].concat());
    checked("model-backtest-duration", &[&["model", "backtest", "duration", &source], &small[..], &models].concat());
    let slots = ["--slot", "1h", "--horizon", "4"];
    checked("model-backtest-demand", &[&["model", "backtest", "demand", &source], &small[..], &slots].concat());
    let pairs = folder.file("pairs.csv", &interference::pairs());
    checked("model-backtest-interference", &["model", "backtest", "interference", &pairs, "--format", "json"]);
    checked("model-backtest-utilisation", &["model", "backtest", "utilisation", "datasets/sample", "--format", "json"]);
    let known = folder.file("known.csv", &utilisation::profiles());
    checked("model-backtest-utilisation", &["model", "backtest", "utilisation", &known, "--format", "json"]);
    let new = utilisation::new_types(&folder);
    let asked = ["model", "predict", "utilisation", &known, "--jobs", &new, "--format", "json"];
    checked("model-predict-utilisation", &asked);
    let [jobs, readings] = utilisation::queue(&folder);
    checked("model-predict-utilisation", &["model", "predict", "utilisation", &jobs, &readings, "--format", "json"]);
    let (measured, profiles) = sharing::measured(&folder);
    let (shared, named) = (
        ["--pairs", &measured, "--profiles", &profiles, "--gpus", "6", "--format", "json"],
        sharing::named_jobs(&folder),
    );
    checked("plan-share-couples", &[&["plan", "share", "couples", &named], &shared[..]].concat());
    checked("simulate-sharing", &[&["simulate", &named, "--share", "all"], &shared[..]].concat());
    let sliced = mig::asked(&folder);
    let words: Vec<&str> = sliced.iter().map(String::as_str).chain(["--format", "json"]).collect();
    checked("plan-share-mig", &words);
    let model = folder.path("share.tcm");
    let learned = tracecast(&["model", "train", "interference", &measured, "--profiles", &profiles, "--out", &model]);
    assert!(learned.status.success(), "{}", stderr(&learned));
    let asked = ["--model", &model, "--gpu-type", "v100", "m0 (batch size 16)", "new", "--format", "json"];
    checked("model-predict-interference", &[&["model", "predict", "interference"], &asked[..]].concat());
    let (demand, duration) = (folder.path("demand"), folder.path("duration"));
    let trained =
        tracecast(&[&["model", "train", "demand", &source, "--trees", "10", "--out", &demand], &slots[..]].concat());
    assert!(trained.status.success(), "{}", stderr(&trained));
    checked("model-predict-demand", &["model", "predict", "demand", "--model", &demand, "--format", "json"]);
    let learned =
        tracecast(&["model", "train", "duration", &source, "--to", "2020-04-15", "--trees", "10", "--out", &duration]);
    assert!(learned.status.success(), "{}", stderr(&learned));
    let predicted = tracecast(&["model", "predict", "duration", &source, "--model", &duration, "--format", "jsonl"]);
    let lines = stdout(&predicted);
    assert!(lines.lines().count() > 10, "{}", stderr(&predicted));
    for line in lines.lines().take(10) {
        check("predictions", line);
    }
}

#[test]
fn audits() {
    let folder = Folder::new();
    let manifest = folder.path("manifest.json");
    checked("audit", &["audit", SAMPLE, "--pue", "1.2", "--format", "json", "--manifest", &manifest]);
    check("audit-manifest", &std::fs::read_to_string(manifest).unwrap());
}
