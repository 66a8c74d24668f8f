//! Orders by what a job has had so far: the queues of Tiresias and the Gittins index.
//!
//! See [`super`] for the definitions. Worked number: with the history 1, 1, 1, 97 GPU-seconds the index at 0 is 3 / (3 + 1) = 0.75 (the
//! three that end at 1; the fourth spends 1 as well), and at 1.21 it is 1 / 95.79: whoever is past the first second has a long way to go.

/// Points of the table after 0: 1.1^k GPU-seconds.
const GRID: i32 = 250;
/// Most values of a history.
const MOST: usize = 1000;

/// How many of `bounds` are exceeded by `attained`.
pub(super) fn queue_of(bounds: &[f64], attained: f64) -> i64 {
    bounds.iter().filter(|bound| attained > **bound).count() as i64
}

/// The Gittins index by attained GPU time.
#[derive(Debug)]
pub(super) struct Gittins {
    /// (attained GPU-seconds, index), rising.
    table: Vec<(f64, f64)>,
}

impl Gittins {
    /// Computes the index from the GPU times of ended jobs, GPU-seconds. O(m log m + grid × m).
    pub(super) fn new(history: &[f64]) -> Self {
        let mut sorted: Vec<f64> = history.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        if count > MOST {
            sorted = (0..MOST).filter_map(|at| sorted.get(at * count / MOST).copied()).collect();
        }
        let ages = std::iter::once(0.0).chain((0..=GRID).map(|power| 1.1f64.powi(power)));
        Self { table: ages.map(|age| (age, index(&sorted, age))).collect() }
    }

    /// The index of a job that has attained so many GPU-seconds.
    pub(super) fn index(&self, attained: f64) -> f64 {
        let after = self.table.partition_point(|(age, _)| *age <= attained);
        self.table.get(after.saturating_sub(1)).map_or(0.0, |(_, index)| *index)
    }
}

/// The index at `age`: the best chance of ending per GPU-second to be spent. O(m).
fn index(sorted: &[f64], age: f64) -> f64 {
    let above = sorted.get(sorted.partition_point(|value| *value <= age)..).unwrap_or_default();
    let mut spent = 0.0;
    let mut best = 0.0f64;
    for (at, value) in above.iter().enumerate() {
        spent += value - age;
        let rest = (above.len() - at - 1) as f64;
        best = best.max((at + 1) as f64 / (spent + rest * (value - age)));
    }
    best
}
