use tracecast_tests::{conform, render};

// Two queries, of which the second has one of two attached GPUs and calls it by its UUID. Memory of BAR1, of MIG instances
// and of processes, limits, and the power of the module are not the GPU's. GPU 1 is cut into MIG instances, so that its
// utilisation of 0 % says nothing; an error in place of its memory's is counted.
#[test]
fn queries_become_samples() {
    let trace = conform("nvidia-smi-q", &["nvidia-smi-q/n7.txt"]);
    insta::assert_snapshot!(render(&trace), @"");
    assert!(trace.notes.iter().any(|note| note.contains("some of the attached GPUs")), "{:?}", trace.notes);
}
