use tracecast_tests::{conform, render};

// The file's name tells node and time, the time of its first snapshot only. `N/A` is unknown, 101 % is impossible, and the
// power limit is no reading; of MI300X the power that is known counts. 50 % of 1,000 bytes are 500. 2,500,000 µJ are 2.5 J.
// card2 says nothing that is known; `system` is no card.
#[test]
fn cards_become_samples() {
    let trace = conform("rocm-smi", &["rocm-smi/n7_20240501-120000.json"]);
    insta::assert_snapshot!(render(&trace), @"");
    assert!(trace.notes.iter().any(|note| note.contains("tells no time")), "{:?}", trace.notes);
}
