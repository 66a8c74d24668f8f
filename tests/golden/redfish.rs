use tracecast_tests::{conform, read, render};

// The whole node, its parts under their own names, and a chassis that two systems share. `null` is unknown. Averages,
// capacities and power supplies are not read. 2.5 kWh are 9 MJ.
#[test]
fn meters_become_samples() {
    let files = ["n7", "n8", "blade-a"].map(|node| format!("redfish/{node}_20240501-120000.json"));
    let trace = conform("redfish", &files.each_ref().map(String::as_str));
    insta::assert_snapshot!(render(&trace), @"
    node_samples (5 rows)
      ts=2024-05-01 12:00:00 node=blade-a sensor=Chassis Power power_w=2600
      ts=2024-05-01 12:00:00 node=n7 sensor=CPU Sub-system Power power_w=210
      ts=2024-05-01 12:00:00 node=n7 sensor=GPU Sub-system Power
      ts=2024-05-01 12:00:00 node=n7 sensor=System Power power_w=429
      ts=2024-05-01 12:00:00 node=n8 sensor=System Power power_w=374 energy_j_cum=9000000
    quality: read 6 = kept 6 + repaired 0 + quarantined 0
    ");
}

#[test]
fn an_error_and_an_answer_without_a_reading_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let failed = |text: &str| {
        let path = dir.path().join("n1.json");
        std::fs::write(&path, text).unwrap();
        read(&[path]).unwrap_err().to_string()
    };
    let error = failed(r##"{"@odata.type": "#Power.v1", "error": {"message": "insufficient privilege"}}"##);
    assert!(error.contains("insufficient privilege"), "{error}");
    let error = failed(r##"{"@odata.type": "#PowerSubsystem.v1_1_0.PowerSubsystem", "CapacityWatts": 2000}"##);
    assert!(error.contains("no reading of power") && error.contains("EnvironmentMetrics"), "{error}");
}
