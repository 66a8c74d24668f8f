//! Makes a synthetic trace folder and shows how it compares with the published totals its specification names:
//! `cargo run --release -p tracecast-planner --example make_sample -- datasets/specs/sample.toml 1 datasets/sample`.

#![allow(clippy::print_stdout)]

use std::path::Path;

use tracecast_analytics::{Error, storage};
use tracecast_planner::synth::{self, Spec, calibrate};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, seed, out] = arguments.as_slice() else {
        println!("usage: make_sample SPEC SEED OUT");
        return Ok(());
    };
    let seed = seed.parse().map_err(|_| Error::Setting {
        setting: "SEED".to_owned(),
        found: seed.clone(),
        remedy: "give a whole number".to_owned(),
    })?;
    let spec = Spec::load(Path::new(spec))?;
    let trace = synth::generate(&spec, seed)?;
    for (table, rows) in trace.row_counts() {
        println!("{table:>24} {rows:>12} rows");
    }
    for result in calibrate::check(&trace, &spec) {
        let measured = result.measured.map_or("unknown".to_owned(), |measured| format!("{measured:.3}"));
        let mark = if result.within { ' ' } else { '!' };
        println!(
            "{mark} {:>24} {measured:>12} published {:>12.3} ± {:.3}",
            format!("{:?}", result.name),
            result.published,
            result.tolerance
        );
    }
    storage::save(&trace, Path::new(out))?;
    Ok(())
}
