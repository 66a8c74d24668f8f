//! Contract of every description: its JSON fits the published schema key by key, a trace folder is
//! described like its source, and every run gives the same.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tracecast_analytics::describe::{Description, json_schema};
use tracecast_analytics::storage;
use tracecast_tests::{fixture, read, real_trace};

/// Checks `value` against `schema`: types, required and unknown keys, references, alternatives, list items, fixed words.
pub fn conforms(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), String> {
    let schema = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(schema) => schema,
        other => return Err(format!("{path}: no schema: {other}")),
    };
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        conforms(value, target.ok_or_else(|| format!("{path}: {reference} leads nowhere"))?, root, path)?;
    }
    for word in ["anyOf", "oneOf"] {
        let Some(options) = schema.get(word).and_then(Value::as_array) else { continue };
        let failures: Vec<String> =
            options.iter().filter_map(|option| conforms(value, option, root, path).err()).collect();
        if failures.len() == options.len() {
            return Err(format!("{path}: none of {word} fits: {}", failures.join("; ")));
        }
    }
    if let Some(fixed) = schema.get("const")
        && fixed != value
    {
        return Err(format!("{path}: {value} instead of {fixed}"));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        return Err(format!("{path}: {value} is none of {words:?}"));
    }
    if let Some(types) = schema.get("type") {
        let types: Vec<&str> = match types {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            single => single.as_str().into_iter().collect(),
        };
        if !types.iter().any(|name| is_a(value, name)) {
            return Err(format!("{path}: {value} is not {types:?}"));
        }
    }
    if let Some(fields) = value.as_object() {
        object(fields, schema, root, path)?;
    }
    if let Some(items) = value.as_array() {
        list(items, schema, root, path)?;
    }
    Ok(())
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// Checks that every required key is there, and every key is known, where the schema names any.
fn object(fields: &Map<String, Value>, schema: &Map<String, Value>, root: &Value, path: &str) -> Result<(), String> {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !name.as_str().is_some_and(|name| fields.contains_key(name)) {
            return Err(format!("{path}: {name} is missing"));
        }
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (name, value) in fields {
        let Some(known) = properties.get(name) else { return Err(format!("{path}: unknown key {name}")) };
        conforms(value, known, root, &format!("{path}.{name}"))?;
    }
    Ok(())
}

fn list(items: &[Value], schema: &Map<String, Value>, root: &Value, path: &str) -> Result<(), String> {
    let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    if limit("minItems").is_some_and(|least| (items.len() as u64) < least)
        || limit("maxItems").is_some_and(|most| items.len() as u64 > most)
    {
        return Err(format!("{path}: {} entries", items.len()));
    }
    for (ix, item) in items.iter().enumerate() {
        if let Some(rule) = first.get(ix).or_else(|| schema.get("items")) {
            conforms(item, rule, root, &format!("{path}[{ix}]"))?;
        }
    }
    Ok(())
}

#[test]
fn the_check_of_schemas_by_hand() {
    let schema = serde_json::json!({
        "$defs": { "P": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] } },
        "type": "object",
        "properties": {
            "p": { "anyOf": [{ "$ref": "#/$defs/P" }, { "type": "null" }] },
            "pairs": { "type": "array", "items": { "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }], "maxItems": 2 } }
        },
        "required": ["p"]
    });
    let fits = |value: Value| conforms(&value, &schema, &schema, "").is_ok();
    assert!(fits(serde_json::json!({ "p": null })));
    assert!(fits(serde_json::json!({ "p": { "x": 1.5 }, "pairs": [["a", 1]] })));
    assert!(!fits(serde_json::json!({ "p": { "x": "1.5" } })), "wrong type");
    assert!(!fits(serde_json::json!({ "p": {} })), "missing below a reference");
    assert!(!fits(serde_json::json!({ "p": { "x": 1, "y": 2 } })), "unknown below a reference");
    assert!(!fits(serde_json::json!({})), "missing");
    assert!(!fits(serde_json::json!({ "p": null, "q": 1 })), "unknown");
    assert!(!fits(serde_json::json!({ "p": null, "pairs": [["a", 1.5]] })), "wrong type in a pair");
    assert!(!fits(serde_json::json!({ "p": null, "pairs": [["a", 1, 2]] })), "too many in a pair");
}

/// Sources of each schema: the real traces that are there, and fixtures of many formats, which
/// always are.
fn sources() -> Vec<(String, Vec<PathBuf>)> {
    let mut sources: Vec<(String, Vec<PathBuf>)> = [
        "philly/philly_jobs.csv.gz",
        "philly/philly_cluster_job_log_ge4gpu.json.gz",
        "swf_nasa/NASA-iPSC-1993-3.1-cln.swf.gz",
        "helios/helios_venus_2vc_sept.csv",
        "openb_2023",
        "helios/earth_vc_1min",
        "harvard_ipmi",
    ]
    .into_iter()
    .filter_map(|name| Some((name.to_owned(), vec![real_trace(name)?])))
    .collect();
    for name in [
        "philly",
        "helios",
        "openb",
        "acme",
        "pai",
        "supercloud",
        "ipmi",
        "prometheus",
        "sacct",
        "sacct-json",
        "pbs",
        "lsf",
        "sge",
        "sge-json",
        "flux",
        "htcondor",
        "sonar",
        "clustercockpit",
        "swf",
        "dcgm",
        "nvidia-smi",
        "alibaba_spot",
        "kubernetes",
    ] {
        let folder = fixture(name);
        if folder.is_dir() {
            sources.push((format!("fixtures/{name}"), vec![folder]));
        }
    }
    sources
}

/// Schema, trace folder and second run of each source: one test, so that each is read but twice.
#[test]
fn every_description_fits_the_schema_survives_a_trace_folder_and_is_repeatable() {
    let schema = json_schema();
    let mut seen = 0;
    for (name, paths) in sources() {
        let trace = match read(&paths) {
            Ok(trace) => trace,
            // A folder of fixtures may hold a file that no reader should accept.
            Err(error) => {
                println!("{name}: {error}");
                continue;
            }
        };
        let text = serde_json::to_string(&Description::new(&trace)).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        conforms(&json, &schema, &schema, "").unwrap_or_else(|error| panic!("{name}: {error}"));
        promises(&name, &json);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        storage::save(&trace, &path).unwrap();
        let back = serde_json::to_string(&Description::new(&storage::load(&path).unwrap())).unwrap();
        assert!(back == text, "{name}: {}", first_difference(&text, &back));

        let again = serde_json::to_string(&Description::new(&read(&paths).unwrap())).unwrap();
        assert!(again == text, "{name}: {}", first_difference(&text, &again));
        seen += 1;
    }
    assert!(seen >= 4, "fixtures of several formats can be read");
}

/// Environment variable with the file to which a process started by [`threads_make_no_difference`]
/// writes its description.
const ANSWER: &str = "TRACECAST_TEST_ANSWER";
const SOURCE: &str = "TRACECAST_TEST_SOURCE";

/// Description made by the processes of the next test; not a test by itself.
#[test]
fn describe_in_another_process() {
    let (Some(answer), Some(source)) = (std::env::var_os(ANSWER), std::env::var_os(SOURCE)) else { return };
    let trace = read(&[PathBuf::from(source)]).unwrap();
    std::fs::write(answer, serde_json::to_string(&Description::new(&trace)).unwrap()).unwrap();
}

/// The number of threads is fixed when a process starts, so each number takes a process.
#[test]
fn threads_make_no_difference() {
    let mut sources = vec![fixture("openb")];
    sources.extend(real_trace("helios/helios_venus_2vc_sept.csv"));
    sources.extend(real_trace("openb_2023"));
    for source in sources {
        let folder = tempfile::tempdir().unwrap();
        let answers: Vec<String> = ["1", "2", "7"]
            .into_iter()
            .map(|threads| {
                let answer = folder.path().join(threads);
                let run = std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "contract::describe_in_another_process"])
                    .env("POLARS_MAX_THREADS", threads)
                    .env("RAYON_NUM_THREADS", threads)
                    .env(ANSWER, &answer)
                    .env(SOURCE, &source)
                    .output()
                    .unwrap();
                assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
                std::fs::read_to_string(answer).unwrap()
            })
            .collect();
        for other in &answers {
            assert!(*other == answers[0], "{}: {}", source.display(), first_difference(&answers[0], other));
        }
    }
}

fn first_difference(one: &str, other: &str) -> String {
    let at = one.bytes().zip(other.bytes()).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
    let around = |text: &str| text.get(at.saturating_sub(60)..(at + 60).min(text.len())).unwrap_or("?").to_owned();
    format!("differs: {} against {}", around(one), around(other))
}

/// Checks what every reader of the JSON form may rely on.
fn promises(name: &str, json: &Value) {
    for field in ["read", "kept", "repaired", "quarantined"] {
        assert!(json["quality"][field].is_u64(), "{name}: quality.{field}");
    }
    let summary = &json["summary"];
    if summary.is_object() {
        assert!(summary["jobs"].is_u64() && summary["gpu_jobs"].is_u64(), "{name}: {summary}");
        let unknown = summary["gpu_jobs"] == 0 || summary["gpu_jobs_without_run"] == summary["gpu_jobs"];
        assert!(summary["gpu_hours"].is_f64() || (unknown && summary["gpu_hours"].is_null()), "{name}: {summary}");
    }
    for size in json["size"]["by_gpus"].as_array().into_iter().flatten() {
        assert!(size["gpus"].is_f64() && size["jobs"].is_u64() && size["gpu_hours"].is_f64(), "{name}: {size}");
    }
    let missing = json["missing"].as_array().unwrap();
    for (topic, value) in json.as_object().unwrap() {
        let reason = missing.iter().find(|missing| missing["topic"] == *topic).map(|missing| &missing["reason"]);
        assert_eq!(value.is_null(), reason.is_some(), "{name}: {topic} is null if and only if a reason is given");
        assert!(reason.is_none_or(|reason| reason.as_str().is_some_and(|text| text.len() > 10)), "{name}: {topic}");
    }
}
