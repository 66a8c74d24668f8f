//! Energy audit: where the energy went, whether it adds up to the meter, and what it cost in money, carbon and water.
//!
//! [`energy`](crate::energy) (readings → [ledger](crate::energy::ledger)) and [`account`] (ledger × [`factors`] → figures) meet in the ledger. An [`answer::Answer`] is the
//! account with [`whatif`] studies beside it, as data and as a [report](answer::Answer::report); a [`manifest`] signs it off.

pub mod account;
pub mod answer;
pub mod factors;
pub mod manifest;
mod name;
mod report;
pub mod whatif;
