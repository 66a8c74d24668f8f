//! Scenarios of a few jobs, worked out by hand.

use super::*;

fn policy(order: &str, compat: &str) -> Result<Policy> {
    Scenario { compat: Some(compat.to_owned()), ..Scenario::of_order(order) }.policy(false)
}

#[test]
fn scans_are_called_in_one_way() {
    assert_eq!(Scan::ALL.map(Scan::id), SCANS);
    assert!(Scan::ALL.into_iter().all(|scan| Scan::called(scan.id()) == Some(scan)) && Scan::called("none").is_none());
}

#[test]
fn a_policy_in_words_says_what_matters() {
    let words = |scenario: Scenario| scenario.policy(false).unwrap().describe();
    // FIFO without backfill needs no durations, so nothing is said of them.
    assert_eq!(words(Scenario::of_order("fifo")), "FIFO, strict, consolidated");
    let easy = Scenario { scan: Some("easy".to_owned()), ..Scenario::of_order("fifo") };
    assert_eq!(words(easy), "FIFO, EASY backfill, consolidated, durations known (oracle)");
    let las = Scenario {
        preempt: Some("helios".to_owned()),
        interval: Some("1m".to_owned()),
        tenants: Some("vc".to_owned()),
        ..Scenario::of_order("las")
    };
    assert_eq!(words(las), "LAS, strict, consolidated, preemption at 7/30/60 s, every 60 s, tenants are VCs");
}

#[test]
fn every_name_is_understood_and_a_wrong_one_lists_them() {
    for order in ORDERS {
        policy(order, "none").unwrap();
    }
    for place in PLACEMENTS {
        Scenario { place: Some(place.to_owned()), ..Scenario::default() }.policy(false).unwrap();
    }
    let message = policy("shortest", "none").unwrap_err().to_string();
    assert!(message.contains("`shortest`") && message.contains("qssf"), "{message}");
}

#[test]
fn parameters_are_taken() {
    assert_eq!(policy("tiresias:10,20", "none").unwrap().order, Order::Tiresias(vec![10.0, 20.0]));
    assert_eq!(policy("fair-share:2d", "none").unwrap().order, Order::FairShare(2 * 86_400_000));
    let Order::Multifactor(weights) = policy("multifactor:age=1000,max_age=1h,favor_small", "none").unwrap().order
    else {
        panic!("not multifactor")
    };
    assert_eq!((weights.age, weights.max_age_ms, weights.favor_small), (1000.0, 3_600_000, true));
    assert!(policy("fifo:1", "none").is_err());
    assert!(policy("multifactor:age", "none").is_err());
}

#[test]
fn the_helios_simulator_preempts_under_srtf_and_tiresias() {
    assert_eq!(policy("srtf", "helios").unwrap().preemption, Preemption::HELIOS);
    let tiresias = policy("tiresias", "helios").unwrap();
    assert_eq!((tiresias.preemption, tiresias.interval_ms), (Preemption::TIRESIAS, Some(60_000)));
    assert_eq!(tiresias.order, Order::Tiresias(vec![18_000.0]));
    assert_eq!(policy("srtf", "none").unwrap().preemption, Preemption::Never);
}

#[test]
fn a_list_of_orders_with_parameters() {
    let names =
        |list: &str| Scenario::parse_list(list).unwrap().into_iter().map(|scenario| scenario.name).collect::<Vec<_>>();
    assert_eq!(names("fifo, sjf"), ["fifo", "sjf"]);
    assert_eq!(names("tiresias:3250,7200,qssf"), ["tiresias:3250,7200", "qssf"]);
    assert_eq!(names("multifactor:age=1000,size=500,fifo"), ["multifactor:age=1000,size=500", "fifo"]);
    // What is no order stays one, so that the message about it names it.
    assert_eq!(names("fifo,sjt,"), ["fifo", "sjt"]);
    let short = Scenario::parse_list("fifo/skip,tiresias:3250,7200/easy").unwrap();
    assert_eq!(short[0].scan.as_deref(), Some("skip"));
    assert_eq!((short[1].order.as_deref(), short[1].scan.as_deref()), (Some("tiresias:3250,7200"), Some("easy")));
    assert!(Scenario::parse_list("fifo/skip/true/more").is_err());
}

#[test]
fn lengths_of_time() {
    assert_eq!(parse_duration("90").unwrap(), 90_000);
    assert_eq!(parse_duration("1.5h").unwrap(), 5_400_000);
    assert_eq!(parse_duration("500ms").unwrap(), 500);
    assert_eq!(parse_duration("1-00:30:00").unwrap(), 88_200_000);
    assert_eq!(parse_duration("12:00:05").unwrap(), 43_205_000);
    for wrong in ["", "10:00", "1:00:99", "1-2", "-1s", "1w", "x", "1e300d", "nan"] {
        assert!(parse_duration(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_file_of_scenarios() {
    let text = "[[scenario]]\nname = \"today\"\n[[scenario]]\nname = \"easy\"\nscan = \"easy\"\n";
    let scenarios = Scenario::parse_file("s.toml", text).unwrap();
    assert_eq!(scenarios[1].policy(false).unwrap().scan, Scan::Easy);
    let wrong = "[[scenario]]\nname = \"a\"\n[[scenario]]\nname = \"b\"\nscam = \"easy\"\n";
    let message = Scenario::parse_file("s.toml", wrong).unwrap_err().to_string();
    assert!(message.contains("s.toml, line 5") && message.contains("scam"), "{message}");
    // What is wrong with a scenario as a whole is told with its line, not with the first of the file.
    for (second, what) in [("name = \"a\"", "two scenarios"), ("name = \"b\"\nscan = \"esay\"", "`esay`")] {
        let text = format!("# Two.\n[[scenario]]\nname = \"a\"\n\n[[scenario]]\n{second}\n");
        let message = Scenario::parse_file("s.toml", &text).unwrap_err().to_string();
        assert!(message.contains("s.toml, line 5") && message.contains(what), "{message}");
    }
}
