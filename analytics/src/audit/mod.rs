//! Energy audit: where the energy went, whether it adds up to the meter, and what it cost in money, carbon and water.
//!
//! `meter` (readings → [`ledger::Ledger`]) and `account` (ledger × factors → figures, report, manifest) meet in [`ledger`].

pub mod account;
pub mod factors;
pub mod ledger;
pub mod whatif;
