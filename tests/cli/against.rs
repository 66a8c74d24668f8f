//! `plan queues --against`, `plan share couples --against` and `plan share mig --against`: patches
//! to files of the user's own, applied by git.

use yaml_rust2::YamlLoader;

use super::*;

/// The plan of the sample, made and written in `folder`.
fn plan(folder: &Folder, arguments: &[&str]) -> std::process::Output {
    let sample = root().join("datasets/sample");
    Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args([
            "plan",
            "queues",
            sample.to_str().unwrap(),
            "--models",
            "none",
            "--scan",
            "skip",
            "--scale",
            "1.2",
            "--emit-to",
            "queues",
        ])
        .args(arguments)
        .current_dir(folder.path(""))
        .output()
        .unwrap()
}

fn git_apply(folder: &Folder, patch: &str, more: &[&str]) {
    let output = Command::new("git").args(["apply", patch]).args(more).current_dir(folder.path("")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn patches_put_the_plan_into_files_of_ones_own_and_take_it_back() {
    let folder = Folder::new();
    let output = plan(&folder, &["--emit", "kueue,slurm"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
    // As an operator has it: other quotas, comments, a key that nobody knows, no way to borrow.
    let emitted = read("queues/kueue.yaml");
    let mine: String = emitted
        .replace("\"cohortName\": \"tracecast\"", "\"cohortName\": \"all\"")
        .replace("\"nominalQuota\": ", "\"nominalQuota\": 1")
        .replace("\"namespaceSelector\": {}", "\"namespaceSelector\": {} # everybody\n  \"x-ours\": yes")
        .lines()
        .filter(|line| !line.contains("borrowingLimit"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(folder.path("kueue.yaml"), &mine).unwrap();
    let conf = "ClusterName=lab # ours\nPartitionName=vision Nodes=n[1-11] Default=YES MaxTime=3-0\nPartitionName=language Nodes=n[12-20]\n";
    std::fs::write(folder.path("slurm.conf"), conf).unwrap();
    let again = ["--emit", "kueue,slurm", "--force", "--against", "kueue.yaml", "--against", "slurm.conf"];
    let output = plan(&folder, &again);
    assert!(output.status.success(), "{}", stderr(&output));
    for told in
        ["kueue.patch: 12 changes to your files\n", " of the plan could not be put in, its head says which and why\n"]
    {
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    for who in ["kueue", "slurm"] {
        git_apply(&folder, &format!("queues/{who}.patch"), &[]);
    }
    let patched = read("kueue.yaml");
    let quotas = |text: &str, key: &str| {
        let documents = YamlLoader::load_from_str(text).unwrap();
        let queues = documents.iter().filter(|of| of["kind"].as_str() == Some("ClusterQueue"));
        let of =
            |queue: &yaml_rust2::Yaml| queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0][key].as_i64();
        queues.map(of).collect::<Vec<_>>()
    };
    for key in ["nominalQuota", "borrowingLimit"] {
        assert_eq!(quotas(&patched, key), quotas(&emitted, key), "{key}");
    }
    assert_ne!(quotas(&mine, "nominalQuota"), quotas(&emitted, "nominalQuota"));
    assert_eq!(patched.matches("# everybody\n  \"x-ours\": yes\n").count(), 6);
    assert_eq!((patched.matches("\"all\"").count(), patched.matches("tracecast\"").count()), (6, 0));
    // What is left without the user's own is what the schema takes.
    if let Some(schemas) = published::schemas() {
        published::conforms(&patched.replace("  \"x-ours\": yes\n", ""), &schemas);
    }
    let slurm = read("slurm.conf");
    assert!(slurm.contains("ClusterName=lab # ours\n") && slurm.contains("MaxTime=3-0 PriorityTier=20"), "{slurm}");
    assert!(slurm.contains("PartitionName=vision-borrow Nodes=ALL Default=NO MaxTime=3-0 PriorityTier=10"), "{slurm}");
    assert!(read("queues/slurm.patch").contains("# Not in this patch:"), "VCs without a partition are told");
    for (who, file, before) in [("kueue", "kueue.yaml", mine.as_str()), ("slurm", "slurm.conf", conf)] {
        git_apply(&folder, &format!("queues/{who}.patch"), &["-R"]);
        assert_eq!(read(file), before);
    }
}

#[test]
fn a_file_of_ones_own_is_never_written_over() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("queues")).unwrap();
    std::fs::write(folder.path("queues/kueue.yaml"), "kind: ClusterQueue # mine\n").unwrap();
    let output = plan(&folder, &["--emit", "kueue", "--force", "--against", "queues/kueue.yaml"]);
    assert!(!output.status.success() && stderr(&output).contains("name another folder"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path("queues/kueue.yaml")).unwrap(), "kind: ClusterQueue # mine\n");
}

#[test]
fn a_file_that_nobody_reads_or_that_is_broken_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    std::fs::write(folder.path("slurm.conf"), "ClusterName=lab\n").unwrap();
    std::fs::write(folder.path("broken.yaml"), "a: [1\nb: 2\n").unwrap();
    for (file, why) in [("slurm.conf", "--emit names no slurm"), ("none.yaml", "none.yaml"), ("broken.yaml", "line 2")]
    {
        let output = plan(&folder, &["--emit", "kueue", "--against", file]);
        assert!(!output.status.success() && stderr(&output).contains(why), "{}", stderr(&output));
        assert!(!std::path::Path::new(&folder.path("queues")).exists());
    }
}

#[test]
fn a_plan_of_sharing_is_put_into_slurm_conf_and_gres_conf_and_taken_back() {
    let folder = Folder::new();
    let (pairs, profiles) = sharing::measured(&folder);
    let jobs = sharing::named_jobs(&folder);
    let slurm = "ClusterName=lab # ours\nSelectTypeParameters=CR_Core\nNodeName=n[1-4] Gres=gpu:v100:8 CPUs=64\nPartitionName=all Nodes=n[1-4]\n";
    let gres = "NodeName=n[1-4] Name=gpu Type=v100 File=/dev/nvidia[0-7]";
    let (slurm_conf, gres_conf) = (folder.file("slurm.conf", slurm), folder.file("gres.conf", gres));
    let plan = |more: &[&str]| {
        let asked = [
            "plan",
            "share",
            "couples",
            &jobs,
            "--pairs",
            &pairs,
            "--profiles",
            &profiles,
            "--slo",
            "2",
            "--gpus",
            "6",
        ];
        Command::new(env!("CARGO_BIN_EXE_tracecast"))
            .args(asked)
            .args(["--emit-to", "sharing", "--force"])
            .args(more)
            .current_dir(folder.path(""))
            .output()
            .unwrap()
    };
    let output = plan(&["--emit", "slurm", "--against", "slurm.conf", "--against", "gres.conf"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("slurm.patch: 5 changes to your files\n"), "{}", stderr(&output));
    let first = std::fs::read_to_string(folder.path("sharing/slurm.patch")).unwrap();
    git_apply(&folder, "sharing/slurm.patch", &[]);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let expected = "ClusterName=lab # ours\nSelectTypeParameters=CR_Core,LL_SHARED_GRES\nGresTypes=gpu,shard\nNodeName=n[1-4] Gres=gpu:v100:8,shard:16 CPUs=64\nPartitionName=all Nodes=n[1-4] LLN=YES\n";
    assert_eq!(read(&slurm_conf), expected);
    assert_eq!(read(&gres_conf), format!("{gres}\nNodeName=n[1-4] Name=shard Count=16\n"));
    // Regression: asked for again after it was applied, a patch that leaves something out was an
    // error.
    let applied = read(&slurm_conf);
    folder.file("slurm.conf", &format!("{applied}PartitionName=old Nodes=n1 LLN=NO\n"));
    let again = plan(&["--emit", "slurm", "--against", "slurm.conf", "--against", "gres.conf"]);
    assert!(again.status.success(), "{}", stderr(&again));
    let told = "slurm.patch: nothing to change in your files; 1 part of the plan could not be put in";
    assert!(stderr(&again).contains(told), "{}", stderr(&again));
    folder.file("slurm.conf", &applied);
    folder.file("sharing/slurm.patch", &first);
    git_apply(&folder, "sharing/slurm.patch", &["-R"]);
    assert_eq!((read(&slurm_conf), read(&gres_conf)), (slurm.to_owned(), gres.to_owned()));
    // Regression: files that do not suit were patched with nothing, and nodes got parts of GPUs
    // that gres.conf does not name.
    std::fs::write(&gres_conf, "NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-7]\n").unwrap();
    folder.file("cgroup.conf", "CgroupPlugin=autodetect\n");
    std::fs::remove_dir_all(folder.path("sharing")).unwrap();
    for (file, why) in [
        ("cgroup.conf", "no line of cgroup.conf (1 line), gres.conf (1 line) has NodeName and GPUs in its Gres"),
        ("slurm.conf", "gres.conf has no line for the GPUs of n3, n4"),
    ] {
        let refused = plan(&["--emit", "slurm", "--against", file, "--against", "gres.conf"]);
        assert!(!refused.status.success() && stderr(&refused).contains(why), "{}", stderr(&refused));
        assert!(!std::path::Path::new(&folder.path("sharing")).exists(), "{file}");
    }
    // What is left out of half a patch stands in the answer.
    folder.file("slurm.conf", &slurm.replace("NodeName=n[1-4] ", "NodeName=n[1-2] Gres=gpu:v100:8\nNodeName=n[3-4] "));
    let half = plan(&["--emit", "slurm", "--against", "slurm.conf", "--against", "gres.conf", "--format", "json"]);
    assert!(half.status.success(), "{}", stderr(&half));
    let left = &crate::json(&stdout(&half))["not_in_patch"];
    assert!(
        left.as_array().is_some_and(|left| left.len() == 1)
            && left.to_string().contains("nodes n[3-4]: gres.conf has no line"),
        "{left}"
    );
    let yaml = folder.file("plugin.yaml", "kind: ConfigMap\n");
    let refused = plan(&["--emit", "slurm,kubernetes", "--against", &yaml]);
    assert!(stderr(&refused).contains("merge the keys of kubernetes-sharing.yaml"), "{}", stderr(&refused));
}

#[test]
fn a_plan_of_partitions_is_put_into_slurm_conf_and_gres_conf_and_taken_back() {
    let folder = Folder::new();
    let asked = mig::asked(&folder);
    let slurm =
        "ClusterName=lab # ours\nNodeName=n[01-40] Gres=gpu:a100:4 CPUs=64 # all\nPartitionName=all Nodes=ALL\n";
    let gres = "NodeName=n[01-40] Name=gpu Type=a100 File=/dev/nvidia[0-3]\n";
    let (slurm_conf, gres_conf) = (folder.file("slurm.conf", slurm), folder.file("gres.conf", gres));
    let planned = |gpus: &str, more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tracecast"))
            .args(asked.iter().filter(|word| *word != "--quiet"))
            .args(["--gpus-per-node", gpus, "--emit", "slurm", "--emit-to", "mig", "--force"])
            .args(["--against", "slurm.conf", "--against", "gres.conf"])
            .args(more)
            .current_dir(folder.path(""))
            .output()
            .unwrap()
    };
    let plan = |gpus: &str| planned(gpus, &[]);
    let other = plan("8");
    let told = stderr(&other);
    assert!(
        !other.status.success()
            && told.contains("they have 4 GPUs each, and the plan is for 8; give --gpus-per-node 4"),
        "{told}"
    );
    assert!(!std::path::Path::new(&folder.path("mig")).exists());
    let output = plan("4");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("changes to your files\n"), "{}", stderr(&output));
    let first = std::fs::read_to_string(folder.path("mig/slurm.patch")).unwrap();
    git_apply(&folder, "mig/slurm.patch", &[]);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    // The nodes of each configuration have what slurm-mig.conf says; those that are not needed stay whole.
    let gres_of = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter(|line| line.starts_with("NodeName="));
        let words = lines.map(|line| line.split(' ').filter_map(|word| word.split_once('=')).collect::<Vec<_>>());
        words.map(|words| (words[0].1.to_owned(), words[1].1.to_owned())).collect()
    };
    let emitted = read(&folder.path("mig/slurm-mig.conf"));
    let (mine, wanted) = (read(&slurm_conf), gres_of(&emitted));
    let found = gres_of(&mine);
    assert!(wanted.len() > 1 && found.len() == wanted.len() + 1, "{mine}\n{emitted}");
    assert!(wanted.iter().all(|(_, gres)| found.iter().any(|(_, mine)| mine == gres)), "{mine}\n{emitted}");
    assert!(mine.contains(" Gres=gpu:a100:4 CPUs=64") && mine.matches("# all").count() == 1, "{mine}");
    let devices = read(&gres_conf);
    assert_eq!(devices.matches("AutoDetect=nvml").count(), 1, "{devices}");
    assert!(devices.contains("-40] Name=gpu Type=a100 File=/dev/nvidia[0-3]\n"), "{devices}");
    let again = plan("4");
    let told = stderr(&again);
    assert!(again.status.success() && told.contains("slurm.patch: nothing to change in your files\n"), "{told}");
    folder.file("mig/slurm.patch", &first);
    git_apply(&folder, "mig/slurm.patch", &["-R"]);
    assert_eq!((read(&slurm_conf), read(&gres_conf)), (slurm.to_owned(), gres.to_owned()));
    // What is left out stands in the answer.
    folder.file("slurm.conf", &format!("{slurm}NodeName=m[1-2] Gres=gpu:a100:8\n"));
    let some = planned("4", &["--format", "json"]);
    assert!(some.status.success(), "{}", stderr(&some));
    let left = &crate::json(&stdout(&some))["not_in_patch"];
    assert!(left.to_string().contains("m[1-2]") && left.to_string().contains("8 GPUs each"), "{left}");
}
