//! Keys against numbers worked out by hand and against definitions.
#![allow(clippy::unwrap_used)]

use std::f64::consts::LN_2;

use proptest::prelude::*;
use tracecast_analytics::stats::NeumaierSum;

use super::attained::Gittins;
use super::fair::Decayed;
use super::{Keys, Progress};
use crate::{Estimate, Key, Order, Policy, Shape, Weights, Workload};

/// 8 GPUs for 100 s at 0 s, 1 GPU for 900 s at 10 s, of two users.
fn workload() -> Workload {
    let mut workload = Workload::default();
    workload.push(0, 100_000, Shape::whole(8));
    workload.push(10_000, 900_000, Shape::whole(1));
    workload.users.push(String::from("other"));
    workload.user[1] = 1;
    workload
}

fn key(order: Order, job: u32, now_s: i64, progress: &Progress) -> Key {
    let workload = workload();
    let policy = Policy { order, ..Policy::default() };
    Keys::new(&workload, &policy, &[0, 1], 16).at(job, now_s * 1000, progress)
}

#[test]
fn keys_worked_out_by_hand() {
    let new = Progress::default();
    assert_eq!(key(Order::Fifo, 1, 20, &new), Key(10_000));
    assert_eq!(key(Order::FewestGpus, 0, 20, &new), Key(8000));
    assert_eq!(key(Order::Ljf, 1, 20, &new), Key(-900_000));
    assert_eq!(key(Order::Qssf, 0, 20, &new), Key::exact(800.0));
    // 100 s of which 30 are done, and 7 owed.
    let progress = Progress { done_ms: 30_000, owed_ms: 7_000, attained: 8000 * 37_000, factor: None };
    assert_eq!(key(Order::Srtf, 0, 50, &progress), Key(77_000));
    assert_eq!(key(Order::Las, 0, 50, &progress), Key(296_000_000));
    // 296 GPU-seconds: past 100 and 200, not 300.
    assert_eq!(key(Order::Tiresias(vec![100.0, 200.0, 300.0]), 0, 50, &progress), Key(2));
    // Waited 50 s of 100 with 8 GPUs: −0.125 · 8.
    assert_eq!(key(Order::Wfp3, 0, 50, &new), Key::new(-1.0));
    // −50 / (log2(9) · 100).
    assert_eq!(key(Order::Unicef, 0, 50, &new), Key::new(-0.5 / 9f64.log2()));
    // log10(900) · 1 + 870 · log10(10).
    assert_eq!(key(Order::F1, 1, 50, &new), Key::new(900f64.log10() + 870.0));
    // Half the maximal age, half the pool.
    let weights = Weights { age: 10.0, max_age_ms: 100_000, size: 4.0, ..Weights::default() };
    assert_eq!(key(Order::Multifactor(weights), 0, 50, &new), Key::new(-(5.0 + 2.0)));
    let small = Weights { favor_small: true, ..weights };
    assert_eq!(key(Order::Multifactor(small), 1, 110, &new), Key::new(-(10.0 + 4.0 * 15.0 / 16.0)));
}

/// Two tenants on 16 GPUs: the job of 8 alone would have half of them, so 8·2/16 = 1; (50 + 100)/(100·1).
#[test]
fn finish_time_counts_who_is_there() {
    let workload = workload();
    let policy = Policy { order: Order::FinishTime, ..Policy::default() };
    let mut keys = Keys::new(&workload, &policy, &[0, 1], 16);
    keys.in_service(16);
    keys.submitted(0, 0);
    keys.submitted(1, 0);
    assert_eq!(keys.at(0, 50_000, &Progress::default()), Key::new(-1.5));
    // On 8 GPUs it would have a quarter of what it wants: 8·2/8 = 2.
    keys.in_service(8);
    assert_eq!(keys.at(0, 50_000, &Progress::default()), Key::new(-0.75));
    keys.left(1);
    assert_eq!(keys.at(0, 50_000, &Progress::default()), Key::new(-1.5));
}

/// 8 GPUs from 0 to 100 s, 1 GPU from 20 s on; at 120 s the first tenant has 800 GPU-seconds, the second 100.
#[test]
fn long_term_keys_are_gpu_time_received() {
    let workload = workload();
    let policy = Policy { order: Order::LongTerm, ..Policy::default() };
    let mut keys = Keys::new(&workload, &policy, &[0, 1], 16);
    keys.started(0, 0);
    keys.started(1, 20_000);
    keys.stopped(0, 100_000);
    assert_eq!(keys.at(0, 120_000, &Progress::default()), Key(800_000_000));
    assert_eq!(keys.at(1, 120_000, &Progress::default()), Key(100_000_000));
}

#[test]
fn decayed_usage_is_the_integral() {
    let mut usage = Decayed::new(&[true, true], 100_000);
    usage.change(0, 0, 1000);
    assert!((usage.gpu_s(0, 100_000) - 50.0 / std::f64::consts::LN_2).abs() < 1e-9);
    // 1 GPU from 0 s, 3 from 40 s, 2 from 70 s, none from 90 s; at 150 s, by sums of a millisecond each.
    let steps = [(40_000, 2000), (70_000, -1000), (90_000, -2000)];
    for (at, held) in steps {
        usage.change(0, at, held);
    }
    let held = |at: i64| match at {
        0..40_000 => 1.0,
        40_000..70_000 => 3.0,
        70_000..90_000 => 2.0,
        _ => 0.0,
    };
    let brute: f64 =
        (0..150_000).map(|at| held(at) * 0.001 * (-(150_000.0 - at as f64 - 0.5) / 100_000.0).exp2()).sum();
    assert!((usage.gpu_s(0, 150_000) - brute).abs() < 1e-6, "{} {brute}", usage.gpu_s(0, 150_000));
    // All of it is the first tenant's, one of two: its share is 2.
    assert!((usage.share(0, 150_000) - 2.0).abs() < 1e-12);
    assert!(usage.share(1, 150_000).abs() < 1e-12);
}

#[test]
fn the_gittins_index_of_small_histories() {
    let law = Gittins::new(&[1.0, 1.0, 1.0, 97.0]);
    assert!((law.index(0.0) - 0.75).abs() < 1e-12);
    // Between 1.21 and 1.331 the lower point of the table counts.
    assert!((law.index(1.3) - 1.0 / (97.0 - 1.21)).abs() < 1e-12);
    assert!(law.index(1e9).abs() < 1e-12);
    // Where all jobs are alike, the nearer to the end the better; where the long ones are very long, the younger.
    let alike = Gittins::new(&[100.0; 40]);
    assert!(alike.index(90.0) > alike.index(10.0));
    let skewed = Gittins::new(&(0..200).map(|k| 1.1f64.powi(k)).collect::<Vec<_>>());
    assert!(skewed.index(1.0) > skewed.index(1e4));
}

#[test]
fn keys_of_estimates_and_scores() {
    let mut workload = workload();
    workload.shapes[1] = Shape::part(500);
    workload.predicted_s = vec![None, Some(12.3456)];
    workload.requested_ms = vec![Some(3_600_000), None];
    workload.score = vec![0.25, f64::NAN];
    let key = |order: Order, estimate: Estimate, job: u32| {
        let policy = Policy { order, estimate, ..Policy::default() };
        let keys = Keys::new(&workload, &policy, &[0, 1], 16);
        assert_eq!(keys.fixed(job), keys.at(job, 5_000_000, &Progress::default()), "a fixed key stays");
        keys.fixed(job)
    };
    assert_eq!(key(Order::Sjf, Estimate::True, 0), Key(100_000));
    assert_eq!(key(Order::Sjf, Estimate::Requested, 0), Key(3_600_000));
    // A prediction to the nearest millisecond; where there is none, the time limit.
    assert_eq!(key(Order::Sjf, Estimate::Predicted, 1), Key(12_346));
    assert_eq!(key(Order::Ljf, Estimate::Predicted, 0), Key(-3_600_000));
    // Unrounded, times half a GPU. 8 GPUs for the limit of an hour: 28,800.
    assert_eq!(key(Order::Qssf, Estimate::Predicted, 1), Key::exact(6.1728));
    assert_eq!(key(Order::Qssf, Estimate::Predicted, 0), Key::exact(28_800.0));
    // 3,600 s · ln(3,600 s × 8 GPUs), submitted at its time; half a GPU for 12.346 s counts as more than one second.
    let submit_s = |job: usize| workload.submit_ms[job] as f64 / 1000.0;
    let aged = |job| key(Order::Aged(3_600_000), Estimate::Predicted, job);
    assert_eq!(aged(0), Key::new(3_600.0 * 28_800f64.ln() + submit_s(0)));
    assert_eq!(aged(1), Key::new(3_600.0 * 6.173f64.ln() + submit_s(1)));
    assert_eq!(key(Order::FewestGpus, Estimate::True, 1), Key(500));
    assert_eq!(key(Order::Score, Estimate::True, 0), Key::exact(0.25));
    assert_eq!(key(Order::Score, Estimate::True, 1), Key(i64::MAX));
}

#[test]
fn a_tiresias_queue_is_left_only_by_exceeding_its_bound() {
    let bounds = Order::Tiresias(vec![0.3, 100.0]);
    let at = |attained: u64| key(bounds.clone(), 0, 50, &Progress { attained, ..Progress::default() });
    // Millionths of GPU-seconds.
    assert_eq!([at(0), at(300_000), at(300_001), at(100_000_000), at(100_000_001)].map(|key| key.0), [0, 0, 1, 1, 2]);
}

/// A half-life of 100 s. User 0 holds 8 GPUs from 0 to 100 s, user 1 holds 1 from 0 on. At 200 s, with c = 100/ln 2:
/// 8·c·(2^-1 − 2^-2) = 2c and c·(1 − 2^-2) = 0.75c, of 2.75c together.
#[test]
fn usage_that_decays_worked_out_by_hand() {
    let workload = workload();
    let at = |order: Order, tenants_are_vcs: bool, job: u32| {
        let policy = Policy { order, tenants_are_vcs, ..Policy::default() };
        let mut keys = Keys::new(&workload, &policy, &[0, 1], 16);
        keys.started(0, 0);
        keys.started(1, 0);
        keys.stopped(0, 100_000);
        keys.at(job, 200_000, &Progress::default())
    };
    let c = 100.0 / LN_2;
    assert_eq!(at(Order::FairShare(100_000), false, 0), Key::new(2.0 * c));
    assert_eq!(at(Order::FairShare(100_000), false, 1), Key::new(0.75 * c));
    // Both are of one VC.
    assert_eq!(at(Order::FairShare(100_000), true, 0), Key::new(2.75 * c));
    assert_eq!(at(Order::FairShare(100_000), true, 1), Key::new(2.75 * c));
    // Each of two tenants has a share of 1/2: 2^(−2/2.75·2) and 2^(−0.75/2.75·2). The one VC has all, of all: 2^−1.
    let weights = Weights { fair_share: 10.0, half_life_ms: 100_000, ..Weights::default() };
    assert_eq!(at(Order::Multifactor(weights), false, 0), Key::new(-10.0 * (-4.0f64 / 2.75).exp2()));
    assert_eq!(at(Order::Multifactor(weights), false, 1), Key::new(-10.0 * (-1.5f64 / 2.75).exp2()));
    assert_eq!(at(Order::Multifactor(weights), true, 1), Key::new(-5.0));
}

/// The integral, piece by piece: (from, to, thousandths of a GPU).
fn integral(pieces: &[(i64, i64, i64)], now: i64, half_life_ms: i64) -> f64 {
    let half_lives = |ms: i64| ms as f64 / half_life_ms as f64;
    let piece = |(from, to, held): &(i64, i64, i64)| {
        // 2^−a − 2^−b as 2^−a·(1 − 2^−(b−a)), which keeps its digits where the piece is short.
        let short = -(-half_lives(to - from) * LN_2).exp_m1() * (-half_lives(now - to)).exp2();
        *held as f64 / 1000.0 * half_life_ms as f64 / 1000.0 / LN_2 * short
    };
    pieces.iter().map(piece).collect::<NeumaierSum>().value()
}

/// A change every second for more than a day, with a half-life of a week: had each change rounded the same way, the
/// last four digits would be gone.
#[test]
fn many_small_changes_of_usage_do_not_add_up_to_an_error() {
    let half_life_ms = tracecast_analytics::time::WEEK_MS;
    let mut usage = Decayed::new(&[true], half_life_ms);
    let mut pieces = Vec::new();
    for second in 0..100_000 {
        // 1, 2, 0, 1, 2, 0, … GPUs.
        let change = if second % 3 < 2 { 1000 } else { -2000 };
        usage.change(0, second * 1000, change);
        pieces.push((second * 1000, (second + 1) * 1000, [1000, 2000, 0][second as usize % 3]));
    }
    let exact = integral(&pieces, 100_000_000, half_life_ms);
    let relative = (usage.gpu_s(0, 100_000_000) / exact - 1.0).abs();
    assert!(relative < 1e-14, "{relative:e}");
}

proptest! {
    /// Any half-life from a millisecond to 115 days, any gaps from none to 11 days.
    #[test]
    fn usage_that_decays_is_the_integral(
        half_life_ms in prop_oneof![1i64..100, 1_000i64..10_000_000, 10_000_000i64..10_000_000_000],
        steps in prop::collection::vec((0usize..3, prop_oneof![0i64..3, 0i64..5_000, 0i64..1_000_000_000], 0i64..64_000), 1..40),
    ) {
        let mut usage = Decayed::new(&[true, true, true], half_life_ms);
        let mut held = [0i64; 3];
        let mut pieces: [Vec<(i64, i64, i64)>; 3] = Default::default();
        let mut now = 0;
        for (tenant, gap, target) in steps {
            let tenants = pieces.iter_mut().zip(held);
            tenants.for_each(|(pieces, held)| pieces.push((now, now + gap, held)));
            now += gap;
            // To ask changes nothing, whether before or after the change.
            let before = usage.gpu_s(tenant, now);
            usage.change(tenant, now, target - held[tenant]);
            held[tenant] = target;
            prop_assert!((usage.gpu_s(tenant, now) - before).abs() <= 1e-13 * before);
            let exact: Vec<f64> = pieces.iter().map(|pieces| integral(pieces, now, half_life_ms)).collect();
            let total: f64 = exact.iter().sum();
            for (tenant, exact) in exact.into_iter().enumerate() {
                // Below this a number has fewer digits.
                if exact > 1e-280 {
                    prop_assert!((usage.gpu_s(tenant, now) / exact - 1.0).abs() < 1e-12);
                    prop_assert!((usage.share(tenant, now) / (3.0 * exact / total) - 1.0).abs() < 1e-12);
                }
            }
        }
    }

    /// By the definition, in O(m²) at each age; and never below 1 / the mean that is left, which is the choice k = m′.
    #[test]
    fn the_gittins_index_is_its_definition(
        mut history in prop::collection::vec(prop_oneof![0.0f64..50.0, 0.0f64..1e6, (1u32..5).prop_map(f64::from)], 1..60),
        copies in prop_oneof![Just(1usize), Just(40usize)],
        attained in prop_oneof![0.0f64..2.0, 0.0f64..100.0, 0.0f64..1e6],
    ) {
        let law = Gittins::new(&history.repeat(copies));
        history = history.repeat(copies);
        history.sort_by(f64::total_cmp);
        let m = history.len();
        let values: Vec<f64> = if m > 1000 { (0..1000).map(|i| history[i * m / 1000]).collect() } else { history };
        let mut age = 0.0;
        for power in 0..=250 {
            if 1.1f64.powi(power) <= attained {
                age = 1.1f64.powi(power);
            }
        }
        let above: Vec<f64> = values.iter().copied().filter(|value| *value > age).collect();
        let best = (1..=above.len()).map(|k| {
            let stop = above[k - 1];
            // All are served until they end or reach `stop`.
            let spent: f64 = above.iter().map(|value| value.min(stop) - age).sum();
            k as f64 / spent
        }).fold(0.0, f64::max);
        let index = law.index(attained);
        prop_assert!((index - best).abs() <= 1e-12 * best, "{} {}", index, best);
        let left: f64 = above.iter().map(|value| value - age).sum();
        prop_assert!(above.is_empty() || index >= above.len() as f64 / left * (1.0 - 1e-12));
    }
}
