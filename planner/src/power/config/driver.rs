//! The loop that keeps a promise, as a program for Slurm: `power-loop.sh` counts nodes, asks `tracecast decide power` every slot, and has Slurm wake nodes or put them to sleep.
//!
//! The program is the same for every plan: it reads when slots begin, and how long they are, from the first decision of the saved plan. What it needs to know of a site stands at its head. It keeps every
//! slot since the plan was made, as rules look back on peaks, and changes nothing where anything is not known: no answer, no nodes, a slot that was missed.
//!
//! Worked example: 16 nodes of which 9 are in use and 12 powered. Where 10 are wanted, two that are `idle` get `State=POWER_DOWN`; where 14 are, two that are `idle~` get `State=POWER_UP`.

use super::{Rendered, refuse};
use crate::error::Result;
use crate::power::plan::PowerPlan;

/// The program.
const PROGRAM: &str = include_str!("programs/power-loop.sh");

pub(super) fn render(plan: &PowerPlan) -> Result<Rendered> {
    if plan.begins_ms.is_some() {
        return refuse(
            "the trace has no dates, so that no clock can tell which slot of the plan it is; make the plan of a trace with dates",
        );
    }
    let mut warnings = vec![
        "power-loop.sh needs power saving in slurm.conf (the programs of --emit slurm) and a SuspendTime longer than nodes are ever idle, such as 2592000; its head says what else. Try it with POWER_DRY_RUN=1"
            .to_owned(),
    ];
    if plan.pools.len() > 1 {
        warnings.push(format!(
            "run one power-loop.sh for each of the {} pools, with the pool as its second argument; it takes the partition of that name",
            plan.pools.len()
        ));
    }
    Ok(Rendered { files: vec![("power-loop.sh".to_owned(), PROGRAM.to_owned())], diff: None, warnings })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::process::Command;

    use super::super::tests::{file, plan, pool};
    use super::super::{ConfigOptions, Target};
    use crate::power::plan::PowerPlan;

    /// The loop in a folder of its own. Slurm has the nodes that the file `nodes` says, and 3 for jobs that wait; tracecast answers as the file `answer` says and notes what it was asked.
    struct Loop(tempfile::TempDir);

    impl Loop {
        fn new(powered: &str) -> Self {
            use std::os::unix::fs::PermissionsExt;
            let folder = tempfile::tempdir().unwrap();
            let rendered =
                super::super::render(&plan(vec![pool("gpu", "n[1-16]", 16)]), Target::Loop, &ConfigOptions::default())
                    .unwrap();
            let here = folder.path().display().to_string();
            std::fs::create_dir(folder.path().join("bin")).unwrap();
            let write = |name: &str, text: &str| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            };
            write("power-loop.sh", file(&rendered, "power-loop.sh"));
            write("power-loop.conf", &format!("POWER_STATE={here}/state\nPOWER_LOG={here}/log\n"));
            write("plan.tcm", "");
            write("bin/sinfo", &format!("#!/bin/sh\ncat {here}/nodes\n"));
            write("bin/squeue", "#!/bin/sh\nprintf '2 Resources\\n1 Priority\\n9 Dependency\\n'\n");
            write("bin/scontrol", &format!("#!/bin/sh\necho \"$*\" >>{here}/scontrol.log\n"));
            // A date that stands still within the slot from 09:20 to 09:30 on.
            write(
                "bin/date",
                "#!/bin/sh\nif [ \"$*\" = +%s ]; then exec /bin/date -u -d 2024-03-01T09:23:20Z +%s; fi\nexec /bin/date \"$@\"\n",
            );
            write(
                "bin/tracecast",
                &format!("#!/bin/sh\ntr -d '\\n' >>{here}/asked\necho >>{here}/asked\ncat {here}/answer\n"),
            );
            write(
                "answer",
                &format!(
                    "{{\n  \"schema\": \"decide-power/1\",\n  \"at\": \"2024-03-01T00:00:00Z\",\n  \"until\": \"2024-03-01T00:10:00Z\",\n  \"powered\": {powered},\n  \"held\": \"by_the_rule\",\n  \"left\": {{\n    \"powered\": 99\n  }}\n}}\n"
                ),
            );
            // Nine in use (one of them drains), three idle, two asleep, one on its way; two that are down do not count.
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
                "drained~",
            ];
            let listed: Vec<String> = (1..).zip(nodes).map(|(at, state)| format!("n{at:02} {state}\n")).collect();
            // Listed for each partition.
            write("nodes", &[listed.concat(), listed.concat()].concat());
            Self(folder)
        }

        fn once(&self, arguments: &[&str], dry: bool) -> Option<i32> {
            let path = format!("{}:/usr/bin:/bin", self.0.path().join("bin").display());
            let mut command = Command::new("sh");
            command.arg(self.0.path().join("power-loop.sh")).args(arguments).env("PATH", path).env("POWER_ONCE", "1");
            command.env("POWER_DRY_RUN", if dry { "1" } else { "0" }).status().unwrap().code()
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
        }

        /// What tracecast was asked last, and what was asked of Slurm.
        fn ran(&self) -> (serde_json::Value, String) {
            let asked = self.text("asked");
            (serde_json::from_str(asked.lines().last().unwrap()).unwrap(), self.text("scontrol.log"))
        }

        fn plan(&self) -> String {
            self.0.path().join("plan.tcm").display().to_string()
        }
    }

    #[test]
    fn the_loop_counts_asks_and_puts_idle_nodes_to_sleep() {
        let of = Loop::new("10.2");
        assert_eq!(of.once(&[&of.plan()], false), Some(0));
        let (asked, done) = of.ran();
        // Of 15 nodes in service 12 are powered, and 11 are wanted.
        let slot = serde_json::json!({"at": "2024-03-01T09:10:00Z", "peak": 9, "last": 9, "pending": 3, "total": 15, "powered": 12});
        assert_eq!(asked, serde_json::json!({ "slots": [slot] }));
        assert_eq!(done, "update NodeName=n10 State=POWER_DOWN Reason=power-loop\n");
        assert!(
            of.text("log").contains("9 of 15 nodes in use, 12 powered; 11 to be powered (by_the_rule)"),
            "{}",
            of.text("log")
        );
        // The state is what the decision reads. A slot is kept once, and nothing of a line that was cut off.
        crate::power::decide::state("asked", &asked.to_string()).unwrap();
        let cut = of.text("state/slots.jsonl") + "{\"at\": \"2024-03-01T09";
        std::fs::write(of.0.path().join("state/slots.jsonl"), cut).unwrap();
        assert_eq!(of.once(&[&of.plan()], false), Some(0));
        assert_eq!(of.ran().0, asked);
        assert!(of.text("log").contains("the slot of 2024-03-01T09:10:00Z is kept already"), "{}", of.text("log"));
    }

    #[test]
    fn the_loop_wakes_nodes_that_sleep_and_no_more_than_there_are() {
        let of = Loop::new("15.0");
        assert_eq!(of.once(&[&of.plan(), "gpu"], false), Some(0));
        let (asked, done) = of.ran();
        assert_eq!(
            (asked["pool"].as_str(), done.as_str()),
            (Some("gpu"), "update NodeName=n13,n14 State=POWER_UP Reason=power-loop\n")
        );
    }

    #[test]
    fn the_loop_changes_nothing_where_it_does_not_know() {
        let dry = Loop::new("3.0");
        assert_eq!(dry.once(&[&dry.plan()], true), Some(0));
        assert!(
            dry.text("log").contains("would run: scontrol update NodeName=n10,n11,n12 State=POWER_DOWN"),
            "{}",
            dry.text("log")
        );
        let silent = Loop::new("3.0");
        std::fs::write(silent.0.path().join("nodes"), "").unwrap();
        assert_eq!(silent.once(&[&silent.plan()], false), Some(0));
        assert!(silent.text("log").contains("sinfo names no nodes"), "{}", silent.text("log"));
        assert_eq!(silent.text("state/slots.jsonl"), "");
        let odd = Loop::new("\"many\"");
        assert_eq!(odd.once(&[&odd.plan()], false), Some(0));
        assert!(odd.text("log").contains("no count in the answer"), "{}", odd.text("log"));
        for of in [&dry, &silent, &odd] {
            assert_eq!(of.text("scontrol.log"), "");
        }
        assert_eq!(
            (dry.once(&["/no/such/plan"], false), dry.once(&[], false), dry.once(&[&dry.plan(), "a b"], false)),
            (Some(1), Some(2), Some(1))
        );
        let undated = PowerPlan { begins_ms: Some(0), ..plan(vec![pool("gpu", "n[1-16]", 16)]) };
        assert!(
            super::super::render(&undated, Target::Loop, &ConfigOptions::default())
                .unwrap_err()
                .to_string()
                .contains("no dates")
        );
    }
}
