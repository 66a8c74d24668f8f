//! What a row knows of a job, and what it must not.

use super::*;

fn job(id: &str, submit_ms: i64, user: &str, name: &str) -> Submission {
    Submission {
        job_id: id.to_owned(),
        submit_ms,
        user: Some(user.to_owned()),
        vc: Some("vc".to_owned()),
        name: Some(name.to_owned()),
        gpus: 1.0,
        ..Submission::default()
    }
}

#[test]
fn a_like_name_of_the_same_user_stands_in_and_another_users_does_not() {
    let mut store = Store::new(Known { user: true, name: true, vc: true, limit: false });
    let number = store.submit(&job("1", 0, "ann", "train_v6"));
    store.start(number, 0);
    store.end(number, 100_000, Some(100.0), false);
    let columns = store.columns();
    let get = |job: &Submission, name: &str| {
        let mut row = vec![0.0; store.width()];
        store.features(job, 200_000, &mut row);
        row[columns.iter().position(|column| column == name).unwrap()]
    };
    let y = 100f32.ln();
    assert!((get(&job("2", 200_000, "ann", "TRAIN_v7"), "user_name.last_1") - y).abs() < 1e-5);
    assert!((get(&job("2", 200_000, "ann", "TRAIN_v7"), "name_likeness") - 1.0).abs() < 1e-6);
    // `train_w#` shares 4 of 8 triples with `train_v#`.
    assert!((get(&job("2", 200_000, "ann", "train_w7"), "user_name.last_1") - y).abs() < 1e-5);
    assert!((get(&job("2", 200_000, "ann", "train_w7"), "name_likeness") - 0.5).abs() < 1e-6);
    assert!(get(&job("2", 200_000, "ann", "bert"), "user_name.last_1").is_nan());
    assert!(get(&job("2", 200_000, "bob", "train_v6"), "user_name.last_1").is_nan());
    assert!((get(&job("2", 200_000, "bob", "train_v6"), "vc_gpus.last_1") - y).abs() < 1e-5);
    assert_eq!(store.history(&job("2", 200_000, "ann", "train_v6")), History::Few);
    assert_eq!(store.history(&job("2", 200_000, "bob", "train_v6")), History::None);
}

#[test]
fn a_bounded_store_keeps_so_much_and_learns_what_is_new_in_the_wider_groups() {
    let mut store = Store::new(Known { user: true, name: true, vc: true, limit: false });
    store.most = Some(Most { groups: 12, users: 3, texts: 9 });
    for at in 0..100i64 {
        let number = store.submit(&job(
            &at.to_string(),
            at * 60_000,
            &format!("u{at}"),
            &format!("n{}x", "y".repeat(at as usize)),
        ));
        store.start(number, at * 60_000);
        store.end(number, at * 60_000 + 50_000, Some(50.0), false);
    }
    assert!(store.groups.len() <= 12 && store.phases.len() <= 12 && store.codes.len() <= 9 && store.names.len() <= 3);
    assert!(store.open.is_empty());
    // All hundred were learnt in the group of all jobs and of the VC.
    let columns = store.columns();
    let mut row = vec![0.0; store.width()];
    store.features(&job("x", 7_000_000, "new", "new"), 7_000_000, &mut row);
    let last = row[columns.iter().position(|column| column == "all.last_1").unwrap()];
    assert!((last - 50f32.ln()).abs() < 1e-5);
    assert_eq!(store.history(&job("x", 7_000_000, "new", "new")), History::None);
}

#[test]
fn a_store_written_and_read_gives_the_same_features() {
    let mut store = Store::new(Known { user: true, name: true, vc: true, limit: false });
    for at in 0..50i64 {
        let number = store.submit(&job(&at.to_string(), at * 60_000, "ann", &format!("n{}", at % 3)));
        store.start(number, at * 60_000 + 5000);
        if at % 4 != 0 {
            store.end(number, at * 60_000 + 50_000, Some(45.0 + at as f64), at % 5 == 0);
        }
    }
    let text = serde_json::to_string(&store).unwrap();
    let read: Store = serde_json::from_str(&text).unwrap();
    assert_eq!(text, serde_json::to_string(&read).unwrap());
    let (mut one, mut other) = (vec![0f32; store.width()], vec![0f32; store.width()]);
    store.features(&job("x", 3_100_000, "ann", "n1"), 3_100_000, &mut one);
    read.features(&job("x", 3_100_000, "ann", "n1"), 3_100_000, &mut other);
    let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&one), bits(&other));
}
