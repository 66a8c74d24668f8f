//! What is asked of a `slurm.conf` and of the programs beside it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::slurm::Version;
use super::*;
use crate::plan::emit::slurm::{Conf, ConfLine};
use crate::power::forward::plan::Action;

/// A pool of nodes with 8 GPUs that sleep after ten minutes.
pub(super) fn pool(name: &str, nodes: &str, total_nodes: u32) -> PoolPlan {
    let nodes = Some(nodes.to_owned());
    PoolPlan {
        name: name.to_owned(),
        nodes,
        total_nodes,
        gpus_per_node: if name == "cpu" { 0 } else { 8 },
        keep_idle: 0,
        idle_s: 600,
        actions: Vec::new(),
    }
}

/// Nodes boot in 300 s and shut down in 60 s.
pub(super) fn plan(pools: Vec<PoolPlan>) -> PowerPlan {
    PowerPlan {
        begins_ms: None,
        pools,
        boot_s: 300,
        shutdown_s: 60,
        wakes_per_minute: 20,
        sleeps_per_minute: 0,
        canaries: None,
        suspend_program: None,
        resume_program: None,
    }
}

const CONF: &str = "\
# slurm.conf of a small site
ClusterName=site
suspendtime = -1    # for now
ResumeRate=5 SuspendRate=60
SlurmdTimeout=300

# COMPUTE NODES
NodeName=n[1-16] CPUs=64 \\
    Gres=gpu:8 State=UNKNOWN
NodeName=login CPUs=4
PartitionName=gpu Nodes=n[1-16] Default=YES State=UP # the big one
PartitionName=debug Nodes=login
";

fn options(conf: &str, version: &str) -> ConfigOptions {
    let mut options = ConfigOptions::default();
    options.slurm.conf = conf.to_owned();
    options.slurm.version = Version::parse(version);
    options
}

fn of(plan: &PowerPlan, conf: &str, version: &str) -> Rendered {
    render(plan, Target::Slurm, &options(conf, version)).unwrap()
}

fn refused(plan: &PowerPlan, options: &ConfigOptions) -> String {
    render(plan, Target::Slurm, options).unwrap_err().to_string()
}

pub(super) fn file<'a>(rendered: &'a Rendered, name: &str) -> &'a str {
    &rendered.files.iter().find(|(have, _)| have == name).unwrap_or_else(|| panic!("no {name}")).1
}

fn told(rendered: &Rendered, what: &str) -> bool {
    rendered.warnings.iter().any(|line| line.contains(what))
}

#[test]
fn settings_change_where_they_are() {
    let mut gpu = pool("gpu", "n[1-16]", 16);
    gpu.keep_idle = 2;
    let mut plan = plan(vec![gpu]);
    plan.canaries = Some("n1".to_owned());
    let rendered = of(&plan, CONF, "23.11");
    // The partition sleeps and the rest does not, so that the cluster's SuspendTime stays off.
    let expected = "\
# slurm.conf of a small site
ClusterName=site
suspendtime = -1    # for now
ResumeRate=20 SuspendRate=0
SlurmdTimeout=300

# Power saving, planned by tracecast
ResumeTimeout=600
SuspendTimeout=72
SuspendExcNodes=n[2-16]:2,n1
SuspendExcStates=DOWN,DRAIN,FAIL,MAINTENANCE,PLANNED
SuspendProgram=/etc/slurm/power/suspend.sh
ResumeProgram=/etc/slurm/power/resume.sh
ResumeFailProgram=/etc/slurm/power/resume-failed.sh
# COMPUTE NODES
NodeName=n[1-16] CPUs=64 \\
    Gres=gpu:8 State=UNKNOWN
NodeName=login CPUs=4
PartitionName=gpu Nodes=n[1-16] Default=YES State=UP SuspendTime=600 # the big one
PartitionName=debug Nodes=login
";
    assert_eq!(file(&rendered, "slurm.conf"), expected);
    let diff = "\
--- a/slurm.conf
+++ b/slurm.conf
@@ -1,12 +1,20 @@
 # slurm.conf of a small site
 ClusterName=site
 suspendtime = -1    # for now
-ResumeRate=5 SuspendRate=60
+ResumeRate=20 SuspendRate=0
 SlurmdTimeout=300
 
+# Power saving, planned by tracecast
+ResumeTimeout=600
+SuspendTimeout=72
+SuspendExcNodes=n[2-16]:2,n1
+SuspendExcStates=DOWN,DRAIN,FAIL,MAINTENANCE,PLANNED
+SuspendProgram=/etc/slurm/power/suspend.sh
+ResumeProgram=/etc/slurm/power/resume.sh
+ResumeFailProgram=/etc/slurm/power/resume-failed.sh
 # COMPUTE NODES
 NodeName=n[1-16] CPUs=64 \\
     Gres=gpu:8 State=UNKNOWN
 NodeName=login CPUs=4
-PartitionName=gpu Nodes=n[1-16] Default=YES State=UP # the big one
+PartitionName=gpu Nodes=n[1-16] Default=YES State=UP SuspendTime=600 # the big one
 PartitionName=debug Nodes=login
";
    let (said, changed) = rendered.diff.as_deref().unwrap().split_once("--- ").unwrap();
    assert_eq!(format!("--- {changed}"), diff);
    assert!(said.contains("#   partition gpu: SuspendTime none → 600.\n"), "{said}");
    assert!(told(&rendered, "ResumeRate was 5 and becomes 20"), "{:?}", rendered.warnings);
    assert_eq!(of(&plan, expected, "23.11").diff, None, "nothing is left to change");
}

#[test]
fn one_time_for_all_where_all_nodes_are_in_a_pool() {
    let conf = "SuspendTime=60\nSuspendTime=-1\nNodeName=n[1-4]\nPartitionName=gpu Nodes=ALL SuspendTime=5\n";
    let rendered = of(&plan(vec![pool("gpu", "n[1-4]", 4)]), conf, "22.05");
    let text = file(&rendered, "slurm.conf");
    // The first of two is taken out, as the second counts; a partition's own would count more than the cluster's.
    assert!(text.starts_with("SuspendTime=600\n# Power saving"), "{text}");
    assert!(text.contains("PartitionName=gpu Nodes=ALL SuspendTime=600\n"), "{text}");
    assert!(told(&rendered, "slurm.conf, line 1: SuspendTime is set again further down"), "{:?}", rendered.warnings);
}

#[test]
fn each_version_gets_what_it_understands() {
    let conf = "NodeName=n[1-4,7-8],m[1-4]\nPartitionName=gpu Nodes=n[1-4,7-8]\nPartitionName=other Nodes=m[1-4]\n";
    let mut gpu = pool("gpu", "n[1-4,7-8]", 6);
    gpu.keep_idle = 3;
    let mut plan = plan(vec![gpu, pool("other", "m[1-4]", 4)]);
    plan.pools[1].idle_s = 1200;
    let excluded = |version: &str| {
        let text = file(&of(&plan, conf, version), "slurm.conf").to_owned();
        text.lines().find(|line| line.starts_with("SuspendExcNodes=")).unwrap().to_owned()
    };
    // 3 × 4/6 = 2 and 3 × 2/6 = 1, as the new form is cut at every comma.
    assert_eq!(excluded("23.02.6"), "SuspendExcNodes=n[1-4]:2,n[7-8]:1");
    assert_eq!(excluded("22.05"), "SuspendExcNodes=n[1-4,7-8]:3");
    // The same holds for the sets without a number beside it, and for what is there already.
    let more = format!("SuspendExcNodes=m[1,3]\n{conf}");
    let mut with = plan.clone();
    with.canaries = Some("n[2,8]".to_owned());
    // 3 of n1, n[3-4] and n7: 3 × 1/4, 3 × 2/4 and 3 × 1/4 are 0, 1 and 0, and two more for remainders 3, 2 and 3 of 4.
    let text = file(&of(&with, &more, "23.11"), "slurm.conf").to_owned();
    assert!(text.starts_with("SuspendExcNodes=n1:1,n[3-4]:1,n7:1,m1,m3,n2,n8\n"), "{text}");
    let text = file(&of(&with, &more, "22.05"), "slurm.conf").to_owned();
    assert!(text.starts_with("SuspendExcNodes=n[1,3-4,7]:3,m[1,3],n[2,8]\n"), "{text}");
    assert_eq!(excluded("20.11"), "SuspendExcNodes=n[1-3]");
    let text = |version: &str| file(&of(&plan, conf, version), "slurm.conf").to_owned();
    assert!(
        text("21.08").contains("SuspendTime=INFINITE\n") && text("21.08").contains("Nodes=m[1-4] SuspendTime=1200\n")
    );
    // One time for all, and the more patient one.
    assert!(
        text("20.11").contains("SuspendTime=1200\n") && !text("20.11").contains("Nodes=m[1-4] S"),
        "{}",
        text("20.11")
    );
    assert!(text("23.02").contains("SuspendExcStates=") && !text("22.05").contains("SuspendExcStates="));
    assert!(told(&of(&plan, conf, ""), "written for Slurm 22.05"));
    assert!(told(&of(&plan, &format!("SuspendExcStates=DOWN\n{conf}"), ""), "written for Slurm 23.02"));
}

/// Whoever wrote that the nodes of a partition never sleep meant it: its own line, the default before it, and both ways to write it.
#[test]
fn a_partition_that_never_sleeps_stays_so() {
    let nodes = "NodeName=n[1-4]\nNodeName=m[1-4]\n";
    for endless in ["INFINITE", "-1", "infinite"] {
        // A cluster's SuspendTime for a pool that is no partition: gpu is left alone, other follows.
        let conf = format!(
            "{nodes}PartitionName=gpu Nodes=n[1-4] SuspendTime={endless}\nPartitionName=other Nodes=m[1-4] SuspendTime=5\n"
        );
        let rendered = of(&plan(vec![pool("pool", "n[1-4],m[1-4]", 8)]), &conf, "23.11");
        let text = file(&rendered, "slurm.conf");
        assert!(text.contains(&format!("PartitionName=gpu Nodes=n[1-4] SuspendTime={endless}\n")), "{text}");
        assert!(text.contains("PartitionName=other Nodes=m[1-4] SuspendTime=600\n"), "{text}");
        assert!(
            told(&rendered, "partition gpu: its SuspendTime is without end and stays so"),
            "{:?}",
            rendered.warnings
        );
        // The pool is the partition itself.
        let rendered = of(&plan(vec![pool("gpu", "n[1-4]", 4)]), &conf, "23.11");
        let text = file(&rendered, "slurm.conf");
        assert!(text.contains(&format!("PartitionName=gpu Nodes=n[1-4] SuspendTime={endless}\n")), "{text}");
        assert!(told(&rendered, "partition gpu: its SuspendTime is without end"), "{:?}", rendered.warnings);
        // It has it from the default before it.
        let conf = format!("{nodes}PartitionName=DEFAULT SuspendTime={endless}\nPartitionName=gpu Nodes=n[1-4]\n");
        let rendered = of(&plan(vec![pool("gpu", "n[1-4]", 4)]), &conf, "23.11");
        let text = file(&rendered, "slurm.conf");
        assert!(text.contains("PartitionName=gpu Nodes=n[1-4]\n"), "{text}");
        assert!(told(&rendered, "partition gpu"), "{:?}", rendered.warnings);
    }
    // A node that a sleepless partition shares never sleeps, and that is said.
    let conf =
        format!("{nodes}PartitionName=gpu Nodes=n[1-4]\nPartitionName=all Nodes=n[1-4],m[1-4] SuspendTime=INFINITE\n");
    let rendered = of(&plan(vec![pool("gpu", "n[1-4]", 4)]), &conf, "23.11");
    assert!(told(&rendered, "also in partition all, whose SuspendTime is without end"), "{:?}", rendered.warnings);
}

#[test]
fn nodes_outside_the_pools_do_not_begin_to_sleep() {
    let conf =
        "NodeName=n[1-8],login,vis[1-2]\nPartitionName=all Nodes=n[1-8],login\nPartitionName=vis Nodes=vis[1-2]\n";
    // The pool is no partition, so that the cluster's SuspendTime is needed.
    let rendered = of(&plan(vec![pool("gpu", "n[1-8]", 8)]), conf, "23.11");
    let text = file(&rendered, "slurm.conf");
    for line in ["SuspendTime=600", "SuspendExcParts=vis", "SuspendExcNodes=login"] {
        assert!(text.lines().any(|have| have == line), "{line}: {text}");
    }
    assert_eq!(of(&plan(vec![pool("gpu", "n[1-8]", 8)]), text, "23.11").diff, None);
    // A pool that is part of a partition: the rest of it is excluded.
    let text = file(&of(&plan(vec![pool("all", "n[1-8]", 8)]), conf, "23.11"), "slurm.conf").to_owned();
    assert!(
        text.contains("SuspendTime=INFINITE\n")
            && text.contains("SuspendExcNodes=login\n")
            && !text.contains("SuspendExcParts"),
        "{text}"
    );
}

/// Regression test: a pool whose nodes all stay on had more names than the plan has nodes, and the
/// rest of them slept.
#[test]
fn a_pool_that_stays_on_stays_on_by_name() {
    let mut gpu = pool("gpu", "n[1-16]", 12);
    gpu.keep_idle = 12;
    for version in ["20.11", "22.05", "23.11"] {
        let rendered = of(&plan(vec![gpu.clone()]), CONF, version);
        assert!(file(&rendered, "slurm.conf").contains("\nSuspendExcNodes=n[1-16]"), "{version}: {rendered:?}");
    }
}

#[test]
fn what_the_site_has_stays() {
    let conf = "SuspendProgram=/opt/off ResumeProgram=/opt/on\nResumeTimeout=900\nSuspendExcNodes=n[1-2],n[5-8]:3,n9\nNodeName=n[1-16]\nPartitionName=gpu Nodes=ALL\n";
    let mut gpu = pool("gpu", "n[1-16]", 16);
    gpu.keep_idle = 4;
    let rendered = of(&plan(vec![gpu.clone()]), conf, "23.11");
    let text = file(&rendered, "slurm.conf");
    assert!(text.contains("SuspendProgram=/opt/off ResumeProgram=/opt/on\nResumeTimeout=900\n"), "{text}");
    // The number for nodes of the pool is the plan's now; what is excluded as a whole stays, behind.
    assert!(text.contains("SuspendExcNodes=n[1-16]:4,n[1-2],n9\n"), "{text}");
    assert!(told(&rendered, "n[1-2,9] never sleep"), "{:?}", rendered.warnings);
    assert!(!rendered.files.iter().any(|(name, _)| name.ends_with(".sh")));
    assert!(told(&rendered, "no ResumeFailProgram"));
    // Before 23.02 all before a number is one set of it.
    let text = file(&of(&plan(vec![gpu]), conf, "22.05"), "slurm.conf").to_owned();
    assert!(text.contains("SuspendExcNodes=n[1-16]:4,n9\n"), "{text}");
    let excluded = "SuspendExcParts=gpu\nNodeName=n1\nPartitionName=gpu Nodes=n1\n";
    assert!(told(&of(&plan(vec![pool("gpu", "n1", 1)]), excluded, "23.11"), "as SuspendExcParts has it"));
}

#[test]
fn what_cannot_work_is_refused_with_the_remedy() {
    let good = plan(vec![pool("gpu", "n[1-16]", 16)]);
    let with = |change: &dyn Fn(&mut PowerPlan, &mut ConfigOptions)| {
        let (mut plan, mut options) = (good.clone(), options(CONF, "23.11"));
        change(&mut plan, &mut options);
        refused(&plan, &options)
    };
    let text = with(&|_, options| options.slurm.resume_timeout_s = Some(300));
    assert!(text.contains("not above the 300 s") && text.contains("ask for 600 s or more"), "{text}");
    assert!(with(&|_, options| options.slurm.suspend_timeout_s = Some(59)).contains("ask for 60 s or more"));
    assert!(with(&|plan, _| plan.boot_s = 40_000).contains("at most 65533 s"));
    assert!(with(&|plan, _| plan.wakes_per_minute = 70_000).contains("0 is no limit"));
    assert!(with(&|plan, _| plan.pools.clear()).contains("no pools"));
    assert!(with(&|plan, _| plan.pools[0].keep_idle = 17).contains("at most that many"));
    assert!(with(&|plan, _| plan.pools.push(pool("gpu", "login", 1))).contains("rename one"));
    assert!(with(&|plan, _| plan.pools.push(pool("two", "n[16-17],login", 2))).contains("has no n17"));
    assert!(with(&|plan, _| plan.pools.push(pool("two", "n16,login", 2))).contains("share n16"));
    assert!(with(&|plan, _| plan.pools[0].nodes = Some("n[1-".to_owned())).contains("no host list"));
    assert!(
        with(&|plan, _| (plan.pools[0].nodes, plan.pools[0].name) = (None, "x".to_owned())).contains("no partition x")
    );
    assert!(with(&|plan, _| plan.canaries = Some("n99".to_owned())).contains("no canaries n99"));
    assert!(with(&|plan, _| plan.suspend_program = Some("off.sh".to_owned())).contains("absolute path"));
    assert!(with(&|plan, _| plan.resume_program = Some("/bin/on --all".to_owned())).contains("no arguments"));
    let text = with(&|_, options| options.slurm.conf.push_str("SuspendExcNodes=n[1-\n"));
    assert!(text.starts_with("slurm.conf, line 13: SuspendExcNodes: `n[1-` is no host list"), "{text}");
    assert!(with(&|_, options| options.slurm.exc_states = vec!["DOWN,x".to_owned()]).contains("no state"));
}

#[test]
fn what_is_not_read_is_told() {
    let conf = "Include nodes.conf\nNodeName=n1 ResumeTimeout=5\nPartitionName=gpu Nodes=n1\nwhat is this\n";
    let rendered = of(&plan(vec![pool("gpu", "n[1-2]", 2)]), conf, "23.11");
    assert!(told(&rendered, "slurm.conf, line 1: includes nodes.conf"), "{:?}", rendered.warnings);
    assert!(told(&rendered, "slurm.conf, line 2: nodes with their own ResumeTimeout"), "{:?}", rendered.warnings);
    assert!(told(&rendered, "slurm.conf, line 4: `what is this` is no Key=Value"), "{:?}", rendered.warnings);
}

#[test]
fn a_pool_takes_the_nodes_of_its_partition() {
    let conf = "NodeName=n[1-4]\nNodeSet=big Nodes=n[3-4]\nPartitionName=DEFAULT Nodes=big\nPartitionName=gpu\n";
    let mut gpu = pool("gpu", "", 2);
    (gpu.nodes, gpu.keep_idle) = (None, 1);
    let rendered = of(&plan(vec![gpu]), conf, "23.11");
    assert!(file(&rendered, "slurm.conf").contains("SuspendExcNodes=n[3-4]:1\n"), "{:?}", rendered.files);
}

#[test]
fn versions_are_read() {
    let known = Some(Version { year: 22, month: 5 });
    assert_eq!(
        [Version::parse("22.05"), Version::parse("slurm-wlm 22.05.8"), Version::parse("slurm 22.05.0-rc1")],
        [known; 3]
    );
    assert_eq!([Version::parse("22"), Version::parse("2.6.5"), Version::parse("22.13"), Version::parse("")], [None; 4]);
}

/// The new text by applying a unified diff to `old`, every context line checked.
fn patched(old: &str, diff: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut lines = diff.split_inclusive('\n').peekable();
    while lines.next_if(|line| line.starts_with('#')).is_some() {}
    assert!(lines.next().unwrap().starts_with("--- ") && lines.next().unwrap().starts_with("+++ "));
    let (mut out, mut at) = (String::new(), 0);
    while let Some(head) = lines.next() {
        // A side of one line has no count.
        let side = |side: &str| {
            let (start, count) = side[1..].split_once(',').unwrap_or((&side[1..], "1"));
            [start, count].map(|number| number.parse::<usize>().unwrap())
        };
        let [[start, gone], [_, come]] = head.split(' ').skip(1).take(2).map(side).collect::<Vec<_>>()[..] else {
            panic!("{head}")
        };
        let first = if gone == 0 { start } else { start - 1 };
        out.extend(old[at..first].iter().copied());
        at = first;
        let (mut left, mut right) = (gone, come);
        while left + right > 0 {
            let line = lines.next().unwrap();
            let (sign, mut text) = line.split_at(1);
            if lines.peek().is_some_and(|next| next.starts_with('\\')) {
                lines.next();
                text = text.strip_suffix('\n').unwrap();
            }
            if sign != "+" {
                assert_eq!(old[at], text);
                (at, left) = (at + 1, left - 1);
            }
            if sign != "-" {
                out.push_str(text);
                right -= 1;
            }
        }
    }
    out.extend(old[at..].iter().copied());
    out
}

/// What GNU patch makes of it, where there is one.
fn patched_by_patch(old: &str, diff: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let (conf, change) = (folder.path().join("slurm.conf"), folder.path().join("diff"));
    std::fs::write(&conf, old).unwrap();
    std::fs::write(&change, diff).unwrap();
    let output = Command::new("patch")
        .args(["--binary", "-s", "-p1", "-i"])
        .arg(&change)
        .current_dir(folder.path())
        .output()
        .ok()?;
    assert!(output.status.success(), "{diff}\n{}", String::from_utf8_lossy(&output.stdout));
    Some(std::fs::read_to_string(conf).unwrap())
}

#[test]
fn patch_applies_the_diff() {
    let plan = plan(vec![pool("gpu", "n[1-16]", 16)]);
    for conf in [
        CONF.to_owned(),
        CONF.replace('\n', "\r\n"),
        CONF.trim_end().to_owned(),
        format!("{}\n{CONF}", "# more\n".repeat(40)),
    ] {
        let rendered = of(&plan, &conf, "22.05");
        let diff = rendered.diff.as_deref().unwrap();
        assert_eq!(patched(&conf, diff), file(&rendered, "slurm.conf"));
        if let Some(result) = patched_by_patch(&conf, diff) {
            assert_eq!(result, file(&rendered, "slurm.conf"));
        }
    }
}

/// Pieces that a `slurm.conf` is made of, and some that it should not be.
fn line() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "SuspendTime=60",
        "suspendtime = \"INFINITE\"",
        "SuspendRate=1 ResumeRate=2 # c",
        "SuspendTimeout=20 \\",
        "ResumeTimeout=9000",
        "SuspendExcNodes=n[1-2]:1,n3",
        "SuspendExcNodes=\"n1, n2\"",
        "SuspendExcParts=gpu,x",
        "SuspendExcStates=down",
        "ResumeProgram=/bin/true",
        "SuspendProgram=relative",
        "SuspendTime",
        "NodeName=n[1-4] CPUs=1 \\",
        "NodeName=n[5-8]",
        "NodeName=DEFAULT CPUs=2",
        "NodeName=bad[",
        "PartitionName=gpu Nodes=n[1-4] SuspendTime=7",
        "PartitionName=gpu Nodes=n[1-4] ResumeTimeout=7 \\ # c",
        "PartitionName=DEFAULT SuspendTime=9",
        "PartitionName=b Nodes=ALL",
        "NodeSet=s Nodes=n[1-2]",
        "include other.conf",
        "# comment \\",
        "A=\\# B=\"x y\" C=\\\\",
        "",
        "\\",
        "  ",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[ -~é\\\\#=\"]{0,30}"]
}

/// Mostly with the nodes and the partition that plans ask for, as few would be accepted without.
fn conf() -> impl Strategy<Value = String> {
    let end = prop::sample::select(vec!["\n", "\n", "\n", "\r\n"]);
    let lines = prop::collection::vec((line(), end), 0..14);
    (lines, any::<bool>(), prop::option::weighted(0.8, any::<prop::sample::Index>())).prop_map(|(lines, whole, at)| {
        let mut lines: Vec<String> = lines.into_iter().map(|(line, end)| line + end).collect();
        if let Some(at) = at {
            let good = "NodeName=n[1-8] CPUs=1\nPartitionName=gpu Nodes=n[1-8]\n";
            lines.insert(at.index(lines.len() + 1), good.to_owned());
        }
        let text = lines.concat();
        if whole { text } else { text.trim_end_matches(['\n', '\r']).to_owned() }
    })
}

fn plans() -> impl Strategy<Value = PowerPlan> {
    let canaries = prop::option::of(prop::sample::select(vec!["n1", "n[3-4]", "zz"]));
    let nodes = prop::sample::select(vec![None, Some("n[1-4]"), Some("n[2-3,6]"), Some("n1")]);
    (nodes, 0u32..4, 0u32..2000, 0u32..500, canaries, any::<bool>()).prop_map(
        |(nodes, keep_idle, idle_s, boot_s, canaries, two)| {
            let mut gpu = pool("gpu", "", 4);
            (gpu.nodes, gpu.keep_idle, gpu.idle_s) = (nodes.map(str::to_owned), keep_idle, idle_s);
            gpu.actions = vec![Action { at_ms: 0, powered: 1, change: -1 }];
            let mut plan = plan(vec![gpu]);
            if two {
                plan.pools.push(pool("b", "n[7-8]", 2));
            }
            (plan.boot_s, plan.canaries) = (boot_s, canaries.map(str::to_owned));
            plan
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_conf_any_plan(conf in conf(), plan in plans(), version in prop::sample::select(vec!["", "20.11", "21.08", "22.05", "23.02", "25.05"])) {
        let options = options(&conf, version);
        let Ok(rendered) = render(&plan, Target::Slurm, &options) else { return Ok(()) };
        let new = file(&rendered, "slurm.conf");
        match &rendered.diff {
            Some(diff) => prop_assert_eq!(&patched(&conf, diff), new),
            None => prop_assert_eq!(&conf, new),
        }
        // What is written says what it should, and a second time changes nothing.
        let again = render(&plan, Target::Slurm, &self::options(new, version));
        let again = match again { Ok(again) => again, Err(e) => return Err(TestCaseError::fail(format!("{e}\n{new}"))) };
        prop_assert_eq!(&again.diff, &None, "{}", new);
        let read = Conf::read(new);
        for (key, least, most) in [
            ("ResumeTimeout", plan.boot_s + 60, 9000),
            ("SuspendTimeout", 72, 72),
            ("SuspendRate", 0, 0),
            ("ResumeRate", 20, 20),
        ] {
            let understood = read.lines().iter().filter(|line| line.odd.is_none());
            let times = understood.flat_map(ConfLine::settings).filter(|pair| pair.is(key)).count();
            let value: u32 = read.setting(key).unwrap().parse().unwrap();
            prop_assert!(times <= 1 && (least..=most).contains(&value), "{} is {}, set {} times: {}", key, value, times, new);
        }
    }

    #[test]
    fn any_text(conf in ".*", plan in plans()) {
        if let Ok(rendered) = render(&plan, Target::Slurm, &options(&conf, "22.05")) {
            let diff = rendered.diff.as_deref().unwrap_or_default();
            prop_assert_eq!(&patched(&conf, diff), file(&rendered, "slurm.conf"));
        }
    }
}

/// The programs in a folder of their own, with a scontrol and a hook that only write down what is asked of them.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let rendered = of(&plan(vec![pool("gpu", "n[1-16]", 16)]), CONF, "23.11");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        rendered.files.iter().filter(|(name, _)| name.ends_with(".sh")).for_each(|(name, text)| write(name, text));
        let here = folder.path().display().to_string();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        // This `scontrol` expands one host list only.
        let scontrol = format!(
            "#!/bin/sh\ncase \"$1 $2\" in 'show hostnames') case $3 in 'n[1-3]') printf 'n1\\nn2\\nn3\\n';; *\\[*) exit 1;; *) echo \"$3\";; esac;; *) echo \"$*\" >>{here}/scontrol.log;; esac\n"
        );
        write("bin/scontrol", &scontrol);
        write("bin/logger", "#!/bin/sh\n");
        write(
            "site-power",
            &format!(
                "#!/bin/sh\necho \"$1 $2\" >>{here}/asked\n[ \"$2\" != n2 ] || [ ! -e {here}/broken ] || {{ echo no answer; exit 1; }}\n"
            ),
        );
        write("power.conf", &format!("POWER_LOG={here}/power.log\nPOWER_PARALLEL=2\nPOWER_TRIES=2\n"));
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Option<i32> {
        let path = format!("{}:/usr/bin:/bin", self.path().join("bin").display());
        Command::new("sh").arg(self.path().join(program)).args(arguments).env("PATH", path).status().unwrap().code()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    fn asked(&self) -> Vec<String> {
        let mut asked: Vec<String> = self.text("asked").lines().map(str::to_owned).collect();
        asked.sort();
        asked
    }
}

#[test]
fn programs_switch_every_node_and_say_so() {
    let programs = Programs::new();
    assert_eq!(programs.run("suspend.sh", &["n[1-3]"]), Some(0));
    assert_eq!(programs.run("resume.sh", &["n3"]), Some(0));
    assert_eq!(programs.asked(), ["off n1", "off n2", "off n3", "on n3"]);
    let log = programs.text("power.log");
    for said in ["suspend.sh", "power off n[1-3]", "power off n2: done", "power on n3: done"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert_eq!(programs.text("scontrol.log"), "", "nothing is set down");
}

#[test]
fn programs_do_nothing_without_nodes() {
    let programs = Programs::new();
    for program in ["suspend.sh", "resume.sh", "resume-failed.sh"] {
        assert_eq!((programs.run(program, &[]), programs.run(program, &[""])), (Some(0), Some(0)), "{program}");
    }
    assert_eq!(programs.asked(), Vec::<String>::new());
}

#[test]
fn programs_fail_loudly() {
    let programs = Programs::new();
    std::fs::write(programs.path().join("broken"), "").unwrap();
    assert_eq!(programs.run("suspend.sh", &["n[1-3]"]), Some(1));
    // Two tries of n2, and the others are switched all the same.
    assert_eq!(programs.asked(), ["off n1", "off n2", "off n2", "off n3"]);
    assert_eq!(programs.run("resume.sh", &["n[1-3]"]), Some(1));
    let log = programs.text("power.log");
    assert!(
        log.contains("try 2 of 2 failed: no answer")
            && log.contains("ERROR: still powered: n2\n")
            && log.contains("ERROR: not woken: n2\n"),
        "{log}"
    );
    assert_eq!(
        programs.text("scontrol.log"),
        "update NodeName=n2 State=DOWN Reason=resume.sh: cannot be switched on\n"
    );
    assert_eq!(programs.run("suspend.sh", &["n[1"]), Some(1), "no host list");
    assert_eq!(programs.run("suspend.sh", &["n1;reboot"]), Some(1));
    assert!(programs.text("power.log").contains("ERROR: power off: 'n1;reboot' is no name of a node"));
    assert_eq!(programs.asked().len(), 4 + 4, "nothing but what is above was switched");
    assert_eq!(programs.run("resume-failed.sh", &["n[1-3]"]), Some(0));
    assert!(programs.text("power.log").contains("did not wake within ResumeTimeout: n[1-3]"));
}
