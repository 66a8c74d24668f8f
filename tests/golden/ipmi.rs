use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use tracecast_analytics::time::format_utc;
use tracecast_tests::{conform, read, real_trace, render};

// 25,550 W from a chassis and 2,555 W from a shared supply are no readings, 2,555 W of a node is one; 0 W is a number.
// The text's CPU Power has status `ns` (not readable); its other sensors are not in watts and are passed over.
// `CPU` sorts before `Chassis`.
#[test]
fn series_and_text_become_node_samples() {
    let trace = conform("ipmi", &["ipmi/series.csv", "ipmi/n7-2025-05-29.txt"]);
    insta::assert_snapshot!(render(&trace), @"
    node_samples (11 rows)
      ts=2025-05-30 13:34:01 node=n7 sensor=CPU Power
      ts=2025-05-30 13:34:01 node=n7 sensor=Chassis Power power_w=2600
      ts=2025-05-30 13:34:01 node=n7 sensor=Sys Power power_w=650
      ts=2025-06-03 00:00:01 node=n1 sensor=Chassis Power
      ts=2025-06-03 00:00:01 node=n1 sensor=Sys Power power_w=10
      ts=2025-06-03 00:00:01 node=n2 sensor=PSU Power
      ts=2025-06-03 00:00:01 node=n2 sensor=Sys Power power_w=2555
      ts=2025-06-03 00:01:01 node=n1 sensor=Sys Power power_w=0
      ts=2025-06-03 00:01:01 node=n2 sensor=Sys Power
      ts=2025-06-03 00:02:01 node=n2 sensor=Sys Power
      ts=2025-06-03 00:03:01 node=n2 sensor=Sys Power
    quality: read 20 = kept 9 + repaired 5 + quarantined 6
      Quarantined conflicting_reading × 1 (lines 8)
      Quarantined duplicate_row × 1 (lines 7)
      Quarantined field_count × 1 (lines 14)
      Quarantined malformed_row × 1 (lines 7)
      Quarantined no_key × 1 (lines 12)
      Quarantined not_a_time × 1 (lines 13)
      Repaired blank_reading × 3 (lines 3, 4, 6)
      Repaired negative_value × 1 (lines 9)
      Repaired out_of_range × 1 (lines 10)
    ");
    assert!(trace.notes.iter().any(|note| note.contains("must not be summed over nodes")), "{:?}", trace.notes);
}

// Trap 28: no bytes at all is an error that says so, a header alone is an empty trace, a gzip file that was cut gives the
// lines before the cut and says where it ended.
#[test]
fn empty_header_only_and_truncated_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let header = "node,timestamp_utc,sensor,watts\n";
    let error = read(&[file("empty.csv", b"")]).unwrap_err().to_string();
    assert!(error.contains("the file is empty"), "{error}");
    let trace = read(&[file("header.csv", header.as_bytes())]).unwrap();
    assert_eq!((trace.ledger.read, trace.row_counts().len()), (0, 0));

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(header.as_bytes()).unwrap();
    for ix in 0..20_000 {
        writeln!(encoder, "n{ix},2025-06-03 00:00:01,Sys Power,{ix}").unwrap();
    }
    let whole = encoder.finish().unwrap();
    let trace = read(&[file("cut.csv.gz", &whole[..whole.len() / 2])]).unwrap();
    assert!(trace.ledger.read > 1_000 && trace.ledger.read < 20_000);
    assert_eq!((trace.ledger.damage.len(), trace.ledger.damage[0].after_line), (1, trace.ledger.read + 1));
}

/// Plain loop over a series: (node, time, sensor) to its text.
fn plain(path: &Path) -> BTreeMap<(String, String, String), String> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let key = (fields[0].to_owned(), fields[1].to_owned(), fields[2].to_owned());
        assert!(rows.insert(key, fields[3].to_owned()).is_none(), "no row comes twice");
    }
    rows
}

#[test]
fn the_real_series_keeps_every_reading_and_drops_the_all_ones() {
    let Some(path) = real_trace("harvard_ipmi/power_1min_2025-06-03.csv.gz") else { return };
    let rows = plain(&path);
    let no_reading = |sensor: &str, watts: &str| {
        watts == "25550" || (watts == "2555" && (sensor == "PSU Power" || sensor == "Chassis Power"))
    };
    let mut sum = 0.0;
    let mut unknown = 0;
    for ((_, _, sensor), watts) in &rows {
        if no_reading(sensor, watts) {
            unknown += 1;
        } else {
            sum += watts.parse::<f64>().unwrap();
        }
    }
    assert!(unknown > 0, "the series is known to have such readings");
    let trace = read(&[path]).unwrap();
    assert_eq!(trace.ledger.read, rows.len() as u64);
    assert_eq!((trace.ledger.repaired, trace.ledger.quarantined), (unknown, 0));
    // Whole watts: the sum is exact in any order.
    assert_eq!(trace.node_samples.power_w.iter().flatten().sum::<f64>(), sum);
}

// The same snapshot is published as text, one file a node, and as a series drawn from it: they must agree.
#[test]
fn the_real_text_files_agree_with_the_series_drawn_from_them() {
    let (Some(archive), Some(series)) = (
        real_trace("harvard_ipmi/2025-05-29.tar.gz"),
        real_trace("harvard_ipmi/power_snapshot_2025-05-30T1334Z.csv.gz"),
    ) else {
        return;
    };
    let mut tar = Vec::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(archive).unwrap()).read_to_end(&mut tar).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    let mut at = 0;
    // A tar header is 512 bytes, name first, size in octal at 124; content is padded to 512.
    while at + 512 <= tar.len() && tar[at] != 0 {
        let name: String = tar[at..at + 100].iter().take_while(|byte| **byte != 0).map(|byte| *byte as char).collect();
        let size: String = tar[at + 124..at + 135].iter().map(|byte| *byte as char).collect();
        let size = usize::from_str_radix(size.trim_matches([' ', '\0']), 8).unwrap();
        if name.ends_with(".txt") {
            let path = dir.path().join(Path::new(&name).file_name().unwrap());
            std::fs::write(&path, &tar[at + 512..at + 512 + size]).unwrap();
            paths.push(path);
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    assert!(paths.len() > 1_000);
    let trace = read(&paths).unwrap();
    let samples = &trace.node_samples;
    let mut found = BTreeMap::new();
    for ix in 0..samples.ts.len() {
        let key = (
            samples.node.get(ix).unwrap().to_owned(),
            format_utc(samples.ts.get(ix).unwrap()),
            samples.sensor.get(ix).unwrap().to_owned(),
        );
        found.insert(key, samples.power_w.get(ix));
    }
    let expected: BTreeMap<_, _> = plain(&series)
        .into_iter()
        .map(|(key, watts)| {
            let known = !(watts == "25550" || (watts == "2555" && key.2 == "PSU Power"));
            (key, known.then(|| watts.parse::<f64>().unwrap()))
        })
        .collect();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "first difference: {:?}", found.iter().zip(&expected).find(|(a, b)| a != b));
}
