use std::io::Read;

use tracecast_tests::{conform, read, real_trace, render};

// Trap 23: three generations of headers, one with `gCO2eq` in ASCII. Estimates are marked (first line 3); 02:00 is missing
// and 04:00 has no value; zero is a number. Trap 28: second.csv has a byte order mark and CRLF.
#[test]
fn three_generations_of_headers() {
    let trace = conform(
        "electricity-maps",
        &["electricity-maps/first.csv", "electricity-maps/second.csv", "electricity-maps/third.csv"],
    );
    insta::assert_snapshot!(render(&trace), @"
    carbon (10 rows)
      zone=SE ts=2022-06-01 00:00:00 g_per_kwh=5 method=direct estimated=0
      zone=SE ts=2022-06-01 00:00:00 g_per_kwh=25 method=lca estimated=0
      zone=DE ts=2023-01-01 00:00:00 g_per_kwh=140.5 method=direct estimated=0
      zone=DE ts=2023-01-01 00:00:00 g_per_kwh=185.75 method=lca estimated=0
      zone=DE ts=2023-01-01 01:00:00 g_per_kwh=0 method=direct estimated=1
      zone=DE ts=2023-01-01 01:00:00 g_per_kwh=185.5 method=lca estimated=1
      zone=DE ts=2023-01-01 03:00:00 g_per_kwh=180 method=lca estimated=0
      zone=FR ts=2024-01-01 00:00:00 g_per_kwh=20.5 method=direct estimated=0
      zone=FR ts=2024-01-01 00:00:00 g_per_kwh=40.25 method=lca estimated=0
      zone=FR ts=2024-01-01 01:00:00 g_per_kwh=40 method=lca
    quality: read 10 = kept 5 + repaired 1 + quarantined 4
      Quarantined duplicate_row × 1 (lines 5)
      Quarantined no_key × 1 (lines 4)
      Quarantined no_value × 1 (lines 6)
      Quarantined not_a_time × 1 (lines 3)
      Repaired negative_value × 1 (lines 3)
    ");
    assert_eq!(
        trace.notes,
        [
            "Carbon intensity of DE: 1 hours are missing between the first and the last; 1 of 3 values are the publisher's \
          estimates."
        ]
    );
}

#[test]
fn the_real_years_have_every_hour_twice() {
    let mut paths = Vec::new();
    for zone in ["DE-LU", "GB", "SG", "US-CAL-CISO"] {
        let Some(path) = real_trace(&format!("grid/carbon/{zone}_2023_hourly.csv.gz")) else { return };
        paths.push(path);
    }
    let (mut rows, mut direct, mut lca, mut estimated) = (0_usize, 0.0, 0.0, 0_usize);
    for path in &paths {
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            rows += 1;
            direct += fields[4].parse::<f64>().unwrap();
            lca += fields[5].parse::<f64>().unwrap();
            estimated += usize::from(fields[9] == "true");
        }
    }
    let trace = read(&paths).unwrap();
    let carbon = &trace.carbon;
    assert_eq!((trace.ledger.read, trace.ledger.kept), (rows as u64, rows as u64));
    assert_eq!(carbon.ts.len(), 2 * rows);
    let sum = |method: &str| -> f64 {
        (0..carbon.ts.len())
            .filter(|ix| carbon.method.get(*ix) == Some(method))
            .filter_map(|ix| carbon.g_per_kwh.get(ix))
            .sum()
    };
    assert!((sum("direct") - direct).abs() < 1e-6 * direct && (sum("lca") - lca).abs() < 1e-6 * lca);
    assert_eq!(carbon.estimated.iter().flatten().filter(|flag| *flag == 1).count(), 2 * estimated);
}
