use tracecast_tests::{conform, read, real_trace, render};

// Days out of order; a cell with a comma for a point (line 3), one below 0 and one of 0 (line 6); a day twice (line 4), a day that is none (line 5); a size
// whose GPUs are not known.
#[test]
fn a_table_of_days_and_sizes() {
    let trace = conform("azure-spot", &["azure-spot/us_east.csv"]);
    insta::assert_snapshot!(render(&trace), @"
    prices (7 rows)
      provider=azure zone=us_east instance=NC6 gpu_type=K80 gpus=1 gpu_mem_bytes=12884901888 ts=2020-02-24 00:00:00 usd_per_h=0.12276 kind=spot
      provider=azure zone=us_east instance=NC6s v3 gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 ts=2020-02-24 00:00:00 usd_per_h=0.60313 kind=spot
      provider=azure zone=us_east instance=NC6 gpu_type=K80 gpus=1 gpu_mem_bytes=12884901888 ts=2020-02-25 00:00:00 usd_per_h=0.12276 kind=spot
      provider=azure zone=us_east instance=NC24rs v2 gpu_type=P100 gpus=4 gpu_mem_bytes=17179869184 ts=2020-02-25 00:00:00 usd_per_h=1.19861 kind=spot
      provider=azure zone=us_east instance=ND6s ts=2020-02-25 00:00:00 usd_per_h=0.414 kind=spot
      provider=azure zone=us_east instance=NC24rs v2 gpu_type=P100 gpus=4 gpu_mem_bytes=17179869184 ts=2020-02-26 00:00:00 usd_per_h=0 kind=spot
      provider=azure zone=us_east instance=NC6s v3 gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 ts=2020-02-26 00:00:00 usd_per_h=0.60313 kind=spot
    quality: read 5 = kept 1 + repaired 2 + quarantined 2
      Quarantined duplicate_row × 1 (lines 4)
      Quarantined not_a_time × 1 (lines 5)
      Repaired negative_value × 1 (lines 6)
      Repaired not_a_number × 1 (lines 3)
    ");
}

#[test]
fn the_real_tables_hold_each_cell_once() {
    let Some(folder) = real_trace("spot_prices_2020/azure/cost") else { return };
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let expected: usize = paths
        .iter()
        .flat_map(|path| std::fs::read_to_string(path).unwrap().lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
        .map(|line| line.split(',').skip(1).filter(|cell| cell.trim().starts_with('$')).count())
        .sum();
    let trace = read(&paths).unwrap();
    assert_eq!(trace.prices.ts.len(), expected);
    assert!(
        (0..expected).all(|row| trace.prices.gpus.get(row).is_some() && trace.prices.usd_per_h.get(row) > Some(0.0))
    );
    let zones: std::collections::BTreeSet<_> = (0..expected).filter_map(|row| trace.prices.zone.get(row)).collect();
    assert_eq!(zones.into_iter().collect::<Vec<_>>(), ["us_east", "us_north_central", "us_south_central"]);
}
