//! Objects for Kubernetes against the schemas that their projects publish: types, unknown and missing fields, enumerations, bounds. Patterns and CEL rules are
//! not looked at.

use std::collections::BTreeMap;

use tracecast_tests::real_trace;
use yaml_rust2::{Yaml, YamlLoader};

use super::*;

/// Published schemas, beside the traces.
const PUBLISHED: [&str; 5] = [
    "../crds/kueue/clusterqueues.yaml",
    "../crds/kueue/cohorts.yaml",
    "../crds/kueue/resourceflavors.yaml",
    "../crds/kai/queues.yaml",
    "../crds/karpenter/nodepools.yaml",
];

/// Schemas by kind and version of the API.
pub(super) fn schemas() -> Option<BTreeMap<(String, String), Yaml>> {
    let mut found = BTreeMap::new();
    for path in PUBLISHED {
        let text = std::fs::read_to_string(real_trace(path)?).unwrap();
        for definition in YamlLoader::load_from_str(&text).unwrap() {
            let spec = &definition["spec"];
            let (group, kind) = (spec["group"].as_str().unwrap(), spec["names"]["kind"].as_str().unwrap());
            for version in spec["versions"].as_vec().unwrap() {
                let api = format!("{group}/{}", version["name"].as_str().unwrap());
                found.insert((kind.to_owned(), api), version["schema"]["openAPIV3Schema"].clone());
            }
        }
    }
    Some(found)
}

/// Violations of `schema` in `value`, each with its place.
fn broken(value: &Yaml, schema: &Yaml, at: &str, found: &mut Vec<String>) {
    let mut wrong = |what: String| found.push(format!("{at}: {what}"));
    let number = match value {
        Yaml::Integer(number) => Some(*number as f64),
        Yaml::Real(text) => text.parse::<f64>().ok(),
        _ => None,
    };
    let either = schema["x-kubernetes-int-or-string"].as_bool() == Some(true);
    let fits = match schema["type"].as_str() {
        Some("object") => value.as_hash().is_some(),
        Some("array") => value.as_vec().is_some(),
        Some("string") => value.as_str().is_some(),
        Some("integer") => value.as_i64().is_some(),
        Some("number") => number.is_some(),
        Some("boolean") => value.as_bool().is_some(),
        _ => !either || value.as_i64().is_some() || value.as_str().is_some(),
    };
    if !fits {
        return wrong(format!("{value:?} is not of type {:?}", schema["type"]));
    }
    if schema["enum"].as_vec().is_some_and(|known| !known.contains(value)) {
        wrong(format!("{value:?} is none of {:?}", schema["enum"]));
    }
    if let Some(number) = number {
        let bound = |key: &str| schema[key].as_i64().map(|bound| bound as f64);
        if bound("minimum").is_some_and(|least| number < least) || bound("maximum").is_some_and(|most| number > most) {
            wrong(format!("{number} is out of range"));
        }
    }
    let length = value.as_str().map(|text| ("Length", text.chars().count()));
    if let Some((what, length)) = length.or_else(|| value.as_vec().map(|items| ("Items", items.len()))) {
        let bound = |side: &str| schema[format!("{side}{what}").as_str()].as_i64().map(|bound| bound as usize);
        if bound("min").is_some_and(|least| length < least) || bound("max").is_some_and(|most| length > most) {
            wrong(format!("{length} is no length for it"));
        }
    }
    for (place, item) in value.as_vec().into_iter().flatten().enumerate() {
        broken(item, &schema["items"], &format!("{at}[{place}]"), found);
    }
    let Some(fields) = value.as_hash() else { return };
    for key in schema["required"].as_vec().into_iter().flatten() {
        if !fields.contains_key(key) {
            found.push(format!("{at}: {} is missing", key.as_str().unwrap()));
        }
    }
    let (known, others) = (&schema["properties"], &schema["additionalProperties"]);
    let open = schema["x-kubernetes-preserve-unknown-fields"].as_bool() == Some(true) || at == ".metadata";
    for (key, value) in fields {
        let name = key.as_str().unwrap();
        match (&known[name], others) {
            (Yaml::BadValue, Yaml::BadValue) if !open => found.push(format!("{at}: no field is called {name}")),
            (Yaml::BadValue, others) => broken(value, others, &format!("{at}.{name}"), found),
            (of, _) => broken(value, of, &format!("{at}.{name}"), found),
        }
    }
}

/// Asserts that each document of a file is of a published kind, and as its schema says; how many there are.
pub(super) fn conforms(file: &str, schemas: &BTreeMap<(String, String), Yaml>) -> usize {
    let documents = YamlLoader::load_from_str(file).unwrap();
    for document in &documents {
        let of = |key: &str| document[key].as_str().unwrap().to_owned();
        let schema = schemas.get(&(of("kind"), of("apiVersion")));
        let schema = schema.unwrap_or_else(|| panic!("{} {} is not published", of("apiVersion"), of("kind")));
        let mut found = Vec::new();
        broken(document, schema, "", &mut found);
        assert!(found.is_empty(), "{found:#?}\n{file}");
    }
    documents.len()
}

#[test]
fn queues_are_as_kueue_and_kai_publish_them() {
    let Some(schemas) = schemas() else { return };
    let folder = Folder::new();
    let out = folder.path("queues");
    let emit = ["--emit", "kueue,kai,volcano", "--emit-to", &out, "--quiet"];
    let output = tracecast(
        &[&["plan", "queues", "datasets/sample", "--models", "none", "--scan", "skip", "--scale", "1.2"][..], &emit]
            .concat(),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path(&format!("queues/{name}"))).unwrap();
    // A kind of nodes and six VCs; a parent and six VCs.
    assert_eq!((conforms(&read("kueue.yaml"), &schemas), conforms(&read("kai.yaml"), &schemas)), (7, 7));
    // Volcano's schema is not among them: what it has to hold, by hand.
    let queues = YamlLoader::load_from_str(&read("volcano.yaml")).unwrap();
    let names: std::collections::BTreeSet<&str> =
        queues.iter().map(|queue| queue["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!((queues.len(), names.len()), (6, 6));
    for queue in &queues {
        let of =
            |key: &str| (queue["apiVersion"].as_str().unwrap(), queue["kind"].as_str().unwrap(), &queue["spec"][key]);
        assert_eq!((of("").0, of("").1), ("scheduling.volcano.sh/v1beta1", "Queue"));
        let gpus = |key: &str| of(key).2["nvidia.com/gpu"].as_str().map(|gpus| gpus.parse::<u64>().unwrap());
        assert!(gpus("capability").is_none_or(|most| gpus("deserved").unwrap() <= most), "{queue:?}");
        assert!(queue["spec"]["reclaimable"].as_bool().is_some());
    }
}

#[test]
fn node_pools_of_a_fleet_are_as_karpenter_publishes_them() {
    let Some(schemas) = schemas() else { return };
    let folder = Folder::new();
    let out = folder.path("fleet");
    let output = tracecast(&[&fleet::SAMPLE[..], &["--emit", "karpenter", "--emit-to", &out]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.path("fleet/karpenter-nodepools.yaml")).unwrap();
    let pools = conforms(&text, &schemas);
    assert!((1..=3).contains(&pools), "{text}");
    for pool in YamlLoader::load_from_str(&text).unwrap() {
        let spec = &pool["spec"];
        assert!(spec["limits"]["nvidia.com/gpu"].as_str().unwrap().parse::<u64>().unwrap() > 0, "{pool:?}");
        let keys =
            spec["template"]["spec"]["requirements"].as_vec().unwrap().iter().map(|of| of["key"].as_str().unwrap());
        let keys: Vec<&str> = keys.collect();
        assert_eq!(&keys[..2], ["karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"]);
    }
}

/// A job of 16 V100 in one zone, and one over two regions: pools by weight, spot before on-demand, with what the trace says of its instances.
#[test]
fn node_pools_of_a_job_are_as_karpenter_publishes_them() {
    let Some(schemas) = schemas() else { return };
    let folder = Folder::new();
    let (one, out) = (folder.file("us-east-1a_v100_1.json", &cloud::regular(16)), folder.path("tasks"));
    let ask = ["plan", "rent", "job", &one, "--work", "12h", "--slack", "0.5", "--changeover", "0s", "--starts", "3"];
    let rest = ["--need", "16", "--emit", "karpenter", "--emit-to", &out];
    let output = tracecast(&[&ask[..], &rest].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.path("tasks/karpenter-nodepools.yaml")).unwrap();
    assert_eq!(conforms(&text, &schemas), 2);
    let pools = YamlLoader::load_from_str(&text).unwrap();
    let told = |pool: &Yaml| -> Vec<(String, String)> {
        let of = |value: &Yaml| value.as_str().unwrap().to_owned();
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_vec().unwrap();
        requirements.iter().map(|need| (of(&need["key"]), of(&need["values"][0]))).collect()
    };
    for (pool, weight, capacity) in [(&pools[0], 100, "spot"), (&pools[1], 1, "on-demand")] {
        assert_eq!(pool["spec"]["weight"].as_i64(), Some(weight));
        let wanted = [
            ("karpenter.sh/capacity-type", capacity),
            ("karpenter.k8s.aws/instance-gpu-name", "v100"),
            ("karpenter.k8s.aws/instance-gpu-count", "1"),
            ("topology.kubernetes.io/zone", "us-east-1a"),
        ];
        assert_eq!(told(pool), wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(pool["spec"]["limits"]["nvidia.com/gpu"].as_str(), Some("16"));
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let Some(schemas) = schemas() else { return };
    let queue =
        |spec: &str| format!("apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: a}}\nspec: {spec}\n");
    let found = |file: &str| {
        let document = &YamlLoader::load_from_str(file).unwrap()[0];
        let schema = &schemas[&("Queue".to_owned(), "scheduling.run.ai/v2".to_owned())];
        let mut found = Vec::new();
        broken(document, schema, "", &mut found);
        found
    };
    assert!(found(&queue("{parentQueue: b, resources: {gpu: {quota: 1.5, limit: -1}}}")).is_empty());
    assert!(found(&queue("{parentQueue: 3}"))[0].contains(".spec.parentQueue: Integer(3) is not of type"));
    assert!(found(&queue("{resources: {gpus: {quota: 1}}}"))[0].contains("no field is called gpus"));
    let kueue =
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\nspec: {queueingStrategy: FIFO}\n";
    let mut wrong = Vec::new();
    let schema = &schemas[&("ClusterQueue".to_owned(), "kueue.x-k8s.io/v1beta2".to_owned())];
    broken(&YamlLoader::load_from_str(kueue).unwrap()[0], schema, "", &mut wrong);
    assert!(wrong.iter().any(|what| what.contains("is none of")), "{wrong:?}");
}
