//! Power saving of `tracecast_planner::power::forward::config` in a real Slurm: it takes the file,
//! puts idle nodes to sleep with the programs that were written beside it, keeps awake what the
//! plan wants awake, and wakes nodes for a job that needs them.
//!
//! Five nodes, of which four are in the plan: n1 is a canary, one of n2 to n4 is kept idle, n5 is not the plan's. A node is put to sleep by stopping
//! its daemon and wakes 6 s after it was asked to; nodes sleep after 5 s. Takes about a
//! minute and a quarter with the start of the lab.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracecast_planner::power::forward::config::slurm::Version;
use tracecast_planner::power::forward::config::{ConfigOptions, Rendered, Target, render};
use tracecast_planner::power::forward::plan::{PoolPlan, PowerPlan};

use crate::lab::Lab;

/// A node boots for so long.
const BOOT_S: u32 = 6;
/// Time to resume after which a node is taken for broken, seconds.
const RESUME_TIMEOUT_S: u32 = 40;
/// Nodes of the lab.
const NODES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];

fn plan() -> PowerPlan {
    // Of five nodes.
    let pool = PoolPlan {
        name: "gpu".to_owned(),
        nodes: Some("n[1-4]".to_owned()),
        total_nodes: 4,
        gpus_per_node: 8,
        keep_idle: 1,
        idle_s: 5,
        actions: Vec::new(),
    };
    PowerPlan {
        begins_ms: None,
        pools: vec![pool],
        boot_s: BOOT_S,
        shutdown_s: 2,
        wakes_per_minute: 0,
        sleeps_per_minute: 0,
        canaries: Some("n1".to_owned()),
        suspend_program: None,
        resume_program: None,
    }
}

/// Files written for the lab's own `slurm.conf`.
fn rendered(lab: &Lab, plan: &PowerPlan, resume_timeout_s: u32, conf: &str) -> Rendered {
    let mut options = ConfigOptions::default();
    options.slurm.conf = conf.to_owned();
    options.slurm.version = Version::parse(&lab.output("sinfo", &["--version"]));
    options.slurm.resume_timeout_s = Some(resume_timeout_s);
    options.slurm.suspend_timeout_s = Some(3);
    options.slurm.programs_dir = lab.home().join("power").to_str().unwrap().to_owned();
    assert!(options.slurm.version.is_some());
    render(plan, Target::Slurm, &options).unwrap()
}

/// Writes the programs where the file looks for them, with what they need to know of the lab.
fn install_programs(lab: &Lab, rendered: &Rendered) {
    let programs = lab.home().join("power");
    std::fs::create_dir_all(&programs).unwrap();
    let home = lab.home().display();
    let hook = format!(
        "#!/bin/sh\n\
         # Stops and starts the daemon of a node, as a machine that is switched does.\n\
         SLURM_CONF={home}/slurm.conf; export SLURM_CONF\n\
         echo \"$(date +%s.%N) $1 $2\" >>{home}/switched\n\
         # What does not answer cannot be switched, and what is dead does not boot.\n\
         [ ! -e {home}/silent-$2 ] || {{ echo no answer; exit 1; }}\n\
         [ ! -e {home}/dead-$2 ] || exit 0\n\
         case $1 in\n\
         off) [ ! -s {home}/run/slurmd.$2.pid ] || kill \"$(cat {home}/run/slurmd.$2.pid)\" ;;\n\
         on) setsid sh -c 'echo $$ >{home}/run/slurmd.boot-$0.pid; sleep {BOOT_S}; rm {home}/run/slurmd.boot-$0.pid && exec slurmd -b -N $0' \\\n\
         \"$2\" >/dev/null 2>&1 </dev/null & ;;\n\
         esac\n"
    );
    let mut files = vec![("site-power".to_owned(), hook)];
    files.push(("power.conf".to_owned(), format!("POWER_LOG={home}/log/power.log\n")));
    files.extend(rendered.files.iter().filter(|(name, _)| name.ends_with(".sh")).cloned());
    for (name, text) in files {
        let path = programs.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The lab's own file, with a Slurm that looks at its nodes every second and not every ten.
fn conf(lab: &Lab) -> String {
    let conf = std::fs::read_to_string(lab.home().join("slurm.conf")).unwrap();
    conf + "SlurmctldParameters=power_save_interval=1,power_save_min_interval=0\n"
}

/// Installs what was written, restarts the controller and gives how long its log was before.
fn install(lab: &Lab, rendered: &Rendered) -> usize {
    install_programs(lab, rendered);
    let new = lab.home().join("slurm.conf.new");
    std::fs::write(&new, &rendered.files.iter().find(|(name, _)| name == "slurm.conf").unwrap().1).unwrap();
    let log_before = lab.controller_log().len();
    lab.run(&["install", new.to_str().unwrap()]);
    log_before
}

/// The states of the nodes, as `scontrol` names them.
fn states(lab: &Lab) -> BTreeMap<String, String> {
    let text = lab.output("scontrol", &["show", "node", "-o"]);
    let field = |line: &str, name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    text.lines().map(|line| (field(line, "NodeName="), field(line, "State="))).collect()
}

/// The nodes whose state says `what`.
fn nodes_that_are(lab: &Lab, what: &str) -> Vec<String> {
    states(lab).into_iter().filter(|(_, state)| state.split('+').any(|one| one == what)).map(|(node, _)| node).collect()
}

/// Waits until just `nodes` are powered down; gives how long it took.
fn wait_until_asleep(lab: &Lab, nodes: &[&str]) -> Duration {
    let began = Instant::now();
    while nodes_that_are(lab, "POWERED_DOWN") != nodes {
        assert!(began.elapsed() < Duration::from_secs(45), "{nodes:?} do not sleep: {:?}", states(lab));
        std::thread::sleep(Duration::from_millis(250));
    }
    began.elapsed()
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Runs a job on all five nodes and gives its wait in seconds, from before it is submitted until its first command runs, and which nodes were seen
/// waking meanwhile.
fn wait_of_a_job(lab: &Lab, name: &str) -> (f64, Vec<String>) {
    let began = lab.home().join(format!("began-{name}"));
    let script = format!("date +%s.%N >{}; sleep 1", began.display());
    let submitted_s = now_s();
    lab.submit("root", name, &["-N", "5", "--gres=gpu:8", "--wait-all-nodes=1"], &script);
    let mut waking = Vec::new();
    let until = Instant::now() + Duration::from_secs(u64::from(RESUME_TIMEOUT_S) + 20);
    let began_s = loop {
        if let Some(began_s) = std::fs::read_to_string(&began).ok().and_then(|text| text.trim().parse::<f64>().ok()) {
            break began_s;
        }
        assert!(Instant::now() < until, "{name} does not run: {:?}", states(lab));
        for node in nodes_that_are(lab, "POWERING_UP") {
            if !waking.contains(&node) {
                waking.push(node);
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    lab.run(&["wait", "30"]);
    (began_s - submitted_s, waking)
}

/// The program of `--emit loop`, which knows the partition from the lab's file, where Slurm itself puts no node to sleep for an hour. What tracecast would answer is written down for it. It leaves nodes with jobs alone.
#[test]
fn a_loop_has_nodes_sleep_and_wakes_them() {
    let Some(lab) = Lab::up(NODES.len() as u32) else { return };
    let mut planned = PowerPlan { canaries: None, ..plan() };
    planned.pools.iter_mut().for_each(|pool| (pool.keep_idle, pool.idle_s) = (0, 3600));
    install(&lab, &rendered(&lab, &planned, RESUME_TIMEOUT_S, &conf(&lab)));
    let mut options = ConfigOptions::default();
    options.slurm.conf = conf(&lab);
    install_programs(&lab, &render(&planned, Target::Loop, &options).unwrap());
    let programs = lab.home().join("power");
    let home = lab.home().display();
    let write = |name: &str, text: &str| {
        std::fs::write(programs.join(name), text).unwrap();
        std::fs::set_permissions(programs.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("plan.tcm", "");
    write(
        "tracecast",
        &format!(
            "#!/bin/sh\ncat >{home}/asked\nprintf '{{\\n  \"at\": \"2024-03-01T00:00:00Z\",\\n  \"until\": \"2024-03-01T00:00:01Z\",\\n  \"powered\": %s,\\n  \"held\": \"by_the_rule\"\\n}}\\n' \"$(cat {home}/powered)\"\n"
        ),
    );
    write(
        "power-loop.conf",
        &format!(
            "POWER_STATE={home}/slots\nPOWER_LOG={home}/log/loop.log\nTRACECAST={}/tracecast\n",
            programs.display()
        ),
    );
    let (program, file) = (programs.join("power-loop.sh"), programs.join("plan.tcm"));
    let ask = |powered: &str| {
        std::fs::write(lab.home().join("powered"), powered).unwrap();
        lab.output("env", &["POWER_ONCE=1", "sh", program.to_str().unwrap(), file.to_str().unwrap()]);
        let asked: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(lab.home().join("asked")).unwrap()).unwrap();
        let slot = asked["slots"].as_array().unwrap().last().unwrap().clone();
        ["peak", "total", "powered"].map(|count| slot[count].as_u64().unwrap())
    };
    // A controller that has just begun knows of no node, and the loop would do nothing.
    let began = Instant::now();
    while nodes_that_are(&lab, "IDLE").len() < NODES.len() {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", states(&lab));
        std::thread::sleep(Duration::from_millis(250));
    }
    assert_eq!(ask("2.0"), [0, 4, 4]);
    wait_until_asleep(&lab, &["n3", "n4"]);
    let job = lab.submit("root", "held", &["-N", "1", "-w", "n2"], "sleep 300");
    lab.wait_for_start(&job);
    // n2 has a job, so it is n1 that goes.
    assert_eq!(ask("1.0"), [1, 4, 2]);
    wait_until_asleep(&lab, &["n1", "n3", "n4"]);
    assert_eq!(lab.output("squeue", &["-h", "-j", &job, "-o", "%T"]).trim(), "RUNNING");
    assert_eq!(ask("3.0"), [1, 4, 1]);
    wait_until_asleep(&lab, &["n4"]);
    let log = std::fs::read_to_string(lab.home().join("log/loop.log")).unwrap();
    assert!(
        log.contains("1 of 4 nodes in use, 1 powered; 3 to be powered (by_the_rule)")
            && !log.contains("ERROR")
            && !log.contains("are not counted"),
        "{log}"
    );
    lab.output("scancel", &[&job]);
}

#[test]
fn idle_nodes_sleep_and_a_job_wakes_them() {
    let Some(lab) = Lab::up(NODES.len() as u32) else { return };
    let test_began = Instant::now();
    let (powered_s, waking) = wait_of_a_job(&lab, "powered");
    assert_eq!(waking, Vec::<String>::new());

    let written = rendered(&lab, &plan(), RESUME_TIMEOUT_S, &conf(&lab));
    let file = |name: &str| &written.files.iter().find(|(have, _)| have == name).unwrap().1;
    // n5 is in the partition and not in the plan; n1 is behind the set with a number, as 22.05 wants it.
    assert!(file("slurm.conf").contains("SuspendExcNodes=n[2-4]:1,n[1,5]\n"), "{}", file("slurm.conf"));
    assert!(file("slurm.conf").contains(" SuspendTime=5\n") && file("slurm.conf").contains("\nSuspendTime=INFINITE\n"));
    let log_before = install(&lab, &written);
    let said = lab.output("scontrol", &["show", "config"]);
    for (key, value) in [
        ("SuspendExcNodes", "n[2-4]:1,n[1,5]"),
        ("ResumeTimeout", "40 sec"),
        ("SuspendTimeout", "3 sec"),
        ("SuspendRate", "0 nodes/min"),
    ] {
        assert!(said.lines().any(|line| line.starts_with(key) && line.contains(value)), "{key} {value}: {said}");
    }

    // The canary, one idle node and the node that is none of the plan's stay up, and do so after more than a SuspendTime again.
    let asleep = wait_until_asleep(&lab, &["n3", "n4"]);
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(nodes_that_are(&lab, "POWERED_DOWN"), ["n3", "n4"]);
    let shown = lab.output("sinfo", &["-h", "-N", "-o", "%N %T"]);
    for line in ["n1 idle", "n2 idle", "n3 idle~", "n4 idle~", "n5 idle"] {
        assert!(shown.lines().any(|have| have.trim() == line), "{line}: {shown}");
    }
    for (node, up) in NODES.iter().zip([true, true, false, false, true]) {
        assert_eq!(lab.home().join(format!("run/slurmd.{node}.pid")).exists(), up, "daemon of {node}");
    }

    let (woken_s, waking) = wait_of_a_job(&lab, "woken");
    assert_eq!(waking, ["n3", "n4"]);
    let extra_s = woken_s - powered_s;
    println!(
        "power saving in Slurm {}: two idle nodes powered down {:.1} s after the restart; a job on 5 nodes waits {powered_s:.1} s with all powered and \
         {woken_s:.1} s with two asleep: {extra_s:.1} s more, of which the programmed boot is {BOOT_S} s (ResumeTimeout {RESUME_TIMEOUT_S} s)",
        lab.output("sinfo", &["--version"]).trim(),
        asleep.as_secs_f64()
    );
    assert!((f64::from(BOOT_S)..f64::from(RESUME_TIMEOUT_S)).contains(&extra_s), "{extra_s} s more");

    // Once they are idle, they sleep again.
    wait_until_asleep(&lab, &["n3", "n4"]);
    // By hand, as the note on schedules says: what sleeps is woken, what is awake is put to sleep.
    let picked = |state: &str| {
        let pick = format!(
            "sinfo -h -N -p gpu -o '%N %T' | awk '$2 == \"{state}\" {{print $1}}' | sort -u | head -n 1 | paste -sd, -"
        );
        lab.output("sh", &["-c", &pick]).trim().to_owned()
    };
    assert_eq!((picked("idle~").as_str(), picked("idle").as_str()), ("n3", "n1"));
    lab.output("scontrol", &["update", "NodeName=n3", "State=POWER_UP", "Reason=power-actions"]);
    lab.output("scontrol", &["update", "NodeName=n2", "State=POWER_DOWN", "Reason=power-actions"]);
    // One node is to stay idle, and n3 is the one that is awake now.
    wait_until_asleep(&lab, &["n2", "n4"]);
    let woken = Instant::now();
    while nodes_that_are(&lab, "POWERING_UP") == ["n3"] {
        assert!(woken.elapsed() < Duration::from_secs(30), "{:?}", states(&lab));
        std::thread::sleep(Duration::from_millis(250));
    }

    let switched = std::fs::read_to_string(lab.home().join("switched")).unwrap();
    let mut of_n3: Vec<(f64, &str)> = Vec::new();
    for line in switched.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [at, what, "n3"] => of_n3.push((at.parse().unwrap(), what)),
            [_, _, node] => assert!(matches!(node, "n2" | "n4"), "{switched}"),
            _ => panic!("{switched}"),
        }
    }
    of_n3.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(of_n3.iter().map(|(_, what)| *what).collect::<Vec<_>>(), ["off", "on", "off", "on"], "{switched}");
    let power_log = std::fs::read_to_string(lab.home().join("log/power.log")).unwrap();
    assert!(
        power_log.contains("power off n[3-4]")
            && power_log.contains("power on n3: done")
            && !power_log.contains("ERROR"),
        "{power_log}"
    );
    let log = lab.controller_log();
    let complaints = ["Suspend", "Resume", "power_save", "more than once", "arsing error", "not resumed"];
    for line in log[log_before..].lines().filter(|line| line.contains("error:")) {
        assert!(!complaints.iter().any(|what| line.contains(what)), "{line}");
    }
    // Rendered again from what is installed, nothing changes.
    let installed = std::fs::read_to_string(lab.home().join("slurm.conf")).unwrap();
    assert_eq!(rendered(&lab, &plan(), RESUME_TIMEOUT_S, &installed).diff, None);
    println!("the test took {:.0} s once the lab was up", test_began.elapsed().as_secs_f64());
}

/// A field of `scontrol show job`.
fn of_job(lab: &Lab, job: &str, name: &str) -> String {
    let text = lab.output("scontrol", &["show", "job", job]);
    let start = format!("{name}=");
    text.split_whitespace().find_map(|word| word.strip_prefix(start.as_str())).unwrap().to_owned()
}

/// Waits until `found` is, and gives how long it took.
fn wait_until(lab: &Lab, what: &str, most_s: u64, found: impl Fn() -> bool) -> f64 {
    let began = Instant::now();
    while !found() {
        assert!(
            began.elapsed() < Duration::from_secs(most_s),
            "{what}: {:?}\n{}",
            states(lab),
            lab.output("squeue", &[])
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    began.elapsed().as_secs_f64()
}

/// Three nodes sleep, of which n2 cannot be switched on and n3 is but does not boot: the jobs that
/// wait for them go back to the queue, at once and after the ResumeTimeout, and run once the nodes
/// are mended. Takes about a minute.
#[test]
fn nodes_that_do_not_wake_are_set_down() {
    let Some(lab) = Lab::up(3) else { return };
    let mut plan = plan();
    (plan.pools[0].nodes, plan.pools[0].total_nodes, plan.pools[0].keep_idle) = (None, 3, 0);
    plan.canaries = None;
    plan.boot_s = BOOT_S;
    let timeout_s = BOOT_S + 4;
    install(&lab, &rendered(&lab, &plan, timeout_s, &conf(&lab)));
    wait_until_asleep(&lab, &["n1", "n2", "n3"]);
    let home = lab.home();
    std::fs::write(home.join("silent-n2"), "").unwrap();
    std::fs::write(home.join("dead-n3"), "").unwrap();

    let jobs = ["n2", "n3"].map(|node| lab.submit("root", node, &["-w", node, "--gres=gpu:8", "--requeue"], "sleep 1"));
    let down = |node: &str| nodes_that_are(&lab, "DOWN").iter().any(|one| one == node);
    let silent_s = wait_until(&lab, "n2 is not down", u64::from(timeout_s), || down("n2"));
    assert!(!down("n3"), "n3 has its ResumeTimeout yet");
    let why = |node: &str, reason: &str| {
        let shown = lab.output("scontrol", &["show", "node", node]);
        assert!(shown.contains(&format!("Reason={reason}")), "{shown}");
    };
    why("n2", "resume.sh: cannot be switched on");
    let dead_s = silent_s + wait_until(&lab, "n3 is not down", 40, || down("n3"));
    println!(
        "a node that cannot be switched is down after {silent_s:.1} s, one that does not boot after {dead_s:.1} s \
         (ResumeTimeout {timeout_s} s)"
    );
    assert!(dead_s >= f64::from(timeout_s) - 1.0, "{dead_s} s");
    why("n3", "ResumeTimeout reached");
    for job in &jobs {
        wait_until(&lab, "the job is not queued again", 20, || of_job(&lab, job, "JobState") == "PENDING");
        assert_eq!(of_job(&lab, job, "Restarts"), "1");
    }
    let power_log = || std::fs::read_to_string(home.join("log/power.log")).unwrap();
    // Both, if Slurm tells of n2 at the same time.
    let told = |nodes: &str| power_log().contains(&format!("ERROR: did not wake within ResumeTimeout: {nodes} "));
    wait_until(&lab, "nobody was told of n3", 20, || told("n3") || told("n[2-3]"));
    assert!(
        power_log().contains("power on n2: try 3 of 3 failed: no answer")
            && power_log().contains("ERROR: not woken: n2"),
        "{}",
        power_log()
    );

    // Nobody mends a node within a second, and of one that was resumed in the second in which it was set down, 22.05 put the job on it and the
    // node to sleep.
    std::thread::sleep(Duration::from_secs(6));
    for file in ["silent-n2", "dead-n3"] {
        std::fs::remove_file(home.join(file)).unwrap();
    }
    lab.output("scontrol", &["update", "NodeName=n[2-3]", "State=RESUME"]);
    for job in &jobs {
        // A job that was queued again waits for two minutes, unless it is told otherwise.
        lab.output("scontrol", &["update", &format!("JobId={job}"), "StartTime=now"]);
    }
    for job in &jobs {
        wait_until(&lab, "the job does not end", 60, || of_job(&lab, job, "JobState") == "COMPLETED");
    }
}
