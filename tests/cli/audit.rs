//! `tracecast audit`, as a user meets it.

use super::*;

/// Runs it and gives what it says on stdout.
fn answer(arguments: &[&str]) -> String {
    let output = tracecast(&[&["audit"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Answer of the command as JSON.
fn data(arguments: &[&str]) -> serde_json::Value {
    json(&answer(&[arguments, &["--format", "json"]].concat()))
}

/// Exit code and message.
fn refusal(arguments: &[&str]) -> (i32, String) {
    let output = tracecast(&[&["audit"], arguments].concat());
    assert!(stdout(&output).is_empty(), "nothing but answers on stdout");
    (output.status.code().unwrap(), stderr(&output))
}

fn near(value: &serde_json::Value, wanted: f64) {
    let found = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{found} is not {wanted}");
}

/// One GPU from 100 W to 300 W in two hours, a reading every ten minutes: 150 W and 250 W on average.
fn ramp() -> String {
    let mut text = "timestamp, index, uuid, name, utilization.gpu [%], power.draw [W]\n".to_owned();
    for step in 0..=12 {
        let (hour, minute) = (step * 10 / 60, step * 10 % 60);
        let watts = 100.0 + 200.0 * f64::from(step) / 12.0;
        text +=
            &format!("2023/05/01 {hour:02}:{minute:02}:00.000, 0, GPU-1, Tesla V100-SXM2-32GB, 90 %, {watts:.12} W\n");
    }
    text
}

const GRID: &str = "\
Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),Carbon Intensity gCO₂eq/kWh (LCA),Data Estimated
2023-05-01 00:00:00,Somewhere,Some,SOME,100,130,false
2023-05-01 01:00:00,Somewhere,Some,SOME,500,650,false
2023-05-01 02:00:00,Somewhere,Some,SOME,900,950,false
";
const PRICES: &str = "\
Datetime (UTC),Datetime (Local),Price (EUR/MWh)
2023-05-01 00:00:00+00:00,2023-05-01 02:00:00+02:00,100
2023-05-01 01:00:00+00:00,2023-05-01 03:00:00+02:00,200
2023-05-01 02:00:00+00:00,2023-05-01 04:00:00+02:00,200
";

/// The ramp, from 00:00 to 02:00.
fn two_hours(folder: &Folder) -> Vec<String> {
    let source = folder.file("smi.csv", &ramp());
    ["--from", "2023-05-01", "--to", "2023-05-01T02:00:00Z"].into_iter().map(str::to_owned).chain([source]).collect()
}

fn with<'a>(given: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    given.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

#[test]
fn two_hours_by_hand() {
    let folder = Folder::new();
    let (source, grid, prices) = (two_hours(&folder), folder.file("grid.csv", GRID), folder.file("prices.csv", PRICES));
    let found = data(&with(&source, &["--carbon", &grid, "--price", &prices, "--pue", "1.25"]));
    assert_eq!(found["schema"], "audit/2");
    let account = &found["account"];
    // 0.15 and 0.25 kWh.
    near(&account["it_kwh"]["value"], 0.4);
    near(&account["facility_kwh"]["value"], 0.5);
    // 1.25 · (0.15 · 100 + 0.25 · 500) g = 175 g; total times mean would be 1.25 · 0.4 · 300 = 150 g.
    near(&account["location"]["kg"]["value"], 0.175);
    near(&account["location"]["mean_times_mean_kg"], 0.15);
    near(&account["location"]["mean_times_mean_difference"], 0.15 / 0.175 - 1.0);
    assert_eq!((&account["location"]["covered"], &account["location"]["hours_without"]), (&1.0.into(), &0.into()));
    // 1.25 · (0.15 · 0.1 + 0.25 · 0.2).
    near(&account["cost"]["energy"]["value"], 0.08125);
    assert_eq!(
        found["factors"][1]["value"],
        "hourly from grid.csv, 3 hours from 2023-05-01 00:00:00 to 2023-05-01 03:00:00 UTC"
    );
    assert_eq!(account["cost"]["currency"], "EUR");
    near(&account["by_hour"][0]["energy_kwh"], 0.15);
    near(&account["by_hour"][1]["location_kg"], 0.25 * 1.25 * 0.5);
    assert_eq!(account["market"], serde_json::Value::Null);
    let missing = account["missing"].as_array().unwrap();
    assert!(missing.iter().any(|figure| figure["figure"] == "Market-based carbon"));
}

#[test]
fn an_hour_without_an_intensity_is_not_covered_and_not_zero() {
    let folder = Folder::new();
    let source = two_hours(&folder);
    let first: String = GRID.lines().take(2).map(|line| format!("{line}\n")).collect();
    let grid = folder.file("grid.csv", &first);
    let location = &data(&with(&source, &["--carbon", &grid]))["account"]["location"];
    near(&location["kg"]["value"], 0.015);
    near(&location["uncovered_kwh"], 0.25);
    near(&location["covered"], 0.375);
    assert_eq!(location["hours_without"], 1);
    let said = answer(&with(&source, &["--carbon", &grid]));
    assert!(said.contains("37.5 % of the energy") && said.contains("1 hour does"), "{said}");
}

#[test]
fn a_factor_file_gives_what_the_options_do_not() {
    let folder = Folder::new();
    let source = two_hours(&folder);
    folder.file("grid.csv", GRID);
    let factors = folder.file(
        "audit.toml",
        "[pue]\nvalue = 1.5\ncategory = 3\nperiod = \"annual\"\nsource = \"report\"\n[carbon.location]\nfile = \"grid.csv\"\nmethod = \"lca\"\n\
         [carbon.market]\nresidual_g_per_kwh = 400\ncontracts = [{ kind = \"ppa\", share = 0.5, g_per_kwh = 0 }]\n[water]\nl_per_kwh = 2\n",
    );
    let account = &data(&with(&source, &["--factors", &factors]))["account"];
    // Life cycle: 1.5 · (0.15 · 130 + 0.25 · 650) g.
    near(&account["location"]["kg"]["value"], 1.5 * (0.15 * 0.13 + 0.25 * 0.65));
    // Half at 400 g.
    near(&account["market"]["kg"]["value"], 1.5 * 0.4 * 0.2);
    near(&account["water"]["litres"]["value"], 0.8);
    assert_eq!(account["pue"]["category"], "it_input");
    // What is typed comes before what the file says.
    let typed = &data(&with(&source, &["--factors", &factors, "--pue", "1.0"]))["account"];
    near(&typed["facility_kwh"]["value"], 0.4);
}

#[test]
fn bad_factors_are_refused_with_their_line_and_a_remedy() {
    let folder = Folder::new();
    let source = two_hours(&folder);
    for (text, parts) in [
        ("[pue]\nvalue = 0.8\n", ["audit.toml, line 2", "give a number from 1 to 10"]),
        ("[pue]\nvalu = 1.8\n", ["audit.toml, line 2", "unknown field `valu`"]),
        ("[pue\n", ["audit.toml, line 1", "--help"]),
        ("\n[carbon.location]\n", ["audit.toml, line 2", "give one of"]),
        ("[meter.power.A100]\nidle_w = 60\ntdp_w = 40\n", ["audit.toml, line 3", "from 60 to"]),
        ("[carbon.location]\nfile = \"none.csv\"\n", ["none.csv", "open"]),
    ] {
        let file = folder.file("audit.toml", text);
        let out = folder.path("out.json");
        let (code, message) = refusal(&with(&source, &["--factors", &file, "--out", &out]));
        assert_eq!(code, 1, "{message}");
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(folder.names(), ["audit.toml", "smi.csv"], "nothing is left behind");
    }
    let (code, message) = refusal(&with(&source, &["--pue", "0.5"]));
    assert!(code == 2 && message.contains("write a number from 1 to 10"), "{message}");
    let (code, message) = refusal(&with(&source, &["--carbon", &folder.file("grid.csv", GRID), "--zone", "ELSE"]));
    assert!(code == 1 && message.contains("there is no zone `ELSE`, but SOME"), "{message}");
}

#[test]
fn a_source_without_energy_is_refused_and_not_audited_to_zero() {
    let folder = Folder::new();
    // One reading is power at a moment and no energy.
    let one: String = ramp().lines().take(2).map(|line| format!("{line}\n")).collect();
    let (code, message) = refusal(&[&folder.file("smi.csv", &one)]);
    assert!(code == 1 && message.contains("smi.csv") && message.contains("add "), "{message}");
}

#[test]
fn a_window_without_readings_is_refused_and_one_covered_in_part_says_so_beside_every_total() {
    let folder = Folder::new();
    let source = folder.file("smi.csv", &ramp());
    for (from, to) in [("2023-01-01", "2023-02-01"), ("2023-06-01", "2023-07-01")] {
        let (code, message) = refusal(&[&source, "--from", from, "--to", to]);
        assert_eq!(code, 1, "{message}");
        assert!(message.contains("no reading lies in the window"), "{message}");
        assert!(message.contains("readings go from 2023-05-01 00:00:00 UTC to 2023-05-01 02:00:00 UTC"), "{message}");
    }
    // From an hour before the readings to two hours after: 0.4 kWh are metered, three hours are a model's.
    let grid = folder.file("grid.csv", GRID);
    let given = [
        source.as_str(),
        "--from",
        "2023-04-30T23:00:00Z",
        "--to",
        "2023-05-01T04:00:00Z",
        "--carbon",
        &grid,
        "--pue",
        "1.5",
    ];
    let found = data(&given);
    let account = &found["account"];
    near(&account["readings"]["metered_kwh"], 0.4);
    near(&account["coverage"], 0.4);
    let modelled = account["it_kwh"]["modelled"].as_f64().unwrap();
    assert!(modelled > 0.0);
    near(&account["it_kwh"]["value"], 0.4 + modelled);
    near(&account["facility_kwh"]["modelled"], 1.5 * modelled);
    assert!(account["location"]["kg"]["modelled"].as_f64().unwrap() > 0.0);
    assert_eq!((&account["readings"]["hours_read"], &account["readings"]["window_hours"]), (&2.into(), &5.into()));
    for form in ["table", "markdown", "html"] {
        let said = answer(&[&given[..], &["--format", form]].concat());
        // A terminal breaks lines where they end.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "metered, ",
            "modelled",
            "readings cover 40.0 % of device time",
            "The window is covered in part",
            "the window goes beyond",
        ] {
            assert!(said.contains(part), "{form}: {part}: {said}");
        }
    }
    // Covered as a whole, nothing is modelled.
    let whole = data(&with(&two_hours(&folder), &[]));
    near(&whole["account"]["it_kwh"]["modelled"], 0.0);
}

/// Accounting of one job with four GPUs of n1 from 01:00 to 02:00.
const ACCOUNTING: &str = "\
JobID|Partition|User|Submit|Start|End|State|NNodes|NCPUS|AllocTRES|NodeList
1|gpu|ana|2024-03-04T00:30:00|2024-03-04T01:00:00|2024-03-04T02:00:00|COMPLETED|1|16|cpu=16,gres/gpu=4,node=1|n1
";
const METERS: &str = "\
table = \"node_samples\"
[source]
[columns]
ts = { column = \"time\" }
node = { column = \"host\" }
energy_j_cum = { column = \"kwh\", unit = \"kWh\" }
";

/// A register of kWh of node n1: 0.8 kWh in the first hour, 2.4 kWh in the second.
fn registers() -> String {
    let mut text = "time,host,kwh\n".to_owned();
    for minute in 0..=120 {
        let kwh =
            100.0 + if minute <= 60 { 0.8 * f64::from(minute) } else { 48.0 + 2.4 * f64::from(minute - 60) } / 60.0;
        text += &format!("2024-03-04 {:02}:{:02}:00,n1,{kwh:.9}\n", minute / 60, minute % 60);
    }
    text
}

#[test]
fn accounting_and_a_registers_readings_are_audited_together() {
    let folder = Folder::new();
    let (jobs, meters) = (folder.file("accounting.txt", ACCOUNTING), folder.file("meters.csv", &registers()));
    let mapping = folder.file("m.toml", METERS);
    for named in [format!("meters.csv={mapping}"), format!("{meters}={mapping}")] {
        let charges = folder.path("jobs.csv");
        let found = data(&[&jobs, &meters, "--mapping", &named, "--by-job", &charges, "--force"]);
        let account = &found["account"];
        // The register is the total; while no job was there the node drew 800 W, which is its idle power.
        near(&account["node_meters"]["read_kwh"], 3.2);
        near(&account["it_kwh"]["value"], 3.2);
        near(&account["jobs"][0]["active_kwh"], 1.6);
        near(&account["jobs"][0]["idle_kwh"], 0.8);
        assert_eq!((&account["by_vc"][0]["vc"], &account["by_user"][0]["user"]), (&"gpu".into(), &"ana".into()));
        let written = std::fs::read_to_string(&charges).unwrap();
        assert_eq!(written.lines().count(), 2, "{written}");
    }
    // A mapping of a source that is not there is a mistake.
    let (code, message) = refusal(&[&jobs, &meters, "--mapping", &format!("other.csv={mapping}")]);
    assert!(code == 1 && message.contains("there is no source other.csv"), "{message}");
    let (code, message) = refusal(&[&jobs, &meters, "--mapping", &mapping, "--mapping", &mapping]);
    assert!(code == 1 && message.contains("both stand for all sources"), "{message}");

    // The same from trace folders, and a manifest that verifies.
    let (one, other) = (folder.path("jobs"), folder.path("meters"));
    for (source, out, more) in [(&jobs, &one, None), (&meters, &other, Some(&mapping))] {
        let mut arguments = vec!["ingest", source.as_str(), "--out", out.as_str()];
        arguments.extend(more.into_iter().flat_map(|mapping| ["--mapping", mapping.as_str()]));
        let output = tracecast(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let manifest = folder.path("manifest.json");
    let found = data(&[&one, &other, "--manifest", &manifest]);
    near(&found["account"]["jobs"][0]["energy_kwh"], 2.4);
    let made = json(&std::fs::read_to_string(&manifest).unwrap());
    assert!(
        made["constants"]
            .as_array()
            .unwrap()
            .iter()
            .any(|constant| constant["name"] == "Idle power of nodes with a meter alone")
    );
    assert!(answer(&["--verify", &manifest]).starts_with("identical: "));
}

#[test]
fn jobs_that_nothing_can_be_written_of_are_explained() {
    let folder = Folder::new();
    let (source, jobs) = (two_hours(&folder), folder.path("jobs.csv"));
    let (code, message) = refusal(&with(&source, &["--by-job", &jobs]));
    assert!(code == 1 && message.contains("nothing to write") && message.contains("there are no jobs"), "{message}");
    assert!(!Path::new(&jobs).exists());
}

#[test]
fn a_manifest_is_the_same_twice_and_verifies_until_something_changes() {
    let folder = Folder::new();
    let (source, grid) = (two_hours(&folder), folder.file("grid.csv", GRID));
    let (first, second) = (folder.path("1.json"), folder.path("2.json"));
    for manifest in [&first, &second] {
        answer(&with(&source, &["--carbon", &grid, "--pue", "1.25", "--manifest", manifest]));
    }
    let text = std::fs::read_to_string(&first).unwrap();
    assert_eq!(text, std::fs::read_to_string(&second).unwrap());
    let manifest = json(&text);
    near(&manifest["figures"]["location_based_kg"], 0.175);
    assert_eq!(manifest["inputs"].as_array().unwrap().len(), 2);

    let said = answer(&["--verify", &first]);
    assert!(said.starts_with("identical: 2 inputs"), "{said}");
    // The answer that was signed is the one that --format json gives.
    let printed = answer(&with(&source, &["--carbon", &grid, "--pue", "1.25", "--format", "json"]));
    assert_eq!(manifest["result"]["size_bytes"], printed.len());

    // A second auditor has the files elsewhere.
    let elsewhere = Folder::new();
    let (moved, moved_grid) = (elsewhere.file("smi.csv", &ramp()), elsewhere.file("grid.csv", GRID));
    let said = answer(&[&moved, "--verify", &first, "--carbon", &moved_grid]);
    assert!(said.starts_with("identical: "), "{said}");

    folder.file("grid.csv", &GRID.replace(",500,", ",501,"));
    let output = tracecast(&["audit", "--verify", &first]);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    assert!(
        said.contains("input grid.csv (carbon): was ") && said.contains("figure location_based_kg: was 0.175"),
        "{said}"
    );
    assert!(stderr(&output).contains("what differs is on stdout"));

    let other = folder.file("other.json", "{\"schema\": \"x\"}");
    let (code, message) = refusal(&["--verify", &other]);
    assert!(code == 1 && message.contains("--manifest"), "{message}");
    assert_eq!(refusal(&["--verify", &first, "--pue", "1.1"]).0, 2);
}

#[test]
fn the_sample_gives_a_readable_answer_that_adds_up() {
    let found = data(&["datasets/sample"]);
    let account = &found["account"];
    let total = account["it_kwh"]["value"].as_f64().unwrap();
    assert!(total > 0.0);
    for lines in ["by_vc", "by_user"] {
        let lines = account[lines].as_array().unwrap();
        let sum = |of: &dyn Fn(&serde_json::Value) -> f64| lines.iter().map(of).sum::<f64>();
        let energy = sum(&|line| line["energy_kwh"]["value"].as_f64().unwrap());
        assert!((energy / total - 1.0).abs() < 1e-9, "{energy} {total}");
        let carbon = sum(&|line| line["location_kg"].as_f64().unwrap());
        let all = account["location"]["kg"]["value"].as_f64().unwrap();
        assert!((carbon / all - 1.0).abs() < 1e-9, "{carbon} {all}");
    }
    let text = answer(&["datasets/sample"]);
    for part in [
        "Where the energy went",
        "From the meter to useful work",
        "Whose energy it is",
        "Carbon",
        "What this trace cannot tell",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(answer(&["datasets/sample", "--format", "markdown"]).starts_with("# Energy audit: sample"));
    let folder = Folder::new();
    let (out, charts, jobs) = (folder.path("a.html"), folder.path("charts"), folder.path("jobs.csv"));
    let printed =
        answer(&["datasets/sample", "--format", "html", "--out", &out, "--charts", &charts, "--by-job", &jobs]);
    assert!(printed.is_empty());
    assert!(std::fs::read_to_string(&out).unwrap().contains("From the meter to useful work"));
    assert!(
        Path::new(&charts).join("energy-waterfall.svg").is_file()
            && Path::new(&charts).join("carbon-by-hour.png").is_file()
    );
    let rows = std::fs::read_to_string(&jobs).unwrap().lines().count();
    assert_eq!(rows as u64, found["jobs"].as_u64().unwrap() + 1, "a row a job and the heading");
    assert_eq!(folder.names(), ["a.html", "charts", "jobs.csv"], "no temporary files");
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let of = |threads: &str| tracecast(&["--threads", threads, "audit", "datasets/sample", "--format", "json"]).stdout;
    assert!(of("1") == of("4"), "the same bytes");
}

#[test]
fn power_caps_are_applied_to_the_types_measured_and_to_others_only_if_told() {
    let folder = Folder::new();
    let source = two_hours(&folder);
    let studies = folder.path("caps");
    std::fs::create_dir(&studies).unwrap();
    let head = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n";
    // 20 kJ at 250 W, 16.5 kJ at 150 W.
    let rows = format!("{head}x,n,1,sgd,250,100,200\nx,n,1,sgd,150,110,150\n");
    std::fs::write(Path::new(&studies).join("summary_power_k80.csv"), &rows).unwrap();
    let caps = &data(&with(&source, &["--whatif-power-cap", &studies]))["power_caps"];
    near(&caps["studies"][0]["caps"][0]["energy_ratio"]["p50"], 0.825);
    assert_eq!(caps["fleet"][0]["studied_as"], serde_json::Value::Null);
    assert!(caps["fleet"][0]["why_not"].as_str().unwrap().contains("nothing was measured of Tesla V100"));
    let mapped = &data(&with(&source, &["--whatif-power-cap", &studies, "--as", "K80"]))["power_caps"]["fleet"][0];
    assert_eq!((&mapped["studied_as"], &mapped["mapped"]), (&"k80".into(), &true.into()));
    assert_eq!(refusal(&with(&source, &["--as", "K80"])).0, 2);
    let empty = folder.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let (code, message) = refusal(&with(&source, &["--whatif-power-cap", &empty]));
    assert!(code == 1 && message.contains("summary_power_<GPU type>.csv"), "{message}");
    std::fs::write(Path::new(&empty).join("summary_power_v100.csv"), "dataset,network\n").unwrap();
    let (code, message) = refusal(&with(&source, &["--whatif-power-cap", &empty]));
    assert!(code == 1 && message.contains("summary_power_v100.csv") && message.contains("batch_size"), "{message}");
}

#[test]
fn published_grid_data_and_power_caps_are_read_as_they_come() {
    let Some(traces) = tracecast_tests::real_trace("grid").and_then(|grid| Some(grid.parent()?.display().to_string()))
    else {
        return;
    };
    let folder = Folder::new();
    let source = two_hours(&folder);
    let carbon = format!("{traces}/grid/carbon/DE-LU_2023_hourly.csv.gz");
    let price = format!("{traces}/grid/price/DE-LU_electricity_prices_2023.csv.gz");
    let caps = format!("{traces}/zeus_power");
    let found = data(&with(&source, &["--carbon", &carbon, "--price", &price, "--whatif-power-cap", &caps]));
    let account = &found["account"];
    assert_eq!((&account["location"]["covered"], &account["cost"]["covered"]), (&1.0.into(), &1.0.into()));
    assert_eq!(account["cost"]["currency"], "USD");
    let types: Vec<&str> =
        found["power_caps"]["studies"].as_array().unwrap().iter().map(|s| s["gpu_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["a40", "p100", "rtx6000", "v100"]);
    // The type is met by its name, without --as.
    assert_eq!(found["power_caps"]["fleet"][0]["studied_as"], "v100");
}

#[test]
fn telemetry_too_large_for_memory_is_streamed_to_the_same_account() {
    let folder = Folder::new();
    let large = folder.path("sample");
    std::fs::create_dir(&large).unwrap();
    for entry in std::fs::read_dir(root().join("datasets/sample")).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, Path::new(&large).join(from.file_name().unwrap())).unwrap();
    }
    // Rows decide; the manifest says that there are more than are kept in memory.
    let manifest = Path::new(&large).join("manifest.json");
    let mut said = json(&std::fs::read_to_string(&manifest).unwrap());
    for table in said["tables"].as_array_mut().unwrap() {
        if table["name"] == "gpu_samples" {
            table["rows"] = 30_000_000.into();
        }
    }
    std::fs::write(&manifest, said.to_string()).unwrap();
    let (streamed, whole) = (data(&[&large]), data(&["datasets/sample"]));
    for key in ["it_kwh", "by_vc", "location", "by_use"] {
        let (one, other) = (&streamed["account"][key], &whole["account"][key]);
        assert!(*one == *other || alike(one, other), "{key}: {one} {other}");
    }
    assert!(streamed["reclaim"]["why_not"].as_str().unwrap().contains("larger than memory"));
}

/// Whether two values are equal, but for rounding.
fn alike(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    match (one, other) {
        (serde_json::Value::Number(a), serde_json::Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(1.0)
        }
        (serde_json::Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (serde_json::Value::Object(a), serde_json::Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        _ => one == other,
    }
}
