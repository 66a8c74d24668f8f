//! Keys against numbers worked out by hand and against definitions.
#![allow(clippy::unwrap_used)]

use super::attained::Gittins;
use super::fair::Decayed;
use super::{Keys, Progress};
use crate::sim::{Key, Order, Policy, Shape, Weights, Workload};

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
    let progress = Progress { done_ms: 30_000, owed_ms: 7_000, attained: 8000 * 37_000 };
    assert_eq!(key(Order::Srtf, 0, 50, &progress), Key(77_000));
    assert_eq!(key(Order::Las, 0, 50, &progress), Key(296_000_000));
    // 296 GPU-seconds: past 100 and 200, not 300.
    assert_eq!(key(Order::Tiresias(vec![100.0, 200.0, 300.0]), 0, 50, &progress), Key(2));
    // Waited 50 s of 100 with 8 GPUs: −0.125 · 8.
    assert_eq!(key(Order::Wfp3, 0, 50, &new), Key::of(-1.0));
    // −50 / (log2(9) · 100).
    assert_eq!(key(Order::Unicef, 0, 50, &new), Key::of(-0.5 / 9f64.log2()));
    // log10(900) · 1 + 870 · log10(10).
    assert_eq!(key(Order::F1, 1, 50, &new), Key::of(900f64.log10() + 870.0));
    // Half the maximal age, half the pool.
    let weights = Weights { age: 10.0, max_age_ms: 100_000, size: 4.0, ..Weights::default() };
    assert_eq!(key(Order::Multifactor(weights), 0, 50, &new), Key::of(-(5.0 + 2.0)));
    let small = Weights { favor_small: true, ..weights };
    assert_eq!(key(Order::Multifactor(small), 1, 110, &new), Key::of(-(10.0 + 4.0 * 15.0 / 16.0)));
}

/// Two tenants on 16 GPUs: the job of 8 alone would have half of them, so 8·2/16 = 1; (50 + 100)/(100·1).
#[test]
fn finish_time_counts_who_is_there() {
    let workload = workload();
    let policy = Policy { order: Order::FinishTime, ..Policy::default() };
    let mut keys = Keys::new(&workload, &policy, &[0, 1], 16);
    keys.in_service(16);
    keys.submitted(0);
    keys.submitted(1);
    assert_eq!(keys.at(0, 50_000, &Progress::default()), Key::of(-1.5));
    // On 8 GPUs it would have a quarter of what it wants: 8·2/8 = 2.
    keys.in_service(8);
    assert_eq!(keys.at(0, 50_000, &Progress::default()), Key::of(-0.75));
    keys.left(1);
    assert_eq!(keys.at(0, 50_000, &Progress::default()), Key::of(-1.5));
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
