//! Patches of `plan share couples` and `plan share mig` in a real Slurm: the files of an operator
//! get shards, or slices, from the patch, Slurm loads them, jobs get what the plan says, and taking
//! the patch back brings the old files and whole GPUs.
//!
//! The lab has the Slurm of this Debian. 22.05 does not know `LL_SHARED_GRES` (`shards`) and refuses the patched file for it, so that the word is taken out there; with 24.11 it stays. No Slurm of Debian finds slices by itself (it is built without
//! NVML), and no GPU is there, so that slices are lines with `MultipleFiles`, as `slurm-mig-gres.conf` says. So `AutoDetect=nvml` is what is not tried. Takes two minutes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tracecast_planner::mig::demand::MigDemand;
use tracecast_planner::mig::emit::MigSite;
use tracecast_planner::mig::gpu::MigGpu;
use tracecast_planner::mig::rule::{MigPartitionRow, MigSliceCount};
use tracecast_planner::mig::{self, MigRequest};
use tracecast_planner::plan::emit::own::{OwnFile, Patch};
use tracecast_planner::plan::verdict::Verdict;
use tracecast_planner::sharing::answer::SharingPlanAnswer;
use tracecast_planner::sharing::emit::{self, SharingSite};
use tracecast_planner::sharing::{self, SharingRequest};
use tracecast_predictors::interference::read::sharing_of_all;
use tracecast_predictors::interference::share::SharingLimits;
use tracecast_predictors::interference::slice::SliceTable;
use tracecast_tests::{pairs, read};

use crate::job_submit::field;
use crate::lab::Lab;
use crate::shards::{LEAST_LOADED, LOOKS};

/// Files of the operator in a folder, and what the lab has.
struct Site<'a> {
    lab: &'a Lab,
    folder: tempfile::TempDir,
}

impl<'a> Site<'a> {
    /// The lab's own files, its GPUs of a type.
    fn with_gpus_of_a_type(lab: &'a Lab) -> Self {
        let site = Self { lab, folder: tempfile::tempdir().unwrap() };
        for (name, from, to) in
            [("slurm.conf", "Gres=gpu:8", "Gres=gpu:a100:8"), ("gres.conf", "Name=gpu", "Name=gpu Type=a100")]
        {
            let text = std::fs::read_to_string(lab.home().join(name)).unwrap();
            assert!(text.contains(from), "{text}");
            site.write(name, &text.replace(from, to));
        }
        site.load();
        site
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn files(&self) -> Vec<OwnFile> {
        ["slurm.conf", "gres.conf"].map(|name| OwnFile::new(name.to_owned(), self.text(name)).unwrap()).to_vec()
    }

    fn git_apply(&self, more: &[&str]) {
        let mut command = Command::new("git");
        let done = command.args(["apply", "slurm.patch"]).args(more).current_dir(self.folder.path()).output().unwrap();
        assert!(done.status.success(), "{}\n{}", String::from_utf8_lossy(&done.stderr), self.text("slurm.patch"));
    }

    fn apply(&self, patch: Patch) {
        let (name, text) = patch.file;
        assert!(patch.left.is_empty(), "{:?}", patch.left);
        self.write(&name, &text);
        self.git_apply(&[]);
    }

    /// Restarts the lab with both files.
    fn load(&self) {
        self.lab.run(&["install", &self.path("slurm.conf"), &self.path("gres.conf")]);
    }

    /// Generic resources of the nodes.
    fn gres(&self) -> Vec<String> {
        let told = self.lab.output("sinfo", &["-h", "-N", "-o", "%N %G"]);
        told.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn submit(&self, name: &str, extra: &[&str]) -> String {
        self.lab.submit("u1", name, extra, "sleep 300")
    }

    /// Generic resources of a job that starts, such as `shard:1(IDX:7)`.
    fn got(&self, job: &str) -> String {
        self.lab.wait_for(job, "RUNNING");
        let told = self.lab.output("scontrol", &["show", "job", "-d", job]);
        let of = told.lines().find_map(|line| line.trim().split_once(" GRES="));
        of.unwrap_or_else(|| panic!("{told}")).1.to_owned()
    }

    fn waits(&self, job: &str) {
        std::thread::sleep(LOOKS);
        assert_eq!(field(self.lab, job, "JobState").as_deref(), Some("PENDING"), "job {job}");
    }

    fn is_refused(&self, asked: &str) {
        let arguments = ["--uid=u1", "-A", "research", "-D", "/", "-o", "/dev/null", asked, "--wrap", "true"];
        let done = self.lab.command("sbatch").args(arguments).output().unwrap();
        assert!(!done.status.success(), "{asked}");
    }

    fn end_all(&self) {
        self.lab.output("scancel", &["-u", "u1"]);
        self.lab.run(&["wait", "60"]);
    }
}

fn is_old(lab: &Lab) -> bool {
    let version = lab.output("slurmctld", &["-V"]);
    let mut numbers = version.trim().rsplit(' ').next().unwrap().split('.').map(|part| part.parse::<u32>().unwrap());
    (numbers.next(), numbers.next()) < (Some(24), Some(11))
}

/// A plan of sharing for made-up pairs, of which the light ones share.
fn plan_of_sharing(folder: &Path) -> SharingPlanAnswer {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (measured, profiles) = pairs::measured_on("a100", 0.45);
    let table = sharing_of_all(&[write("pairs.csv", &measured)], &[write("profiles.csv", &profiles)]).unwrap();
    let trace = read(&[write("sacct.txt", &pairs::jobs_named(&pairs::job_types()))]).unwrap();
    let request = SharingRequest {
        eval_from_ms: None,
        gpus: Some(6),
        limits: SharingLimits { slo: 2.0, ..SharingLimits::default() },
        measured: 0,
        watched: false,
        seed: 1,
        gpu_types: Vec::new(),
        types: None,
    };
    let answer = sharing::answer::plan(&trace, &table, String::new(), &request, None, &()).unwrap();
    assert_eq!(answer.verdict, Verdict::Advised, "{:?}", answer.body.plans);
    answer
}

#[test]
fn a_patch_of_sharing_is_loaded_and_taken_back() {
    let Some(lab) = Lab::up(2) else { return };
    let site = Site::with_gpus_of_a_type(&lab);
    let before = (site.text("slurm.conf"), site.text("gres.conf"));
    let answer = plan_of_sharing(site.folder.path());
    let class = answer.body.plans.iter().find_map(|plan| plan.one_class()).unwrap();
    let alone = pairs::job_types().into_iter().find(|kind| !class.job_types.contains(kind)).unwrap();
    let (one, other) = (class.job_types.first().unwrap(), class.job_types.last().unwrap());
    println!("share: {}; not: {alone}", class.job_types.join(", "));

    let how = SharingSite::default();
    site.apply(sharing::against::slurm(&answer, &how, &site.files()).unwrap());
    if is_old(&lab) {
        let done = lab.command(Lab::script()).args(["install", &site.path("slurm.conf")]).status().unwrap();
        assert!(!done.success(), "{LEAST_LOADED} is refused");
        site.write("with.conf", &site.text("slurm.conf"));
        site.write("slurm.conf", &site.text("slurm.conf").replace(&format!(",{LEAST_LOADED}"), ""));
    }
    site.load();
    let shards: Vec<String> = site.gres().iter().map(|line| line.replace("shard:a100:", "shard:")).collect();
    assert_eq!(shards, ["n1 gpu:a100:8,shard:16", "n2 gpu:a100:8,shard:16"]);
    let files = emit::slurm(&answer, &how).unwrap();
    let lines = files.iter().find(|(name, _)| name == "slurm-sharing-job-submit.lua").unwrap();
    let script = format!(
        "function slurm_job_submit(job_desc, part_list, submit_uid)\n{}\nreturn slurm.SUCCESS\nend\n\
         function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)\nreturn slurm.SUCCESS\nend\n",
        lines.1
    );
    site.write("job_submit.lua", &script);
    lab.run(&["lua", &site.path("job_submit.lua")]);

    // One GPU of n1 is left: two that may share get it, asked for in either way, and a third waits, as does one that may not.
    let taken = site.submit(&alone, &["-w", "n1", "--gres=gpu:7"]);
    assert!(site.got(&taken).starts_with("gpu:a100:7"));
    let shared: Vec<String> = [(one, "--gres=gpu:1"), (other, "--gres=gpu:a100:1")]
        .map(|(kind, asked)| site.submit(kind, &["-w", "n1", asked]))
        .to_vec();
    let got: BTreeSet<String> = shared.iter().map(|job| site.got(job)).collect();
    assert!(got.len() == 1 && got.first().unwrap().contains("shard:"), "{got:?}");
    let asked = shared.iter().map(|job| field(&lab, job, "TresPerNode").unwrap().replace('/', ":"));
    assert_eq!(asked.collect::<Vec<_>>(), ["gres:shard:1", "gres:shard:a100:1"]);
    let third = site.submit(one, &["-w", "n1", "--gres=gpu:1"]);
    let whole = site.submit(&alone, &["-w", "n1", "--gres=gpu:1"]);
    site.waits(&third);
    site.waits(&whole);
    // On the empty node two of them get a GPU each.
    let elsewhere: Vec<String> = (0..2).map(|_| site.submit(&alone, &["-w", "n2", "--gres=gpu:a100:1"])).collect();
    let got: BTreeSet<String> = elsewhere.iter().map(|job| site.got(job)).collect();
    assert!(got.len() == 2 && got.iter().all(|got| got.starts_with("gpu:a100:1(")), "{got:?}");
    // A type that has no shards is refused as a shard, which is why the script leaves such a job alone.
    site.is_refused("--gres=shard:v100:1");
    site.end_all();

    // And back.
    if is_old(&lab) {
        site.write("slurm.conf", &site.text("with.conf"));
    }
    site.git_apply(&["-R"]);
    assert_eq!((site.text("slurm.conf"), site.text("gres.conf")), before);
    site.load();
    assert_eq!(site.gres(), ["n1 gpu:a100:8", "n2 gpu:a100:8"]);
    let whole = site.submit(one, &["--gres=gpu:1"]);
    assert!(site.got(&whole).starts_with("gpu:a100:1("));
    site.is_refused("--gres=shard:1");
    site.end_all();
}

/// A plan of partitions for 70 jobs that slices of one part of seven suit: 10 GPUs, on two nodes. Whichever partition was best, each GPU has seven alike.
fn plan_of_partitions(folder: &Path) -> mig::answer::MigAnswer {
    let mut steps = "model,batch,mig_profile,step_s_median\n".to_owned();
    let mut profiles = "model,batch,sm_util_pct,mem_util_pct,power_w,memory_used\n".to_owned();
    for model in 0..4 {
        let load = 0.05 + 0.05 * f64::from(model);
        profiles += &format!("m{model},8,{:.1},{:.1},{:.0},2000\n", 90.0 * load, 70.0 * load, 250.0 * load);
        for (name, share) in [("1g.5gb", 1.0f64 / 7.0), ("3g.20gb", 3.0 / 7.0), ("7g.40gb", 1.0)] {
            steps += &format!("m{model},8,{name},{:.5}\n", (1.0 + (load / share).powi(2)).sqrt());
        }
    }
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let slices = SliceTable::read(&write("steps.csv", &steps), &write("known.csv", &profiles)).unwrap();
    let demand = MigDemand::read(&write("demand.csv", "job,jobs\nm0 (batch size 8),70\n")).unwrap();
    let gpu = MigGpu::named("a100-40gb").unwrap();
    let mut answer = mig::answer::plan(&slices, gpu, String::new(), &demand, &MigRequest::default()).unwrap();
    assert_eq!((answer.verdict, answer.body.plan.gpus), (Verdict::Advised, 10));
    let alike = vec![MigSliceCount { profile: "1g.5gb".to_owned(), count: 7 }];
    answer.body.plan.partitions = vec![MigPartitionRow { partition: "7x1g.5gb".to_owned(), slices: alike, gpus: 10 }];
    answer
}

#[test]
fn a_patch_of_partitions_is_loaded_and_taken_back() {
    let Some(lab) = Lab::up(2) else { return };
    let site = Site::with_gpus_of_a_type(&lab);
    let before = (site.text("slurm.conf"), site.text("gres.conf"));
    let answer = plan_of_partitions(site.folder.path());
    site.apply(mig::against::slurm(&answer, &MigSite::default(), &site.files()).unwrap());
    let (conf, gres) = (site.text("slurm.conf"), site.text("gres.conf"));
    // The line of both nodes is divided, its ports as well.
    assert_eq!(conf.lines().filter(|line| line.starts_with("NodeName=")).count(), 2, "{conf}");
    assert_eq!(gres, "NodeName=n[1-2] AutoDetect=nvml\n");

    // NVML finds nothing here.
    let home = lab.home().display().to_string();
    let mut lines = String::new();
    let mut cap = 0;
    for (node, gpus) in [("n1", 8), ("n2", 2)] {
        for slice in 0..7 * gpus {
            let own: Vec<String> = (cap..cap + 2).map(|cap| format!("{home}/cap{cap}")).collect();
            cap += 2;
            own.iter().for_each(|file| drop(lab.output("mknod", &[file, "c", "1", "3"])));
            let files = format!("{home}/gpu{},{}", slice / 7, own.join(","));
            lines += &format!("NodeName={node} Name=gpu Type=a100_1g.5gb MultipleFiles={files}\n");
        }
    }
    lines += &format!("NodeName=n2 Name=gpu Type=a100 File={home}/gpu[2-7]\n");
    site.write("patched-gres.conf", &gres);
    site.write("gres.conf", &lines);
    site.load();
    assert_eq!(site.gres(), ["n1 gpu:a100_1g.5gb:56", "n2 gpu:a100:6,gpu:a100_1g.5gb:14"]);

    // Every slice and every whole GPU is given once.
    let job = |asked: &str| site.submit("m0 (batch size 8)", &[asked]);
    let whole: BTreeSet<String> = (0..6).map(|_| site.got(&job("--gres=gpu:a100:1"))).collect();
    assert!(whole.len() == 6 && whole.iter().all(|got| got.starts_with("gpu:a100:1(")), "{whole:?}");
    // No slice counts as a whole one. Who waits for one keeps others from its node.
    let waiting = job("--gres=gpu:a100:1");
    site.waits(&waiting);
    lab.output("scancel", &[&waiting]);
    let all = site.submit("m0 (batch size 8)", &["-w", "n1", "--gres=gpu:a100_1g.5gb:55"]);
    assert!(site.got(&all).starts_with("gpu:a100_1g.5gb:55"));
    let last: Vec<String> = (0..15).map(|_| job("--gres=gpu:a100_1g.5gb:1")).collect();
    let got: BTreeSet<(String, String)> =
        last.iter().map(|job| (site.got(job), field(&lab, job, "NodeList").unwrap())).collect();
    assert!(got.len() == 15 && got.iter().all(|(got, _)| got.starts_with("gpu:a100_1g.5gb:1(")), "{got:?}");
    site.waits(&job("--gres=gpu:a100_1g.5gb:1"));
    site.end_all();

    // With whole GPUs behind slices, all is as it should be, unless there are shards somewhere: then 22.05 takes each file of a slice for a GPU. So no patch of sharing is made for such files.
    let turned = conf.replace("gpu:a100:6,gpu:a100_1g.5gb:14", "gpu:a100_1g.5gb:14,gpu:a100:6");
    assert_ne!(turned, conf);
    for (kinds, gets) in [("gpu", "gpu:a100:1(IDX:14)"), ("gpu,shard", "gpu:a100:0(IDX:)")] {
        site.write("slurm.conf", &turned.replace("GresTypes=gpu\n", &format!("GresTypes={kinds}\n")));
        site.load();
        let got = site.got(&site.submit("whole", &["--gres=gpu:a100:1"]));
        println!("behind slices, with GresTypes={kinds}, a job of a whole GPU gets {got}");
        assert!(got == gets || !is_old(&lab), "{kinds}: {got}");
        site.end_all();
    }

    site.write("slurm.conf", &conf);
    site.write("gres.conf", &site.text("patched-gres.conf"));
    site.git_apply(&["-R"]);
    assert_eq!((site.text("slurm.conf"), site.text("gres.conf")), before);
    site.load();
    assert_eq!(site.gres(), ["n1 gpu:a100:8", "n2 gpu:a100:8"]);
    site.is_refused("--gres=gpu:a100_1g.5gb:1");
    assert!(site.got(&job("--gres=gpu:a100:1")).starts_with("gpu:a100:1("));
    std::thread::sleep(Duration::from_millis(200));
    site.end_all();
}
