//! The loop that keeps a promise, as a program for Slurm: `power-loop.sh` counts nodes, asks `tracecast decide power` every slot, and has Slurm wake nodes or put them to sleep.
//!
//! It reads when slots begin, and how long they are, from the first decision of the saved plan. Which nodes a pool has, how many GPUs each, and which are canaries it gets from the plan as far as that says so, and from `slurm.conf`, where that is given, the partitions whose waiting jobs count; the rest of what it needs to know of a site stands at its
//! head. It keeps every slot since the plan was made, as rules look back on peaks, and leaves nodes as they are where anything is not known: no answer, no nodes, a slot that was slept through.
//!
//! Beside it stands a unit of systemd that runs it.
//!
//! Worked example: 16 nodes of which 9 are in use and 12 powered. Where 10 are wanted, two that are `idle` get `State=POWER_DOWN`; where 14 are, two that are `idle~` get `State=POWER_UP`.

use tracecast_analytics::report::quote::{self, is_word};

use super::slurm::{self, Placed, Site};
use super::{ConfigOptions, Rendered, refuse};
use crate::error::{Error, Result};
use crate::plan::emit::slurm::hosts::expand;
use crate::power::forward::plan::{PoolPlan, PowerPlan};

/// The program.
const PROGRAM: &str = include_str!("programs/power-loop.sh");
/// Slurm puts no node to sleep by itself before it was idle so long, seconds: 30 days.
const NEVER_S: u32 = 2_592_000;

pub(super) fn render(plan: &PowerPlan, options: &ConfigOptions) -> Result<Rendered> {
    let slurm = &options.slurm;
    if plan.begins_ms.is_some() {
        return refuse(
            "the trace has no dates, so that no clock can tell which slot of the plan it is; make the plan of a trace with dates",
        );
    }
    let mut warnings = vec![format!(
        "power-loop.sh needs power saving in slurm.conf (the programs of --emit slurm) and a SuspendTime longer than nodes are ever idle, such as {NEVER_S} (--emit slurm,loop writes it); its head says what else. Try it with POWER_ONCE=1 POWER_DRY_RUN=1"
    )];
    let several = plan.pools.len() > 1;
    if several {
        warnings.push(format!(
            "run one power-loop.sh for each of the {} pools, with the pool as its second argument; it takes the partition of that name where slurm.conf does not say more. Pools must not share nodes",
            plan.pools.len()
        ));
    }
    let site = if slurm.conf.is_empty() { None } else { Some(slurm::site(plan, slurm)?) };
    let odd = |site: &Site| site.pools.iter().flat_map(|pool| &pool.partitions).find(|name| !is_word(name)).cloned();
    let unknown = site.as_ref().and_then(|site| odd(site).or_else(|| site.unknown.first().cloned()));
    if let Some(name) = &unknown {
        warnings.push(format!(
            "which jobs wait for the nodes of the plan is not told from {}, as partition {name:?} has nodes that it does not name, or an odd name: set POWER_PARTITION in power-loop.conf",
            slurm.conf_name
        ));
    }
    let mut says = String::new();
    if let Some(kept) = &plan.canaries {
        says.push_str(&format!(": \"${{POWER_KEEP:={}}}\"\n", host_list(kept)?));
    }
    says.push_str("case \"$pool\" in\n");
    for (at, pool) in plan.pools.iter().enumerate() {
        let placed = site.as_ref().and_then(|site| site.pools.get(at));
        let partitions = placed.filter(|_| unknown.is_none()).map_or(&[][..], |placed| &placed.partitions);
        if partitions.is_empty() && unknown.is_none() {
            match &site {
                Some(site) => {
                    warnings.extend(site.warnings.iter().filter(|told| !warnings.contains(told)).cloned().collect::<Vec<_>>());
                    warnings.push(format!(
                        "pool {}: {} has no partition with its nodes in itself; set POWER_PARTITION in power-loop.conf, so that jobs that wait count",
                        pool.name, slurm.conf_name
                    ));
                }
                None if !several => warnings.push(
                    "jobs that wait count only where the partition is known: name slurm.conf with --against, or the partition as the second argument if the pool is called so, or set POWER_PARTITION in power-loop.conf"
                        .to_owned(),
                ),
                None => {}
            }
        }
        if pool.nodes.is_none() && placed.is_none() && !several {
            warnings.push(
                "the plan does not say which nodes it is of (--host-list): power-loop.sh starts once POWER_PARTITION or POWER_NODES does"
                    .to_owned(),
            );
        }
        if partitions.iter().any(|name| *name != pool.name) {
            warnings.push(format!(
                "pool {}: jobs that wait in {} count, as {} says that its nodes are there; set POWER_PARTITION where jobs of some of these never need them",
                pool.name,
                partitions.join(", "),
                slurm.conf_name
            ));
        }
        if let Some(placed) = placed.filter(|placed| !placed.shared.is_empty()) {
            warnings.push(format!(
                "pool {}: jobs that wait in {} do not count, as other pools have nodes there, too; Slurm wakes nodes for them by itself. POWER_PARTITION says otherwise",
                pool.name,
                placed.shared.join(", ")
            ));
        }
        says.push_str(&of_pool(pool, several, placed, partitions)?);
    }
    says.push_str("esac");
    let program = PROGRAM.replace("@pools@", &says);
    let user = site.as_ref().map_or("slurm", |site| &site.user);
    if !is_word(user) {
        return refuse(format!(
            "SlurmUser is {user:?}, which a unit of systemd does not take; write the name of a user"
        ));
    }
    let files = vec![("power-loop.sh".to_owned(), program), unit(several, user, options)];
    Ok(Rendered { files, diff: None, warnings })
}

/// The unit of systemd that runs the loop; a template where there is one for each pool.
fn unit(several: bool, user: &str, options: &ConfigOptions) -> (String, String) {
    let folder = &options.slurm.programs_dir;
    let plan = options.plan_file.as_deref().unwrap_or("plan.tcm");
    let (name, started, pool) = if several {
        ("power-loop@.service", "power-loop@POOL", " %i")
    } else {
        ("power-loop.service", "power-loop", "")
    };
    let text = format!(
        "# Put it into /etc/systemd/system, power-loop.sh and the saved plan where ExecStart says, and tracecast into /usr/local/bin; then
#   systemctl daemon-reload && systemctl enable --now {started}
# A new plan takes the old one's place: systemctl restart {started}. To undo: systemctl disable --now {started}; nodes stay as they are.
[Unit]
Description=Powers nodes by a plan of tracecast
After=slurmctld.service

[Service]
User={user}
StateDirectory=tracecast
ExecStart={} {}{pool}
Restart=always
RestartSec=60

[Install]
WantedBy=multi-user.target
",
        quote::systemd(&format!("{folder}/power-loop.sh")),
        quote::systemd(&format!("{folder}/{plan}"))
    );
    (name.to_owned(), text)
}

/// The plan as Slurm has it beside a loop: it puts no node to sleep by itself, and keeps none awake.
pub(super) fn beside(plan: &PowerPlan) -> PowerPlan {
    let pool = |pool: &PoolPlan| PoolPlan { idle_s: NEVER_S, keep_idle: 0, actions: Vec::new(), ..pool.clone() };
    PowerPlan { pools: plan.pools.iter().map(pool).collect(), ..plan.clone() }
}

/// The settings of a pool, where the plan or slurm.conf knows them. One that is no word of the shell cannot be named as an argument either.
fn of_pool(pool: &PoolPlan, several: bool, placed: Option<&Placed>, partitions: &[String]) -> Result<String> {
    let name = match (several, is_word(&pool.name)) {
        (false, true) => format!("'' | '{}'", pool.name),
        (false, false) => "''".to_owned(),
        (true, true) => format!("'{}'", pool.name),
        (true, false) => {
            return refuse(format!(
                "pool {:?} has a name that power-loop.sh does not take; use letters, digits, dots, underscores and hyphens",
                pool.name
            ));
        }
    };
    let mut text = format!("{name})\n  planned={}\n", pool.total_nodes);
    if let Some(nodes) = pool.nodes.as_deref().or(placed.map(|placed| placed.nodes.as_str())) {
        text.push_str(&format!("  : \"${{POWER_NODES:={}}}\"\n", host_list(nodes)?));
    }
    if !partitions.is_empty() {
        text.push_str(&format!("  : \"${{POWER_PARTITION:={}}}\"\n", partitions.join(",")));
    }
    if pool.gpus_per_node > 0 {
        text.push_str(&format!("  : \"${{POWER_GPUS:={}}}\"\n", pool.gpus_per_node));
    }
    text.push_str("  ;;\n");
    Ok(text)
}

/// A host list that can stand in a program.
fn host_list(list: &str) -> Result<&str> {
    expand(list).map_err(Error::Power)?;
    let plain = |one: char| one.is_ascii_alphanumeric() || "._-[],".contains(one);
    if list.chars().all(plain) { Ok(list) } else { refuse(format!("`{list}` is no host list that a program can hold")) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::super::tests::{file, plan, pool};
    use super::super::{ConfigOptions, Target, render};
    use crate::power::forward::plan::PowerPlan;

    /// The loop in a folder of its own. Slurm has the nodes that the file `nodes` says, and jobs that wait for three; tracecast answers as the file `answer` says and notes what it was asked.
    struct Loop(tempfile::TempDir);

    impl Loop {
        fn new(powered: &str) -> Self {
            Self::of(&plan(vec![pool("gpu", "n[01-17]", 17)]), powered)
        }

        fn of(plan: &PowerPlan, powered: &str) -> Self {
            use std::os::unix::fs::PermissionsExt;
            let of = Self(tempfile::tempdir().unwrap());
            let rendered = render(plan, Target::Loop, &ConfigOptions::default()).unwrap();
            let here = of.0.path().display().to_string();
            std::fs::create_dir(of.0.path().join("bin")).unwrap();
            for (name, text) in [
                ("power-loop.sh", file(&rendered, "power-loop.sh").to_owned()),
                ("power-loop.conf", format!("POWER_STATE={here}/state\nPOWER_LOG={here}/log\n")),
                ("plan.tcm", String::new()),
                ("bin/sinfo", format!("#!/bin/sh\necho \"$*\" >{here}/sinfo.asked\ncat {here}/nodes\n")),
                // A job on two nodes with half of the GPUs, one on a whole node, three with two GPUs: 1 + 1 + 0.75.
                (
                    "bin/squeue",
                    format!(
                        "#!/bin/sh\n[ ! -e {here}/busy ] || exit 1\nprintf '2 gres/gpu:4 Resources\\n1 N/A Priority\\n9 gres/gpu:8 Dependency\\n3 gres/gpu:a100:2 Priority\\n'\n"
                    ),
                ),
                (
                    "bin/scontrol",
                    format!(
                        "#!/bin/sh\ncase $1 in show) echo \"$3\" | tr , '\\n' ;; *) echo \"$*\" >>{here}/scontrol.log ;; esac\n"
                    ),
                ),
                // A clock that stands still.
                (
                    "bin/date",
                    format!(
                        "#!/bin/sh\nif [ \"$*\" = +%s ]; then exec /bin/date -u -d \"$(cat {here}/clock)\" +%s; fi\nexec /bin/date \"$@\"\n"
                    ),
                ),
                (
                    "bin/tracecast",
                    format!("#!/bin/sh\ntr -d '\\n' >>{here}/asked\necho >>{here}/asked\ncat {here}/answer\n"),
                ),
            ] {
                of.write(name, &text);
                std::fs::set_permissions(of.0.path().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            of.write("clock", "2024-03-01T09:23:20Z");
            of.answer(powered, "00:10:00");
            // Nine in use (one of them drains), three idle, two asleep, one on its way; one that is down and one that does not answer do not count.
            let nodes = [
                "allocated",
                "allocated",
                "allocated",
                "allocated#",
                "mixed",
                "mixed",
                "mixed",
                "completing",
                "draining",
                "idle",
                "idle",
                "idle",
                "idle~",
                "idle~",
                "idle%",
                "down*",
                "idle*",
            ];
            let listed: String = (1..).zip(nodes).map(|(at, state)| format!("n{at:02} {state}\n")).collect();
            // Listed for each partition.
            of.write("nodes", &[listed.clone(), listed].concat());
            of
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(name), text).unwrap();
        }

        fn answer(&self, powered: &str, until: &str) {
            self.write(
                "answer",
                &format!(
                    "{{\n  \"schema\": \"decide-power/1\",\n  \"at\": \"2024-03-01T00:00:00Z\",\n  \"until\": \"2024-03-01T{until}Z\",\n  \"powered\": {powered},\n  \"held\": \"by_the_rule\",\n  \"left\": {{\n    \"powered\": 99\n  }}\n}}\n"
                ),
            );
        }

        fn command(&self, arguments: &[&str]) -> Command {
            let path = format!("{}:/usr/bin:/bin", self.0.path().join("bin").display());
            let mut command = Command::new("timeout");
            command.arg("90").arg("sh").arg(self.0.path().join("power-loop.sh")).args(arguments).env("PATH", path);
            command
        }

        fn once(&self, arguments: &[&str], dry: bool) -> Option<i32> {
            let mut command = self.command(arguments);
            command.env("POWER_ONCE", "1").env("POWER_DRY_RUN", if dry { "1" } else { "0" }).status().unwrap().code()
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
        }

        /// What tracecast was asked last, and what was asked of Slurm.
        fn ran(&self) -> (serde_json::Value, String) {
            let request = self.text("asked");
            (serde_json::from_str(request.lines().last().unwrap()).unwrap(), self.text("scontrol.log"))
        }

        fn plan(&self) -> String {
            self.0.path().join("plan.tcm").display().to_string()
        }
    }

    #[test]
    fn the_loop_counts_asks_and_puts_idle_nodes_to_sleep() {
        let of = Loop::new("10.2");
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        let (request, done) = of.ran();
        // Of 15 nodes in service 12 are powered, and 11 are wanted: of the idle ones the last goes.
        let slot = |at: &str, powered: u32| serde_json::json!({"at": at, "peak": 9, "last": 9, "pending": 3, "total": 15, "powered": powered});
        let first = slot("2024-03-01T09:10:00Z", 12);
        assert_eq!(request, serde_json::json!({ "pool": "gpu", "slots": [first] }));
        assert_eq!(done, "update NodeName=n12 State=POWER_DOWN Reason=power-loop\n");
        assert_eq!(of.text("sinfo.asked"), "-h -N -p gpu -n n[01-17] -o %N %T\n");
        let log = of.text("log");
        assert!(log.contains("9 of 15 nodes in use, 12 powered; 11 to be powered (by_the_rule)"), "{log}");
        // The state is what the decision reads. A slot is kept once, and nothing of a line that was cut off.
        crate::power::forward::decide::state("asked", &request.to_string()).unwrap();
        let cut = of.text("state/slots-gpu-600-0") + "{\"at\": \"2024-03-01T09";
        of.write("state/slots-gpu-600-0", &cut.replace("09:10", "09:00"));
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        assert_eq!(of.ran().0["slots"], serde_json::json!([slot("2024-03-01T09:00:00Z", 12)]));
        of.write("state/slots-gpu-600-0", &cut[..cut.rfind('{').unwrap()]);
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        assert!(of.text("log").contains("the slot of 2024-03-01T09:10:00Z is kept already"), "{}", of.text("log"));
        // The nodes powered in the next slot are those ordered for it, whatever Slurm woke
        // meanwhile.
        of.write("clock", "2024-03-01T09:33:20Z");
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        assert_eq!(of.ran().0["slots"], serde_json::json!([first, slot("2024-03-01T09:20:00Z", 11)]));
    }

    #[test]
    fn the_loop_wakes_nodes_that_sleep_and_no_more_than_there_are() {
        let of = Loop::new("15.0");
        assert_eq!(of.once(&[&of.plan()], false), Some(0));
        let (request, done) = of.ran();
        assert_eq!(done, "update NodeName=n13,n14 State=POWER_UP Reason=power-loop\n");
        // Without a partition nobody says which waiting jobs need these nodes.
        assert_eq!((request.get("pool"), &request["slots"][0]["pending"]), (None, &0.into()));
        assert!(of.text("log").contains("NOTE: waiting jobs are not counted"), "{}", of.text("log"));
    }

    /// Regression test: the loop went on after the promise had ended, logged none of the notes, and
    /// took nodes for powered that scontrol had refused to wake.
    #[test]
    fn notes_are_told_an_ended_promise_wakes_only_and_what_failed_was_not_ordered() {
        let of = Loop::new("11.0");
        let answer = of.text("answer");
        let with = |until: &str| {
            let told = format!(
                "  \"promised_until\": \"{until}\",\n  \"notes\": [\n    \"One.\",\n    \"Two.\"\n  ],\n  \"held\""
            );
            answer.replace("  \"held\"", &told)
        };
        of.write("answer", &with("2024-03-01T09:00:00Z"));
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        let log = of.text("log");
        for told in
            ["NOTE: One.\n", "NOTE: Two.\n", "the promise held until 2024-03-01T09:00:00Z: no node is put to sleep"]
        {
            assert!(log.contains(told), "{told}: {log}");
        }
        assert_eq!(
            (of.text("scontrol.log"), of.text("state/slots-gpu-600-0.order")),
            (String::new(), "12\n".to_owned())
        );
        of.write("answer", &with("2024-03-01T10:00:00Z"));
        of.write("bin/scontrol", "#!/bin/sh\nexit 1\n");
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(1));
        assert_eq!(of.text("state/slots-gpu-600-0.order"), "12\n");
    }

    #[test]
    fn canaries_stay_awake() {
        let kept = PowerPlan { canaries: Some("n12,n10".to_owned()), ..plan(vec![pool("gpu", "n[01-17]", 17)]) };
        let of = Loop::of(&kept, "3.0");
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        assert_eq!(of.ran().1, "update NodeName=n11 State=POWER_DOWN Reason=power-loop\n");
    }

    #[test]
    fn the_loop_changes_nothing_where_it_does_not_know() {
        let dry = Loop::new("3.0");
        assert_eq!(dry.once(&[&dry.plan()], true), Some(0));
        let would = "would run: scontrol update NodeName=n10,n11,n12 State=POWER_DOWN";
        assert!(dry.text("log").contains(would), "{}", dry.text("log"));
        assert_eq!(
            (dry.text("state/slots-600-0"), dry.text("state/slots-600-0-dry").lines().count()),
            (String::new(), 1)
        );
        let silent = Loop::new("3.0");
        silent.write("nodes", "");
        assert_eq!(silent.once(&[&silent.plan()], false), Some(1));
        assert!(silent.text("log").contains("sinfo names no nodes"), "{}", silent.text("log"));
        let busy = Loop::new("3.0");
        busy.write("busy", "");
        assert_eq!(busy.once(&[&busy.plan(), "gpu"], false), Some(1));
        assert!(busy.text("log").contains("squeue does not answer"), "{}", busy.text("log"));
        let odd = Loop::new("\"many\"");
        assert_eq!(odd.once(&[&odd.plan()], false), Some(1));
        assert!(odd.text("log").contains("no count in the answer"), "{}", odd.text("log"));
        let mute = Loop::new("3.0");
        mute.write("bin/tracecast", "#!/bin/sh\nexit 1\n");
        assert_eq!(mute.once(&[&mute.plan()], false), Some(1));
        // Nobody says which nodes.
        let mut unnamed = plan(vec![pool("gpu", "n[01-17]", 17)]);
        unnamed.pools.iter_mut().for_each(|pool| pool.nodes = None);
        let unnamed = Loop::of(&unnamed, "3.0");
        assert_eq!(unnamed.once(&[&unnamed.plan()], false), Some(1));
        assert!(unnamed.text("log").contains("POWER_PARTITION or POWER_NODES"), "{}", unnamed.text("log"));
        for of in [&dry, &silent, &busy, &odd, &mute, &unnamed] {
            assert_eq!(of.text("scontrol.log"), "");
        }
        for of in [&silent, &busy, &mute, &unnamed] {
            assert_eq!(
                (of.text("state/slots-600-0"), of.text("state/slots-gpu-600-0")),
                (String::new(), String::new())
            );
        }
        let wrong = [vec!["/no/such/plan".to_owned()], vec![], vec![dry.plan(), "a b".to_owned()]];
        let codes = wrong.map(|of| dry.once(&of.iter().map(String::as_str).collect::<Vec<_>>(), false));
        assert_eq!(codes, [Some(1), Some(2), Some(1)]);
    }

    /// Slots of two seconds by the real clock. Each is kept once, and what passed while tracecast hung is left out.
    #[test]
    fn the_loop_keeps_slot_after_slot_and_makes_none_up() {
        let of = Loop::new("11.0");
        std::fs::remove_file(of.0.path().join("bin/date")).unwrap();
        of.answer("11.0", "00:00:02");
        let hangs = of
            .text("bin/tracecast")
            .replace("cat ", "[ \"$(wc -l <$(dirname \"$0\")/../asked)\" != 2 ] || sleep 5\ncat ");
        of.write("bin/tracecast", &hangs);
        let mut running = of.command(&[&of.plan(), "gpu"]).env("POWER_SAMPLE_S", "1").spawn().unwrap();
        let late = "late; the next slot is that of";
        let (began, most) = (Instant::now(), Duration::from_secs(80));
        let kept = || of.text("state/slots-gpu-2-0").lines().count();
        while (kept() < 3 || !of.text("log").contains(late)) && began.elapsed() < most {
            std::thread::sleep(Duration::from_millis(200));
        }
        // The program `timeout` passes it on.
        Command::new("kill").arg(running.id().to_string()).status().unwrap();
        running.wait().unwrap();
        let slots = of.text("state/slots-gpu-2-0");
        let at = |line: &str| {
            crate::power::forward::decide::state("s", &format!("{{\"slots\": [{line}]}}")).unwrap().slots[0].at.clone()
        };
        let times: Vec<String> = slots.lines().map(at).collect();
        assert!(times.len() >= 3 && times.windows(2).all(|two| two[0] < two[1]), "{times:?}");
        assert!(of.text("log").contains(late), "{}", of.text("log"));
    }

    /// The plan knows nodes, and slurm.conf in which partitions they are.
    #[test]
    fn partitions_come_from_slurm_conf() {
        let conf = "NodeName=n[01-17] Gres=gpu:8\nNodeName=m1\nPartitionName=train Nodes=n[01-12]\nPartitionName=other Nodes=m1\nPartitionName=all Nodes=ALL\n";
        let mut options = ConfigOptions::default();
        options.slurm.conf = conf.to_owned();
        let rendered = render(&plan(vec![pool("gpu", "n[01-17]", 16)]), Target::Loop, &options).unwrap();
        let of = Loop::new("11.0");
        of.write("power-loop.sh", file(&rendered, "power-loop.sh"));
        assert_eq!(of.once(&[&of.plan()], false), Some(0));
        assert_eq!(of.text("sinfo.asked"), "-h -N -p train,all -n n[01-17] -o %N %T\n");
        assert_eq!(of.ran().0["slots"][0]["pending"], 3);
        let log = of.text("log");
        assert!(!log.contains("are not counted") && !log.contains("where the plan is of"), "{log}");
        assert!(rendered.warnings.iter().any(|told| told.contains("jobs that wait in train, all count")));
        // Pools that are partitions have the nodes of these.
        let mut pools = vec![pool("train", "n[01-12]", 12), pool("other", "m1", 1)];
        pools.iter_mut().for_each(|pool| pool.nodes = None);
        let several = render(&plan(pools), Target::Loop, &options).unwrap();
        let text = file(&several, "power-loop.sh");
        for told in [
            "'train')\n  planned=12\n  : \"${POWER_NODES:=n[01-12]}\"\n  : \"${POWER_PARTITION:=train}\"\n",
            ":=other}\"\n",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        // A job that waits in a partition over both would wake nodes of both.
        assert!(
            several.warnings.iter().any(|told| told.contains("wait in all do not count")),
            "{:?}",
            several.warnings
        );
        assert!(file(&several, "power-loop@.service").contains("/plan.tcm %i\n"));
        assert!(file(&rendered, "power-loop.service").contains("/plan.tcm\n"));
        assert!(file(&rendered, "power-loop.service").contains("\nUser=root\n"));
        // Where a partition has nodes that the file does not name, none is named here, so that no waiting job is missed unseen.
        for (odd, told) in [
            (
                "SlurmUser=slurm\nNodeSet=fast Feature=fast\nPartitionName=main Nodes=fast\n",
                "partition \"main\" has nodes that it does not name",
            ),
            ("PartitionName=\"a b\" Nodes=n01\n", "an odd name"),
        ] {
            options.slurm.conf = format!("{conf}{odd}");
            let rendered = render(&plan(vec![pool("gpu", "n[01-17]", 17)]), Target::Loop, &options).unwrap();
            assert!(rendered.warnings.iter().any(|warning| warning.contains(told)), "{:?}", rendered.warnings);
            assert!(!file(&rendered, "power-loop.sh").contains("POWER_PARTITION:=t"), "{odd}");
        }
        // The last line of a partition counts, and what another file has is not known here.
        options.slurm.conf =
            "NodeName=n[01-17]\nNodeName=m1\nPartitionName=b Nodes=n01\nPartitionName=b Nodes=m1\nInclude more.conf\n"
                .to_owned();
        let bare = render(&plan(vec![pool("gpu", "n[01-17]", 17)]), Target::Loop, &options).unwrap();
        for told in ["includes more.conf", "has no partition with its nodes in itself"] {
            assert!(bare.warnings.iter().any(|warning| warning.contains(told)), "{told}: {:?}", bare.warnings);
        }
        // A file that does not have them is no file of this plan.
        options.slurm.conf = "NodeName=m1\n".to_owned();
        let refused = render(&plan(vec![pool("gpu", "n[01-17]", 17)]), Target::Loop, &options).unwrap_err().to_string();
        assert!(refused.contains("n[01-17]"), "{refused}");
    }

    #[test]
    fn far_fewer_nodes_than_planned_are_told() {
        let of = Loop::of(&plan(vec![pool("gpu", "n[01-17]", 170)]), "11.0");
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        let told = "NOTE: 15 nodes in service where the plan is of 170";
        assert!(of.text("log").contains(told), "{}", of.text("log"));
    }

    #[test]
    fn beside_a_loop_slurm_puts_nothing_to_sleep_by_itself() {
        let conf = "NodeName=n[1-16] Gres=gpu:8\nPartitionName=gpu Nodes=n[1-16]\n";
        let mut options = ConfigOptions { beside_loop: true, ..ConfigOptions::default() };
        options.slurm.conf = conf.to_owned();
        let mut pools = vec![pool("gpu", "n[1-16]", 16)];
        pools.iter_mut().for_each(|pool| pool.keep_idle = 2);
        let written = |options: &ConfigOptions| {
            let rendered = render(&plan(pools.clone()), Target::Slurm, options).unwrap();
            let text = file(&rendered, "slurm.conf").to_owned();
            (text.contains("SuspendTime=2592000"), text.contains("SuspendExcNodes"))
        };
        assert_eq!(written(&options), (true, false));
        options.beside_loop = false;
        assert_eq!(written(&options), (false, true));
    }

    #[test]
    fn what_no_loop_can_carry_out_is_refused() {
        let told = |plan: &PowerPlan| render(plan, Target::Loop, &ConfigOptions::default()).unwrap_err().to_string();
        let undated = PowerPlan { begins_ms: Some(0), ..plan(vec![pool("gpu", "n[1-16]", 16)]) };
        assert!(told(&undated).contains("no dates"));
        let odd = plan(vec![pool("gpu", "n[1-16]", 16), pool("a b", "m[1-4]", 4)]);
        assert!(told(&odd).contains("a b"));
        let kept = PowerPlan { canaries: Some("n1;reboot".to_owned()), ..plan(vec![pool("gpu", "n[1-16]", 16)]) };
        assert!(told(&kept).contains("n1;reboot"));
    }
}
