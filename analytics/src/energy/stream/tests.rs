#![allow(clippy::unwrap_used)]

use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::meter::measure;
use super::super::model::Given;
use super::*;
use crate::schema::{GpuSampleRow, JobRow, NodeRow, NodeSampleRow, PlacementRow};

/// A file of the table, with row groups of `rows`.
fn file(table: &GpuSampleTable, rows: usize) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpu_samples.parquet");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let schema = storage::schema::<GpuSampleTable>();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), schema, Some(properties)).unwrap();
    writer.write(&storage::batch(table, 0, table.len()).unwrap()).unwrap();
    writer.close().unwrap();
    (folder, path)
}

fn same(streamed: &EnergyLedger, whole: &EnergyLedger) {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * whole.total_j.abs().max(1.0);
    assert_eq!((streamed.from_ms, streamed.to_ms, &streamed.owners), (whole.from_ms, whole.to_ms, &whole.owners));
    assert_eq!(streamed.notes, whole.notes);
    assert!(near(streamed.total_j, whole.total_j), "{} {}", streamed.total_j, whole.total_j);
    assert_eq!(streamed.metered_j.is_some(), whole.metered_j.is_some());
    assert!((streamed.gpu_hours - whole.gpu_hours).abs() < 1e-9);
    assert!((streamed.allocated_gpu_hours - whole.allocated_gpu_hours).abs() < 1e-9);
    // What rounding leaves of nothing may be in one and not in the other.
    let entries = |ledger: &EnergyLedger| -> Vec<_> {
        ledger.entries.iter().filter(|e| e.upper_j.abs() > 1e-6).cloned().collect()
    };
    let (one, other) = (entries(streamed), entries(whole));
    assert_eq!(one.len(), other.len());
    for (a, b) in one.iter().zip(&other) {
        assert_eq!((a.hour_ms, a.spent_on, a.owner, a.basis), (b.hour_ms, b.spent_on, b.owner, b.basis));
        assert!(
            near(a.energy_j, b.energy_j) && near(a.lower_j, b.lower_j) && near(a.upper_j, b.upper_j),
            "{a:?} {b:?}"
        );
    }
    assert_eq!(streamed.jobs.len(), whole.jobs.len());
    for (a, b) in streamed.jobs.iter().zip(&whole.jobs) {
        assert_eq!((&a.job_key, a.owner), (&b.job_key, b.owner));
        assert!(near(a.active_j, b.active_j) && near(a.idle_j, b.idle_j) && near(a.overhead_j, b.overhead_j));
        assert!((a.gpu_s - b.gpu_s).abs() < 1e-6);
    }
}

fn permuted(table: &GpuSampleTable, order: &[u32]) -> GpuSampleTable {
    let mut table = table.clone();
    table.permute(order);
    table
}

type Said = (u32, u32, Option<f64>, Option<f64>, Option<f64>);

fn world(samples: &[Said], jobs: &[(i64, i64, f64, u32)], meters: &[(u32, u32, f64)], named: bool) -> Trace {
    let mut trace = Trace::default();
    for (place, (gpu, minute, counter, power, util)) in samples.iter().enumerate() {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(i64::from(*minute) * 60_000),
            node: Some(format!("n{}", gpu / 2).into()),
            gpu: Some((gpu % 2).to_string().into()),
            gpu_type: Some(if gpu / 2 == 0 { "A100" } else { "X" }.into()),
            energy_j_cum: *counter,
            power_w: *power,
            util_ratio: *util,
            job_key: [Some("j0"), Some("j1,j0"), Some("other"), None][place % 4].filter(|_| named).map(Into::into),
            ..GpuSampleRow::default()
        });
    }
    for (place, (from, length, gpus, kind)) in jobs.iter().enumerate() {
        trace.jobs.push(JobRow {
            job_key: Some(format!("j{place}").into()),
            user: Some(format!("u{}", place % 2).into()),
            start: Some(from * 1_000),
            end: Some((from + length) * 1_000),
            alloc_gpus: Some(*gpus),
            ..JobRow::default()
        });
        if *kind > 0 {
            trace.placements.push(PlacementRow {
                job_key: Some(format!("j{place}").into()),
                node: Some("n1".into()),
                gpu_ids: [None, Some("0"), Some("0,1")][*kind as usize % 3].map(Into::into),
                gpus: Some(*gpus),
                ..PlacementRow::default()
            });
        }
    }
    for (node, minute, watts) in meters {
        trace.node_samples.push(NodeSampleRow {
            ts: Some(i64::from(*minute) * 60_000),
            node: Some(format!("n{node}").into()),
            sensor: Some("Sys Power".into()),
            power_w: Some(*watts),
            ..NodeSampleRow::default()
        });
    }
    trace.nodes.push(NodeRow {
        node: Some("spare".into()),
        gpu_type: Some("A100".into()),
        gpus: Some(1.0),
        ..NodeRow::default()
    });
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_stream_gives_the_ledger_of_the_table(
        samples in prop::collection::btree_map(
            (0_u32..200, 0_u32..6),
            (prop::option::of(0.0_f64..3e5), prop::option::weighted(0.8, -10.0_f64..600.0), prop::option::of(0.0_f64..1.0)),
            1..250,
        ),
        jobs in prop::collection::vec((0_i64..10_000, 1_i64..6_000, 0.1_f64..3.0, 0_u32..4), 0..6),
        meters in prop::collection::vec((0_u32..4, 0_u32..200, 0.0_f64..3_000.0), 0..40),
        named in any::<bool>(),
        rows in 1_usize..80,
        threads in 1_usize..4,
    ) {
        // Every moment of a device once, in order of time.
        let samples: Vec<Said> =
            samples.into_iter().map(|((minute, gpu), (counter, power, util))| (gpu, minute, counter, power, util)).collect();
        let trace = world(&samples, &jobs, &meters, named);
        let given = BTreeMap::from([("X".to_owned(), Given { idle_w: Some(50.0), tdp_w: Some(300.0) })]);
        let options = Options { power: given, threads, ..Options::default() };
        // Of devices with one reading each nothing can be said.
        let Ok((whole, counts)) = measure_counted(&trace, &options) else { return Ok(()) };
        prop_assume!(whole.gpu_hours > 0.0 && samples.first().map(|s| s.1) != samples.last().map(|s| s.1));
        let mut by_gpu: Vec<u32> = (0..samples.len() as u32).collect();
        by_gpu.sort_by_key(|ix| samples[*ix as usize].0);
        let in_time: Vec<u32> = (0..samples.len() as u32).collect();
        for order in [in_time, by_gpu] {
            let (_folder, path) = file(&permuted(&trace.gpu_samples, &order), rows);
            let (streamed, same_counts) = measure_stream(&[path], Some(&trace), &options).unwrap();
            same(&streamed, &whole);
            prop_assert_eq!(same_counts, counts);
        }
    }
}

/// A hundred minutes of ten GPUs, alternating between two powers.
fn regular() -> Trace {
    let samples: Vec<Said> = (0..100)
        .flat_map(|minute| {
            (0..10).map(move |gpu| {
                (gpu, minute, None, Some(100.0 + f64::from(minute % 2) * 50.0 + f64::from(gpu)), Some(0.5))
            })
        })
        .collect();
    world(&samples, &[(600, 3_000, 1.0, 1), (0, 5_940, 2.0, 0)], &[], false)
}

#[test]
fn threads_and_files_do_not_change_a_bit_and_the_energy_is_known_by_hand() {
    let trace = regular();
    let options = |threads| Options { threads, ..Options::default() };
    let (_folder, path) = file(&trace.gpu_samples, 7);
    let (one, counts) = measure_stream(std::slice::from_ref(&path), Some(&trace), &options(1)).unwrap();
    for threads in [2, 5] {
        assert_eq!(
            measure_stream(std::slice::from_ref(&path), Some(&trace), &options(threads)).unwrap(),
            (one.clone(), counts)
        );
    }
    // 99 minutes of 125 W + 4.5 W on average, ten GPUs: 129.5 · 10 · 5,940 J; and a node of the inventory without readings,
    // which is at the mean of its type's readings (node n0: 125.5 W), as the second job may or may not hold it.
    let read: f64 =
        one.entries.iter().filter(|e| e.basis == crate::energy::ledger::Basis::Power).map(|e| e.energy_j).sum();
    assert!((read - 7_692_300.0).abs() < 1e-3, "{read}");
    assert!((one.total_j - read - 125.5 * 5_940.0).abs() < 1e-3, "{}", one.total_j - read);
    // Cut in two files by time, given the wrong way round.
    let half: Vec<u32> = (0..500).collect();
    let rest: Vec<u32> = (500..1_000).collect();
    let (_first, first) = file(&permuted(&trace.gpu_samples, &half), 64);
    let (_second, second) = file(&permuted(&trace.gpu_samples, &rest), 64);
    let (cut, cut_counts) = measure_stream(&[second, first], Some(&trace), &options(2)).unwrap();
    same(&cut, &one);
    assert_eq!(cut_counts, counts);
}

#[test]
fn readings_a_little_out_of_order_are_sorted_and_later_ones_counted() {
    let trace = regular();
    let mut order: Vec<u32> = (0..1_000).collect();
    // Of one GPU, minutes 20 to 23 the wrong way round; a second copy of minute 30.
    for (from, to) in [(20, 23), (21, 22)] {
        order.swap(from * 10, to * 10);
    }
    order.insert(310, 300);
    let (_folder, path) = file(&permuted(&trace.gpu_samples, &order), 100);
    let (ledger, counts) = measure_stream(&[path], Some(&trace), &Options::default()).unwrap();
    let whole = measure(&trace, &Options::default()).unwrap();
    let read = |ledger: &EnergyLedger| -> f64 {
        ledger.entries.iter().filter(|e| e.basis == crate::energy::ledger::Basis::Power).map(|e| e.energy_j).sum()
    };
    assert!((read(&ledger) - read(&whole)).abs() < 1e-9 * read(&whole));
    assert_eq!((counts.out_of_order, counts.late, counts.duplicates), (3, 0, 1));
    // Minute 20 after minute 90 is too late: a gap of two minutes is bridged.
    let mut order: Vec<u32> = (0..1_000).filter(|ix| *ix != 200).collect();
    order.insert(900, 200);
    let (_folder, path) = file(&permuted(&trace.gpu_samples, &order), 100);
    let (_, counts) = measure_stream(&[path], Some(&trace), &Options::default()).unwrap();
    assert_eq!((counts.out_of_order, counts.late, counts.rows), (1, 1, 1_000));
}

#[test]
fn a_folder_is_measured_in_memory_while_it_is_small() {
    let trace = regular();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    storage::save(&trace, &path).unwrap();
    let (back, ledger, _) = measure_folders(&[path], None, &Options::default()).unwrap();
    assert_eq!(ledger, measure(&trace, &Options::default()).unwrap());
    assert_eq!(back.gpu_samples.len(), 1_000);
}

#[test]
fn a_file_without_telemetry_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.parquet");
    storage::write_parquet(&regular().jobs, &path).unwrap();
    let error = measure_stream(std::slice::from_ref(&path), None, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("jobs.parquet, column ts: no such column; name a gpu_samples table"), "{error}");
    let (_folder, empty) = file(&GpuSampleTable::default(), 10);
    assert!(matches!(measure_stream(&[empty], None, &Options::default()), Err(Error::Empty { .. })));
    std::fs::write(&path, b"PAR1 and no more").unwrap();
    assert!(matches!(measure_stream(&[path], None, &Options::default()), Err(Error::Parquet { .. })));
}
