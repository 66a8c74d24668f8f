//! Energy audit: where the energy went, whether it adds up to the meter, and what it cost in money, carbon and water.
//!
//! `meter` (readings → [`ledger::Ledger`]) and `account` (ledger × factors → figures, report, manifest) meet in [`ledger`].

mod attribute;
pub mod ledger;
pub mod meter;
pub mod model;
pub mod stream;
