//! Energy of readings, measured once: from what GPUs and nodes report to one [ledger] of joules by hour, use,
//! owner and job. Descriptions and audits tell what it says; nothing else integrates power.
//!
//! | module | holds |
//! |---|---|
//! | [`meter`] | what each stretch of each device is known by: counter, power, a short gap bridged, a model; and whose energy it is |
//! | [`model`] | power of a GPU type by its utilisation or state, and its bounds |
//! | [`ratings`] | published idle power and TDP of GPU types |
//! | [`ledger`] | the result |
//! | [`stream`] | the same for tables larger than memory |
//! | [`constant`] | constants that set figures, each with its source |
//!
//! Worked number: a GPU that reads 100 W and 200 W a minute apart drew 9,000 J; ten minutes without a reading are no reading but
//! a model, and the ledger keeps the two apart.

pub mod constant;
pub mod ledger;
pub mod meter;
pub mod model;
pub mod ratings;
pub mod stream;
