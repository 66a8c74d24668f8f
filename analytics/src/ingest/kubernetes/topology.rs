//! Topology requests of pods: Kueue's `topologyRequest` of a pod set, and the annotations of pods
//! and pod templates that it is made from.
//!
//! | of a pod set | annotation `kueue.x-k8s.io/…` | in the column `topology` |
//! |---|---|---|
//! | `required` | `podset-required-topology` | `required:LABEL` |
//! | `preferred` | `podset-preferred-topology` | `preferred:LABEL` |
//! | `unconstrained` | `podset-unconstrained-topology` | `unconstrained` |
//! | `podSetSliceRequiredTopology`, `podSetSliceSize` | `podset-slice-required-topology`, `podset-slice-size` | `:slices=LABEL/PODS` behind it |
//!
//! Slices alone are those of an unconstrained job. Of several layers of slices (an alpha feature) the widest is read. Kueue refuses pods that ask in two of the first three ways: what these ask is unknown. Slices
//! without a level, or without a size of 1 or more, are left out. Both are counted as repairs. O(text).
//!
//! Worked example: `{"required": "example.com/block", "podSetSliceRequiredTopology": "example.com/rack", "podSetSliceSize": 4}` is
//! `required:example.com/block:slices=example.com/rack/4`.

use serde_json::Value;

use crate::quality::{Reason, RowAudit};

/// Two requests of which only one can be met.
const CONFLICT: Reason = Reason {
    id: "topology_conflict",
    what: "the pods ask of the topology more than one of required, preferred and unconstrained, which Kueue refuses; what they ask is unknown",
    remedy: "leave one of the three annotations",
};
/// No request that can be read.
const UNREADABLE: Reason = Reason {
    id: "topology_request",
    what: "what the pods ask of the topology names no node label, or is no boolean; it is unknown",
    remedy: "name the label of a level, such as cloud.provider.com/topology-rack; unconstrained is true or false",
};
/// Slices that cannot be made.
const SLICES: Reason = Reason {
    id: "topology_slices",
    what: "slices of the pods lack a level, or a size of 1 or more; the pods are taken to ask for no slices",
    remedy: "set podset-slice-required-topology and podset-slice-size together",
};

/// Longest key of a label: a domain name of 253 characters, a slash and a name of 63.
const LONGEST_LABEL: usize = 317;

/// Topology request as written.
#[derive(Debug, Clone, Copy, Default)]
struct Asked<'v> {
    required: Option<&'v Value>,
    preferred: Option<&'v Value>,
    unconstrained: Option<&'v Value>,
    slice_level: Option<&'v Value>,
    slice_size: Option<&'v Value>,
}

/// Reads a `topologyRequest`; `None` if it requests nothing.
pub(super) fn requested(request: &Value, row: &mut RowAudit<'_>) -> Option<Box<str>> {
    if !request.is_object() {
        row.repair(UNREADABLE, "topologyRequest", &request.to_string());
        return None;
    }
    let of = |key: &str| request.get(key).filter(|value| !value.is_null());
    let layer = of("podsetSliceRequiredTopologyConstraints").and_then(|layers| layers.get(0));
    let layer = |key: &str| layer.and_then(|layer| layer.get(key));
    let asked = Asked {
        required: of("required"),
        preferred: of("preferred"),
        unconstrained: of("unconstrained"),
        slice_level: of("podSetSliceRequiredTopology").or_else(|| layer("topology")),
        slice_size: of("podSetSliceSize").or_else(|| layer("size")),
    };
    asked.read(row)
}

/// Reads the topology annotations of a pod, or of a template of pods; `None` if they request
/// nothing.
pub(super) fn annotated(pod: &Value, row: &mut RowAudit<'_>) -> Option<Box<str>> {
    let annotations = pod.get("metadata")?.get("annotations")?;
    let of = |key: &str| annotations.get(key).filter(|value| !value.is_null());
    let request = Asked {
        required: of("kueue.x-k8s.io/podset-required-topology"),
        preferred: of("kueue.x-k8s.io/podset-preferred-topology"),
        unconstrained: of("kueue.x-k8s.io/podset-unconstrained-topology"),
        slice_level: of("kueue.x-k8s.io/podset-slice-required-topology"),
        slice_size: of("kueue.x-k8s.io/podset-slice-size"),
    };
    request.read(row)
}

impl Asked<'_> {
    fn read(self, row: &mut RowAudit<'_>) -> Option<Box<str>> {
        let mut unreadable = |key: &str, value: &Value| row.repair(UNREADABLE, key, &value.to_string());
        let anywhere = self.unconstrained.map(|value| {
            truth(value).unwrap_or_else(|| {
                unreadable("unconstrained", value);
                false
            })
        });
        let mut wishes = Vec::new();
        for (mode, value) in [("required", self.required), ("preferred", self.preferred)] {
            let Some(value) = value else { continue };
            match label(value) {
                Some(label) => wishes.push(format!("{mode}:{label}")),
                None => unreadable(mode, value),
            }
        }
        wishes.extend((anywhere == Some(true)).then(|| "unconstrained".to_owned()));
        let slices = self.slices(row);
        if wishes.len() > 1 {
            row.repair(CONFLICT, "topologyRequest", &wishes.join(","));
            return None;
        }
        match (wishes.pop(), slices) {
            (Some(wish), Some(slices)) => Some(format!("{wish}:{slices}").into()),
            (Some(wish), None) => Some(wish.into()),
            // What the job itself asks is lost, and slices alone would be another request.
            (None, Some(slices)) if self.required.is_none() && self.preferred.is_none() => {
                Some(format!("unconstrained:{slices}").into())
            }
            (None, _) => None,
        }
    }

    fn slices(self, row: &mut RowAudit<'_>) -> Option<String> {
        let (level, size) = match (self.slice_level, self.slice_size) {
            (None, None) => return None,
            of => of,
        };
        let pods = size.and_then(|size| size.as_u64().or_else(|| size.as_str()?.trim().parse().ok()));
        let result = level.and_then(label).zip(pods.filter(|pods| *pods > 0));
        if result.is_none() {
            let written = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), Value::to_string);
            row.repair(SLICES, "podSetSliceSize", &format!("level {}, size {}", written(level), written(size)));
        }
        result.map(|(level, pods)| format!("slices={level}/{pods}"))
    }
}

/// The key of a node label; `None` if it can be none.
fn label(value: &Value) -> Option<&str> {
    let text = value.as_str()?.trim();
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    let parts = text.split('/').count();
    (text.len() <= LONGEST_LABEL && parts <= 2 && text.split('/').all(is_part)).then_some(text)
}

/// A boolean, bare or as Go reads one.
fn truth(value: &Value) -> Option<bool> {
    let of_text = || match value.as_str()? {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    };
    value.as_bool().or_else(of_text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::quality::Ledger;

    /// Why a row was repaired.
    fn reasons(row: RowAudit<'_>) -> Vec<&'static str> {
        let mut ledger = Ledger::default();
        ledger.keep(row);
        [CONFLICT, UNREADABLE, SLICES].iter().filter(|of| ledger.count(of.id) > 0).map(|of| of.id).collect()
    }

    /// Reads a request; also returns the reasons of repairs.
    fn read(request: &Value) -> (Option<String>, Vec<&'static str>) {
        let mut row = RowAudit::new("f", 1);
        let result = requested(request, &mut row);
        (result.map(Into::into), reasons(row))
    }

    #[test]
    fn each_way_to_ask_has_its_rule() {
        let of = |request: Value| {
            let (result, reasons) = read(&request);
            assert!(reasons.is_empty(), "{request}: {reasons:?}");
            result
        };
        assert_eq!(of(json!({"required": "example.com/rack"})).as_deref(), Some("required:example.com/rack"));
        assert_eq!(of(json!({"preferred": "rack"})).as_deref(), Some("preferred:rack"));
        assert_eq!(of(json!({"unconstrained": true})).as_deref(), Some("unconstrained"));
        let sliced = json!({"required": "example.com/block", "podSetSliceRequiredTopology": "example.com/rack", "podSetSliceSize": 4});
        assert_eq!(of(sliced).as_deref(), Some("required:example.com/block:slices=example.com/rack/4"));
        let alone = json!({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2});
        assert_eq!(of(alone).as_deref(), Some("unconstrained:slices=rack/2"));
        let layers = json!({"required": "block", "podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 8}, {"topology": "host", "size": 2}]});
        assert_eq!(of(layers).as_deref(), Some("required:block:slices=rack/8"));
        assert_eq!(of(json!({"unconstrained": false, "podIndexLabel": "i", "required": null})), None);
    }

    #[test]
    fn annotations_say_the_same_in_text() {
        let mut row = RowAudit::new("f", 1);
        let of = |annotations: Value, row: &mut RowAudit<'_>| {
            annotated(&json!({"metadata": {"annotations": annotations}}), row).map(String::from)
        };
        let sliced = json!({"kueue.x-k8s.io/podset-preferred-topology": "a/block", "kueue.x-k8s.io/podset-slice-required-topology": "a/rack", "kueue.x-k8s.io/podset-slice-size": "16"});
        assert_eq!(of(sliced, &mut row).as_deref(), Some("preferred:a/block:slices=a/rack/16"));
        let anywhere = |text: &str| json!({"kueue.x-k8s.io/podset-unconstrained-topology": text});
        assert_eq!(of(anywhere("true"), &mut row).as_deref(), Some("unconstrained"));
        assert_eq!(of(anywhere("false"), &mut row), None);
        assert!(row.is_clean());
        assert_eq!(of(anywhere("perhaps"), &mut row), None);
        assert_eq!(reasons(row), ["topology_request"]);
    }

    #[test]
    fn what_cannot_be_met_or_read_is_told() {
        let both = json!({"required": "rack", "preferred": "block"});
        assert_eq!(read(&both), (None, vec!["topology_conflict"]));
        for size in [json!(0), json!(-4), json!("four"), json!(null)] {
            let request = json!({"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": size});
            assert_eq!(read(&request), (Some("required:block".to_owned()), vec!["topology_slices"]), "{size}");
        }
        assert_eq!(read(&json!({"podSetSliceSize": 4})), (None, vec!["topology_slices"]));
        for request in [json!("rack"), json!(["rack"]), json!(true)] {
            assert_eq!(read(&request), (None, vec!["topology_request"]), "{request}");
        }
        for label in [json!(""), json!("a:b"), json!("a,b"), json!("a/b/c"), json!("a/"), json!(7), json!("é")] {
            assert_eq!(read(&json!({"required": label})), (None, vec!["topology_request"]), "{label}");
        }
    }
}
