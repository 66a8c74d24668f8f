use tracecast_planner::market::listed::TableFilter;
use tracecast_planner::market::offers::{ListedOffers, Offers};
use tracecast_tests::bytes::read_bytes;
use tracecast_tests::{conform, fixture, read, real_trace, render};

// Trap: a price of the whole instance that is blank beside one of a GPU, which holds now one, now the other (line 6); a number of GPUs that is blank (line 7); a price of 0 that is none (line 8) and one that is no
// number (line 9); a row that comes twice (line 5); clouds in capitals; memory in brackets. 80 GiB are 85,899,345,920 bytes.
#[test]
fn instances_of_several_clouds() {
    let trace = conform("cloud-gpus", &["cloud-gpus/cloud-gpus.csv", "cloud-gpus/serverless-gpus.csv"]);
    insta::assert_snapshot!(render(&trace), @"
    prices (6 rows)
      provider=alpha instance=a8.large gpu_type=A100 gpus=8 gpu_mem_bytes=85899345920 usd_per_h=40 kind=ondemand
      provider=alpha instance=a8.large gpu_type=A100 gpus=8 gpu_mem_bytes=85899345920 usd_per_h=12 kind=spot
      provider=alpha instance=a4.large gpu_type=A100 gpus=8 gpu_mem_bytes=42949672960 usd_per_h=32 kind=ondemand
      provider=beta cloud gpu_type=V100 gpus=1 gpu_mem_bytes=17179869184 usd_per_h=3 kind=ondemand
      provider=gamma instance=n2 gpu_type=A10 gpus=1 usd_per_h=0.25 kind=spot
      provider=delta gpu_type=T4 gpus=1 gpu_mem_bytes=17179869184 usd_per_h=0.63 kind=serverless
    quality: read 9 = kept 5 + repaired 0 + quarantined 4
      Quarantined no_hourly_price × 2 (lines 6, 9)
      Quarantined duplicate_row × 1 (lines 5)
      Quarantined no_gpus × 1 (lines 7)
    ");
}

/// The published table, as it is: 257 rows, of which six have no price of the instance and two come again.
#[test]
fn the_published_table() {
    let Some(path) = real_trace("cloud_prices/cloud-gpus.csv") else { return };
    let trace = read(&[path]).unwrap();
    let quarantined = |reason: &str| trace.ledger.count(reason);
    assert_eq!((trace.ledger.read, quarantined("no_hourly_price"), quarantined("duplicate_row")), (257, 6, 2));
    assert_eq!(trace.ledger.quarantined, 8);
    let kinds = (0..trace.prices.ts.len()).filter(|row| trace.prices.kind.get(*row) == Some("ondemand")).count();
    assert_eq!(kinds, 249);
}

/// Tables with words, marks and lines changed at random, some thousands of them: whatever is read adds up, and makes offers with names of their own or an error.
#[test]
fn damaged_tables_are_read_and_offered_without_a_panic() {
    let texts = ["cloud-gpus/cloud-gpus.csv", "cloud-gpus/serverless-gpus.csv", "sky-catalog/aws/vms.csv"];
    let texts = texts.map(|name| std::fs::read_to_string(fixture(name)).unwrap());
    let marks =
        [",", "\"", "\n", "-", "1e308", "NaN", "0", "", "A100 (80 GB)", "A100-80GB", "(1e9 GB)", "4096", "é", "\0"];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most.max(1)
    };
    let (mut read, mut offered) = (0, 0);
    for _ in 0..4_000 {
        let mut cells: Vec<&str> = texts[next(texts.len())].split_inclusive([',', '\n']).collect();
        for _ in 0..=next(6) {
            let (at, mark) = (next(cells.len()), marks[next(marks.len())]);
            match next(3) {
                0 => cells[at] = mark,
                1 => cells.insert(at, mark),
                _ => {
                    let other = next(cells.len());
                    cells.swap(at, other);
                }
            }
        }
        let Some(trace) = read_bytes(None, cells.concat().as_bytes()) else { continue };
        read += 1;
        let listed = ListedOffers::new(&[&trace], &TableFilter::default()).unwrap();
        let offers = Offers::with_table("o.toml", "", &listed);
        offered += usize::from(offers.is_ok());
        let Ok(offers) = offers else { continue };
        let mut names: Vec<&str> = offers.instances.iter().map(|of| of.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed.offers.len(), "{}", cells.concat());
        assert!(offers.instances.iter().all(|of| of.on_demand.is_some_and(|price| price > 0.0 && price.is_finite())));
    }
    assert!(read > 2_000 && offered > 1_000, "{read} read and {offered} offered: they do not reach the readers");
}
