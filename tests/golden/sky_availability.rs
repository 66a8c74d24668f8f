use tracecast_analytics::time::TimeBasis;
use tracecast_tests::{conform, read, real_trace, render};

// The gap differs by file: 195 s and 32 s. Counts are not booleans. The fourth sample of the first file is at
// 3 × 195 s = 9 min 45 s: a sample that says nothing does not move those after it.
#[test]
fn samples_are_a_gap_apart() {
    let trace = conform(
        "sky-availability",
        &["sky-availability/us-east-1a_v100_1.json", "sky-availability/us-west-2b_v100_4.json"],
    );
    insta::assert_snapshot!(render(&trace), @"
    availability (5 rows)
      zone=us-east-1a instance=V100:1 ts=1970-01-01 00:00:00 gap_s=195 count=1
      zone=us-west-2b instance=V100:4 ts=1970-01-01 00:00:00 gap_s=32 count=4
      zone=us-west-2b instance=V100:4 ts=1970-01-01 00:00:32 gap_s=32 count=2
      zone=us-east-1a instance=V100:1 ts=1970-01-01 00:03:15 gap_s=195 count=0
      zone=us-east-1a instance=V100:1 ts=1970-01-01 00:09:45 gap_s=195 count=1
    quality: read 7 = kept 5 + repaired 0 + quarantined 2
      Quarantined malformed_row × 2 (lines 3, 5)
    ");
    assert_eq!(trace.basis, TimeBasis::Relative);
}

#[test]
fn real_zones_keep_every_sample() {
    let Some(folder) = real_trace("spot_skypilot/availability/1-node/aws-02-15-2023") else { return };
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let (mut samples, mut available, mut last_s) = (0, 0.0, 0.0_f64);
    for path in &paths {
        let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let data = document["data"].as_array().unwrap();
        samples += data.len();
        available += data.iter().map(|count| count.as_f64().unwrap()).sum::<f64>();
        let gap_s = document["metadata"]["gap_seconds"].as_f64().unwrap();
        last_s = last_s.max(gap_s * (data.len() - 1) as f64);
    }
    let trace = read(&paths).unwrap();
    let found = &trace.availability;
    assert_eq!((found.ts.len(), trace.ledger.kept), (samples, samples as u64));
    assert_eq!(found.count.iter().flatten().sum::<f64>(), available);
    assert_eq!(found.ts.iter().flatten().max(), Some((last_s * 1_000.0) as i64));
    assert_eq!(found.zone.distinct(), paths.len());
}

/// `metadata.zone` names the zone, also against the file's name.
#[test]
fn the_document_names_its_zone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (name, zone) in [("trace.json", "eu-west-1a"), ("us-east-1a_v100_1.json", "eu-west-1b")] {
        let text = format!("{{\"metadata\": {{\"gap_seconds\": 60, \"zone\": \"{zone}\"}}, \"data\": [1]}}");
        std::fs::write(path(name), text).unwrap();
    }
    let trace = read(&[path("trace.json"), path("us-east-1a_v100_1.json")]).unwrap();
    let zones: Vec<Option<&str>> = trace.availability.zone.iter().collect();
    assert_eq!(zones, [Some("eu-west-1a"), Some("eu-west-1b")]);
    assert_eq!(trace.availability.instance.get(1), Some("V100:1"));
    assert!(trace.notes.iter().any(|note| note.contains("eu-west-1b it is")), "{:?}", trace.notes);
}

/// Prices beside the samples are steps, and one of 0 or none is set aside while the price before it holds on; the list price has no time.
#[test]
fn prices_beside_the_samples_are_steps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("us-east-1a_v100_1.json");
    let text = "{\"metadata\": {\"gap_seconds\": 60, \"on_demand_price\": 3.06}, \"data\": [1, 0, 1, 1, 1], \
                \"prices\": [0.9, 0.9, 0, null, 1.1]}";
    std::fs::write(&path, text).unwrap();
    let trace = read(&[path]).unwrap();
    let rows = |kind: &str| -> Vec<(Option<i64>, Option<f64>)> {
        let prices = &trace.prices;
        let of = (0..prices.ts.len()).filter(|row| prices.kind.get(*row) == Some(kind));
        of.map(|row| (prices.ts.iter().nth(row).flatten(), prices.usd_per_h.iter().nth(row).flatten())).collect()
    };
    assert_eq!(rows("spot"), [(Some(0), Some(0.9)), (Some(240_000), Some(1.1))]);
    assert_eq!(rows("ondemand"), [(None, Some(3.06))]);
    assert_eq!((trace.ledger.count("no_price"), trace.ledger.kept), (2, 8));
    assert!(trace.ledger.balances());
}

/// An on-demand price cannot be 0; null says that it is not known.
#[test]
fn an_on_demand_price_is_above_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("us-east-1a_v100_1.json");
    let read_with = |metadata: &str| {
        let text = format!("{{\"metadata\": {{\"gap_seconds\": 60, {metadata}}}, \"data\": [1, 0, 1]}}");
        std::fs::write(&path, text).unwrap();
        read(std::slice::from_ref(&path))
    };
    for metadata in
        ["\"on_demand_price\": 0", "\"price_info\": {\"on_demand_price\": -3.06}", "\"on_demand_price\": \"3\""]
    {
        let said = read_with(metadata).unwrap_err().to_string();
        assert!(said.contains("which is no price") && said.contains("us-east-1a_v100_1.json"), "{said}");
    }
    assert_eq!(read_with("\"on_demand_price\": null").unwrap().prices.ts.len(), 0);
}

#[test]
fn prices_are_as_many_as_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("us-east-1a_v100_1.json");
    std::fs::write(&path, "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [1, 0, 1], \"prices\": [0.9, 0.8]}")
        .unwrap();
    let said = read(&[path]).unwrap_err().to_string();
    assert!(said.contains("prices has 2 values, and data 3") && said.contains("us-east-1a_v100_1.json"), "{said}");
}
