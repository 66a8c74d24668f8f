//! What a fleet of rented GPUs should be made of: how much to reserve, what to run on demand and on spot, and whether that held on weeks that were not seen.
//!
//! An [offers file](crate::market::offers) says what can be had at what price, or a [table of prices](crate::market::listed); the jobs of a trace are the [demand](crate::market::demand), hour by hour and GPU type by GPU type. A
//! [search](commit) over levels of need chooses the commitments of each type, beside [on-demand and spot](crate::market::supply) that are rented (`rent`) for each hour in whole instances, spot with the
//! [overhead](crate::market::overhead) of its interruptions. What it [chooses](rule) on [earlier weeks](crate::plan::weeks) is [priced on later ones](heldout) beside the usual rules and the best
//! mix with hindsight, and, where power and grids are told, with its [carbon] by the [hour of the week](crate::market::grid); and [tried](stress) with all spot of a zone gone at the worst moment. The [answer] advises the mix only if the later weeks speak
//! for it; [emit] writes a purchase list and node pools for Karpenter.
//!
//! Jobs of a GPU type run on any instance of that type; types are planned one by one. Prices are what the offers file or the table says, and none is known here.

pub mod answer;
pub mod carbon;
pub mod commit;
pub mod emit;
pub mod heldout;
pub mod rule;
pub mod stress;
pub(crate) mod weighed;
