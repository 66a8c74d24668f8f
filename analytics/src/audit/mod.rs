//! Energy audit: where the energy went, whether it adds up to the meter, and what it cost in money, carbon and water.
//!
//! [`meter`] (readings → [`ledger::Ledger`]) and [`account`] (ledger × [`factors`] → figures) meet in [`ledger`]. An [`answer::Answer`] is the
//! account with [`whatif`] studies beside it, as data and as a [report](answer::Answer::report); a [`manifest`] signs it off.

pub mod account;
pub mod answer;
mod attribute;
pub mod constant;
pub mod factors;
pub mod ledger;
pub mod manifest;
pub mod meter;
pub mod model;
mod name;
pub mod ratings;
mod report;
pub mod stream;
pub mod whatif;
