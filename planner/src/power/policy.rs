//! The border between who decides how many nodes are powered and who carries it out.

use tracecast_predictors::demand::Seen;

/// Decides, slot by slot, how many nodes (or GPUs) are powered.
pub trait Policy {
    /// Its name, as reports and JSON call it.
    fn name(&self) -> String;

    /// How many shall be powered in the slot that begins now, of [`Slot::total`](tracecast_predictors::demand::Slot::total) there are, with
    /// `powered` now. Depends on `seen`, `powered` and the policy's own memory of earlier calls only. What exceeds the total, or falls short of
    /// what runs, is corrected by who carries it out.
    fn target(&mut self, seen: Seen<'_>, powered: f64) -> f64;
}
