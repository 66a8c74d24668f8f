//! What can be rented or bought at which price, what jobs need of it, and how a need is served for the least money.
//!
//! * [`zone`]: regions and providers by the names of zones; [`price`]: spot prices as steps, and [`price_book`]: read beside traces; [`availability`]: when spot could be had in a zone.
//! * [`offers`]: the offers file, beside it [tables of prices](listed); [`purchase`]: how GPUs are had, in words; [`grid`]: what a grid emits in each hour of the week.
//! * [`demand`]: what the jobs of a trace need, hour by hour and pool by pool; `predicted`: how long they were predicted to run; [`overhead`]: what interruptions of spot cost them.
//! * [`supply`]: commitments, on-demand and spot of a pool; `rent`: whole instances for an hour; [`levels`]: hours of equal need, and the newsvendor's number.
//!
//! Plans import this; it imports no plan, and knows no prices of its own.

pub mod availability;
pub mod demand;
pub mod grid;
pub mod levels;
pub mod listed;
pub mod offers;
pub mod overhead;
pub(crate) mod predicted;
pub mod price;
pub mod price_book;
pub(crate) mod price_file;
pub mod purchase;
pub(crate) mod rent;
pub mod supply;
pub mod zone;
