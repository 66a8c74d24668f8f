//! The model of effects: worked cases.

use super::super::table::{JobProfile, Quantity};
use super::*;

/// Four families of two job types; own effects fall and partners' rise with the place of the family.
pub(super) fn world() -> (SharingTable, Vec<Directed>) {
    let mut table = SharingTable::new();
    let gpu = table.gpu_type("g");
    let mut rows = Vec::new();
    for family in 0..4 {
        for batch in [8, 16] {
            let job = table.job(&format!("m{family} (batch size {batch})"));
            let rate = (f64::from(family) - f64::from(batch) / 16.0).exp();
            table.set_profile(gpu, job, &JobProfile::default().with(Quantity::StepsPerS, rate));
        }
    }
    for job in 0..8 {
        for partner in 0..8 {
            let speed = 0.6 - 0.05 * (job as f64 / 2.0).floor() + 0.04 * (partner as f64 / 2.0).floor();
            rows.push(Directed { gpu, own: job, beside: partner, speed });
        }
    }
    (table, rows)
}

#[test]
fn what_was_measured_is_told_and_a_new_family_leans_on_its_traits() {
    let (table, rows) = world();
    let alone = Alone::new(&table);
    let prior = Prior::draw(1, 0);
    let all = Lesson::new(&table, &alone, &rows, &[]).fit(&prior).unwrap();
    for row in &rows {
        let told = all.forecast(&alone, row.gpu, row.own, row.beside).unwrap();
        assert!((told.effects - row.speed).abs() < 0.02, "{row:?}: {told:?}");
    }
    let known: Vec<Directed> = rows.iter().copied().filter(|row| row.own < 6 && row.beside < 6).collect();
    let mut some = Lesson::new(&table, &alone, &known, &[]).fit(&prior).unwrap();
    let before = some.forecast(&alone, 0, 7, 0).unwrap();
    assert!(before.variance > all.forecast(&alone, 0, 7, 0).unwrap().variance);
    // One measured pair of the new family says most of what there is to say.
    for row in rows.iter().filter(|row| (row.own, row.beside) == (7, 0) || (row.own, row.beside) == (0, 7)) {
        some.learn(&alone, row).unwrap();
    }
    let after = some.forecast(&alone, 0, 7, 2).unwrap();
    assert!((after.effects - 0.49).abs() < 0.04 && after.variance < before.variance, "{after:?}");
}

/// Speeds are 1 / (x + y) on a GPU that is full, and all pairs that teach are near that: 0.70 on average. A family that takes nothing is not slowed so much.
#[test]
fn a_family_without_loads_is_not_held_to_the_mean_of_loaded_ones() {
    let mut table = SharingTable::new();
    let gpu = table.gpu_type("g");
    let loads = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.02];
    for (job, load) in loads.into_iter().enumerate() {
        let at = table.job(&format!("m{job}"));
        table.set_profile(gpu, at, &JobProfile::default().with(Quantity::SmUtilPct, 100.0 * load));
    }
    let speed = |a: usize, b: usize| (1.0 / (loads[a] + loads[b])).min(1.0);
    let known = (0..6).flat_map(|own| (0..6).map(move |beside| (own, beside)));
    let rows: Vec<Directed> =
        known.map(|(own, beside)| Directed { gpu, own, beside, speed: speed(own, beside) }).collect();
    let alone = Alone::new(&table);
    let mut misses = Vec::new();
    for number in 0..8 {
        let fitted = Lesson::new(&table, &alone, &rows, &[]).fit(&Prior::draw(1, number)).unwrap();
        for beside in 0..6 {
            let told = fitted.forecast(&alone, gpu, 6, beside).unwrap();
            misses.push((told.effects - told.lost - speed(6, beside)).abs());
        }
    }
    let missed = sum::mean(&misses).unwrap();
    assert!(missed < 0.1, "{missed}");
}

#[test]
fn learning_pair_by_pair_is_fitting_them_all() {
    let (table, rows) = world();
    let alone = Alone::new(&table);
    let prior = Prior::draw(1, 3);
    // The same level, so that nothing but the rows differs.
    let (first, later) = rows.split_at(40);
    let mut step = Lesson::new(&table, &alone, first, &[]);
    let mut whole = Lesson::new(&table, &alone, &rows, &[]);
    whole.levels = step.levels.clone();
    whole.traits = step.traits.clone();
    whole.scales = step.scales.clone();
    step.heeded = whole.heeded;
    let mut one = step.fit(&prior).unwrap();
    for row in later {
        one.learn(&alone, row).unwrap();
    }
    let other = whole.fit(&prior).unwrap();
    for row in &rows {
        let (a, b) = (one.forecast(&alone, 0, row.own, row.beside), other.forecast(&alone, 0, row.own, row.beside));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!((a.effects - b.effects).abs() < 1e-6 && (a.variance - b.variance).abs() < 1e-8);
    }
}
