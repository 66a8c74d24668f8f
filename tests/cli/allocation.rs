//! `plan allocation`, as a user meets it.

use serde_json::Value;

use super::*;

const RATES: &str = "\
gpu_type,job,gpus,steps_per_s
v100,vision,1,8
v100,vision,2,15
p100,vision,1,4
p100,vision,2,7
k80,vision,1,1
k80,vision,2,1.8
v100,text,1,3
p100,text,1,2.5
k80,text,1,1.5
k80,embedding,1,5
v100,embedding,1,4
p100,embedding,1,6
";

const JOBS: &str = "\
job,type,submit_s,gpus,steps,weight,user
a,vision,0,1,57600,,ua
b,text,0,1,21600,1,ua
c,embedding,0,1,36000,2,ub
d,vision,1800,2,54000,,
";

/// The arguments for drawn jobs on the rates of a folder.
pub(crate) fn drawn(folder: &Folder) -> Vec<String> {
    let rates = folder.file("rates.csv", RATES);
    ["plan", "allocation", &rates, "--fleet", "v100=2,p100=2,k80=2", "--draw", "12", "--runs", "hours", "--quiet"]
        .map(str::to_owned)
        .to_vec()
}

fn run(arguments: &[String], more: &[&str]) -> Output {
    let all: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
    tracecast(&all)
}

#[test]
fn policies_stand_beside_each_other_and_above_the_bound() {
    let folder = Folder::new();
    let output = run(&drawn(&folder), &["--seeds", "4", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // Times of this machine are told beside the answer, if that is not quiet.
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(answer["schema"], "plan-allocation/1");
    let number = |value: &Value| value.as_f64().unwrap();
    let rows = answer["policies"].as_array().unwrap();
    // All policies but that for jobs of one GPU, each on four sets of jobs.
    assert_eq!((rows.len(), answer["runs"].as_array().unwrap().len()), (10, 40));
    for row in rows {
        assert!(number(&row["mean_jct_s"]["value"]) >= number(&answer["limits"]["mean_jct_s"]["value"]), "{row}");
        assert!(number(&row["makespan_s"]["value"]) >= number(&answer["limits"]["makespan_s"]["value"]), "{row}");
        assert!(number(&row["mean_jct_s"]["low"]) <= number(&row["mean_jct_s"]["value"]), "{row}");
        assert!(row["held"].as_array().unwrap().iter().all(|held| (0.0..=1.0).contains(&number(held))), "{row}");
    }
    assert_eq!(number(&rows[0]["against_first"]["value"]), 0.0);
    let advice = &answer["advice"];
    assert_eq!(advice["chosen_apart"], true);
    assert!(answer["action"].as_str().unwrap().contains(advice["policy"].as_str().unwrap()));
    // The same seeds give the same bytes, whatever the threads.
    let again = run(&drawn(&folder), &["--seeds", "4", "--format", "json", "--threads", "1"]);
    assert_eq!(stdout(&again), stdout(&output));
    // What types are worth is told of allocations that are kept, too, unless that is what was asked.
    let two = ["--seeds", "1", "--policies", "max_min,max_min_aware", "--format", "json"];
    let anew = json(&stdout(&run(&drawn(&folder), &two)));
    assert!(anew["reallocate_s"] == 0.0 && anew["advice"]["kept_saving"]["value"].is_f64(), "{anew}");
    let kept = json(&stdout(&run(&drawn(&folder), &[&two[..], &["--reallocate", "40min"]].concat())));
    assert!(kept["reallocate_s"] == 2400.0 && kept["advice"]["kept_saving"].is_null(), "{kept}");
    assert!(number(&kept["runs"][0]["allocations"]) < number(&anew["runs"][0]["allocations"]));
    let single =
        run(&drawn(&folder), &["--seeds", "1", "--single-gpu", "--policies", "fifo,allox", "--format", "json"]);
    let single = json(&stdout(&single));
    assert_eq!(single["policies"].as_array().unwrap().len(), 2);
    assert_eq!(single["policies"][0]["mean_jct_s"]["low"], Value::Null);
}

#[test]
fn users_who_submit_in_bursts_are_told_of() {
    let folder = Folder::new();
    let bursts = ["--users", "3", "--burst", "3", "--rate", "12", "--seeds", "2", "--format", "json"];
    let output = run(&drawn(&folder), &bursts);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let rows = answer["policies"].as_array().unwrap();
    // The three policies between users come to the ten others.
    assert_eq!(rows.len(), 13);
    assert!(answer["drawn"].as_str().unwrap().contains("in bursts of 3 by 3 users"), "{}", answer["drawn"]);
    for row in rows {
        let had = |name: &str| row["users"][name]["value"].as_f64().unwrap();
        assert!(0.0 < had("had_least") && had("had_least") <= had("had_mean"), "{row}");
        assert!(had("had_mean") <= had("had_most") && had("had_most") <= 1.0, "{row}");
        assert!(had("shortest_jct_s") <= had("longest_jct_s"), "{row}");
    }
    let mut busy = drawn(&folder);
    busy.iter_mut().filter(|argument| *argument == "12").for_each(|jobs| "60".clone_into(jobs));
    let with = |alpha: &str| {
        let more = ["--users", "6", "--burst", "4", "--rate", "6", "--seeds", "1", "--policies", "karma", "--alpha"];
        stdout(&run(&busy, &[&more[..], &[alpha, "--format", "json"]].concat()))
    };
    assert_ne!(with("0"), with("1"));
    let text = stdout(&run(&drawn(&folder), &bursts[..8]));
    assert!(text.contains("What each user gets"), "{text}");
    // A partition keeps one of two GPUs for a user who has nothing to do: four jobs of an hour take four hours, and two under the others.
    let jobs = "job,type,submit_s,gpus,steps,user\na,text,0,1,10800,u\nb,text,0,1,10800,u\nc,text,0,1,10800,u\nd,text,0,1,10800,u\ne,text,0,1,3,v\n";
    let (rates, jobs) = (folder.file("rates.csv", RATES), folder.file("users.csv", jobs));
    let policies = "partition,user_max_min,karma";
    let two = ["plan", "allocation", &rates, "--fleet", "v100=2", "--jobs", &jobs, "--policies", policies];
    let two = json(&stdout(&tracecast(&[&two[..], &["--quiet", "--format", "json"]].concat())));
    let ends: Vec<f64> =
        two["runs"].as_array().unwrap().iter().map(|run| run["makespan_s"].as_f64().unwrap()).collect();
    assert!(ends[0] >= 4.0 * 3600.0 && ends[1..].iter().all(|end| *end <= 2.5 * 3600.0), "{ends:?}");
    // Without users there is nothing of them.
    let output = stdout(&run(&drawn(&folder), &["--seeds", "1", "--format", "json"]));
    assert!(!output.contains("\"users\""), "{output}");
}

#[test]
fn deadlines_are_told_of_beside_a_bound() {
    let folder = Folder::new();
    let due = ["--deadlines", "0.5:1.2-3", "--seeds", "2", "--format", "json"];
    let output = run(&drawn(&folder), &due);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let rows = answer["policies"].as_array().unwrap();
    // The three policies that know deadlines come to the ten others.
    assert_eq!(rows.len(), 13);
    let drawn_in_words = answer["drawn"].as_str().unwrap();
    assert!(drawn_in_words.contains("50.0 % with deadlines 1.20 to 3.00 runs alone"), "{drawn_in_words}");
    let share = |value: &Value| value["value"].as_f64().unwrap();
    for row in rows {
        let missed = share(&row["deadlines"]["missed"]);
        // The bound is for the GPUs that jobs ask for, which one policy changes.
        assert!(missed <= 1.0 && (row["policy"] == "genie" || missed >= share(&answer["limits"]["missed"])), "{row}");
        let admits = row["policy"] == "chronus";
        assert_eq!(row["deadlines"]["admitted"] != Value::Null, admits, "{row}");
    }
    let again = run(&drawn(&folder), &[&due[..], &["--threads", "1"]].concat());
    assert_eq!(stdout(&again), stdout(&output));
    // The jobs are those without deadlines, so policies that do not know them do the same.
    let without = json(&stdout(&run(&drawn(&folder), &["--seeds", "2", "--format", "json"])));
    assert_eq!(without["policies"][0]["mean_jct_s"], rows[0]["mean_jct_s"]);
    assert!(without["limits"]["missed"].is_null() && without["policies"][0]["deadlines"].is_null());
    let text = stdout(&run(&drawn(&folder), &due[..4]));
    assert!(text.contains("Who is late") && text.contains("chronus"), "{text}");
    // Of a file: a has 7,200 s for two hours of work on its fastest type, and is late for the round that it waits.
    let jobs =
        "job,type,submit_s,gpus,steps,deadline_s\na,vision,60,1,57600,7200\nb,text,0,1,21600,36000\nc,text,0,1,900,\n";
    let (rates, jobs) = (folder.file("rates.csv", RATES), folder.file("due.csv", jobs));
    let listed = ["plan", "allocation", &rates, "--fleet", "v100=2", "--jobs", &jobs, "--quiet", "--format", "json"];
    let listed = json(&stdout(&tracecast(&listed)));
    for row in listed["policies"].as_array().unwrap() {
        // On two GPUs it would not be, and one policy gives it two.
        let late = if row["policy"] == "genie" { (0.0, 0.0) } else { (0.5, 300.0) };
        assert_eq!(share(&row["deadlines"]["missed"]), late.0, "{row}");
        let late_s = &row["deadlines"]["late_s"];
        assert!(if late.1 == 0.0 { late_s.is_null() } else { share(late_s) >= late.1 }, "{row}");
    }
    assert_eq!(share(&listed["limits"]["missed"]), 0.0);
}

#[test]
fn processors_and_memory_are_divided() {
    let folder = Folder::new();
    let nodes = ["--gpus-per-node", "2", "--cpus-per-node", "6", "--memory-per-node", "100"];
    let drawn_with = |more: &[&str]| run(&drawn(&folder), &[&nodes[..], more].concat());
    let output = drawn_with(&["--classes", "30:60:10", "--seeds", "2", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let rows = answer["policies"].as_array().unwrap();
    // The three that divide come to the ten others; there are no users for drf.
    assert_eq!(rows.len(), 13);
    let row = |name: &str| rows.iter().find(|row| row["policy"] == name).unwrap();
    let number = |value: &Value| value["value"].as_f64().unwrap();
    for row in rows {
        let host = &row["host"];
        assert!((0.0..=1.0 + 1e-9).contains(&number(&host["speed"])) && number(&host["slower"]) == 0.0, "{row}");
        assert_eq!(host["of_most"].is_object(), row["policy"] == "synergy", "{row}");
        assert!(number(&row["mean_jct_s"]) >= number(&answer["limits"]["mean_jct_s"]), "{row}");
    }
    assert!(number(&row("synergy")["host"]["of_most"]) <= 1.0 + 1e-6);
    assert_eq!(row("proportional")["mean_jct_s"], row("las_aware")["mean_jct_s"]);
    // Nobody takes invented numbers for measured ones.
    assert_eq!(answer["host"]["invented"], true);
    assert!(answer["notes"].to_string().contains("invented") && answer["drawn"].as_str().unwrap().contains("invented"));
    let again = drawn_with(&["--classes", "30:60:10", "--seeds", "2", "--format", "json", "--threads", "1"]);
    assert_eq!(stdout(&again), stdout(&output));
    let text = stdout(&drawn_with(&["--classes", "30:60:10", "--seeds", "2"]));
    assert!(text.contains("What each policy makes of processors and memory") && text.contains("invented"), "{text}");
    // Where no job depends on them, and where nodes have none, nothing of times differs.
    let nothing = json(&stdout(&drawn_with(&["--seeds", "2", "--format", "json"])));
    let both = drawn_with(&["--seeds", "2", "--policies", "proportional,synergy", "--format", "json"]);
    let action = json(&stdout(&both))["action"].to_string();
    assert!(action.contains("Nothing is known of what jobs need") && action.contains("--host-table"), "{action}");
    let plain = run(&drawn(&folder), &["--gpus-per-node", "2", "--seeds", "2", "--format", "json"]);
    let plain = stdout(&plain);
    assert!(!plain.contains("\"host\""), "{plain}");
    let plain = json(&plain);
    for (with, without) in nothing["policies"].as_array().unwrap().iter().zip(plain["policies"].as_array().unwrap()) {
        assert_eq!((&with["policy"], &with["mean_jct_s"]), (&without["policy"], &without["mean_jct_s"]));
    }
    // drf comes with users.
    let users =
        ["--users", "3", "--burst", "3", "--rate", "12", "--seeds", "1", "--classes", "1:0:0", "--format", "json"];
    let users = json(&stdout(&drawn_with(&users)));
    let drf = users["policies"].as_array().unwrap().iter().find(|row| row["policy"] == "drf").unwrap();
    assert!(number(&drf["host"]["dominant"]["least"]) <= number(&drf["host"]["dominant"]["most"]), "{drf}");
}

#[test]
fn speeds_by_a_table_are_those_of_the_worked_example() {
    let folder = Folder::new();
    let rates = folder.file("rates.csv", RATES);
    // Of 6 processors for 2 GPUs, vision is at full speed with 4, and text with 1. Each runs for 2 h at full speed.
    let table = folder.file("table.csv", "job,cpus,memory_gb,speed\nvision,4,,10\ntext,1,,7\n");
    let jobs = folder.file("two.csv", "job,type,submit_s,gpus,steps\na,vision,0,1,57600\nb,text,0,1,21600\n");
    let node = ["--gpus-per-node", "2", "--cpus-per-node", "v100=6", "--memory-per-node", "100"];
    let asked = ["plan", "allocation", &rates, "--fleet", "v100=2", "--quiet", "--format", "json", "--jobs"];
    let all = |jobs: &str, more: &[&str]| tracecast(&[&asked[..], &[jobs], &node[..], more].concat());
    let policies = ["--host-table", &table, "--policies", "las_aware,proportional,synergy_greedy,synergy"];
    let answer = json(&stdout(&all(&jobs, &policies)));
    let means: Vec<f64> =
        answer["runs"].as_array().unwrap().iter().map(|run| run["mean_jct_s"].as_f64().unwrap()).collect();
    // 7,200 / 0.75 and 7,200; both at full speed.
    assert_eq!(means, [8400.0, 8400.0, 7200.0, 7200.0]);
    assert_eq!(answer["host"]["invented"], false);
    let saving = answer["host"]["advice"]["saving"]["value"].as_f64().unwrap();
    assert!((saving - 1.0 / 7.0).abs() < 1e-9 && answer["host"]["nodes"][0]["cpus"] == 6.0, "{answer}");
    // Who needs exact amounts waits until they are there: two that need 4 of 6 processors run one after the other, whatever the policy.
    let jobs = folder.file("exact.csv", "job,type,submit_s,gpus,steps,cpus\na,text,0,1,21600,4\nb,text,0,1,21600,4\n");
    for policy in ["fifo", "max_min", "proportional", "synergy_greedy", "synergy"] {
        let answer = json(&stdout(&all(&jobs, &["--policies", policy])));
        assert_eq!(answer["runs"][0]["makespan_s"], 14400.0, "{policy}");
    }
    let much = folder.file("much.csv", "job,type,submit_s,gpus,steps,cpus\na,text,0,1,21600,7\n");
    let told = stderr(&all(&much, &[]));
    assert!(told.contains("much.csv, line 2") && told.contains("7 processors"), "{told}");
    let bad = folder.file("bad.csv", "job,cpus,memory_gb,speed\nvision,1,,2\nvision,2,,1\n");
    let told = stderr(&all(&jobs, &["--host-table", &bad]));
    assert!(told.contains("bad.csv, line 3") && told.contains("slower"), "{told}");
    let other = folder.file("other.csv", "job,cpus,memory_gb,speed\nvideo,1,,2\n");
    let told = stderr(&all(&jobs, &["--host-table", &other]));
    assert!(told.contains("no job type of the throughputs") && told.contains("`vision`"), "{told}");
    // One that is misspelt beside one that is not is named.
    let some = folder.file("some.csv", "job,cpus,memory_gb,speed\nvison,1,,2\ntext,1,,2\n");
    let notes = json(&stdout(&all(&jobs, &["--host-table", &some])))["notes"].to_string();
    assert!(notes.contains("`vison`") && notes.contains("2 of the 3 job types"), "{notes}");
    assert!(notes.contains("by a table of 1 job type, and 2 jobs need exact amounts"), "{notes}");
    // Where nodes have no processors, what jobs need of them does not count, and that is told.
    let bare = tracecast(&[&asked[..], &[jobs.as_str()]].concat());
    assert!(json(&stdout(&bare))["notes"].to_string().contains("of 2 jobs do not count"), "{}", stderr(&bare));
    let bare = ["plan", "allocation", &rates, "--fleet", "v100=2", "--draw", "4", "--quiet"];
    let told = |more: &[&str]| stderr(&tracecast(&[&bare[..], more].concat()));
    assert!(told(&["--policies", "synergy"]).contains("--cpus-per-node 24"));
    assert!(told(&["--classes", "20:70:10"]).contains("--cpus-per-node"));
    assert!(told(&["--gpus-per-node", "2", "--cpus-per-node", "8"]).contains("--memory-per-node"));
    let wrong = ["--gpus-per-node", "2", "--cpus-per-node", "k80=8", "--memory-per-node", "9"];
    assert!(told(&wrong).contains("name each type of --fleet once"));
}

#[test]
fn jobs_of_a_file_as_text() {
    let folder = Folder::new();
    folder.file("rates.csv", RATES);
    folder.file("jobs.csv", JOBS);
    let output = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["plan", "allocation", "rates.csv", "--jobs", "jobs.csv", "--fleet", "v100=2,p100=1,k80=2", "--quiet"])
        .current_dir(folder.path(""))
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("backtest_allocation_jobs", stdout(&output));
}

#[test]
fn what_is_wrong_is_told() {
    let folder = Folder::new();
    let (rates, jobs) = (folder.file("rates.csv", RATES), folder.file("jobs.csv", JOBS));
    let told = |more: &[&str]| {
        let output = tracecast(&[&["plan", "allocation", &rates, "--quiet"], more].concat());
        assert!(!output.status.success());
        (output.status.code(), stderr(&output))
    };
    let (code, text) = told(&["--fleet", "h100=8", "--draw", "4"]);
    assert!(code == Some(2) && text.contains("name some of k80, p100, v100"), "{text}");
    assert!(told(&["--fleet", "v100", "--draw", "4"]).1.contains("write v100=8"));
    assert!(told(&["--fleet", "v100=2"]).1.contains("--jobs"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--policies", "lottery"]).1.contains("fifo_aware"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--policies", "fifo,fifo"]).1.contains("named twice"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--policies", "allox"]).1.contains("jobs of one GPU"));
    let (code, text) = told(&["--fleet", "v100=2", "--draw", "4", "--policies", "karma"]);
    assert!(code == Some(2) && text.contains("`user`") && text.contains("--users"), "{text}");
    let (code, text) = told(&["--fleet", "v100=2", "--draw", "4", "--policies", "fifo,edf"]);
    assert!(code == Some(2) && text.contains("`deadline_s`") && text.contains("--deadlines"), "{text}");
    for deadlines in ["0.5", "0:2", "0.5:0.9", "0.5:3-2", "NaN:2", "0.5:2-inf"] {
        let (code, text) = told(&["--fleet", "v100=2", "--draw", "4", "--deadlines", deadlines]);
        assert!(code == Some(2) && text.contains("0.5:1.5-4"), "{deadlines}: {text}");
    }
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--lease", "0"]).1.contains("--lease"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--users", "3"]).1.contains("--rate"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--alpha", "1.5"]).1.contains("between 0 and 1"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--burst", "NaN"]).1.contains("--burst"));
    assert!(told(&["--fleet", "v100=2", "--draw", "4", "--restart", "6min"]).1.contains("less than a round"));
    // One V100 has no room for a gang of two, on which d insists.
    let (code, text) = told(&["--fleet", "v100=1,k80=1", "--jobs", &jobs]);
    assert!(code == Some(1) && text.contains("jobs.csv, line 5") && text.contains("2 GPUs of no type"), "{text}");
    let bad = folder.file("bad.csv", "job,type,submit_s,gpus,steps\na,vision,0,1,inf\n");
    assert!(told(&["--fleet", "v100=1", "--jobs", &bad]).1.contains("line 2: `steps` is `inf`"));
    let late = folder.file("late.csv", "job,type,submit_s,gpus,steps,deadline_s\na,vision,0,1,9,0\n");
    assert!(told(&["--fleet", "v100=1", "--jobs", &late]).1.contains("line 2: `deadline_s` is `0`"));
    let none = folder.file("none.csv", "job,type,submit_s,gpus,steps\n");
    assert_eq!(told(&["--fleet", "v100=1", "--jobs", &none]).0, Some(5));
    let still = folder.file("still.csv", "gpu_type,job,gpus,steps_per_s\nv100,a,1,0\n");
    let output = tracecast(&["plan", "allocation", &still, "--fleet", "v100=1", "--draw", "2"]);
    assert!(stderr(&output).contains("no job type runs"), "{}", stderr(&output));
}

/// Files of the form of Synergy's repository, with made-up numbers.
#[test]
fn synergy_s_tables_become_a_host_table() {
    let folder = Folder::new();
    let table = |first: &str| {
        let rows: Vec<String> = (1..=9).map(|row| format!("[{first}, {row}, {row}, {row}, {row}]")).collect();
        format!(
            "class x:\n    def update_stats(self):\n        self.tput = np.array([\n{}\n])\n\n    #[2,2]\n",
            rows.join(",\n")
        )
    };
    folder.file("res18_1.py", &table("0.1"));
    folder.file("res50_1.py", &table("1"));
    let models = folder.path("");
    let Some(output) = super::pairs::python(&["datasets/hosts/synergy.py", &models]) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
    let written = stdout(&output);
    let lines: Vec<&str> = written.lines().collect();
    // A head, 45 points for each of nine types, and a line for each of ten that need one processor.
    assert_eq!(lines.len(), 1 + 45 * 9 + 10);
    assert!(lines.contains(&"\"ResNet-18 (batch size 16)\",9,20.83,0.1"), "{written}");
    assert!(lines.contains(&"\"ResNet-50 (batch size 64)\",24,250,9"), "{written}");
    let host = folder.file("host.csv", &written);
    let rates = folder.file(
        "gavel.csv",
        "gpu_type,job,gpus,steps_per_s\nv100,ResNet-18 (batch size 16),1,8\nv100,LM (batch size 5),1,4\n",
    );
    let fleet = ["--fleet", "v100=8", "--gpus-per-node", "8", "--cpus-per-node", "24", "--memory-per-node", "500"];
    let drawn = ["--draw", "12", "--seeds", "1", "--policies", "proportional,synergy", "--format", "json", "--quiet"];
    let arguments = [&["plan", "allocation", &rates, "--host-table", &host][..], &fleet, &drawn].concat();
    let output = tracecast(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let speed = json(&stdout(&output))["policies"][1]["host"]["speed"]["value"].as_f64().unwrap();
    assert!(speed > 0.0 && speed <= 1.0, "{speed}");
    folder.file("res18_1.py", "self.tput = np.array([[1, 2]])\n");
    let Some(output) = super::pairs::python(&["datasets/hosts/synergy.py", &models]) else { return };
    assert!(!output.status.success() && stderr(&output).contains("res18_1.py: its table is not of 9 by 5 numbers"));
}
