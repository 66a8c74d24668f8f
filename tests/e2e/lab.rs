//! Labs: a real Slurm each on loopback, started and stopped by `tests/lab/slurm`.
//!
//! A test has a lab to itself. Two may be up at once, as tests mostly wait for jobs that sleep; they share neither ports nor files. A third test waits.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tracecast_analytics::Trace;
use tracecast_tests::{check, read};

/// Labs of the machine that the tests take (`TRACECAST_LAB`). The first is left to whoever starts
/// one by hand.
const LABS: [u8; 2] = [2, 3];
/// A further lab, for the test of labs themselves.
const ONE_MORE: u8 = 4;

/// The number of a lab that no other test has, be it of this process or of another.
struct Place {
    lab: u8,
    home: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Place {
    /// Waits until one of these is free.
    fn take(labs: &[u8]) -> Self {
        loop {
            if let Some(free) = labs.iter().copied().find_map(Self::free) {
                return free;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn free(lab: u8) -> Option<Self> {
        let home = std::env::temp_dir().join(format!("tracecast-slurm-{lab}"));
        let lock = File::create(home.with_extension("lock")).unwrap();
        lock.try_lock().ok()?;
        Some(Self { lab, home, _lock: lock })
    }
}

/// The lab; stopped however the test ends.
pub(crate) struct Lab {
    place: Place,
    nodes: u32,
    /// Environment of the lab script.
    settings: Vec<(&'static str, OsString)>,
}

impl Lab {
    /// A fresh lab of `nodes` nodes with 8 GPUs each; `None`, with the reason printed, where it may not be started.
    pub(crate) fn up(nodes: u32) -> Option<Self> {
        Self::with_scheduler(nodes, "bf_interval=2,sched_interval=2")
    }

    /// Starts a lab with other `SchedulerParameters`.
    pub(crate) fn with_scheduler(nodes: u32, scheduler: &str) -> Option<Self> {
        Self::with(nodes, scheduler, &[])
    }

    /// Starts a lab with nodes on switches, which this `topology.conf` describes to Slurm.
    pub(crate) fn on_switches(nodes: u32, scheduler: &str, switches: &Path) -> Option<Self> {
        Self::with(nodes, scheduler, &[("LAB_TOPOLOGY", switches.as_os_str())])
    }

    /// Starts a lab with nodes that have this beside GPUs (as a line of `NodeName` says it), of
    /// which jobs take processors and memory.
    pub(crate) fn on_hosts(nodes: u32, scheduler: &str, host: &str) -> Option<Self> {
        Self::with(nodes, scheduler, &[("LAB_NODE", host.as_ref()), ("LAB_SELECT", "CR_Core_Memory".as_ref())])
    }

    /// Starts a lab with nodes whose GPUs may be given in so many shards, all GPUs of a node
    /// together.
    pub(crate) fn with_shards(nodes: u32, shards: u32) -> Option<Self> {
        let shards = shards.to_string();
        Self::with(nodes, "bf_interval=2,sched_interval=2", &[("LAB_SHARDS", shards.as_ref())])
    }

    fn with(nodes: u32, scheduler: &str, others: &[(&'static str, &OsStr)]) -> Option<Self> {
        let wanted = std::env::var_os("TRACECAST_SLURM_LAB").is_some_and(|value| value == "1");
        tracecast_tests::skipped::record("a Slurm lab (root and TRACECAST_SLURM_LAB=1)", wanted);
        if !wanted {
            println!("skipped: starts a Slurm cluster on this machine as root; set TRACECAST_SLURM_LAB=1 to run it");
            return None;
        }
        let mut settings = vec![("LAB_SCHEDULER", OsString::from(scheduler))];
        settings.extend(others.iter().map(|(name, value)| (*name, (*value).to_owned())));
        Some(Self::start(Place::take(&LABS), nodes, settings))
    }

    fn start(place: Place, nodes: u32, settings: Vec<(&'static str, OsString)>) -> Self {
        let lab = Self { place, nodes, settings };
        // Of tests that were killed.
        if lab.home().exists() {
            lab.run(&["down"]);
        }
        lab.run(&["up", &nodes.to_string()]);
        lab
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Folder of its files.
    pub(crate) fn home(&self) -> &Path {
        &self.place.home
    }

    /// A command that talks to this lab.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        for name in ["LAB_TOPOLOGY", "LAB_NODE", "LAB_SELECT", "LAB_SHARDS"] {
            command.env_remove(name);
        }
        command
            .env("LAB", self.home())
            .env("TRACECAST_LAB", self.place.lab.to_string())
            .env("SLURM_CONF", self.home().join("slurm.conf"))
            .env("TZ", "UTC")
            .envs(self.settings.iter().map(|(name, value)| (*name, value.as_os_str())));
        command
    }

    /// The script that starts and stops labs.
    pub(crate) fn script() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/slurm")
    }

    /// Runs the lab script; its daemons must not hold our pipes open, so only verbs that start none are captured.
    pub(crate) fn run(&self, arguments: &[&str]) {
        let status = self.command(Self::script()).args(arguments).status().unwrap();
        assert!(status.success(), "lab {arguments:?}: {status}");
    }

    /// Standard output of a command that must succeed.
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(program).args(arguments).output().unwrap();
        assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// Slurm's output about limits, those of accounts as well if they are asked for, as `--site
    /// limits` takes it.
    pub(crate) fn limits(&self, of_accounts: bool) -> String {
        let accounts = of_accounts.then(|| self.output("sacctmgr", &["show", "assoc", "tree", "-P"]));
        [
            self.output("sacctmgr", &["show", "qos", "-P"]),
            accounts.unwrap_or_default(),
            self.output("scontrol", &["show", "partition"]),
            self.output("scontrol", &["show", "config"]),
        ]
        .concat()
    }

    /// Submits a job as `user` and gives its number.
    pub(crate) fn submit(&self, user: &str, name: &str, extra: &[&str], script: &str) -> String {
        let uid = format!("--uid={user}");
        let mut arguments = vec!["--parsable", &uid, "-A", "research", "-D", "/", "-o", "/dev/null", "-J", name];
        arguments.extend(["-N", "1", "-t", "5"]);
        arguments.extend(extra);
        arguments.extend(["--wrap", script]);
        self.output("sbatch", &arguments).trim().to_owned()
    }

    /// Submits a job of a second as its user would, not as root for the user: its number, and what the user was told.
    pub(crate) fn submit_as(&self, user: &str, extra: &[&str]) -> (String, String) {
        let mut arguments =
            vec!["-u", user, "--", "sbatch", "--parsable", "-A", "research", "-D", "/", "-o", "/dev/null"];
        arguments.extend(extra);
        arguments.extend(["--wrap", "sleep 1"]);
        let Output { status, stdout, stderr } = self.command("runuser").args(&arguments).output().unwrap();
        let told = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "runuser {arguments:?}: {told}");
        (String::from_utf8(stdout).unwrap().trim().to_owned(), told)
    }

    /// Output of `sacct` about all jobs, written to `file` and read by our reader.
    pub(crate) fn accounting(&self, file: &Path) -> Trace {
        // The accounting daemon is a moment behind the controller.
        std::thread::sleep(Duration::from_secs(2));
        std::fs::write(file, self.output(Self::script().to_str().unwrap(), &["sacct"])).unwrap();
        let trace = read(&[file.to_path_buf()]).unwrap();
        check(&trace);
        trace
    }

    /// Process of the controller, which must be running.
    pub(crate) fn controller(&self) -> u32 {
        assert!(self.output("scontrol", &["ping"]).contains("is UP"));
        std::fs::read_to_string(self.home().join("run/slurmctld.pid")).unwrap().trim().parse().unwrap()
    }

    /// Log of the controller.
    pub(crate) fn controller_log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.home().join("log/slurmctld.log")).unwrap()).into_owned()
    }

    /// Waits until `job` is in `state`.
    pub(crate) fn wait_for(&self, job: &str, state: &str) {
        self.wait_until(job, &[state]);
    }

    /// Waits until `job` has started, however short it runs.
    pub(crate) fn wait_for_start(&self, job: &str) {
        self.wait_until(job, &["RUNNING", "COMPLETING", "COMPLETED"]);
    }

    fn wait_until(&self, job: &str, states: &[&str]) {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            let state = self.output("squeue", &["-h", "-t", "all", "-j", job, "-o", "%T"]);
            if states.iter().any(|wanted| state.contains(wanted)) {
                return;
            }
            assert!(Instant::now() < until, "job {job} is {state}, and not {states:?}");
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(e) = self.command(Self::script()).arg("down").status() {
            eprintln!("the lab in {} could not be stopped: {e}", self.home().display());
        }
    }
}

#[test]
fn a_lab_beside_another_is_its_own() {
    let Some(lab) = Lab::up(1) else { return };
    let other = Lab::start(Place::take(&[ONE_MORE]), 1, Vec::new());
    // All GPUs of each, at the same time.
    for (lab, name) in [(&lab, "one"), (&other, "other")] {
        assert_eq!(lab.submit("u1", name, &["--gres=gpu:8"], "sleep 5"), "1");
    }
    lab.wait_for("1", "RUNNING");
    other.wait_for("1", "RUNNING");
    // The users are those of both, and stay.
    drop(other);
    let (next, _) = lab.submit_as("u1", &["--gres=gpu:8", "-J", "next"]);
    assert_eq!(next, "2");
    lab.run(&["wait", "60"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = lab.accounting(&folder.path().join("sacct.txt"));
    let names: Vec<_> = (0..trace.jobs.submit.len()).map(|ix| trace.jobs.name.get(ix).unwrap()).collect();
    assert_eq!(names, ["one", "next"]);
}
