//! The setting for those who carry it out: a ScaledObject for KEDA, and the service section of a SkyServe file.
//!
//! **KEDA** (`keda.sh/v1alpha1`). A reactive rule is a Prometheus trigger on the requests in flight, with the target as its threshold; KEDA's HPA asks for ⌈value / threshold⌉
//! replicas (`AverageValue`), with a tolerance of 10 % and the stabilisation window of `scaleDown`: what was replayed. A forecast is one query: the mean load of the last
//! minutes plus the margin, over the use, with a threshold of 1; its guard is a second trigger, as a reactive rule's, and the HPA takes what asks for more. KEDA asks for the metric every slot and keeps it until the next (`useCachedMetrics`), as the HPA would ask
//! Prometheus itself every 15 s otherwise. Its limits on how fast replicas start and stop do not bind. Metrics are vLLM's by name; counters of the gateway are better, as they count what waits. A constant
//! is a deployment's `replicas`.
//!
//! **SkyServe** scales on requests a second of a replica alone, so its file is the nearest to what was tested and says so: `target_qps_per_replica` is what a replica gets on
//! average at the setting's mean number on the log that it was chosen on. Spot is `use_spot` with `dynamic_ondemand_fallback` and `num_overprovision`.
//!
//! O(1). Worked example: 5 requests a second and 4 replicas on average are 1.25 requests a second of each.

use serde_json::{Value, json};

use super::answer::ServingAnswer;
use super::rule::{ServingLoad, ServingRule};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emit::kubernetes::object;
use crate::plan::slug::slug;
use crate::plan::verdict::Verdict;
use crate::yaml::stream;

/// Requests in flight, by vLLM's names.
const IN_FLIGHT: &str = "sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting)";

/// The mean load of the last `over` seconds, with a margin as a number or as a multiple of its square root, over the use.
fn forecast_query(load: &ServingLoad, over: u64, (margin, root): (f64, f64), use_share: f64) -> String {
    let level = format!(
        "(sum(rate(vllm:prompt_tokens_total[{over}s])) * {:.6e} + sum(rate(vllm:request_success_total[{over}s])) * {:.6e})",
        load.input_token_s,
        load.mean_output * load.output_token_s,
    );
    let beyond = if root == 0.0 { format!("({margin:.4})") } else { format!("({root:.4}) * sqrt({level})") };
    format!("({level} + {beyond}) / {use_share:.2}")
}

/// What the HPA looks at: the value of the rule, and the requests in flight where a guard is set. It takes what asks for more.
fn triggers(query: &str, threshold: &str, guard: Option<u32>) -> Vec<Value> {
    let mut result = vec![trigger(query, threshold)];
    result.extend(guard.map(|most| trigger(IN_FLIGHT, &most.to_string())));
    result
}

/// A Prometheus trigger.
fn trigger(query: &str, threshold: &str) -> Value {
    json!({
        "type": "prometheus",
        "metricType": "AverageValue",
        "useCachedMetrics": true,
        "metadata": {"serverAddress": "http://prometheus-operated.monitoring.svc:9090", "query": query, "threshold": threshold},
    })
}

/// Refuses what was not advised.
fn advised(answer: &ServingAnswer) -> Result<String> {
    if answer.verdict != Verdict::Advised {
        return Err(Error::NotEmitted(format!("the setting is not advised. {}", answer.action)));
    }
    Ok(slug(&answer.body.replica.name).unwrap_or_else(|| "service".to_owned()))
}

/// A time in seconds, at least one.
fn whole_s(seconds: f64) -> u64 {
    seconds.round().max(1.0) as u64
}

/// Requests a second of a replica, to three digits. What is less than one in hours is told as that, as it must not be 0.
fn of_a_replica(requests_per_s: f64, replicas: f64) -> f64 {
    let share = (requests_per_s / replicas.max(1.0)).max(1e-4);
    format!("{share:.2e}").parse().unwrap_or(share)
}

/// For Kubernetes: `keda-scaledobject.yaml`, or `deployment-replicas.yaml` of a constant number.
///
/// # Errors
/// If the setting is not advised.
pub fn keda(answer: &ServingAnswer) -> Result<Emitted> {
    let name = advised(answer)?;
    let ahead = &answer.body.ahead;
    let held = |slots: u32| whole_s(f64::from(slots) * answer.body.slot_s);
    let (query, threshold, least, hold_s, about) = match ahead.rule {
        ServingRule::Constant { replicas } => {
            let about = format!(
                "{replicas} replicas at all times.\nThe name of the deployment is made up: put yours in.\nkubectl apply --server-side --force-conflicts -f FILE; undo: kubectl scale deployment {name} --replicas=BEFORE"
            );
            let document = object("apps/v1", "Deployment", &name, &json!({"replicas": replicas}));
            return Ok(("deployment-replicas.yaml".to_owned(), stream(&[(about, document)])));
        }
        ServingRule::Reactive { target, least, hold_slots } => (
            IN_FLIGHT.to_owned(),
            target.to_string(),
            least,
            held(hold_slots),
            format!("Requests in flight, {target} of a replica."),
        ),
        ServingRule::Forecast { window_slots, margin, root, use_share, least, hold_slots, .. } => {
            let (over, load) = (held(window_slots), ahead.load);
            let query = forecast_query(&load, over, (margin, root), use_share);
            let about = format!(
                "The mean load of the last {over} s, in replicas at full use (tokens in, and requests at {:.0} tokens out), plus a margin of {}, at a use of {use_share:.2}.",
                load.mean_output,
                if root == 0.0 { format!("{margin:.2}") } else { format!("{root:.2} times its square root") }
            );
            (query, "1".to_owned(), least, held(hold_slots), about)
        }
    };
    let more = if ahead.hedge.is_some() {
        "\nSpot with on-demand behind it is SkyServe's part; here all replicas are of one kind."
    } else {
        ""
    };
    let about = format!(
        "{about}{more}\nNames of the deployment, of the Prometheus server and of the metrics are made up or vLLM's: put yours in. vLLM counts requests when they are served; counters of the gateway count them when they come.\nUndo: kubectl delete -f FILE, then kubectl scale."
    );
    let most = ahead.limit.max(least);
    let guard = match ahead.rule {
        ServingRule::Forecast { guard, .. } => guard,
        _ => None,
    };
    // All at once, both ways.
    let up = json!([{"type": "Pods", "value": most, "periodSeconds": 15}]);
    let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "pollingInterval": whole_s(answer.body.slot_s),
        "minReplicaCount": least.max(1),
        "maxReplicaCount": most,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {
            "scaleDown": {"stabilizationWindowSeconds": hold_s.min(3600), "policies": down},
            "scaleUp": {"stabilizationWindowSeconds": 0, "policies": up},
        }}},
        "triggers": triggers(&query, &threshold, guard),
    });
    let document = object("keda.sh/v1alpha1", "ScaledObject", &name, &spec);
    Ok(("keda-scaledobject.yaml".to_owned(), stream(&[(about, document)])))
}

/// For SkyServe: `skyserve-service.yaml`.
///
/// # Errors
/// If the setting is not advised.
pub fn skyserve(answer: &ServingAnswer) -> Result<Emitted> {
    advised(answer)?;
    let ahead = &answer.body.ahead;
    let extra = ahead.hedge.map(|hedge| hedge.extra);
    let mut policy = match ahead.rule {
        ServingRule::Constant { replicas } => json!({"min_replicas": replicas, "max_replicas": replicas}),
        ServingRule::Reactive { least, hold_slots, .. } | ServingRule::Forecast { least, hold_slots, .. } => {
            json!({
                "min_replicas": least.max(1),
                "max_replicas": ahead.limit.max(least),
                "target_qps_per_replica": of_a_replica(ahead.requests_per_s, ahead.mean_replicas),
                "upscale_delay_seconds": whole_s(answer.body.slot_s),
                "downscale_delay_seconds": whole_s(f64::from(hold_slots) * answer.body.slot_s),
            })
        }
    };
    if let (Some(extra), Some(fields)) = (extra, policy.as_object_mut()) {
        fields.insert("num_overprovision".to_owned(), Value::from(extra));
        fields.insert("dynamic_ondemand_fallback".to_owned(), Value::from(true));
    }
    let mut resources = json!({"use_spot": extra.is_some()});
    if let (Some(gpu), Some(fields)) = (&answer.body.replica.gpu, resources.as_object_mut()) {
        fields.insert("accelerators".to_owned(), Value::from(format!("{gpu}:{}", answer.body.replica.gpus)));
    }
    let document = json!({
        "service": {
            "readiness_probe": {"path": "/health", "initial_delay_seconds": whole_s(2.0 * answer.body.replica.start_s)},
            "replica_policy": policy,
        },
        "resources": resources,
    });
    let about = format!(
        "The service and resources sections of a SkyServe file; add setup and run of your own, ports, and the path of your probe.\nSkyServe scales on requests a second of a replica alone: the nearest to what was tested ({}), not the same.\nsky serve update NAME FILE; undo: sky serve update with the file that the service had.",
        ahead.setting
    );
    Ok(("skyserve-service.yaml".to_owned(), stream(&[(about, document)])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_one_query_and_its_guard_another() {
        let load = ServingLoad { input_token_s: 0.000_25, mean_output: 200.0, output_token_s: 0.001 };
        let level = "(sum(rate(vllm:prompt_tokens_total[60s])) * 2.500000e-4 + sum(rate(vllm:request_success_total[60s])) * 2.000000e-1)";
        assert_eq!(forecast_query(&load, 60, (-0.5, 0.0), 0.7), format!("({level} + (-0.5000)) / 0.70"));
        assert_eq!(forecast_query(&load, 60, (0.0, 0.4), 0.75), format!("({level} + (0.4000) * sqrt({level})) / 0.75"));
        let of = |guard| -> Vec<String> {
            let result = triggers("q", "1", guard);
            result.iter().map(|one| format!("{} {}", one["metadata"]["query"], one["metadata"]["threshold"])).collect()
        };
        assert_eq!(of(None), ["\"q\" \"1\""]);
        assert_eq!(of(Some(24))[1], format!("\"{IN_FLIGHT}\" \"24\""));
    }

    #[test]
    fn requests_of_a_replica_have_three_digits_and_are_never_none() {
        assert_eq!((of_a_replica(5.0, 4.0), of_a_replica(0.001_234_5, 1.0)), (1.25, 0.001_23));
        assert_eq!((of_a_replica(0.0, 3.0), of_a_replica(12.0, 0.5)), (0.000_1, 12.0));
    }
}
