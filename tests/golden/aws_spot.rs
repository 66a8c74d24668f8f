use std::collections::BTreeMap;

use tracecast_analytics::time::format_utc;
use tracecast_tests::{conform, read, real_trace, render};

// Trap 22: unsorted, with an opening row of the day before (entry 3); prices as text and, in the second file, as a number;
// the files overlap in one entry. Windows is passed over, a negative price is unknown. The list may stand bare.
#[test]
fn history_is_sorted_and_merged() {
    let trace = conform("aws-spot", &["aws-spot/history.json", "aws-spot/overlap.json"]);
    insta::assert_snapshot!(render(&trace), @"
    prices (5 rows)
      provider=aws zone=us-east-1a instance=p3.2xlarge gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 ts=2023-12-31 20:15:30 usd_per_h=0.918 kind=spot
      provider=aws zone=us-east-1a instance=p3.2xlarge gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 ts=2024-01-01 12:00:00 usd_per_h=0.95 kind=spot
      provider=aws zone=us-east-1a instance=x9.mega ts=2024-01-01 13:00:00 kind=spot
      provider=aws zone=us-east-1b instance=p3.2xlarge gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 ts=2024-01-02 00:00:00 usd_per_h=0.93 kind=spot
      provider=aws zone=us-east-1b instance=p3.2xlarge gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 ts=2024-01-02 01:00:00 usd_per_h=0.94 kind=spot
    quality: read 9 = kept 4 + repaired 1 + quarantined 4
      Quarantined duplicate_row × 1 (lines 1)
      Quarantined no_key × 1 (lines 6)
      Quarantined not_a_time × 1 (lines 7)
      Quarantined other_product × 1 (lines 4)
      Repaired negative_value × 1 (lines 5)
    ");
}

#[test]
fn the_real_history_has_each_zone_type_and_time_once() {
    let Some(folder) = real_trace("spot_prices_2020/aws/cost") else { return };
    let mut paths = Vec::new();
    for region in std::fs::read_dir(folder).unwrap() {
        paths.extend(std::fs::read_dir(region.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    paths.sort();
    let mut entries = 0;
    let mut expected = BTreeMap::new();
    for path in &paths {
        let page: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for entry in page["SpotPriceHistory"].as_array().unwrap() {
            entries += 1;
            let word = |key: &str| entry[key].as_str().unwrap().to_owned();
            // `2020-03-23T13:59:14.000Z`, always whole seconds.
            let time = word("Timestamp").replace('T', " ").replace(".000Z", "");
            expected.insert(
                (time, word("AvailabilityZone"), word("InstanceType")),
                word("SpotPrice").parse::<f64>().unwrap(),
            );
        }
    }
    let trace = read(&paths).unwrap();
    let prices = &trace.prices;
    let mut found = BTreeMap::new();
    for ix in 0..prices.ts.len() {
        let key = (
            format_utc(prices.ts.get(ix).unwrap()),
            prices.zone.get(ix).unwrap().to_owned(),
            prices.instance.get(ix).unwrap().to_owned(),
        );
        assert!(found.insert(key, prices.usd_per_h.get(ix).unwrap()).is_none());
        assert!(prices.gpus.get(ix).is_some(), "GPUs of {:?} are pinned", prices.instance.get(ix));
    }
    assert!(found == expected, "first difference: {:?}", found.iter().zip(&expected).find(|(a, b)| a != b));
    assert_eq!(trace.ledger.read, entries);
    assert_eq!(trace.ledger.count("duplicate_row"), entries - expected.len() as u64);
}
