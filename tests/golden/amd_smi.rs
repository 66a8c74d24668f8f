use tracecast_tests::{conform, render};

// The list form and the object form. 1,714,564,800 s is 2024-05-01 12:00:00 UTC, from the file's name or the GPU itself.
// What the tool calls MB are mebibytes. `N/A` is unknown; an entry without a GPU is quarantined.
#[test]
fn lists_and_objects_become_samples() {
    let trace = conform("amd-smi", &["amd-smi/n7_1714564800.json", "amd-smi/n8.json"]);
    insta::assert_snapshot!(render(&trace), @"");
}
