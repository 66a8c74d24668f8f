use tracecast_tests::{conform, render};

// Two documents one after another; the second has one of two attached GPUs. `N/A` is unknown, `ERR!` is unknown and counted.
#[test]
fn documents_become_samples() {
    let trace = conform("nvidia-smi-xml", &["nvidia-smi-xml/n7.xml"]);
    insta::assert_snapshot!(render(&trace), @"");
}

// What comes before the cut is used: the first GPU is whole, the second is not.
#[test]
fn a_cut_document_gives_its_whole_gpus() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(tracecast_tests::fixture("nvidia-smi-xml/n7.xml")).unwrap();
    let path = dir.path().join("n7.xml");
    std::fs::write(&path, &whole[..whole.find("67.03").unwrap()]).unwrap();
    let trace = tracecast_tests::read(&[path]).unwrap();
    assert_eq!((trace.gpu_samples.ts.len(), trace.ledger.damage.len()), (1, 1));
    assert_eq!(trace.gpu_samples.power_w.get(0), Some(200.0));
}
