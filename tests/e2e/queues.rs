//! Files of `tracecast_planner::queues::emit` in a real Slurm, its partitions put as a patch into a
//! `slurm.conf` that is there: it takes them, lets a VC borrow the idle nodes of another, and stops
//! the job that borrows when the other needs its guaranteed nodes.
//!
//! Two nodes of 8 GPUs, one each of the VCs vision and speech. Takes about a minute with the start of the lab.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tracecast_analytics::Trace;
use tracecast_planner::plan::emit::own::OwnFile;
use tracecast_planner::queues::against;
use tracecast_planner::queues::share::Sharing;
use tracecast_planner::queues::{self, QueuesAnswer, QueuesRequest, SearchRun, emit};
use tracecast_planner::replay::input::Loaded;
use tracecast_planner::sim::{Cluster, Policy, Scan, Shape, Workload};

use crate::lab::Lab;

/// A plan for vision and speech, a node each: speech asks for more than it has, vision for less.
fn plan() -> QueuesAnswer {
    let mut workload = Workload::default();
    for job in 0..300 {
        workload.push(job * 600_000, 18 * 60_000, Shape::whole(6));
        workload.push(job * 600_000, 5 * 60_000, Shape::whole(2));
    }
    workload.vc = (0..600).map(|job| job % 2).collect();
    workload.predicted_s = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
    let loaded = Loaded {
        recorded_start_ms: workload.submit_ms.iter().map(|submit| Some(*submit)).collect(),
        cluster: Cluster::of_vcs(&[("speech", 1, 8), ("vision", 1, 8)]),
        workload,
        ..Loaded::default()
    };
    let request = QueuesRequest::of_list(None, Policy { scan: Scan::Skip, ..Policy::default() });
    let mut answer = queues::plan(&Trace::default(), &loaded, String::new(), &request, SearchRun::default()).unwrap();
    assert!(answer.is_advised());
    // Whichever way was best, the one with the most to be carried out is.
    let chosen = answer.body.chosen;
    answer.body.candidates[chosen].sharing = Sharing::Borrowing { ceiling: None, reclaim: true };
    answer.body.vcs.iter_mut().for_each(|vc| vc.most_gpus = None);
    answer
}

/// The lab's `slurm.conf` with these partitions in place of its own, as an operator had it before the plan.
pub(crate) fn own_partitions(lab: &Lab, partitions: &str) -> String {
    let before = std::fs::read_to_string(lab.home().join("slurm.conf")).unwrap();
    let kept: Vec<&str> = before.lines().filter(|line| !line.starts_with("PartitionName=")).collect();
    format!("{}\n{partitions}", kept.join("\n"))
}

/// Makes the lab what the plan says: its QOSs, its patch of the operator's own `slurm.conf` and its submission plugin. Gives the file as patched.
pub(crate) fn carry_out(lab: &Lab, folder: &Path, plan: &QueuesAnswer, own: &str) -> String {
    let nodes = format!("n[1-{}]", lab.nodes());
    let files = emit::slurm(plan, &nodes).unwrap();
    let content = |name: &str| files.iter().find(|(file, _)| file == name).unwrap().1.as_str();
    let script = folder.join("qos.sh");
    std::fs::write(&script, content("slurm-qos.sh")).unwrap();
    lab.output("sh", &[script.to_str().unwrap()]);
    let conf = folder.join("slurm.conf");
    std::fs::write(&conf, own).unwrap();
    let file = OwnFile::new("slurm.conf".to_owned(), own.to_owned()).unwrap();
    let (name, patch) = against::slurm(plan, &nodes, &[file]).unwrap().file;
    std::fs::write(folder.join(&name), &patch).unwrap();
    let applied = Command::new("git").args(["apply", &name]).current_dir(folder).output().unwrap();
    assert!(applied.status.success(), "{}\n{patch}", String::from_utf8_lossy(&applied.stderr));
    lab.run(&["install", conf.to_str().unwrap()]);
    let lua = folder.join("job_submit.lua");
    let body = content("slurm-job-submit.lua");
    let text = format!(
        "function slurm_job_submit(job_desc, part_list, submit_uid)\n{body}\nreturn slurm.SUCCESS\nend\n\
         function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)\nreturn slurm.SUCCESS\nend\n"
    );
    std::fs::write(&lua, text).unwrap();
    lab.run(&["lua", lua.to_str().unwrap()]);
    std::fs::read_to_string(&conf).unwrap()
}

fn squeue(lab: &Lab, job: &str) -> String {
    lab.output("squeue", &["-h", "-j", job, "-o", "%T %P"]).trim().to_owned()
}

#[test]
fn a_vc_borrows_and_gives_back() {
    let Some(lab) = Lab::up(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let own = own_partitions(
        &lab,
        "PartitionName=vision Nodes=n1 Default=YES MaxTime=60 # theirs\nPartitionName=speech Nodes=n2\n",
    );
    let text = carry_out(&lab, folder.path(), &plan(), &own);
    for kept in ["Default=YES MaxTime=60 PriorityTier=20 QOS=vision-own PreemptMode=OFF # theirs", "PreemptType="] {
        assert!(text.contains(kept), "{text}");
    }

    let node = |partition: &str, name: &str, seconds: &str| {
        let partition = format!("--partition={partition}");
        lab.submit("u1", name, &[&partition, "--gres=gpu:8"], &format!("sleep {seconds}"))
    };
    let own = node("speech", "own", "200");
    lab.wait_for(&own, "RUNNING");
    let borrows = node("speech", "borrows", "200");
    lab.wait_for(&borrows, "RUNNING");
    assert_eq!((squeue(&lab, &own), squeue(&lab, &borrows)), ("RUNNING speech".into(), "RUNNING speech-borrow".into()));
    // A requeued job waits two minutes before it may start again, so that both are seen.
    std::thread::sleep(Duration::from_secs(2));
    let needs = node("vision", "needs", "20");
    lab.wait_for(&needs, "RUNNING");
    assert_eq!(squeue(&lab, &needs), "RUNNING vision");
    assert_eq!(squeue(&lab, &own), "RUNNING speech");
    lab.wait_for(&borrows, "PENDING");
    assert!(lab.output("scontrol", &["show", "job", &borrows]).contains("Restarts=1"));
    lab.controller();
    println!("speech borrows a node of vision, and gives it back when vision needs it");
}
