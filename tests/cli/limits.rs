//! `simulate --site limits`, as a user meets it.

use super::simulate::{data, quietly};
use super::*;

/// One node of 8 GPUs, of which 6 stay free. Ada's jobs of 2 GPUs run 100 s each; they come at 0 and 10 s. Bob's, of QOS low, comes at 20 s and asks for 2 h.
const JOBS: &str = "\
JobID|JobName|User|Partition|QOS|Submit|Start|End|State|ReqTRES|AllocTRES|Timelimit|NodeList
1|a|ada|gpu|high|2024-03-04T00:00:00|2024-03-04T00:00:00|2024-03-04T00:01:40|COMPLETED|cpu=2,gres/gpu=2|cpu=2,gres/gpu=2|01:00:00|n1
2|b|ada|gpu|high|2024-03-04T00:00:10|2024-03-04T00:00:10|2024-03-04T00:01:50|COMPLETED|cpu=2,gres/gpu=2|cpu=2,gres/gpu=2|01:00:00|n1
3|c|bob|gpu|low|2024-03-04T00:00:20|2024-03-04T00:00:20|2024-03-04T00:00:30|COMPLETED|cpu=2,gres/gpu=2|cpu=2,gres/gpu=2|02:00:00|n1
";
const NODE: &str = "[[vc]]\nname = \"gpu\"\nnodes = 1\ngpus_per_node = 8\n";
const LIMITS: &str = "[[qos]]\nName = \"high\"\nMaxJobsPU = 1\n\n[[qos]]\nName = \"low\"\nMaxWall = \"01:00:00\"\n";

#[test]
fn limits_make_jobs_wait_and_say_so() {
    let folder = Folder::new();
    let jobs = folder.file("sacct.txt", JOBS);
    let nodes = folder.file("cluster.toml", NODE);
    let limits = folder.file("limits.toml", LIMITS);
    let found = data(&[&jobs, "--site", &nodes, "--site", &format!("limits={limits}")]);
    // Ada's second job waits 90 s for her first. Bob's waits to the end of the replay, at 200 s, and never starts.
    let waits = found["metrics"]["limits"].as_array().unwrap();
    let told = |at: usize| {
        let wait = &waits[at];
        let number = |name: &str| (wait[name].as_f64().unwrap() * 3600.0).round();
        (
            wait["reason"].as_str().unwrap(),
            wait["of"].as_str().unwrap(),
            wait["limit"].as_f64().unwrap(),
            number("wait_hours"),
        )
    };
    assert_eq!(told(0), ("QOSMaxWallDurationPerJobLimit", "low", 3600.0, 180.0));
    assert_eq!(told(1), ("QOSMaxJobsPerUserLimit", "high", 1.0, 90.0));
    assert_eq!((waits[0]["never_started"].as_u64(), waits[1]["never_started"].as_u64()), (Some(1), Some(0)));
    let causes = found["metrics"]["delay"]["all"]["causes"].as_array().unwrap();
    assert_eq!((causes[4]["cause"].as_str(), causes[4]["gpu_wait_share"].as_f64()), (Some("limit"), Some(1.0)));
    let text =
        stdout(&quietly(&[&jobs, "--site", &nodes, "--site", &format!("limits={limits}"), "--section", "limits"]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("QOSMaxWallDurationPerJobLimit of low is what most was waited for: 1 job waited"), "{text}");

    // What Slurm prints is read as well, and DenyOnLimit rejects.
    let printed = folder.file("limits.txt", "Name|Flags|MaxWall|MaxJobsPU\nhigh|||1\nlow|DenyOnLimit|01:00:00|\n");
    let found = data(&[&jobs, "--site", &nodes, "--site", &format!("limits={printed}")]);
    assert_eq!(found["metrics"]["overall"]["rejected"].as_u64(), Some(1));

    // Without limits nothing is said of any.
    let found = data(&[&jobs, "--site", &nodes]);
    assert!(found["metrics"].get("limits").is_none());
    assert_eq!(found["metrics"]["delay"]["all"]["causes"].as_array().unwrap().len(), 4);
    assert_eq!(found["metrics"]["overall"]["wait_s"]["mean"].as_f64(), Some(0.0));
}

/// Dept may have 2 GPUs at work, its accounts nlp (ada) and vision (bob) whatever is left; a user of dept # jobs.
const ACCOUNTS: &str = "\
Cluster|Account|User|Partition|Share|GrpTRES|MaxJobs|MaxTRES|MaxWall
lab|root|||1||||
lab| dept|||1|gres/gpu=2|#||
lab|  nlp|||1||#||
lab|   nlp|ada||1||#||
lab|  vision|||1||#||01:00:00
lab|   vision|bob||1||#||01:00:00
";

/// The jobs with their accounts. Ada's second waits 90 s for the GPUs of dept; bob's asks for 2 h, an hour more than vision allows, and never starts. Under a QOS with a `MaxWall` of its own it would.
#[test]
fn limits_of_accounts_make_jobs_wait_and_say_so() {
    let folder = Folder::new();
    let with_account = |line: &str| {
        let account = match line.split('|').nth(2) {
            Some("ada") => "nlp",
            Some("bob") => "vision",
            _ => "Account",
        };
        format!("{line}|{account}\n")
    };
    let jobs = folder.file("sacct.txt", &JOBS.lines().map(with_account).collect::<String>());
    let nodes = folder.file("cluster.toml", NODE);
    let [one, two] = ["1", "2"].map(|jobs| ACCOUNTS.replace('#', jobs));
    let limits = folder.file("limits.txt", &one);
    let run = |limits: &str| {
        let found = data(&[&jobs, "--site", &nodes, "--site", &format!("limits={limits}")]);
        let told = |wait: &serde_json::Value| {
            let seconds = (wait["wait_hours"].as_f64().unwrap() * 3600.0).round();
            let text = |name: &str| wait[name].as_str().unwrap().to_owned();
            (text("reason"), text("of"), wait["limit"].as_f64().unwrap(), seconds)
        };
        found["metrics"]["limits"].as_array().unwrap().iter().map(told).collect::<Vec<_>>()
    };
    let expect = |rows: &[(&str, &str, f64, f64)]| -> Vec<(String, String, f64, f64)> {
        rows.iter().map(|(reason, of, limit, waited)| ((*reason).into(), (*of).into(), *limit, *waited)).collect()
    };
    // Ada is over the number of her jobs as well, which is looked at first, and which dept sets for all.
    let wall = ("AssocMaxWallDurationPerJobLimit", "vision", 3600.0, 180.0);
    assert_eq!(run(&limits), expect(&[wall, ("AssocMaxJobsLimit", "dept", 1.0, 90.0)]));
    let more = folder.file("more.txt", &two);
    assert_eq!(run(&more), expect(&[wall, ("AssocGrpGRES", "dept", 2.0, 90.0)]));
    // A QOS comes before: low has a limit of time, high one of all its GPUs.
    let qos = format!("Name|GrpTRES|MaxWall\nhigh|gres/gpu=8|\nlow||04:00:00\n{two}");
    let qos = folder.file("qos.txt", &qos);
    let metrics = &data(&[&jobs, "--site", &nodes, "--site", &format!("limits={qos}")])["metrics"];
    let sizes = |of: &str| -> Vec<(String, u64)> {
        let groups = metrics[of].as_array().unwrap().iter();
        groups.map(|group| (group["name"].as_str().unwrap().to_owned(), group["jobs"].as_u64().unwrap())).collect()
    };
    let expected = |names: [&str; 2]| vec![(names[0].to_owned(), 2), (names[1].to_owned(), 1)];
    assert_eq!((sizes("by_qos"), sizes("by_account")), (expected(["high", "low"]), expected(["nlp", "vision"])));
    // Bob's job now waits for the GPUs that ada's have of dept, until 110 s.
    assert_eq!(run(&qos), expect(&[("AssocGrpGRES", "dept", 2.0, 90.0)]));
    let off =
        folder.file("off.txt", &format!("{one}\nConfiguration data as of now\nAccountingStorageEnforce = none\n"));
    let text = stdout(&quietly(&[&jobs, "--site", &nodes, "--site", &format!("limits={off}")]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("AccountingStorageEnforce of") && text.contains("No job waited for a limit."), "{text}");
}

/// One node of 8 GPUs; all jobs take them for 100 s. Ada's of nlp runs first, then wait two of bob's, of vision, and one of ada's.
const TURNS: &str = "\
JobID|JobName|User|Account|Partition|QOS|Submit|Start|End|State|ReqTRES|AllocTRES|Timelimit|NodeList
1|a|ada|nlp|gpu|normal|2024-03-04T00:00:00|2024-03-04T00:00:00|2024-03-04T00:01:40|COMPLETED|cpu=2,gres/gpu=8|cpu=2,gres/gpu=8|01:00:00|n1
2|b|bob|vision|gpu|normal|2024-03-04T00:00:03|2024-03-04T00:01:40|2024-03-04T00:03:20|COMPLETED|cpu=2,gres/gpu=8|cpu=2,gres/gpu=8|01:00:00|n1
3|c|bob|vision|gpu|normal|2024-03-04T00:00:04|2024-03-04T00:05:00|2024-03-04T00:06:40|COMPLETED|cpu=2,gres/gpu=8|cpu=2,gres/gpu=8|01:00:00|n1
4|d|ada|nlp|gpu|normal|2024-03-04T00:00:05|2024-03-04T00:03:20|2024-03-04T00:05:00|COMPLETED|cpu=2,gres/gpu=8|cpu=2,gres/gpu=8|01:00:00|n1
";
const SHARES: &str = "\
Cluster|Account|User|Partition|Share|GrpTRESMins
lab|root|||1|
lab| nlp|||3|
lab|  nlp|ada||1|
lab| vision|||1|
lab|  vision|bob||1|
Configuration data as of now
AccountingStorageEnforce = associations,limits
PriorityCalcPeriod      = 00:01:00
PriorityDecayHalfLife   = 7-00:00:00
PriorityFlags           =
PriorityType            = priority/multifactor
PriorityWeightAge       = 0
PriorityWeightFairShare = 1000
";

/// At 200 s vision has used 640 of 1,440 GPU-seconds as of 180 s, with a quarter of the shares, so ada's second comes first: she waits 0 and 195 s, bob 97 and 296. With three quarters of the shares bob's comes first, though as users alone ada
/// has had a little less, as what she had is older.
#[test]
fn shares_of_accounts_say_whose_turn_it_is() {
    let folder = Folder::new();
    let jobs = folder.file("sacct.txt", TURNS);
    let nodes = folder.file("cluster.toml", NODE);
    let limits = folder.file("limits.txt", SHARES);
    let waits = |arguments: &[&str]| {
        let found = data(&[&[&jobs, "--site", &nodes], arguments].concat());
        let users = found["metrics"]["by_user"].as_array().unwrap().clone();
        let of = |name: &str| {
            let user = users.iter().find(|user| user["name"] == name).unwrap();
            user["wait_s"]["mean"].as_f64().unwrap()
        };
        ([of("ada"), of("bob")], found)
    };
    // Weights are those of the file where the order names none.
    let (by_account, found) = waits(&["--site", &format!("limits={limits}"), "--order", "multifactor"]);
    assert_eq!(by_account, [97.5, 196.5]);
    assert_eq!(waits(&["--site", &format!("limits={limits}"), "--order", "multifactor:fair_share=7"]).0, [97.5, 196.5]);
    let turned = SHARES.replace("nlp|||3|", "nlp|||1|").replace("vision|||1|", "vision|||3|");
    let turned = folder.file("turned.txt", &turned);
    assert_eq!(
        waits(&["--site", &format!("limits={turned}"), "--order", "multifactor:fair_share=7"]).0,
        [147.5, 146.5]
    );
    assert_eq!(waits(&["--order", "multifactor:fair_share=1000"]).0, [97.5, 196.5]);
    assert_eq!(waits(&["--order", "multifactor"]).0, [147.5, 146.5]);
    let accounts = found["metrics"]["by_account"].as_array().unwrap();
    let waited =
        |of: &serde_json::Value| (of["name"].as_str().unwrap().to_owned(), of["wait_s"]["mean"].as_f64().unwrap());
    assert_eq!(
        accounts.iter().map(waited).collect::<Vec<_>>(),
        [("nlp".to_owned(), 97.5), ("vision".to_owned(), 196.5)]
    );
    assert!(found["metrics"].get("by_qos").is_none(), "the file describes no QOS");
    let shares = found["metrics"]["shares"].as_array().unwrap();
    let told: Vec<(&str, f64, f64)> = shares
        .iter()
        .map(|of| {
            (
                of["name"].as_str().unwrap(),
                of["shares_ratio"].as_f64().unwrap_or(-1.0),
                of["usage_ratio"].as_f64().unwrap(),
            )
        })
        .map(|(name, share, usage)| (name, share, (usage * 1000.0).round() / 1000.0))
        .collect();
    assert_eq!(
        told,
        [
            ("root", -1.0, 1.0),
            ("nlp", 0.75, 0.5),
            ("nlp/ada", 1.0, 1.0),
            ("vision", 0.25, 0.5),
            ("vision/bob", 1.0, 1.0)
        ]
    );
    assert_eq!((shares[2]["factor"].as_f64(), shares[4]["factor"].as_f64()), (Some(1.0), Some(0.5)));
    let text =
        stdout(&quietly(&[&jobs, "--site", &nodes, "--site", &format!("limits={limits}"), "--section", "shares"]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("vision has had most beyond its shares: its level is 0.50."), "{text}");
    let text = stdout(&quietly(&[&jobs, "--site", &nodes, "--site", &format!("limits={limits}")]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["names no weights has those of", "fair_share=1000", "as the partition has no TRESBillingWeights in"] {
        assert!(text.contains(said), "{said}: {text}");
    }

    // Vision may use 12 GPU-minutes: bob's first job takes 13, so his second waits until they have decayed, or for ever.
    let spent = folder.file("spent.txt", &SHARES.replace("vision|||1|", "vision|||1|gres/gpu=12"));
    let reasons = |arguments: &[&str]| {
        let found = data(&[&[&jobs, "--site", &nodes, "--site", &format!("limits={spent}")], arguments].concat());
        let wait = &found["metrics"]["limits"][0];
        (wait["reason"].as_str().unwrap().to_owned(), wait["never_started"].as_u64().unwrap())
    };
    assert_eq!(reasons(&[]), ("AssocGrpGRESMinutes".to_owned(), 1));
    assert_eq!(reasons(&["--site", "interval=1m"]), ("AssocGrpGRESMinutes".to_owned(), 0));
}

#[test]
fn scenarios_have_limits_of_their_own() {
    let compare = "datasets/clusters/sample_limits/compare.toml";
    let found = data(&["datasets/sample", "--recorded", "fifo/skip", "--compare", compare]);
    assert_eq!(found["fidelity"]["verdict"], "exact");
    let mean = |metrics: &serde_json::Value| metrics["overall"]["wait_s"]["mean"].as_f64().unwrap();
    let (none, user, group) = (&found["metrics"], &found["others"][0]["metrics"], &found["others"][1]["metrics"]);
    let account = &found["others"][2]["metrics"];
    assert!(none.get("limits").is_none() && mean(none) < mean(user) && mean(none) < mean(group));
    assert_eq!(user["limits"][0]["reason"], "QOSMaxGRESPerUser");
    assert_eq!(group["limits"][0]["reason"], "QOSGrpGRES");
    assert_eq!(
        (&account["limits"][0]["reason"], &account["limits"][0]["of"]),
        (&"AssocGrpGRES".into(), &"train".into())
    );
    // Without limits: the same as ever.
    let plain = data(&["datasets/sample", "--recorded", "fifo/skip"]);
    assert_eq!(plain["metrics"]["overall"]["wait_s"], none["overall"]["wait_s"]);
}

#[test]
fn what_is_wrong_with_limits_is_told() {
    let folder = Folder::new();
    let jobs = folder.file("sacct.txt", JOBS);
    let nodes = folder.file("cluster.toml", NODE);
    let refused = |arguments: &[&str]| {
        let output = quietly(&[&[&jobs, "--site", &nodes], arguments].concat());
        assert!(stdout(&output).is_empty());
        (output.status.code().unwrap(), stderr(&output))
    };
    let wrong = folder.file("wrong.toml", &LIMITS.replace("MaxJobsPU", "MaxJobs"));
    let (code, message) = refused(&["--site", &format!("limits={wrong}")]);
    assert!(code == 1 && message.contains("wrong.toml, line 3: MaxJobs: a QOS has no such key"), "{code} {message}");
    let limits = folder.file("limits.toml", LIMITS);
    let (code, message) = refused(&["--site", &format!("limits={limits}"), "--site", "compat=helios"]);
    assert!(code == 2 && message.contains("--site compat"), "{code} {message}");
    // A QOS that the file does not describe limits nobody, and that is said.
    let one = folder.file("one.toml", "[[qos]]\nName = \"high\"\nMaxJobsPU = 1\n");
    let text = stdout(&quietly(&[&jobs, "--site", &nodes, "--site", &format!("limits={one}")]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("1 job has a QOS that") && text.contains("low"), "{text}");
}
