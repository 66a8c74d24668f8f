use tracecast_tests::{conform, read, real_trace, render};

// The type of instance1 is told by its creation at the end; instance2 was never created. The failure of a V100 names no zone and is of the one that was lost; that
// of eight K80 is of none. Three lines are no record.
#[test]
fn a_log_of_instances() {
    let trace = conform("spot-log", &["spot-log/keeper.out"]);
    insta::assert_snapshot!(render(&trace), @"
    availability (8 rows)
      zone=us-west1-b instance=V100:1 ts=2020-03-01 10:11:21 count=1
      zone=us-west1-b instance=V100:1 ts=2020-03-01 10:11:22 count=1
      zone=us-west1-b instance=K80:8 ts=2020-03-01 10:12:23 count=0
      zone=us-east1-c ts=2020-03-01 10:12:24 count=0
      instance=K80:8 ts=2020-03-01 10:26:21 count=0
      zone=us-west1-b instance=V100:1 ts=2020-03-01 10:27:04 count=0
      zone=us-west1-b instance=V100:1 ts=2020-03-01 10:28:04 count=0
      zone=us-west1-b instance=K80:8 ts=2020-03-01 10:29:04 count=1
    quality: read 13 = kept 10 + repaired 0 + quarantined 3
      Quarantined malformed_row × 3 (lines 11, 12, 13)
    ");
}

// The moment is that of the file's name. A price that is none is unknown; a line without a number of GPUs is no record.
#[test]
fn a_list_of_prices() {
    let trace = conform("spot-log", &["spot-log/2020-02-29T21-46-38.000Z.out"]);
    insta::assert_snapshot!(render(&trace), @"
    prices (2 rows)
      provider=gcp zone=us-west1-b instance=V100:1 gpu_type=V100 gpus=1 ts=2020-02-29 21:46:38 usd_per_h=0.851 kind=spot
      provider=gcp zone=us-west1-b instance=P100:4 gpu_type=P100 gpus=4 ts=2020-02-29 21:46:38 kind=spot
    quality: read 3 = kept 1 + repaired 1 + quarantined 1
      Quarantined malformed_row × 1 (lines 3)
      Repaired not_a_number × 1 (lines 2)
    ");
}

#[test]
fn each_line_of_the_real_logs_is_known() {
    for folder in ["aws/availability", "gcp/availability", "gcp/spin_up_and_shut_down"] {
        let Some(folder) = real_trace(&format!("spot_prices_2020/{folder}")) else { return };
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        paths.sort();
        let trace = read(&paths).unwrap();
        assert!(trace.ledger.read > 100);
        assert_eq!((trace.ledger.kept, trace.ledger.quarantined), (trace.ledger.read, 0));
        assert!(trace.availability.count.iter().all(|count| count == Some(0.0) || count == Some(1.0)));
    }
}
