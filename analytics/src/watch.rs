//! Observer of long work.
//!
//! Worked example: a back-test of 7 models on 4 windows says [`Watch::more`] of 28, and [`Watch::made`] after each. Somebody who saw 7 of them made in
//! 10 s knows that about 30 s are left.

/// Observer of long work, in parts that take time, such as fits of models. `()` observes nothing.
///
/// Work whose caller can count its parts beforehand tells [`made`](Watch::made) only; other work tells [`more`](Watch::more) as soon as it knows.
pub trait Watch: Sync {
    /// Announces `parts` more parts.
    fn more(&self, parts: usize);
    /// Announces that a part is done.
    fn made(&self);
}

/// Observes nothing.
impl Watch for () {
    fn more(&self, _: usize) {}

    fn made(&self) {}
}

/// Makes a part, and says that it is made.
pub fn part<T>(watch: &dyn Watch, make: impl FnOnce() -> T) -> T {
    let made = make();
    watch.made();
    made
}
