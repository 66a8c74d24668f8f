//! Nodes with GPUs and two shards (`gres/shard`) for each in a real Slurm, on which a plan of
//! sharing rests where it is carried out in Slurm.
//!
//! With the 24.11 of Debian 13 a GPU is given whole or in shards, never both at once: two shards are the most that it gives, a job of a whole GPU waits until both are back, and a job of a shard waits until a whole GPU is. With the 22.05 of Debian 12 this holds
//! only until one of two shards is back: then the GPU counts as empty, and a job of a whole GPU starts beside the other shard.
//!
//! Two shards may lie on one GPU while others are empty. Among the GPUs of a node, that used least is chosen with `LL_SHARED_GRES` alone; 22.05 does not start with it, and fills one GPU
//! after another. Nodes are filled one after another by both, unless the partition has `LLN=YES`, by which a job goes to the node with most idle processors.
//!
//! `job_submit.lua` takes away what a job asks for by an empty text, as `nil` is an error that ends
//! the script. Resources are written `gres:gpu:1` in 22.05 and `gres/gpu:1` in 24.11, and each
//! refuses the other spelling.
//!
//! The lab has the Slurm of this Debian. What is expected of one that knows `LL_SHARED_GRES` was seen with 24.11, by the same jobs in a shell. Takes a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use crate::job_submit::field;
use crate::lab::Lab;

/// Two shards for each of the 8 GPUs of a node.
const SHARDS: u32 = 16;
/// GPUs of n1 that are given whole from the start, so that three are left.
const TAKEN: usize = 5;
const LEFT: usize = 3;
/// Time in which both schedulers look at a job twice.
pub(crate) const LOOKS: Duration = Duration::from_secs(5);
const SHARD: &str = "--gres=shard:1";
const WHOLE: &str = "--gres=gpu:1";
pub(crate) const LEAST_LOADED: &str = "LL_SHARED_GRES";

/// Jobs that write down which GPUs they got, and stay until they are cancelled.
struct Jobs<'a> {
    lab: &'a Lab,
    folder: PathBuf,
}

impl<'a> Jobs<'a> {
    fn new(lab: &'a Lab) -> Self {
        let folder = lab.home().join("gpus");
        create_dir(&folder).unwrap();
        // Users write it.
        set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        Self { lab, folder }
    }

    fn submit(&self, name: &str, extra: &[&str]) -> String {
        let script =
            format!("echo $SLURM_JOB_NODELIST:$SLURM_JOB_GPUS > {}/$SLURM_JOB_ID; sleep 300", self.folder.display());
        self.lab.submit("u1", name, extra, &script)
    }

    /// A job that starts: its node and its GPUs.
    fn starts(&self, job: &str) -> (String, BTreeSet<u32>) {
        self.lab.wait_for(job, "RUNNING");
        let file = self.folder.join(job);
        for _ in 0..100 {
            let said = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some((node, gpus)) = said.trim_end_matches('\n').split_once(':').filter(|_| said.ends_with('\n')) {
                return (node.to_owned(), gpus.split(',').map(|gpu| gpu.parse().unwrap()).collect());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("job {job} has not said which GPUs it got");
    }

    /// A job of one GPU, or of a part of one, of n1, which starts.
    fn on_first(&self, name: &str, asked: &str) -> (String, u32) {
        let job = self.submit(name, &["-w", "n1", asked]);
        let (node, gpus) = self.starts(&job);
        assert_eq!((node.as_str(), gpus.len()), ("n1", 1), "{name}");
        (job, *gpus.first().unwrap())
    }

    /// A job of one GPU, or of a part of one, of n1, which has to wait.
    fn waits(&self, name: &str, asked: &str) -> String {
        let job = self.submit(name, &["-w", "n1", asked]);
        self.still_waits(&job);
        job
    }

    fn still_waits(&self, job: &str) {
        std::thread::sleep(LOOKS);
        assert_eq!(field(self.lab, job, "JobState").as_deref(), Some("PENDING"), "job {job}");
    }

    fn end(&self, jobs: &[&str]) {
        self.lab.output("scancel", jobs);
    }

    fn end_all(&self) {
        self.end(&["-u", "u1"]);
        self.lab.run(&["wait", "60"]);
    }

    /// Number of jobs that each node gets, of so many that ask for one shard each.
    fn by_node(&self, jobs: usize) -> BTreeMap<String, usize> {
        let jobs: Vec<String> = (0..jobs).map(|_| self.submit("shard", &[SHARD])).collect();
        let mut nodes = BTreeMap::new();
        for job in &jobs {
            *nodes.entry(self.starts(job).0).or_default() += 1;
        }
        self.end_all();
        nodes
    }
}

/// Whether the lab chooses the GPU that is used least. If not, its Slurm is one that does not know how.
fn spreads(lab: &Lab) -> bool {
    let config = lab.output("scontrol", &["show", "config"]);
    if config.contains(LEAST_LOADED) {
        return true;
    }
    let conf = std::fs::read_to_string(lab.home().join("slurm.conf")).unwrap();
    let with = conf.replace("SelectTypeParameters=CR_Core", &format!("SelectTypeParameters=CR_Core,{LEAST_LOADED}"));
    assert_ne!(conf, with);
    let file = lab.home().join("least-loaded.conf");
    std::fs::write(&file, with).unwrap();
    let Output { status, stderr, .. } = lab.command("scontrol").env("SLURM_CONF", &file).arg("ping").output().unwrap();
    let told = String::from_utf8_lossy(&stderr);
    assert!(
        !status.success() && told.contains(&format!("Bad SelectTypeParameter: {LEAST_LOADED}")),
        "{status}: {told}"
    );
    false
}

/// Checks, on three GPUs that are left, that each is given whole or in shards.
fn is_whole_or_in_shards(jobs: &Jobs<'_>, spreads: bool) {
    let taken = jobs.starts(&jobs.submit("taken", &["-w", "n1", &format!("--gres=gpu:{TAKEN}")])).1;
    assert_eq!(taken.len(), TAKEN);
    let mut shards: Vec<(String, u32)> = (0..LEFT).map(|_| jobs.on_first("shard", SHARD)).collect();
    let shared: BTreeSet<u32> = shards.iter().map(|(_, gpu)| *gpu).collect();
    // Though three were empty.
    assert_eq!(shared.len(), if spreads { 3 } else { 2 }, "{shards:?}");
    assert!(shared.is_disjoint(&taken), "{shared:?} and {taken:?}");

    // Whole ones are those where nobody has a shard, and no other.
    let mut whole: Vec<(String, u32)> = (shared.len()..LEFT).map(|_| jobs.on_first("whole", WHOLE)).collect();
    assert!(whole.iter().all(|(_, gpu)| !shared.contains(gpu) && !taken.contains(gpu)), "{whole:?} and {shared:?}");
    let waiting = jobs.waits("one more whole", WHOLE);
    jobs.end(&[&waiting]);

    // Two shards a GPU, and none of a whole one.
    while shards.len() < 2 * shared.len() {
        shards.push(jobs.on_first("shard", SHARD));
    }
    for gpu in &shared {
        assert_eq!(shards.iter().filter(|(_, other)| other == gpu).count(), 2, "{shards:?}");
    }
    let waiting = jobs.waits("one more shard", SHARD);
    jobs.end(&[&waiting]);

    // One shard is back, and then the other. An older Slurm knows no more of the other.
    let gpu = shards[0].1;
    let both: Vec<&str> = shards.iter().filter(|(_, other)| *other == gpu).map(|(job, _)| job.as_str()).collect();
    let waiting = jobs.waits("one more whole", WHOLE);
    jobs.end(&both[..1]);
    if spreads {
        jobs.still_waits(&waiting);
        jobs.end(&both[1..]);
        assert_eq!(jobs.starts(&waiting).1, BTreeSet::from([gpu]));
    } else {
        assert_eq!(jobs.starts(&waiting).1, BTreeSet::from([gpu]));
        assert_eq!(field(jobs.lab, both[1], "JobState").as_deref(), Some("RUNNING"));
        jobs.end(&both[1..]);
    }
    whole.push((waiting, gpu));

    // A whole one is back.
    shards.retain(|(_, other)| *other != gpu);
    let waiting = jobs.waits("one more shard", SHARD);
    let (back, gpu) = &whole[0];
    jobs.end(&[back]);
    assert_eq!(jobs.starts(&waiting).1, BTreeSet::from([*gpu]));
    jobs.end_all();
}

/// Two nodes get ten jobs of a shard.
fn fills_one_node_first(lab: &Lab, jobs: &Jobs<'_>) {
    assert_eq!(jobs.by_node(10), BTreeMap::from([("n1".to_owned(), 10)]));
    lab.output("scontrol", &["update", "PartitionName=gpu", "LLN=YES"]);
    assert_eq!(jobs.by_node(10), BTreeMap::from([("n1".to_owned(), 5), ("n2".to_owned(), 5)]));
}

/// Makes a shard of one GPU, where `part` is what a job of a shard asks for and `none` what takes away that it asks for one.
fn script(none: &str, part: &str) -> String {
    format!(
        "function slurm_job_submit(job_desc, part_list, submit_uid)
  local asked = job_desc.tres_per_node or job_desc.tres_per_job or \"\"
  if job_desc.name == \"small\" and (asked == \"gres/gpu:1\" or asked == \"gres:gpu:1\") then
    job_desc.tres_per_job = {none}
    job_desc.tres_per_node = {part}
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, submit_uid)
  return slurm.SUCCESS
end
"
    )
}

/// Jobs of one GPU, however they ask for it, get a shard by a script.
fn is_asked_for_by_a_script(lab: &Lab, jobs: &Jobs<'_>) {
    let install = |none: &str, part: &str| {
        // A script is read again by the second in which it was written.
        std::thread::sleep(Duration::from_millis(1100));
        let file = jobs.folder.join("job_submit.lua");
        std::fs::write(&file, script(none, part)).unwrap();
        lab.run(&["lua", file.to_str().unwrap()]);
    };
    // What a job gets: a shard or not, once it runs.
    let gets_shard = |name: &str, asked: &str| {
        let job = jobs.submit(name, &[asked]);
        jobs.starts(&job);
        let told = lab.output("scontrol", &["show", "job", "-d", &job]);
        assert_ne!(told.contains("GRES=shard:1"), told.contains("GRES=gpu:a100:1"), "{told}");
        told.contains("GRES=shard:1")
    };
    let as_asked = "string.gsub(asked, \"gpu\", \"shard\")";
    install("\"\"", as_asked);
    for asked in [WHOLE, "--gpus=1", "--gpus-per-node=1"] {
        assert!(gets_shard("small", asked), "{asked}");
        assert!(!gets_shard("large", asked), "{asked}");
    }
    // The script does not know it.
    assert!(!gets_shard("small", "--gres=gpu:a100:1"));

    install("nil", as_asked);
    assert!(!gets_shard("small", WHOLE));
    assert!(lab.controller_log().contains("string expected, got nil"));

    // One of the two is refused.
    let is_taken = |part: &str| {
        install("\"\"", part);
        let arguments =
            ["--uid=u1", "-A", "research", "-D", "/", "-o", "/dev/null", "-J", "small", WHOLE, "--wrap", "true"];
        let Output { status, stderr, .. } = lab.command("sbatch").args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&stderr);
        assert!(status.success() || told.contains("Invalid Trackable RESource"), "{told}");
        status.success()
    };
    assert_ne!(is_taken("\"gres/shard:1\""), is_taken("\"gres:shard:1\""));
}

#[test]
fn gpus_are_given_whole_or_in_shards() {
    let Some(lab) = Lab::with_shards(2, SHARDS) else { return };
    let jobs = Jobs::new(&lab);
    let spreads = spreads(&lab);
    println!("the GPU used least is chosen: {spreads}");
    is_whole_or_in_shards(&jobs, spreads);
    fills_one_node_first(&lab, &jobs);
    is_asked_for_by_a_script(&lab, &jobs);
}
