use super::*;

const FILE: &str = r#"
DefaultQOS = "normal"
EnforcePartLimits = "ALL"

[[qos]]
Name = "normal"
Priority = 10
GrpTRES = "cpu=640,gres/gpu=16"
grpjobs = 40
MaxTRESPerUser = "gres/gpu=8"
MaxJobsPU = 4
MaxTRES = "gres/gpu=4"
MaxWall = "1-12:00:00"
Flags = "DenyOnLimit,OverPartQOS"

[[partition]]
PartitionName = "gpu"
QOS = "normal"
MaxTime = "90"

[[partition]]
PartitionName = "debug"
MaxJobsPU = 1
"#;

fn two() -> Cluster {
    Cluster::of_vcs(&[("debug", 1, 8), ("gpu", 1, 8)])
}

#[test]
fn a_file_by_hand() {
    let file = LimitFile::parse("limits.toml", FILE).unwrap();
    let mut notes = Vec::new();
    let limits = file.govern(&two(), Resource::Gpus, &mut notes).unwrap();
    let normal = &limits.qos()[0];
    assert_eq!((normal.group_milli, normal.user_milli, normal.job_milli), (Some(16_000), Some(8_000), Some(4_000)));
    assert_eq!((normal.group_jobs, normal.user_jobs, normal.priority), (Some(40), Some(4), 10));
    // A day and a half; 90 min.
    assert_eq!(normal.wall_ms, Some(36 * 3_600_000));
    assert!(normal.deny && normal.over_partition && !normal.over_partition_time);
    let [debug, gpu] = limits.partitions() else { panic!("{limits:?}") };
    assert_eq!((gpu.qos, gpu.wall_ms, gpu.deny), (Some(0), Some(5_400_000), true));
    // Its limits are a QOS of its own.
    assert_eq!((debug.qos, limits.qos()[1].user_jobs), (Some(1), Some(1)));
    assert_eq!(
        (file.qos_of(None), file.qos_of(Some("normal")), file.qos_of(Some("x"))),
        (Ok(Some(0)), Ok(Some(0)), Err(()))
    );
    // Of processors the same file has another amount.
    let limits = file.govern(&two(), Resource::Cpus, &mut notes).unwrap();
    assert_eq!(limits.qos()[0].group_milli, Some(640_000));
}

#[test]
fn what_slurm_prints() {
    let text = "Name|Priority|GraceTime|Flags|UsageFactor|GrpTRES|GrpJobs|MaxWall|MaxTRESPU|MaxJobsPU|MaxTRESPA\n\
                normal|0|00:00:00||1.000000|||||\n\
                low|7|00:00:00|NoReserve|1.000000|gres/gpu=16,mem=1T|||gres/gpu=8|2|cpu=3\n";
    let text = text.replace("1.000000|||||\n", "1.000000||||||\n");
    let text = format!(
        "{text}PartitionName=gpu\n   AllowGroups=ALL QoS=low MaxTime=2-00:00:00\n   State=UP\n\nPartitionName=old\n   QoS=N/A MaxTime=UNLIMITED\n"
    );
    let file = LimitFile::parse("limits.txt", &text).unwrap();
    let mut notes = Vec::new();
    let limits = file.govern(&two(), Resource::Gpus, &mut notes).unwrap();
    let low = &limits.qos()[1];
    assert_eq!((low.priority, low.group_milli, low.user_milli, low.user_jobs), (7, Some(16_000), Some(8_000), Some(2)));
    let of_cpus = file.govern(&two(), Resource::Cpus, &mut Vec::new()).unwrap();
    assert_eq!((low.account_milli, of_cpus.qos()[1].account_milli), (None, Some(3_000)));
    assert_eq!(limits.qos()[0], Qos { name: "normal".into(), ..Qos::default() });
    assert_eq!((limits.partitions()[1].qos, limits.partitions()[1].wall_ms), (Some(1), Some(172_800_000)));
    let notes = notes.join("\n");
    assert!(notes.contains("GrpTRES of mem, the flag NoReserve"), "{notes}");
    assert!(notes.contains("No job is of these partitions of limits.txt: old."), "{notes}");
}

/// `GrpTRESMins` and `GrpWall` of a QOS, minutes as Slurm writes them; how usage decays, and who is safe.
#[test]
fn what_was_used_is_limited() {
    let text = "PriorityDecayHalfLife = \"1-0\"\nPriorityCalcPeriod = 10\nPriorityWeightAge = 5\nAccountingStorageEnforce = \"safe\"\n\n[[qos]]\nName = \"low\"\nGrpTRESMins = \"gres/gpu=600\"\nGrpWall = 90\nMaxJobsPA = 3\nFlags = \"NoDecay\"\n";
    let of = |text: &str| {
        let mut notes = Vec::new();
        let limits = LimitFile::parse("l.toml", text).unwrap().govern(&two(), Resource::Gpus, &mut notes).unwrap();
        (limits, notes.join("\n"))
    };
    let (limits, notes) = of(text);
    let low = &limits.qos()[0];
    assert_eq!((low.used_milli, low.used_wall_ms, low.account_jobs), (Some(600_000), Some(5_400_000), Some(3)));
    let Accounting { half_life_ms, period_ms, safe, weights, .. } = *limits.accounting();
    assert_eq!((half_life_ms, period_ms, safe, low.keeps_usage), (Some(86_400_000), 600_000, true, true));
    assert_eq!(weights.unwrap().age, 5.0);
    assert!(notes.contains("is taken for 0") && !notes.contains("run on"), "{notes}");
    assert!(notes.contains("names no weights has those of l.toml: age=5, fair_share=0, size=0, qos=0"), "{notes}");
    let (limits, notes) = of(&text.replace("safe", "limits"));
    assert!(!limits.accounting().safe && notes.contains("Jobs that run when a limit is reached run on"), "{notes}");
    let message = LimitFile::parse("l.toml", &text.replace("= 10", "= 0")).err().unwrap().to_string();
    assert!(message.contains("line 2: PriorityCalcPeriod") && message.contains("above 0"), "{message}");
}

#[test]
fn who_preempts_whom() {
    let text = "PreemptMode = \"requeue\"\nPreemptExemptTime = \"5\"\n[[qos]]\nName = \"high\"\nPreempt = \"low,spot\"\n[[qos]]\nName = \"low\"\nGraceTime = 30\n[[qos]]\nName = \"spot\"\nPreemptMode = \"cancel\"\nPreemptExemptTime = \"0\"\n";
    let limits = LimitFile::parse("l.toml", text).unwrap().govern(&two(), Resource::Gpus, &mut Vec::new()).unwrap();
    let [high, low, spot] = limits.qos() else { panic!("{limits:?}") };
    assert_eq!((high.preempts.as_slice(), high.stopped), (&[1, 2][..], Stopped::Never));
    assert_eq!((low.stopped, low.grace_ms, low.exempt_ms), (Stopped::Requeued, 30_000, 300_000));
    assert_eq!((spot.stopped, spot.exempt_ms, limits.requeue_ms()), (Stopped::Cancelled, 0, 120_000));
    for (from, to, said) in [
        ("PreemptMode = \"requeue\"\n", "", "line 5: QOS low is preempted by another; give it a PreemptMode"),
        ("requeue", "suspend", "PreemptMode `suspend` is not replayed"),
        ("low,spot", "low,spt", "line 3: QOS high has Preempt=spt"),
        ("low,spot", "low,high", "give it a PreemptMode"),
    ] {
        let message = LimitFile::parse("l.toml", &text.replacen(from, to, 1)).err().map(|error| error.to_string());
        assert!(
            message
                .as_ref()
                .is_some_and(|result| result.contains(said) || (to == "low,high" && result.contains("preempts itself"))),
            "{to}: {message:?}"
        );
    }
}

#[test]
fn the_configuration_says_how_jobs_are_preempted() {
    let of = |kind: &str| {
        let text = format!(
            "Name|Preempt|PreemptMode|PreemptExemptTime\nhigh|low|cluster|\nlow||cluster|\nPartitionName=gpu\n   QoS=low\n\nConfiguration data as of 2024-03-04T00:00:00\nAccountingStorageHost   = localhost\nEnforcePartLimits       = NO\nPreemptMode             = REQUEUE\nPreemptType             = {kind}\nPreemptExemptTime       = 00:02:00\n\nCgroup Support Configuration:\nCgroupMountpoint = /sys/fs/cgroup\n\nSlurmctld(primary) at head is UP\n"
        );
        let mut notes = Vec::new();
        let limits = LimitFile::parse("l.txt", &text).unwrap().govern(&two(), Resource::Gpus, &mut notes).unwrap();
        (limits, notes.join("\n"))
    };
    let (limits, _) = of("preempt/qos");
    let [high, low] = limits.qos() else { panic!("{limits:?}") };
    assert_eq!((high.preempts.as_slice(), low.stopped, low.exempt_ms), (&[1][..], Stopped::Requeued, 120_000));
    let (limits, notes) = of("preempt/none");
    assert!(!limits.preempts() && notes.contains("PreemptType is preempt/none"), "{notes}");
}

#[test]
fn a_table_after_partitions_is_a_table() {
    let text = "PartitionName=gpu QoS=low MaxTime=1-0\nName|GrpJobs\nlow|3\nDefaultQOS=low\n";
    let limits = LimitFile::parse("l.txt", text).unwrap().govern(&two(), Resource::Gpus, &mut Vec::new()).unwrap();
    assert_eq!(limits.qos().iter().map(|qos| qos.group_jobs).collect::<Vec<_>>(), [Some(3)]);
}

#[test]
fn how_all_are_preempted_matters_only_where_one_is() {
    let text = |preempts: &str| {
        format!(
            "Name|Preempt\nhigh|{preempts}\nlow|\n\nConfiguration data as of 2024-03-04T00:00:00\nPreemptMode = GANG,SUSPEND\n"
        )
    };
    assert!(LimitFile::parse("l.txt", &text("")).is_ok());
    let refused = LimitFile::parse("l.txt", &text("low")).unwrap_err().to_string();
    assert!(refused.contains("l.txt, line 6"), "{refused}");
}

#[test]
fn lengths_of_time() {
    for (text, seconds) in
        [("90", 5_400), ("1:30", 90), ("01:30:00", 5_400), ("1-12", 129_600), ("1-12:30", 131_400), ("2h", 7_200)]
    {
        assert_eq!(value::minutes(text), Ok(Some(seconds * 1000)), "{text}");
    }
    assert_eq!((value::minutes("UNLIMITED"), value::minutes("-1")), (Ok(None), Ok(None)));
    assert!(["x", "1:2:3:4", "1-2-3", "-5", "9999999999999"].iter().all(|text| value::minutes(text).is_err()));
}

#[test]
fn a_mistake_names_line_and_remedy() {
    for (text, line, said) in [
        ("", 1, "sacctmgr show qos -P"),
        ("[[qos]]\nName = \"a\"\n[[qos]]\nName = \"a\"\n", 3, "twice"),
        ("[[qos]]\nPriority = 3\n", 1, "no name"),
        ("[[qos]]\nName = \"a\"\nGrpTRES = \"gpu=8\"\n", 3, "gres/gpu=8"),
        ("[[qos]]\nName = \"a\"\nGrpTRES = 8\n", 3, "gres/gpu=8"),
        ("[[qos]]\nName = \"a\"\nGrpJobs = -3\n", 3, "whole number"),
        ("[[qos]]\nName = \"a\"\nMaxWal = 3\n", 3, "no such key"),
        ("[[qos]]\nName = \"a\"\nFlags = \"Deny\"\n", 3, "no flag Deny"),
        ("[[qos]]\nName = \"a\"\nMaxWall = \"soon\"\n", 3, "1-12:00:00"),
        ("DefaultQOS = \"b\"\n[[qos]]\nName = \"a\"\n", 1, "does not describe"),
        ("Default = \"a\"\n[[qos]]\nName = \"a\"\n", 1, "DefaultQOS"),
        ("[[partition]]\nPartitionName = \"p\"\nQOS = \"b\"\n", 1, "does not describe"),
        ("[[qos]]\nName = \"a\"\n[[partition]]\nPartitionName = \"p\"\nQOS = \"a\"\nGrpJobs = 1\n", 3, "not both"),
        ("[qos]\nName = \"a\"\n", 1, "[[qos]]"),
        ("[[qos]\n", 1, ""),
        ("Name|Priority\nnormal\n", 2, "sacctmgr show qos -P"),
    ] {
        let message = LimitFile::parse("limits.toml", text).unwrap_err().to_string();
        assert!(message.starts_with(&format!("limits.toml, line {line}: ")), "{text:?}: {message}");
        assert!(message.contains(said), "{text:?}: {message}");
    }
}
