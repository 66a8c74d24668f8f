//! A fleet's mix as a purchase list, and as node pools for Karpenter.
//!
//! The **list** is a CSV: a line for each commitment to buy, and one for each kind of instance that is rented by the hour, with how many of them on average and at most.
//!
//! **Karpenter** (`karpenter.sh/v1`): up to three node pools a GPU type. Nodes that a commitment pays for are on-demand nodes to Karpenter, so that pool comes first
//! (the greatest weight) and its limit is the GPUs that are committed to; then spot; then on-demand. Each names its instance types, its zones where all are known, its
//! capacity type, its provider's kind of class, and its limit of GPUs: the most that the record needed at once. An instance type that the offers do not tell is left to be filled in. Nodes of one's own are no instances, and are in the list alone.
//!
//! O(rows). Worked example: 4 instances of 8 GPUs reserved are the limit `nvidia.com/gpu: 32` of the pool `v100-reserved`.

use serde_json::Value;

use super::answer::{FleetAnswer, FleetMixRow};
use crate::error::{Error, Result};
use crate::market::purchase::BoughtAs;
use crate::plan::Emitted;
use crate::plan::emit::karpenter::{FILL_IN, NodeClass, NodePool, POOLS, within};
use crate::plan::emit::{number, table};
use crate::plan::slug::slugs;
use crate::yaml::stream;

/// The taint of spot nodes: only pods that tolerate it run there.
const SPOT_TAINT: &str = "tracecast.dev/spot";

/// The purchase list: `fleet-purchases.csv`.
///
/// # Errors
/// If it cannot be written as CSV, which no answer should bring about.
pub fn purchases(answer: &FleetAnswer) -> Result<Emitted> {
    let price = format!("price_per_hour_{}", answer.body.currency.to_lowercase());
    // A commitment beyond the horizon is paid to its end within it.
    let cost = format!("cost_per_month_of_horizon_{}", answer.body.currency.to_lowercase());
    let head = [
        "gpu",
        "offer",
        "zone",
        "how",
        "months",
        "buy",
        "mean_instances",
        "most_instances",
        "gpus_per_instance",
        &price,
        &cost,
    ];
    let rows = answer.body.mix.iter().filter(|row| row.count != Some(0)).map(|row| {
        [
            row.gpu.clone(),
            row.offer.clone(),
            row.zone.clone().unwrap_or_default(),
            row.how.in_words().to_owned(),
            row.months.map_or_else(String::new, number),
            row.count.map_or_else(String::new, |count| count.to_string()),
            number(row.mean_instances),
            number(row.peak_instances),
            number(row.gpus_per_instance),
            number(row.price_per_h),
            format!("{:.2}", row.cost_per_month),
        ]
    });
    table("fleet-purchases.csv", head, rows)
}

/// Node pools for Karpenter: `karpenter-nodepools.yaml`.
///
/// # Errors
/// If a GPU type has no name that Kubernetes takes, two have the same one, or a pool would hold instances of several providers.
pub fn karpenter(answer: &FleetAnswer) -> Result<Emitted> {
    let mut documents = Vec::new();
    let mut gpus: Vec<&str> = Vec::new();
    for row in &answer.body.mix {
        if !gpus.contains(&row.gpu.as_str()) {
            gpus.push(&row.gpu);
        }
    }
    for (gpu, name) in gpus.iter().zip(slugs("GPU", gpus.iter().copied())?) {
        for (how, weight) in [(BoughtAs::Reserved, 100), (BoughtAs::Spot, 50), (BoughtAs::OnDemand, 10)] {
            let rows: Vec<&FleetMixRow> = answer
                .body
                .mix
                .iter()
                .filter(|row| row.gpu == *gpu && row.how == how && row.peak_instances > 0.0)
                .collect();
            if !rows.is_empty() {
                documents.push(pool(&name, how, weight, &rows)?);
            }
        }
    }
    if documents.is_empty() {
        return Err(Error::NotEmitted("the mix rents nothing, so there is no node pool to write".to_owned()));
    }
    Ok((POOLS.to_owned(), stream(&documents)))
}

/// One node pool, with what is said above it.
fn pool(name: &str, how: BoughtAs, weight: u32, rows: &[&FleetMixRow]) -> Result<(String, Value)> {
    let suffix = match how {
        BoughtAs::Reserved | BoughtAs::Owned => "reserved",
        BoughtAs::Spot => "spot",
        BoughtAs::OnDemand => "on-demand",
    };
    let mut types: Vec<&str> = rows.iter().map(|row| row.instance_type.as_deref().unwrap_or(FILL_IN)).collect();
    types.sort_unstable();
    types.dedup();
    let mut untold: Vec<&str> =
        rows.iter().filter(|row| row.instance_type.is_none()).map(|row| row.offer.as_str()).collect();
    untold.dedup();
    let mut zones: Vec<&str> = rows.iter().filter_map(|row| row.zone.as_deref()).collect();
    let all_zoned = zones.len() == rows.len();
    zones.sort_unstable();
    zones.dedup();
    let gpus: f64 = rows.iter().map(|row| row.peak_instances * row.gpus_per_instance).sum();
    let mut requirements = vec![within("node.kubernetes.io/instance-type", types)];
    if all_zoned && !zones.is_empty() {
        requirements.push(within("topology.kubernetes.io/zone", zones));
    }
    let mut whose: Vec<Option<&str>> = rows.iter().map(|row| row.provider.as_deref()).collect();
    whose.sort_unstable();
    whose.dedup();
    if let [.., Some(one), Some(other)] = whose.as_slice() {
        return Err(Error::NotEmitted(format!(
            "the pool {name}-{suffix} would hold instances of {one} and of {other}, and a cluster with Karpenter is of one provider; plan with the offers of one of them"
        )));
    }
    let class = NodeClass::new(whose.first().copied().flatten());
    let limit = (gpus - 1e-9).ceil().max(1.0) as u64;
    let about = match how {
        BoughtAs::Spot => format!(
            "Spot, for pods that may be interrupted, which tolerate the taint {SPOT_TAINT}: at most {limit} GPUs, the most that the record needed at once."
        ),
        BoughtAs::OnDemand => format!(
            "On demand, when the other pools are full: at most {limit} GPUs, the most that the record needed at once."
        ),
        BoughtAs::Reserved | BoughtAs::Owned => format!("Nodes that commitments pay for, taken first: {limit} GPUs."),
    };
    let types = match untold.as_slice() {
        [] => "Instance types are those of the offers.".to_owned(),
        names => format!(
            "IT CANNOT BE APPLIED YET: the offers tell no instance type of {}. Put what your provider calls it in place of {FILL_IN}.",
            names.join(", ")
        ),
    };
    let about = format!("{about}\n{types} {}", class.to_do());
    let pool = NodePool {
        name: format!("{name}-{suffix}"),
        weight: Some(weight),
        spot: how == BoughtAs::Spot,
        requirements,
        gpus: Some(limit),
        // Nobody else is put on spot.
        taint: (how == BoughtAs::Spot).then_some(SPOT_TAINT),
        stays: false,
        class,
        empty_after: "5m".to_owned(),
        budgets: Vec::new(),
    };
    Ok((about, pool.object()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(provider: Option<&str>, instance_type: Option<&str>) -> FleetMixRow {
        FleetMixRow {
            gpu: "V100".to_owned(),
            offer: "a 8xV100".to_owned(),
            instance_type: instance_type.map(str::to_owned),
            zone: None,
            provider: provider.map(str::to_owned),
            how: BoughtAs::OnDemand,
            months: None,
            count: None,
            low: None,
            high: None,
            mean_instances: 1.0,
            peak_instances: 2.0,
            gpus_per_instance: 8.0,
            price_per_h: 1.0,
            overhead: 1.0,
            cost_per_month: 1.0,
        }
    }

    /// A pool holds instance types, never the names of offers, which no cloud knows; one that nobody tells is left to be filled in, and said so.
    #[test]
    fn a_pool_names_instance_types() {
        let of = |types: &[Option<&str>]| {
            let rows: Vec<FleetMixRow> = types.iter().map(|of| row(Some("aws"), *of)).collect();
            let result = pool("v100", BoughtAs::OnDemand, 10, &rows.iter().collect::<Vec<_>>());
            result
                .map(|(about, object)| (object["spec"]["template"]["spec"]["requirements"][1]["values"].clone(), about))
        };
        let known = of(&[Some("p3.16xlarge"), Some("p3.16xlarge")]);
        assert!(
            known.is_ok_and(|(types, about)| types == serde_json::json!(["p3.16xlarge"]) && !about.contains("CANNOT"))
        );
        let half = of(&[Some("p3.16xlarge"), None]);
        assert!(half.is_ok_and(|(types, about)| types == serde_json::json!(["FILL-IN", "p3.16xlarge"])
            && about.contains("IT CANNOT BE APPLIED YET: the offers tell no instance type of a 8xV100.")));
    }

    /// The class of nodes is the provider's; of several providers there is no pool, and of an unknown one the class is left to be filled in.
    #[test]
    fn a_pool_is_of_one_provider() {
        let class = |whose: &[Option<&str>]| {
            let rows: Vec<FleetMixRow> = whose.iter().map(|of| row(*of, Some("a"))).collect();
            let result = pool("v100", BoughtAs::OnDemand, 10, &rows.iter().collect::<Vec<_>>());
            result.map(|(about, object)| (about, object["spec"]["template"]["spec"]["nodeClassRef"]["kind"].clone()))
        };
        for (whose, kind) in [
            (&[Some("aws"), Some("aws")][..], "EC2NodeClass"),
            (&[Some("gcp")], "GCENodeClass"),
            (&[Some("azure")], "AKSNodeClass"),
            (&[None, Some("aws")], "FILL-IN"),
            (&[Some("lambda")], "FILL-IN"),
        ] {
            let result = class(whose);
            assert!(result.as_ref().is_ok_and(|(_, result)| result == kind), "{result:?}");
            assert!(result.is_ok_and(|(about, _)| about.contains("CANNOT BE APPLIED") == (kind == "FILL-IN")));
        }
        let refused = class(&[Some("aws"), Some("gcp")]).map(|_| ()).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|said| said.contains("instances of aws and of gcp")));
    }
}
