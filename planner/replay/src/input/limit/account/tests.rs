use tracecast_analytics::Trace;
use tracecast_analytics::schema::JobRow;

use super::*;
use crate::input::{Options, Site, load};
use tracecast_sim::limit::Fairshare;

/// Associations as a Slurm of version 22.05 prints them. Ada and eve inherit `MaxTRES` from dept.
const PRINTED: &str = "Cluster|Account|ParentName|User|Partition|Share|GrpJobs|GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxJobs|MaxTRES|MaxWall|QOS|Def QOS
lab|root||||1||||||||normal|
lab| root||root||1||||||||normal|
lab| dept|root|||1||gres/gpu=10||||gres/gpu=4||normal|
lab|  nlp|dept|||1||gres/gpu=6||gres/gpu=100|2|gres/gpu=4|02:00:00|normal|
lab|   nlp||ada|gpu|1|||||2|gres/gpu=4|02:00:00|normal|
lab|   nlp||ada||1|||||2|gres/gpu=4|02:00:00|normal|
lab|   nlp||bob||1|||||1|gres/gpu=4|02:00:00|normal|
lab|  vision|dept|||1||||||gres/gpu=4||normal|
lab|   vision||eve||1||||||cpu=8,gres/gpu=4||normal|
lab| guests|root|||1|7||cpu=10|||||normal|
";

const FILE: &str = r#"
DefaultAccount = "nlp"

[[account]]
Name = "nlp"
Parent = "dept"
MaxJobs = 2

[[account]]
Name = "dept"
GrpTRES = "cpu=640,gres/gpu=10"
GrpJobs = 7
GrpTRESRunMins = "gres/gpu=600"

[[association]]
Account = "nlp"
User = "ada"
Partition = "debug"
MaxTRESPerJob = "gres/gpu=4"
MaxWall = "90"
MaxJobs = -1
"#;

fn named<'f>(all: &'f [Association], name: &str) -> (&'f Association, Option<&'f str>) {
    let result = all.iter().find(|of| of.name == name).unwrap();
    (result, result.parent.map(|parent| all[parent as usize].name.as_str()))
}

/// The associations of a file, and of jobs (account, user, partition), by name; and the notes.
fn charged(text: &str, jobs: &[(&str, &str, &str)]) -> (Vec<Association>, Vec<Option<String>>, String) {
    let mut trace = Trace::default();
    for (at, (account, user, vc)) in jobs.iter().enumerate() {
        trace.jobs.push(JobRow {
            job_key: Some(at.to_string().into()),
            vc: Some((*vc).into()),
            user: Some((*user).into()),
            account: Some(*account).filter(|name| !name.is_empty()).map(Into::into),
            state: Some("completed".into()),
            req_gpus: Some(1.0),
            submit: Some(0),
            start: Some(0),
            end: Some(1000),
            run_s: Some(1.0),
            ..JobRow::default()
        });
    }
    let file = LimitFile::parse("limits.txt", text).unwrap();
    let site = Site::parse("c", "[[vc]]\nname = \"gpu\"\nnodes = 1\n[[vc]]\nname = \"debug\"\nnodes = 1\n").unwrap();
    let options = Options { limits: Some(std::sync::Arc::new(file)), ..Options::default() };
    let loaded = load(&trace, Some(&site), &options).unwrap();
    let all = loaded.cluster.limits.as_ref().unwrap().associations().to_vec();
    let of = |at: &Option<u32>| at.map(|at| all[at as usize].name.clone());
    let of_jobs = loaded.workload.association.iter().map(of).collect();
    (all, of_jobs, loaded.notes.join("\n"))
}

#[test]
fn what_sacctmgr_prints() {
    let jobs = [
        ("nlp", "ada", "gpu"),
        ("nlp", "ada", "debug"),
        ("vision", "eve", "gpu"),
        ("nlp", "zoe", "gpu"),
        ("old", "ada", "gpu"),
        ("", "ada", "gpu"),
    ];
    let (all, of_jobs, notes) = charged(PRINTED, &jobs);
    let of_jobs: Vec<Option<&str>> = of_jobs.iter().map(Option::as_deref).collect();
    assert_eq!(of_jobs, [Some("nlp/ada/gpu"), Some("nlp/ada"), Some("vision/eve"), Some("nlp/zoe"), None, None]);
    let (nlp, above) = named(&all, "nlp");
    assert_eq!((nlp.group_milli, nlp.group_time_milli, nlp.jobs), (Some(6_000), Some(100_000), Some(2)));
    assert_eq!((nlp.wall_ms, above), (Some(7_200_000), Some("dept")));
    assert_eq!(named(&all, "dept").1, Some("root"));
    assert_eq!((named(&all, "vision/eve").0.job_milli, named(&all, "vision/eve").1), (Some(4_000), Some("vision")));
    assert_eq!((named(&all, "guests").0.group_jobs, named(&all, "nlp/bob").0.jobs), (Some(7), Some(1)));
    assert_eq!((nlp.shares, nlp.is_user, named(&all, "nlp/ada").0.is_user), (Fairshare::Of(1), false, true));
    for said in [
        "6 jobs are charged GPUs × time, as the partition has no TRESBillingWeights",
        "1 job is of users without an association",
        "**1 job names no account**",
        "**1 job has an account that limits.txt does not describe**, and no limit of an account: old.",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    // Without the column, blanks say who is below whom.
    let without = PRINTED.lines().map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        [&cells[..2], &cells[3..]].concat().join("|") + "\n"
    });
    assert_eq!(charged(&without.collect::<String>(), &jobs).0, all);
}

#[test]
fn a_file_by_hand() {
    let jobs = [("nlp", "ada", "gpu"), ("", "ada", "debug"), ("dept", "bob", "gpu")];
    let (all, of_jobs, notes) = charged(FILE, &jobs);
    let of_jobs: Vec<Option<&str>> = of_jobs.iter().map(Option::as_deref).collect();
    assert_eq!(of_jobs, [Some("nlp/ada"), Some("nlp/ada/debug"), Some("dept/bob")]);
    let (dept, above) = named(&all, "dept");
    assert_eq!((dept.group_milli, dept.group_jobs, dept.group_time_milli), (Some(10_000), Some(7), Some(600_000)));
    assert_eq!((above, named(&all, "nlp").1, named(&all, "nlp").0.jobs), (Some("root"), Some("dept"), Some(2)));
    let (ada, _) = named(&all, "nlp/ada/debug");
    assert_eq!((ada.job_milli, ada.wall_ms, ada.jobs), (Some(4_000), Some(5_400_000), None));
    assert!(!notes.contains("without an association") && !notes.contains("no QOS"), "{notes}");
    // Of processors the same file has another amount.
    let file = LimitFile::parse("limits.toml", FILE).unwrap();
    assert_eq!(named(&file.accounts.associations(Resource::Cpus, true), "dept").0.group_milli, Some(640_000));
}

/// Fairshare, and what may be used, in TOML; `-1` is the default of shares.
#[test]
fn shares_and_what_may_be_used() {
    let text = FILE
        .replace("MaxJobs = 2", "MaxJobs = 2\nFairshare = 30\nGrpTRESMins = \"gres/gpu=600,cpu=7\"\nGrpWall = \"1-0\"")
        .replace("User = \"ada\"", "User = \"ada\"\nFairshare = \"parent\"")
        .replace("GrpJobs = 7", "GrpJobs = 7\nShare = -1");
    let (all, _, notes) = charged(&text, &[("nlp", "ada", "debug")]);
    let (nlp, ada) = (named(&all, "nlp").0, named(&all, "nlp/ada/debug").0);
    assert_eq!((nlp.shares, nlp.used_milli, nlp.used_wall_ms), (Fairshare::Of(30), Some(600_000), Some(86_400_000)));
    assert_eq!((ada.shares, ada.is_user, named(&all, "dept").0.shares), (Fairshare::Parent, true, Fairshare::Of(1)));
    assert!(notes.contains("before the replay begins is taken for 0"), "{notes}");
    let message = LimitFile::parse("l", &text.replace("= 30", "= 0.5")).err().unwrap().to_string();
    assert!(message.contains("neither a whole number of 0 or more nor `parent`"), "{message}");
}

#[test]
fn a_limit_of_one_user_is_not_taken_for_one_of_all() {
    let said = |text: &str| LimitFile::parse("limits.toml", text).unwrap_err().to_string();
    let one = said("[[account]]\nName = \"nlp\"\nUser = \"x\"\nMaxJobs = 1\n");
    assert!(one.contains("limits.toml") && one.contains("write an [[association]]"), "{one}");
    let moved =
        said("[[account]]\nName = \"nlp\"\n[[association]]\nAccount = \"nlp\"\nUser = \"x\"\nParent = \"dept\"\n");
    assert!(moved.contains("no Parent"), "{moved}");
}

#[test]
fn limits_that_slurm_does_not_enforce_are_not_replayed() {
    let config = |value: &str| {
        format!(
            "Name|Priority|GrpJobs|Preempt|PreemptMode\nnormal|7|1||\n{PRINTED}\nConfiguration data as of 2024-03-04T00:00:00\nAccountingStorageEnforce = {value}\nSchedulerParameters     = assoc_limit_stop,bf_continue\n"
        )
    };
    let jobs = [("nlp", "ada", "gpu")];
    for (value, enforced) in
        [("associations,limits,qos", true), ("safe", true), ("none", false), ("associations,qos", false)]
    {
        let (all, of_jobs, notes) = charged(&config(value), &jobs);
        let limited = all.iter().any(|of| of.group_milli.is_some() || of.jobs.is_some());
        assert_eq!((limited, of_jobs), (enforced, vec![Some("nlp/ada/gpu".to_owned())]), "{value}");
        let said = format!("**AccountingStorageEnforce of limits.txt is {value}, without limits**");
        assert_eq!(notes.contains(&said), !enforced, "{notes}");
        assert!(notes.contains("assoc_limit_stop"), "{notes}");
        let limits = LimitFile::parse("l", &config(value)).unwrap();
        let cluster = tracecast_sim::Cluster::of_vcs(&[("gpu", 1, 8)]);
        let limits = limits.govern(&cluster, Resource::Gpus, &mut Vec::new()).unwrap();
        assert_eq!((limits.qos()[0].group_jobs.is_some(), limits.qos()[0].priority), (enforced, 7));
    }
}

#[test]
fn a_mistake_names_line_and_remedy() {
    let toml = |from: &str, to: &str| FILE.replacen(from, to, 1);
    let printed = |from: &str, to: &str| PRINTED.replacen(from, to, 1);
    let flat = PRINTED.lines().map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        [&cells[..2], &cells[3..]].concat().join("|") + "\n"
    });
    for (text, line, said) in [
        (toml("\"dept\"\nMaxJobs", "\"dpt\"\nMaxJobs"), 4, "below dpt, which the file does not describe"),
        (toml("Name = \"dept\"", "Name = \"dept\"\nParent = \"nlp\""), 4, "in a ring: nlp, dept"),
        (toml("Name = \"dept\"", "Name = \"nlp\""), 9, "the account nlp is there twice"),
        (toml("Name = \"dept\"", "Name = \"root\"\nParent = \"dept\""), 4, "below dept"),
        (toml("\nAccount = \"nlp\"", "\nAccount = \"nl\""), 15, "ada is a user of the account nl, which"),
        (toml("User = \"ada\"\n", ""), 15, "has no User"),
        (toml("\nAccount = \"nlp\"\n", "\n"), 15, "an association no Account"),
        (toml("GrpTRES = ", "GrpTRE = "), 11, "no such key; replayed are name, parent"),
        (toml("gres/gpu=600", "gpu=600"), 13, "gres/gpu=8"),
        (toml("MaxJobs = 2", "MaxJobs = 2.5"), 7, "whole number"),
        (toml("DefaultAccount = \"nlp\"", "DefaultAccount = \"x\""), 2, "DefaultAccount is x, which"),
        (FILE.to_owned() + "[[association]]\nUser = \"ada\"\nAccount = \"nlp\"\nPartition = \"debug\"\n", 22, "twice"),
        ("[account]\nName = \"a\"\n".to_owned(), 1, "[[account]]"),
        (printed("lab|  vision", "hal|  vision"), 9, "clusters lab and hal"),
        (printed("|||1||||||||normal|\n", "|||1\n"), 2, "sacctmgr show assoc tree -P"),
        (printed("  vision|dept", "  vision|dep"), 9, "below dep, which"),
        (flat.collect(), 4, "nothing says which account dept is below"),
    ] {
        let message = LimitFile::parse("limits.toml", &text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.starts_with(&format!("limits.toml, line {line}: ")), "{said}: {message}");
        assert!(message.contains(said), "{said}: {message}");
    }
}
