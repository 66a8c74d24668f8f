#![allow(clippy::unwrap_used)]

use super::*;
use crate::audit::account::account;
use crate::audit::factors::Loaded;
use crate::energy::ledger::{Basis, EnergyEntry, EnergyLedger, Owner};
use crate::schema::GpuSampleRow;
use crate::time::HOUR_MS;

const HEAD: &str = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n";

fn study(rows: &str) -> Result<Study> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary_power_v100.csv");
    std::fs::write(&path, format!("{HEAD}{rows}")).unwrap();
    read("v100", &path)
}

/// Three workloads: at 150 W ratios 0.825 (slow-down 1.1) and 0.9 (slow-down 1.2); the third was
/// not measured at the highest cap.
const THREE: &str =
    "x,n,1,sgd,250,100,200\nx,n,1,sgd,150,110,150\ny,n,1,sgd,250,10,100\ny,n,1,sgd,150,12,75\nz,n,1,sgd,150,1,1\n";

#[test]
fn ratios_are_against_the_same_workload_at_the_highest_cap() {
    let study = study(THREE).unwrap();
    assert_eq!((study.base_w, study.left_out, study.rows_unusable), (250.0, 1, 0));
    let low = &study.caps[0];
    assert_eq!((low.cap_w, low.workloads), (150.0, 2));
    // 16.5 of 20 kJ and 900 of 1,000 J: the median of 0.825 and 0.9, quartiles a quarter of the way in.
    let near = |result: f64, wanted: f64| assert!((result - wanted).abs() < 1e-9, "{result} is not {wanted}");
    near(low.energy_ratio.p50, 0.862_5);
    near(low.energy_ratio.p25, 0.843_75);
    near(low.energy_ratio.p75, 0.881_25);
    near(low.slowdown.p50, 1.15);
    near(study.caps[1].energy_ratio.p50, 1.0);
}

#[test]
fn rows_without_a_measurement_are_counted_and_a_file_without_columns_is_refused() {
    let study = study("x,n,1,sgd,250,100,200\nx,n,1,sgd,150,0,150\nx,n,1,sgd,125,,150\n").unwrap();
    assert_eq!((study.rows_unusable, study.caps.len()), (2, 1));
    assert!(super::tests::study("").is_err());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary_power_a.csv");
    std::fs::write(&path, "dataset,network\nx,n\n").unwrap();
    let why = read("a", &path).unwrap_err().to_string();
    assert!(why.contains("batch_size"), "{why}");
    let empty = tempfile::tempdir().unwrap();
    assert!(files(empty.path()).unwrap_err().to_string().contains("summary_power_<GPU type>.csv"));
    assert_eq!(files(folder.path()).unwrap(), [("a".to_owned(), path)]);
}

#[test]
fn types_are_met_by_their_plain_name() {
    for name in ["V100", "NVIDIA Tesla V100-SXM2-32GB", "v100", "Tesla V100-PCIE-16GB"] {
        assert_eq!(plain_type(name), "v100", "{name}");
    }
    assert_eq!(plain_type("Quadro RTX 6000"), "rtx6000");
    for other in ["V100S-PCIE-32GB", "NVIDIA RTX 6000 Ada Generation", "A100-SXM4-40GB"] {
        assert!(!["v100", "rtx6000"].contains(&plain_type(other).as_str()), "{other}");
    }
}

/// 30 kWh above idle, 10 kWh idle and held, 8 kWh overhead of jobs, 2 kWh of nobody; 100 GPU hours held.
fn audited() -> Account {
    let entry = |spent_on, owner, kwh: f64| EnergyEntry {
        hour_ms: 0,
        spent_on,
        owner,
        basis: Basis::Power,
        energy_j: kwh * 3.6e6,
        lower_j: kwh * 3.6e6,
        upper_j: kwh * 3.6e6,
    };
    let ledger = EnergyLedger {
        to_ms: HOUR_MS,
        owners: vec![Owner { vc: None, user: None }],
        entries: vec![
            entry(Use::Active, Some(0), 30.0),
            entry(Use::IdleAllocated, Some(0), 10.0),
            entry(Use::Overhead, Some(0), 8.0),
            entry(Use::IdleUnallocated, None, 2.0),
        ],
        total_j: 50.0 * 3.6e6,
        allocated_gpu_hours: 100.0,
        ..EnergyLedger::default()
    };
    account(&ledger, &Loaded::default())
}

fn fleet_of(types: &[Option<&str>]) -> Trace {
    let mut trace = Trace::default();
    for (gpu, gpu_type) in types.iter().enumerate() {
        for ts in [0, HOUR_MS] {
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some(ts),
                node: Some("n".into()),
                gpu: Some(gpu.to_string().into()),
                gpu_type: gpu_type.map(Into::into),
                power_w: Some(if gpu == 0 { 300.0 } else { 100.0 }),
                ..GpuSampleRow::default()
            });
        }
    }
    trace
}

#[test]
fn the_saving_is_that_of_the_energy_of_held_gpus() {
    let result = apply(&fleet_of(&[Some("Tesla V100")]), &audited(), vec![study(THREE).unwrap()], None).unwrap();
    let [fleet] = result.fleet.as_slice() else { unreachable!("one type") };
    assert_eq!((fleet.studied_as.as_deref(), fleet.mapped, fleet.energy_share), (Some("v100"), false, Some(1.0)));
    let line = &fleet.caps[0];
    let near = |result: f64, wanted: f64| assert!((result - wanted).abs() < 1e-9, "{result} is not {wanted}");
    // 40 kWh · (1 − 0.8625); at least 30 · (1 − 0.88125), at most 40 · (1 − 0.84375).
    near(line.saved_kwh.value, 5.5);
    near(line.saved_kwh.lower, 3.562_5);
    near(line.saved_kwh.upper, 6.25);
    near(line.saved_share.unwrap(), 0.11);
    // 15 % longer: 15 GPU hours and 1.2 kWh of overhead.
    near(line.extra_gpu_hours, 15.0);
    near(line.extra_overhead_kwh, 1.2);
}

#[test]
fn another_type_is_taken_only_if_the_user_says_so() {
    let studies = || vec![study(THREE).unwrap()];
    let trace = fleet_of(&[Some("H100")]);
    let refused = apply(&trace, &audited(), studies(), None).unwrap();
    assert!(refused.fleet[0].caps.is_empty() && refused.fleet[0].studied_as.is_none());
    assert!(refused.fleet[0].why_not.as_deref().unwrap().contains("nothing was measured of H100"));
    let mapped = apply(&trace, &audited(), studies(), Some("Tesla V100")).unwrap();
    assert!(mapped.fleet[0].mapped && !mapped.fleet[0].caps.is_empty());
    let why = apply(&trace, &audited(), studies(), Some("K80")).unwrap_err().to_string();
    assert!(why.contains("name one of v100"), "{why}");
}

#[test]
fn of_a_mixed_fleet_each_type_has_its_share_of_the_energy() {
    let result =
        apply(&fleet_of(&[Some("V100"), Some("H100")]), &audited(), vec![study(THREE).unwrap()], None).unwrap();
    // 300 W and 100 W for an hour.
    let shares: Vec<(Option<&str>, Option<f64>, usize)> =
        result.fleet.iter().map(|fleet| (fleet.gpu_type.as_deref(), fleet.energy_share, fleet.caps.len())).collect();
    assert_eq!(shares, [(Some("H100"), Some(0.25), 0), (Some("V100"), Some(0.75), 2)]);
    let line = &result.fleet[1].caps[0];
    assert!((line.saved_kwh.value - 5.5 * 0.75).abs() < 1e-9);
}

#[test]
fn a_type_of_the_inventory_without_readings_leaves_the_shares_unknown() {
    let mut trace = fleet_of(&[Some("V100")]);
    let node = |name: &str, gpu_type: &str, gpus: f64| crate::schema::NodeRow {
        node: Some(name.to_owned().into()),
        gpu_type: Some(gpu_type.to_owned().into()),
        gpus: Some(gpus),
        ..crate::schema::NodeRow::default()
    };
    // The same type under a longer name, and a node without GPUs: still one type.
    trace.nodes.push(node("n", "NVIDIA Tesla V100-SXM2-32GB", 4.0));
    trace.nodes.push(node("cpu", "K80", 0.0));
    assert_eq!(types(&trace), [(Some("V100".to_owned()), Some(1.0))]);
    trace.nodes.push(node("m", "H100", 8.0));
    assert_eq!(types(&trace), [(Some("H100".to_owned()), None), (Some("V100".to_owned()), None)]);
    let result = apply(&trace, &audited(), vec![study(THREE).unwrap()], Some("v100")).unwrap();
    assert!(result.fleet.iter().all(|fleet| fleet.caps.is_empty() && fleet.why_not.is_some()));
}
