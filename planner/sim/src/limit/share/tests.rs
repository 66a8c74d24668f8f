use super::*;
use crate::Limits;

/// An account below another, or a user in one.
fn of(name: &str, parent: Option<u32>, is_user: bool, shares: Fairshare) -> Association {
    Association { name: name.to_owned(), parent, is_user, shares, ..Association::default() }
}

/// A tree of a Slurm 22.05 in the lab, and what each user has used, in the order that `sshare -la` has.
///
/// Guests had used a third of what dept had, with a third of its shares: the two were level but for the last bits. Slurm found guests behind.
fn lab() -> (Vec<Association>, Vec<f64>) {
    let rows = [
        ("root", None, None, Some(1)),
        ("root/root", Some("root"), Some(0.0), Some(1)),
        ("dept", Some("root"), None, Some(30)),
        ("nlp", Some("dept"), None, Some(2)),
        ("nlp/u1", Some("nlp"), Some(2.0), Some(3)),
        ("nlp/u2", Some("nlp"), Some(2.0), Some(1)),
        ("vision", Some("dept"), None, Some(1)),
        ("vision/u2", Some("vision"), Some(2.0), Some(1)),
        ("vision/u3", Some("vision"), Some(0.0), Some(1)),
        ("guests", Some("root"), None, Some(10)),
        ("guests/u3", Some("guests"), Some(1.0), None),
        ("guests/u4", Some("guests"), Some(1.000_001), Some(1)),
        ("research", Some("root"), None, Some(1)),
        ("research/root", Some("research"), Some(0.0), Some(1)),
        ("research/u1", Some("research"), Some(0.0), Some(1)),
        ("research/u2", Some("research"), Some(0.0), Some(1)),
        ("research/u3", Some("research"), Some(0.0), Some(1)),
        ("research/u4", Some("research"), Some(0.0), Some(1)),
        ("x", Some("root"), None, Some(0)),
        ("x/u1", Some("x"), Some(1.0), Some(1)),
        ("x/u2", Some("x"), Some(3.0), Some(1)),
        ("y", Some("root"), None, Some(0)),
        ("y/u1", Some("y"), Some(1.0), Some(1)),
        ("y/u2", Some("y"), Some(4.0), Some(1)),
    ];
    let at = |name: &str| rows.iter().position(|row| row.0 == name).unwrap();
    let tree: Vec<Association> = rows
        .iter()
        .map(|(name, parent, used, shares)| {
            let shares = shares.map_or(Fairshare::Parent, Fairshare::Of);
            of(name, parent.map(|parent| at(parent) as u32), used.is_some(), shares)
        })
        .collect();
    let mut usage = vec![0.0; tree.len()];
    for (row, (_, _, used, _)) in rows.iter().enumerate() {
        let mut up = Some(row);
        while let Some(at) = up {
            usage[at] += used.unwrap_or(0.0);
            up = tree[at].parent.map(|parent| parent as usize);
        }
    }
    (tree, usage)
}

fn levels(accounting: Accounting, tree: Vec<Association>, usage: &[f64]) -> Vec<Level> {
    let limits = Limits::new(Vec::new(), Vec::new()).unwrap().under(tree).unwrap().accounted(accounting).unwrap();
    limits.levels(usage)
}

/// Factors of users by name.
fn factors(levels: &[Level], tree: &[Association]) -> Vec<(String, f64)> {
    let of = |(level, of): (&Level, &Association)| level.factor.map(|factor| (of.name.clone(), factor));
    levels.iter().zip(tree).filter_map(of).collect()
}

/// Output of `sshare -la` on the lab's Slurm, in sixteenths. Dept comes before guests, and after
/// who has used nothing. Nlp and vision have the same level, 1: vision's first user has the rank of
/// nlp's last. So it is with x and y, which have no shares.
#[test]
fn a_real_slurm_ranks_alike() {
    let (tree, usage) = lab();
    let levels = levels(Accounting::default(), tree.clone(), &usage);
    let expected = [
        ("root/root", 16),
        ("nlp/u1", 10),
        ("nlp/u2", 9),
        ("vision/u2", 7),
        ("vision/u3", 9),
        ("guests/u3", 6),
        ("guests/u4", 5),
        ("research/root", 16),
        ("research/u1", 16),
        ("research/u2", 16),
        ("research/u3", 16),
        ("research/u4", 16),
        ("x/u1", 4),
        ("x/u2", 3),
        ("y/u1", 3),
        ("y/u2", 1),
    ];
    let expected: Vec<(String, f64)> =
        expected.into_iter().map(|(name, rank)| (name.to_owned(), f64::from(rank) / 16.0)).collect();
    assert_eq!(factors(&levels, &tree), expected);
    let level = |name: &str| levels[tree.iter().position(|of| of.name == name).unwrap()];
    let near = |result: Option<f64>, expected: f64| assert!((result.unwrap() - expected).abs() < 1e-5, "{result:?}");
    near(level("dept").shares, 0.714_286);
    near(level("nlp").level, 1.0);
    near(level("nlp/u1").level, 1.5);
    near(level("vision/u2").level, 0.5);
    near(level("y/u1").level, 2.5);
    near(level("guests/u4").level, 2.0);
    assert_eq!((level("vision/u3").level, level("x").level), (Some(f64::INFINITY), Some(0.0)));
}

/// The lab's usage under `PriorityFlags=NO_FAIR_TREE` and `FairShareDampeningFactor=3`, as
/// `sshare -la` showed it.
#[test]
fn a_real_slurm_without_fair_tree_has_the_same_factors() {
    let (tree, usage) = lab();
    let accounting = Accounting { algorithm: Algorithm::Classic, dampening: 3, ..Accounting::default() };
    let levels = levels(accounting, tree.clone(), &usage);
    // The lab's usage was not to the second what it was meant to be.
    let expected = [
        ("root/root", 1.0, 0.0),
        ("nlp/u1", 0.842_739, 0.264_475),
        ("nlp/u2", 0.723_839, 0.166_521),
        ("vision/u2", 0.737_732, 0.156_726),
        ("vision/u3", 0.826_869, 0.097_954),
        ("guests/u3", 0.892_199, 0.117_544),
        ("guests/u4", 0.892_199, 0.117_544),
        ("research/u1", 1.0, 0.0),
        ("x/u1", 0.0, 0.147_476),
        ("y/u2", 0.0, 0.264_475),
    ];
    for (name, factor, effective) in expected {
        let level = levels[tree.iter().position(|of| of.name == name).unwrap()];
        let result = level.factor.unwrap();
        assert!((result - factor).abs() < 5e-4 && (level.effective - effective).abs() < 5e-4, "{name}: {level:?}");
    }
}

/// By hand from the description of fair tree: a and b have 3 and 1 shares, and have used 30 and 70 of 100; of a, ada has used all 30, bob nothing; of b, cy 20 of 70 with 1 share of 4, dee 50 with 3. LF: a 2.5, b 0.357;
/// bob ∞, ada 0.5; dee 0.75/0.714 = 1.05, cy 0.25/0.286 = 0.875. So bob 4/4, ada 3/4, dee 2/4, cy 1/4.
#[test]
fn ranks_worked_out_by_hand() {
    let user = |name: &str, parent: u32, shares: u32| of(name, Some(parent), true, Fairshare::Of(shares));
    let account = |name: &str, parent: Option<u32>, shares: u32| of(name, parent, false, Fairshare::Of(shares));
    let tree = vec![
        account("root", None, 1),
        account("a", Some(0), 3),
        account("b", Some(0), 1),
        user("ada", 1, 1),
        user("bob", 1, 1),
        user("cy", 2, 1),
        user("dee", 2, 3),
    ];
    let usage = [100.0, 30.0, 70.0, 30.0, 0.0, 20.0, 50.0];
    let result = levels(Accounting::default(), tree.clone(), &usage);
    let ranks: Vec<f64> = result.iter().filter_map(|level| level.factor).collect();
    assert_eq!(ranks, [0.75, 1.0, 0.25, 0.5]);
    // With `Fairshare=parent`, b's users stand beside a: cy has 1 share of 7 and 20 % of the usage, dee 3 and 50 %, a 3 and 30 %. LF: a 1.43, dee 0.857, cy 0.714.
    let mut lent = tree;
    lent[2].shares = Fairshare::Parent;
    let result = levels(Accounting::default(), lent, &usage);
    let ranks: Vec<f64> = result.iter().filter_map(|level| level.factor).collect();
    assert_eq!(ranks, [0.75, 1.0, 0.25, 0.5]);
    assert!(
        (result[5].level.unwrap() - 5.0 / 7.0).abs() < 1e-9 && (result[1].level.unwrap() - 10.0 / 7.0).abs() < 1e-9
    );
}

#[test]
fn what_is_no_tree_is_refused() {
    let account = |parent: Option<u32>| of("a", parent, false, Fairshare::default());
    let accounted = |tree: Vec<Association>, accounting: Accounting| {
        Limits::new(Vec::new(), Vec::new()).unwrap().under(tree).unwrap().accounted(accounting)
    };
    assert!(accounted(vec![account(None), account(None)], Accounting::default()).is_err());
    let user = of("u", Some(0), true, Fairshare::default());
    assert!(accounted(vec![account(None), user, account(Some(1))], Accounting::default()).is_err());
    for accounting in [
        Accounting { period_ms: 0, ..Accounting::default() },
        Accounting { half_life_ms: Some(0), ..Accounting::default() },
        Accounting { dampening: 0, ..Accounting::default() },
    ] {
        assert!(accounted(vec![account(None)], accounting).is_err());
    }
}

/// Reckoned at 20 s and every 60 s: at 79 s the factors are those of 20 s, before 20 s those of nothing.
#[test]
fn factors_hold_from_one_reckoning_to_the_next() {
    let accounting = Accounting { period_ms: 60_000, first_ms: 20_000, ..Accounting::default() };
    let at = [0, 19_999, 20_000, 79_999, 80_000].map(|now| accounting.reckoned_ms(now));
    assert_eq!(at, [-40_000, -40_000, 20_000, 20_000, 80_000]);
}
