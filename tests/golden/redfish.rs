use tracecast_tests::{conform, read, render};

// The whole node, its parts under their own names, and a chassis that two systems share. `null` is unknown. Averages,
// capacities and power supplies are not read. 2.5 kWh are 9 MJ.
#[test]
fn meters_become_samples() {
    let files = ["n7", "n8", "blade-a"].map(|node| format!("redfish/{node}_20240501-120000.json"));
    let trace = conform("redfish", &files.each_ref().map(String::as_str));
    insta::assert_snapshot!(render(&trace), @"");
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
