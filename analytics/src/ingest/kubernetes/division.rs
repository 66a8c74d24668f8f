//! Division of a node's GPUs: the units that its device plugin hands out, and the part of a GPU
//! that each is.
//!
//! | division | on the node | one unit of `nvidia.com/gpu` is |
//! |---|---|---|
//! | time slicing, MPS | label `nvidia.com/gpu.replicas`, product with `-SHARED` (or the units are called `nvidia.com/gpu.shared`) | 1 / replicas |
//! | MIG, strategy `single` | product with `-MIG-1g.5gb` or its like | 1 / the slices of that profile that fit on a GPU |
//!
//! **GPUs of the node**: label `nvidia.com/gpu.count`, without it units / replicas. Under MIG `single` the label counts slices, as
//! the units do: the GPUs are then the slices divided by those that fit on one, rounded up; if it counts less than there are slices,
//! it is taken for the GPUs. How many slices of a profile fit is the lesser of two bounds: compute slices (a GPU has 7, an A30 or
//! an RTX PRO 6000 has 4), and memory. Slices of the strategy `mixed` have resources of their own ([`super::quantity`]); the
//! node has the fewest GPUs that they can be cut from, or more if the label says so.
//!
//! Worked example: 4 T4 with 4 replicas are 16 units and 4 GPUs. A node with 8 A100 of 40 GB cut into `1g.5gb` has 56 units:
//! min(7 / 1, 40 / 5) = 7 slices fit on a GPU, so it has 8.

use serde_json::Value;

use super::object::text;
use super::quantity::{profile, quantity};

/// Memory of GPUs whose product does not name it, gigabytes; the first that the product contains. (The `480GB` of a GH200 are its CPU's.)
const MEMORY_GB: [(&str, f64); 9] = [
    ("GH200-144G", 144.0),
    ("GH200", 96.0),
    ("H200", 141.0),
    ("H100-NVL", 94.0),
    ("H100", 80.0),
    ("B200", 180.0),
    ("B300", 269.0),
    ("RTX-PRO-6000", 96.0),
    ("A30", 24.0),
];
/// GPUs with four compute slices; others have seven.
const FOUR_SLICES: [&str; 2] = ["A30", "RTX-PRO-6000"];
/// More replicas or GPUs than a node has: a label beyond is none.
const MOST: f64 = 1e6;

/// Division of a node's GPUs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Division {
    /// GPUs there are.
    pub(super) gpus: f64,
    /// Units that are handed out.
    pub(super) units: f64,
    /// GPUs that a unit is.
    pub(super) part: f64,
    /// The profile of a MIG slice.
    pub(super) profile: Option<Box<str>>,
}

impl Division {
    /// The division that a node's labels tell, of the `units` it hands out; `None` where each is a GPU.
    pub(super) fn new(labels: Option<&Value>, units: f64) -> Option<Self> {
        let label = |key: &str| labels.and_then(|labels| labels.get(key));
        let number = |key: &str| label(key).and_then(quantity).filter(|number| (1.0..=MOST).contains(number));
        let product = text(label("nvidia.com/gpu.product")).unwrap_or_default();
        let count = number("nvidia.com/gpu.count");
        let (model, profile) = match unshared(product).split_once("-MIG-") {
            Some((model, profile)) => (model, Some(profile)),
            None => (unshared(product), None),
        };
        let per_gpu = profile.map_or(1.0, |profile| per_gpu(model, profile));
        let told = number("nvidia.com/gpu.replicas");
        // To `text`, the word would be an unknown one.
        let none = label("nvidia.com/gpu.sharing-strategy").and_then(Value::as_str) == Some("none");
        // A product that is shared, without a word of by how many.
        let shared = || count.filter(|_| product != unshared(product)).map(|count| units / count);
        let replicas = told.filter(|_| !none).or_else(shared).filter(|replicas| *replicas > 1.0).unwrap_or(1.0);
        // A plugin that was told of replicas and hands out as many units as there are GPUs divides nothing.
        let replicas = if profile.is_none() && count == Some(units) { 1.0 } else { replicas };
        let devices = units / replicas;
        let gpus = match (profile, count) {
            (None, count) => count.unwrap_or(devices),
            (Some(_), Some(count)) if count < devices => count,
            (Some(_), _) => (devices / per_gpu).ceil(),
        };
        let part = 1.0 / (replicas * per_gpu);
        let whole = part >= 1.0 && profile.is_none();
        (units > 0.0 && !whole).then(|| Self { gpus, units, part, profile: profile.map(Into::into) })
    }
}

/// A product label without the mark that its GPUs are shared.
pub(super) fn unshared(product: &str) -> &str {
    product.strip_suffix("-SHARED").unwrap_or(product)
}

/// The model of a GPU by its product label.
pub(super) fn model(product: &str) -> &str {
    let product = unshared(product);
    product.split_once("-MIG-").map_or(product, |(model, _)| model)
}

/// Number of MIG slices of a profile such as `1g.5gb` that fit on a GPU; 1 if it is no profile.
fn per_gpu(model: &str, name: &str) -> f64 {
    let Some((compute, memory)) = profile(name) else { return 1.0 };
    // Only one slice of a GPU has its media engines.
    if name.split(['.', '+']).nth(2) == Some("me") {
        return 1.0;
    }
    let by_compute = f64::floor(compute_slices(model) / compute);
    let by_memory = memory_gb(model).map_or(by_compute, |gpu| (gpu / memory).round());
    by_compute.min(by_memory).max(1.0)
}

fn compute_slices(model: &str) -> f64 {
    if FOUR_SLICES.iter().any(|four| model.contains(four)) { 4.0 } else { 7.0 }
}

/// The fewest GPUs of a model that can be cut into slices of these profiles, and so many of each.
pub(super) fn cut_from<'s>(model: &str, slices: impl Iterator<Item = (&'s str, f64)>) -> f64 {
    let (mut compute, mut memory, mut most) = (0.0, 0.0, 0.0_f64);
    for (name, many) in slices {
        let (of_compute, of_memory) = profile(name).unwrap_or((compute_slices(model), 0.0));
        compute += many * of_compute;
        memory += many * of_memory;
        most = most.max((many / per_gpu(model, name)).ceil());
    }
    // Slices of several profiles share a GPU as far as its processors and its memory go; a few gigabytes are the driver's.
    let by_memory = memory_gb(model).map_or(0.0, |gpu| (0.98 * memory / gpu).ceil());
    most.max((compute / compute_slices(model)).ceil()).max(by_memory)
}

/// Memory of a GPU, gigabytes: as its product says, else as is known of it.
fn memory_gb(model: &str) -> Option<f64> {
    let said = || model.split('-').find_map(|word| word.strip_suffix("GB")?.parse::<f64>().ok());
    let known = || MEMORY_GB.iter().find(|(name, _)| model.contains(name)).map(|(_, memory)| *memory);
    if model.contains("GH200") { known() } else { said().or_else(known) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    /// GPUs and units to a GPU of a node with these labels and units.
    fn divided(labels: &Value, units: f64) -> Option<(f64, f64)> {
        Division::new(Some(labels), units).map(|division| (division.gpus, (1.0 / division.part).round()))
    }

    // The two worked examples of the module; two replicas of 56 slices; one A30 with two slices of half of it.
    #[test]
    fn a_unit_is_a_part_of_a_gpu() {
        let of = |product: &str, count: &str, replicas: &str| json!({"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": count, "nvidia.com/gpu.replicas": replicas});
        assert_eq!(divided(&of("Tesla-T4-SHARED", "4", "4"), 16.0), Some((4.0, 4.0)));
        assert_eq!(divided(&of("A100-SXM4-40GB-MIG-1g.5gb", "56", "1"), 56.0), Some((8.0, 7.0)));
        assert_eq!(divided(&of("A100-SXM4-40GB-MIG-1g.5gb-SHARED", "56", "2"), 112.0), Some((8.0, 14.0)));
        assert_eq!(divided(&of("NVIDIA-A30-MIG-2g.12gb", "2", "1"), 2.0), Some((1.0, 2.0)));
        // Renamed to nvidia.com/gpu.shared, the product has no mark.
        assert_eq!(divided(&of("Tesla-T4", "4", "4"), 16.0), Some((4.0, 4.0)));
        // The label counts GPUs where it counts less than there are slices.
        assert_eq!(divided(&of("A100-SXM4-40GB-MIG-3g.20gb", "8", "1"), 16.0), Some((8.0, 2.0)));
        // One slice a GPU is still a slice.
        assert_eq!(divided(&of("A100-SXM4-40GB-MIG-7g.40gb", "8", "1"), 8.0), Some((8.0, 1.0)));
    }

    #[test]
    fn labels_that_are_missing_or_say_nothing() {
        let product = |product: &str| json!({"nvidia.com/gpu.product": product});
        assert_eq!(divided(&product("Tesla-T4"), 8.0), None);
        assert_eq!(divided(&product("A100-SXM4-40GB-MIG-1g.5gb"), 15.0), Some((3.0, 7.0)));
        // Shared, and by how many nobody says.
        assert_eq!(divided(&product("Tesla-T4-SHARED"), 8.0), None);
        let mut counted = product("Tesla-T4-SHARED");
        counted["nvidia.com/gpu.count"] = json!("2");
        assert_eq!(divided(&counted, 8.0), Some((2.0, 4.0)));
        let only = json!({"nvidia.com/gpu.replicas": "4"});
        assert_eq!(divided(&only, 8.0), Some((2.0, 4.0)));
        // The plugin has not taken up its configuration; the strategy is none; a label is no number.
        let late = json!({"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "8"});
        assert_eq!(divided(&late, 8.0), None);
        assert_eq!(
            divided(&json!({"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "none"}), 8.0),
            None
        );
        assert_eq!(divided(&json!({"nvidia.com/gpu.replicas": "many"}), 8.0), None);
        // MIG is set up and off.
        assert_eq!(divided(&json!({"nvidia.com/gpu.product": "A100", "nvidia.com/mig.strategy": "single"}), 8.0), None);
    }

    // 16 × 3g.20gb need 8 GPUs; 3g.40gb, 2 × 2g.20gb fill one of 80 GB; 7 × 1g.10gb fit on one of 80 GB, and take two of 40 GB.
    #[test]
    fn how_many_gpus_slices_are_cut_from() {
        let of = |model: &str, slices: &[(&str, f64)]| cut_from(model, slices.iter().copied());
        assert_eq!(of("NVIDIA-A100-SXM4-40GB", &[("3g.20gb", 16.0)]), 8.0);
        assert_eq!(of("NVIDIA-H100-80GB-HBM3", &[("3g.40gb", 1.0), ("2g.20gb", 2.0)]), 1.0);
        assert_eq!(of("NVIDIA-H100-80GB-HBM3", &[("1g.10gb", 7.0)]), 1.0);
        assert_eq!(of("NVIDIA-A100-SXM4-40GB", &[("1g.10gb", 7.0)]), 2.0);
        assert_eq!(of("", &[("3g.20gb", 1.0), ("4g.20gb", 1.0)]), 1.0);
        assert_eq!(of("", &[]), 0.0);
    }

    // As NVIDIA's tables of MIG profiles have them.
    #[test]
    fn how_many_slices_fit_on_a_gpu() {
        for (model, profile, many) in [
            ("NVIDIA-A100-SXM4-40GB", "1g.10gb", 4.0),
            ("NVIDIA-A100-SXM4-80GB", "1g.10gb", 7.0),
            ("NVIDIA-A100-SXM4-80GB", "1g.10gb.me", 1.0),
            ("NVIDIA-H100-80GB-HBM3", "1g.20gb", 4.0),
            ("NVIDIA-H100-80GB-HBM3", "2g.20gb", 3.0),
            ("NVIDIA-H100-80GB-HBM3", "4g.40gb", 1.0),
            ("NVIDIA-H100-NVL", "3g.47gb", 2.0),
            ("NVIDIA-H200", "1g.18gb", 7.0),
            ("NVIDIA-H200", "1g.35gb", 4.0),
            ("NVIDIA-H200", "3g.71gb", 2.0),
            ("NVIDIA-GH200-480GB", "1g.24gb", 4.0),
            ("NVIDIA-B200", "1g.45gb", 4.0),
            ("NVIDIA-A30", "1g.6gb", 4.0),
            ("NVIDIA-Unheard-Of", "3g.30gb", 2.0),
            ("NVIDIA-A100-SXM4-40GB", "all", 1.0),
        ] {
            assert!((per_gpu(model, profile) - many).abs() < 1e-9, "{model} {profile}: {}", per_gpu(model, profile));
        }
    }
}
