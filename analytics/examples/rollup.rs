//! Prints the rollup of a jobs table as JSON: `rollup SOURCE [--threads N]`.
//!
//! The smallest program around [`tracecast_analytics::rollup::run`]; `tracecast rollup` does the same with options.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;

use tracecast_analytics::rollup::{RollupOptions, run};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (source, threads) = match arguments.as_slice() {
        [source] => (source, 0),
        [source, option, threads] if option == "--threads" => (source, threads.parse()?),
        _ => return Err("usage: rollup SOURCE [--threads N]".into()),
    };
    println!("{}", serde_json::to_string_pretty(&run(Path::new(source), &RollupOptions { threads })?)?);
    Ok(())
}
