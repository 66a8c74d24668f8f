//! `plan rent fleet`, as a user meets it.

use serde_json::Value;

use super::*;

/// The bundled sample with the invented prices beside it.
pub(crate) const SAMPLE: [&str; 7] =
    ["plan", "rent", "fleet", "datasets/sample", "--offers", "datasets/offers/example.toml", "--quiet"];

/// Two weeks of an hourly job of 8 GPUs.
fn hourly() -> String {
    let head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
    let row = |hour: u32| {
        let (day, hour) = (1 + hour / 24, hour % 24);
        format!(
            "{day}-{hour},ua,va,8,4,1,COMPLETED,2020-04-{day:02} {hour:02}:00:00,2020-04-{day:02} {hour:02}:00:00,2020-04-{day:02} {hour:02}:59:00,3540,0\n"
        )
    };
    head.to_owned() + &(0..21 * 24).map(row).collect::<String>()
}

const OFFERS: &str = "\
currency = \"EUR\"
[[instance]]
name = \"a\"
gpu = \"V100\"
gpus = 8
on_demand = 20.0
reserved = [{ months = 12, price = 10.0 }]
";

#[test]
fn the_sample_is_planned_and_the_mix_is_written() {
    let folder = Folder::new();
    let out = folder.path("fleet");
    let output = tracecast(&[&SAMPLE[..], &["--format", "json", "--emit-to", &out]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!((&answer["schema"], &answer["currency"]), (&Value::from("plan-rent-fleet/2"), &Value::from("USD")));
    let number = |value: &Value| value.as_f64().unwrap();
    let by = answer["trial"]["rules"].as_array().unwrap();
    let rule = |name: &str| by.iter().find(|rule| rule["id"] == name).unwrap();
    // Nothing costs less than the mix that knows the later windows, and all on demand is what others are told against.
    for rule in by {
        assert!(number(&rule["regret"]) >= -1e-9 || rule["id"] == "buying", "{rule}");
    }
    assert!((number(&rule("on_demand")["of_baseline"]) - 1.0).abs() < 1e-12);
    assert!((1.0 - number(&rule("mix")["of_baseline"]) - number(&answer["trial"]["saving"]["value"])).abs() < 1e-9);
    // The lines of the mix add up to its cost, and the programme's bound is near it.
    let rows = answer["mix"].as_array().unwrap();
    let sum: f64 = rows.iter().map(|row| number(&row["cost_per_month"])).sum();
    assert!((sum - number(&answer["cost_per_month"]["value"])).abs() < 1e-6 * sum, "{sum}");
    assert!((0.0..1e-3).contains(&number(&answer["gap"])), "{}", answer["gap"]);
    for row in rows.iter().filter(|row| row["count"].is_u64()) {
        assert!(row["low"].as_u64() <= row["count"].as_u64() && row["count"].as_u64() <= row["high"].as_u64(), "{row}");
    }
    assert_eq!(answer["recommendation"].is_null(), answer["verdict"] != "advised");
    // What is written is what is answered.
    let list = std::fs::read_to_string(folder.path("fleet/fleet-purchases.csv")).unwrap();
    assert_eq!(list.lines().count(), 1 + rows.len(), "{list}");
    assert!(list.starts_with("gpu,offer,zone,how,months,buy,mean_instances,"), "{list}");
    let pools = std::fs::read_to_string(folder.path("fleet/karpenter-nodepools.yaml")).unwrap();
    assert!(pools.contains("\"karpenter.sh/capacity-type\"") && pools.contains("\"nvidia.com/gpu\""), "{pools}");
    // Whose the zones are is not known, so that the class of nodes is left to be filled in; said by the offers, it is known.
    assert!(pools.contains("\"kind\": \"FILL-IN\"") && !pools.contains("\"kind\": \"EC2NodeClass\""), "{pools}");
    let offers = std::fs::read_to_string(root().join("datasets/offers/example.toml")).unwrap();
    let (offers, out) =
        (folder.file("o.toml", &offers.replace("\nzone =", "\nprovider = \"AWS\"\nzone =")), folder.path("named"));
    let output = tracecast(&[
        "plan",
        "rent",
        "fleet",
        "datasets/sample",
        "--offers",
        &offers,
        "--emit",
        "karpenter",
        "--emit-to",
        &out,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let pools = std::fs::read_to_string(folder.path("named/karpenter-nodepools.yaml")).unwrap();
    assert!(pools.contains("\"kind\": \"EC2NodeClass\"") && !pools.contains("FILL-IN"), "{pools}");
}

/// A table of prices as it is published: 8 V100 at 24 an hour, all day. Unusable rows are reported
/// with their line and a remedy, and an offers file beside the table goes first.
#[test]
fn a_table_of_prices_is_read_as_it_is() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let table = folder.file(
        "cloud-gpus.csv",
        "Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name\n\
         AWS,V100 (16 GB),Volta,8,128,64,488,24.00,3.00,7.34,p3.16xlarge\n\
         Other,V100 (16 GB),Volta,8,128,64,488,,3.00,,none\n",
    );
    let planned = |more: &[&str]| {
        let ask = ["plan", "rent", "fleet", &jobs, "--offers", &table, "--format", "json", "--quiet"];
        let output = tracecast(&[&ask[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        (json(&stdout(&output)), stderr(&output))
    };
    let (answer, said) = planned(&[]);
    let row = &answer["mix"][0];
    assert_eq!((&row["offer"], &row["gpu"], &row["provider"]), (&"p3.16xlarge".into(), &"V100".into(), &"aws".into()));
    assert_eq!((row["price_per_h"].as_f64(), row["how"].as_str()), (Some(24.0), Some("on_demand")));
    assert!(said.contains("cloud-gpus.csv, line 3: the instance has no price above 0 an hour"), "{said}");
    assert!(said.contains("write under On-demand") && said.contains("left out: 1 price of spot"), "{said}");
    // A commitment of another instance, and what the file says of an instance of the table.
    let offers = folder.file("o.toml", &OFFERS.replace("EUR", "USD").replace("name = \"a\"", "name = \"p3.16xlarge\""));
    let (answer, _) = planned(&["--offers", &offers]);
    let rows = answer["mix"].as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["price_per_h"] != 24.0) && rows.iter().any(|row| row["how"] == "reserved"),
        "{rows:?}"
    );
    let refused =
        tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &table, "--offers", &folder.file("e.toml", OFFERS)]);
    assert!(stderr(&refused).contains("a table of prices is in USD"), "{}", stderr(&refused));
    let refused = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &jobs]);
    assert!(
        refused.status.code() == Some(1) && stderr(&refused).contains("no row has a price"),
        "{}",
        stderr(&refused)
    );
}

/// Two days of SkyPilot's catalog: whole instances in two zones, and accelerators without their host, which cost less and are nothing that can be rented alone.
const CATALOG: &str = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n\
    p3.16xlarge,V100,8.0,64.0,488.0,,24.48,7.3,us-east-1,us-east-1a\n\
    p3.16xlarge,V100,8.0,64.0,488.0,,24.00,7.3,us-east-1,us-east-1b\n\
    ,V100,8.0,,,,9.92,4.0,us-central1,us-central1-a\n";

#[test]
fn an_accelerator_without_its_host_is_no_instance() {
    let folder = Folder::new();
    let (jobs, catalog) = (folder.file("cluster_log.csv", &hourly()), folder.file("aws_vms.csv", CATALOG));
    let serverless = folder.file(
        "serverless-gpus.csv",
        "Vendor,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,Per-Hour,Per-GPU\nDelta,V100 (16 GB),Volta,8,128,64,488,1.00,0.13\n",
    );
    let out = folder.path("out");
    let ask =
        ["plan", "rent", "fleet", &jobs, "--offers", &catalog, "--offers", &serverless, "--format", "json", "--quiet"];
    let output = tracecast(&ask);
    assert!(output.status.success(), "{}", stderr(&output));
    let (answer, said) = (json(&stdout(&output)), stderr(&output));
    let rows = answer["mix"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["price_per_h"] == 24.0 && row["provider"] == "aws"), "{rows:?}");
    let notes = answer["notes"].to_string();
    for told in [
        "left out: 2 prices of accelerators without their host",
        "left out: 1 price of GPUs that are billed while they are used",
        "left out: 2 prices of spot",
    ] {
        assert!(said.contains(told) && notes.contains(told), "{told}: {said} {notes}");
    }
    // What the reader of the catalog has to say is told as well.
    assert!(said.contains("1 rows name no instance type"), "{said}");
    let refused = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &serverless]);
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("(serverless)"), "{}", stderr(&refused));
    // The pool names the instance type, which the second zone's name is not.
    let reserved = folder.file(
        "o.toml",
        "[[instance]]\nname = \"p3.16xlarge 8xV100\"\ngpu = \"V100\"\ngpus = 8\non_demand = 20.0\nreserved = [{ months = 12, price = 10.0 }]\n",
    );
    let emit = ["--offers", &reserved, "--emit", "karpenter", "--emit-to", &out];
    let output = tracecast(&[&ask[..], &emit].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let row = &answer["mix"][0];
    assert_eq!((&row["offer"], &row["instance_type"]), (&"p3.16xlarge 8xV100".into(), &"p3.16xlarge".into()));
    assert!(stderr(&output).contains("left out: 1 instance of the tables that"), "{}", stderr(&output));
    let pools = std::fs::read_to_string(folder.path("out/karpenter-nodepools.yaml")).unwrap();
    assert!(pools.contains("\"p3.16xlarge\"") && !pools.contains("8xV100"), "{pools}");
}

#[test]
fn clouds_and_regions_of_a_table_are_picked() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let table = folder.file(
        "cloud-gpus.csv",
        "Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name\n\
         AWS,V100 (16 GB),Volta,8,128,64,488,24.00,3.00,,p3.16xlarge\n\
         Cheap,V100 (16 GB),Volta,8,128,64,488,4.00,0.50,,v8\n",
    );
    let catalog = folder.file("aws_vms.csv", CATALOG);
    let planned = |more: &[&str]| {
        let ask = ["plan", "rent", "fleet", &jobs, "--offers", &table, "--format", "json", "--quiet"];
        tracecast(&[&ask[..], more].concat())
    };
    let answer = |more: &[&str]| {
        let output = planned(more);
        assert!(output.status.success(), "{}", stderr(&output));
        let answer = json(&stdout(&output));
        (answer["mix"][0]["offer"].as_str().unwrap().to_owned(), answer["notes"].to_string())
    };
    let (offer, notes) = answer(&[]);
    assert!(
        offer == "v8" && notes.contains("instances of 2 clouds are in one pool a GPU type (aws, cheap)"),
        "{notes}"
    );
    let (offer, notes) = answer(&["--provider", "aws"]);
    assert_eq!(offer, "p3.16xlarge");
    assert!(notes.contains("instances of aws are offered alone; left out: 1 price of other clouds"), "{notes}");
    let (_, notes) = answer(&["--offers", &catalog, "--provider", "aws", "--region", "us-east-1"]);
    assert!(notes.contains("instances of aws in us-east-1 are offered alone; left out: 2 prices"), "{notes}");
    let refused = planned(&["--provider", "azure"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`azure` is no cloud of the tables of prices; there are aws, cheap"));
    let offers = folder.file("o.toml", OFFERS);
    let refused = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--region", "us-east-1"]);
    assert!(stderr(&refused).contains("--offers names none; leave them out"), "{}", stderr(&refused));
}

/// Offers that are called by no `.toml`, with a comment behind the header.
#[test]
fn offers_are_known_by_their_headers() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    for header in ["[[instance]] # what we rent", "  [[ instance ]]"] {
        let offers = folder.file("offers", &OFFERS.replace("[[instance]]", header));
        let output = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--quiet"]);
        assert!(output.status.success(), "{header}: {}", stderr(&output));
    }
}

#[test]
fn the_answer_as_text() {
    let output = tracecast(&SAMPLE);
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("plan_fleet_sample", stdout(&output));
}

#[test]
fn a_constant_load_is_reserved_and_told_so() {
    let folder = Folder::new();
    let (jobs, offers) = (folder.file("cluster_log.csv", &hourly()), folder.file("offers.toml", OFFERS));
    let output = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--format", "json", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    // One instance in every hour at half the price of on-demand: half is saved in every window, and nothing is better.
    assert_eq!(answer["verdict"], "advised");
    assert_eq!(answer["action"], "**Reserve 1 × a for 1 year**; run the rest on demand.");
    let saving = &answer["trial"]["saving"];
    assert_eq!(
        (saving["value"].as_f64(), saving["low"].as_f64(), saving["high"].as_f64()),
        (Some(0.5), Some(0.5), Some(0.5))
    );
    // 10 an hour over 730.5 hours.
    assert_eq!(answer["cost_per_month"]["value"].as_f64(), Some(7305.0));
    let text = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--quiet", "--section", "fleet-mix"]);
    assert!(stdout(&text).contains("1 (1 to 1)"), "{}", stdout(&text));
}

#[test]
fn weeks_that_speak_against_reserving_are_heard() {
    let folder = Folder::new();
    // The load ends with the second week but for an hour a day.
    let jobs: String = hourly()
        .lines()
        .filter(|line| {
            line.split('-')
                .next()
                .and_then(|day| day.parse::<u32>().ok())
                .is_none_or(|day| day < 15 || line.contains(&format!("{day}-0,")))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let (jobs, offers) = (folder.file("cluster_log.csv", &jobs), folder.file("offers.toml", OFFERS));
    let output = tracecast(&[
        "plan",
        "rent",
        "fleet",
        &jobs,
        "--offers",
        &offers,
        "--eval-from",
        "2020-04-15",
        "--format",
        "json",
        "--quiet",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!((&answer["verdict"], &answer["recommendation"]), (&Value::from("simpler_as_good"), &Value::Null));
    assert!(
        answer["action"]
            .as_str()
            .unwrap()
            .starts_with("**Change nothing**: on the later windows what was reserved cost more"),
        "{}",
        answer["action"]
    );
}

/// Regression test: the summary compared the mix with the dearest of the rules, and skipped the one
/// that beat it. Two jobs an hour for 13 hours of each day, and in the last week for 11: two are
/// reserved where that pays from half of the hours on, and the mean is one. A day there costs 20 ·
/// 22 on demand, 10 · 48 with two, and 10 · 24 + 20 · 11 with one.
#[test]
fn a_rule_that_was_cheaper_than_the_mix_is_told_by_name() {
    let folder = Folder::new();
    let hour_of = |line: &str| {
        let (day, hour) = line.split_once(',')?.0.split_once('-')?;
        Some((day.parse::<u32>().ok()?, hour.parse::<u32>().ok()?))
    };
    let text = hourly();
    let (head, rows) = text.split_once('\n').unwrap();
    let kept =
        rows.lines().filter(|line| hour_of(line).is_some_and(|(day, hour)| hour < if day < 15 { 13 } else { 11 }));
    let twice: String = kept.map(|line| format!("{line}\nb{line}\n")).collect();
    let (jobs, offers) =
        (folder.file("cluster_log.csv", &format!("{head}\n{twice}")), folder.file("offers.toml", OFFERS));
    let ask = ["plan", "rent", "fleet", &jobs, "--offers", &offers, "--eval-from", "2020-04-15", "--quiet"];
    let answer = json(&stdout(&tracecast(&[&ask[..], &["--format", "json"]].concat())));
    let by = answer["trial"]["rules"].as_array().unwrap();
    let cost = |name: &str| by.iter().find(|rule| rule["id"] == name).unwrap()["amount"].as_f64().unwrap();
    assert_eq!((&answer["verdict"], cost("mix") > cost("mean")), (&Value::from("simpler_as_good"), true), "{by:?}");
    let text = |zone: &[&str]| {
        let output = tracecast(&[&ask[..], zone].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = text(&[]);
    let words = "Cheaper than the mix on the later windows, where it cost 109.1 % of all on demand: reserved at the earlier mean, 104.5 % (609 EUR a month less).";
    assert!(told.contains(words), "{told}");
    // What the verdict has told is not told again, and the zone of all times is named once.
    assert!(!told.contains("nothing reserved, spot where jobs may, "), "{told}");
    assert!(text(&["--timezone", "Asia/Shanghai"]).contains("over 1 year; times in Asia/Shanghai"), "{told}");
    assert!(told.contains("draws of what was, and not of the years to come"), "{told}");
}

/// Two zones on two grids, the dearer one cleaner: the front goes from the one to the other.
/// Missing facts of an offer are asked for, and no grid is guessed.
#[test]
fn cost_and_carbon_are_weighed() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let offers = folder.file(
        "offers.toml",
        "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 8\nzone = \"z-1\"\non_demand = 20.0\npower_kw = 3.0\nreserved = [{ months = 12, price = 10.0 }]\n\
         [[instance]]\nname = \"b\"\ngpu = \"V100\"\ngpus = 8\nzone = \"z-2\"\non_demand = 24.0\n",
    );
    let head = "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),Carbon Intensity gCO₂eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage,Data Source,Data Estimated,Data Estimation Method\n";
    let grid = |zone: &str, g: [f64; 2]| {
        let row = |(hour, g): (usize, &f64)| format!("2023-01-01 0{hour}:00:00,C,N,{zone},{g},{g},1,1,s,false,\n");
        folder.file(&format!("{zone}.csv"), &(head.to_owned() + &g.iter().enumerate().map(row).collect::<String>()))
    };
    let (dirty, clean) = (grid("DIRTY", [300.0, 500.0]), grid("CLEAN", [40.0, 60.0]));
    let ask = |more: &[&str]| {
        let ask = ["plan", "rent", "fleet", &jobs, "--offers", &offers, "--eval-from", "2020-04-15", "--quiet"];
        tracecast(&[&ask[..], more].concat())
    };
    let told = ["--carbon", &dirty, "--carbon", &clean, "--grid", "z-1=DIRTY", "--grid", "z-2=CLEAN", "--power", "b=2"];
    let output = ask(&[&told[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let number = |value: &Value| value.as_f64().unwrap();
    let offers_told = answer["carbon"]["offers"].as_array().unwrap();
    let kg: Vec<f64> = offers_told.iter().map(|of| number(&of["kg_per_h"])).collect();
    assert!((kg[0] - 1.2).abs() < 1e-9 && (kg[1] - 0.1).abs() < 1e-9, "{kg:?}");
    let front = answer["carbon"]["front"].as_array().unwrap();
    let (first, last) = (&front[0], &front[front.len() - 1]);
    assert!(front.len() >= 2 && first["per_tonne"] == 0.0 && last["per_tonne"].is_null(), "{front:?}");
    assert!(number(&first["cost_per_month"]) < number(&last["cost_per_month"]), "{front:?}");
    assert!(number(&first["kg_per_month"]) > number(&last["kg_per_month"]), "{front:?}");
    // One instance around the clock in the dirty zone, or in the clean one when it is needed: 59 of 60 minutes count as the hour.
    assert!((number(&first["kg_per_month"]) - 1.2 * 730.5).abs() < 1e-6, "{first}");
    assert!((number(&last["kg_per_month"]) - 0.1 * 730.5).abs() < 1e-6, "{last}");
    // The first is the mix itself, and all rules are told.
    let mix = answer["trial"]["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == "mix").unwrap();
    for (own, of) in [("carbon_kg_per_month", "kg_per_month"), ("amount", "cost_per_month")] {
        assert!((number(&mix[own]) - number(&first[of])).abs() < 1e-6, "{mix} and {first}");
    }
    // A tonne saved: more money for less carbon, beside the first.
    let saved = 1e3 * (number(&last["cost_per_month"]) - number(&first["cost_per_month"]))
        / (number(&first["kg_per_month"]) - number(&last["kg_per_month"]));
    assert!((number(&last["cost_per_tonne_saved"]) - saved).abs() < 1e-6 && first["cost_per_tonne_saved"].is_null());
    // What the files say of themselves: the same of both, each once.
    let notes: Vec<&str> = answer["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for zone in ["DIRTY", "CLEAN"] {
        let said = format!("Carbon intensity is of zone {zone}, direct (what power stations emit).");
        assert_eq!(notes.iter().filter(|note| **note == said).count(), 1, "{notes:?}");
    }
    let text = stdout(&ask(&told)).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("for each tonne saved") && text.contains("saved carbon at the least price"), "{text}");
    assert!(text.contains("What less carbon costs") && text.contains("of CO2 a month"), "{text}");
    let refused = |more: &[&str], what: &str| {
        let output = ask(more);
        assert!(!output.status.success() && stderr(&output).contains(what), "{}", stderr(&output));
    };
    refused(&told[..8], "nothing says what an instance of `b` draws");
    refused(&["--carbon", &dirty, "--grid", "z-1=DIRTY", "--power", "b=2"], "on which grid `b` are");
    // The zones that the files have are told, and no option that this command lacks.
    refused(&["--carbon", &dirty, "--grid", "z-1=OTHER"], "has hours of `OTHER`; there are `DIRTY`");
    refused(&["--carbon", &dirty, "--grid", "z-9=DIRTY"], "no offer is in the zone `z-9`");
    refused(&["--carbon", &dirty], "--grid");
    // Of two hours one is cleaner in the dirty zone: by the hour it is rented there alone, 0.6 and then 0.9 kg, where by the mean both are rented in the other.
    let day = |zone: &str, g: [f64; 2]| {
        let row = |hour: usize| format!("2023-01-01 {hour:02}:00:00,C,N,{zone},{0},{0},1,1,s,false,\n", g[hour % 2]);
        folder.file(&format!("{zone}.csv"), &(head.to_owned() + &(0..24).map(row).collect::<String>()))
    };
    let (dirty, clean) = (day("DIRTY", [200.0, 600.0]), day("CLEAN", [450.0, 450.0]));
    let files = [["--carbon", &dirty, "--grid", "z-1=DIRTY"], ["--carbon", &clean, "--grid", "z-2=CLEAN"]];
    let fronts = [[0, 1], [1, 0]].map(|order| {
        let named: Vec<&str> = order.iter().flat_map(|at: &usize| files[*at]).collect();
        let output = ask(&[&named[..], &["--power", "b=2", "--format", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))["carbon"]["front"].clone()
    });
    assert_eq!(fronts[0], fronts[1]);
    let last = fronts[0].as_array().unwrap().last().unwrap();
    let text = stdout(&ask(&[&files[0][..], &files[1], &["--power", "b=2", "--section", "fleet-carbon"]].concat()));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("By the mean: what mixes emit for as much money"), "{text}");
    assert!((number(&last["kg_per_month"]) - 0.75 * 730.5).abs() < 1e-6, "{last}");
    assert!((number(&last["by_mean"]["kg_per_month"]) - 0.9 * 730.5).abs() < 1e-6, "{last}");
    // Without it nothing is told.
    let answer = json(&stdout(&ask(&["--format", "json"])));
    assert!(answer["carbon"].is_null() && answer["trial"]["rules"][0]["carbon_kg_per_month"].is_null());
}

#[test]
fn a_mix_that_saves_too_little_is_not_advised() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let said = |reserved: &str| {
        let offers = folder.file("offers.toml", &OFFERS.replace("10.0", reserved));
        let output = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--format", "json", "--quiet"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let answer = json(&stdout(&output));
        assert!(answer["recommendation"].is_null() && answer["assurance"]["confidence"].is_string(), "{answer}");
        let text = stdout(&tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--quiet"]));
        assert!(text.contains("Nothing should change, as far as was tested:"), "{text}");
        (answer["verdict"].as_str().unwrap().to_owned(), answer["action"].as_str().unwrap().to_owned())
    };
    // 19.5 of 20 saves 2.5 %, less than the 5 % that a change is worth; 25 saves nothing.
    let (verdict, action) = said("19.5");
    assert_eq!(verdict, "no_saving");
    assert!(action.contains("saved 2.5 % of all on demand (2.5 % to 2.5 %), less than the 5.0 %"), "{action}");
    let (verdict, action) = said("25.0");
    assert_eq!(verdict, "nothing_better");
    assert_eq!(action, "**Change nothing**: at these prices all on demand is the cheapest mix for this load.");
    // What stays is told with its cost, what is the same is not compared, and without commitments there is no table of their use.
    let text = |offers: &str| {
        let offers = folder.file("plain.toml", offers);
        stdout(&tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--quiet"]))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let told = text(&OFFERS.replace("10.0", "25.0"));
    assert!(
        told.contains("What stays is all on demand, for") && told.contains("nothing to compare on the later"),
        "{told}"
    );
    assert!(told.contains("From which use on it is worth it"), "{told}");
    let told = text("[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 8\non_demand = 20.0\n");
    assert!(
        told.contains("neither reservations nor nodes to buy") && !told.contains("From which use on it is"),
        "{told}"
    );
}

#[test]
fn what_has_no_room_waits_and_is_told() {
    let folder = Folder::new();
    let limited =
        OFFERS.replace("on_demand = 20.0", "on_demand = 20.0\non_demand_limit = 1").replace("gpus = 8", "gpus = 4");
    let limited = limited.replace("price = 10.0", "price = 30.0");
    let (jobs, offers) = (folder.file("cluster_log.csv", &hourly()), folder.file("offers.toml", &limited));
    let output = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--format", "json", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let by = answer["trial"]["rules"].as_array().unwrap();
    let waits = |name: &str| by.iter().find(|rule| rule["id"] == name).unwrap()["waiting_gpu_hours"].as_f64().unwrap();
    // Jobs of 8 GPUs every hour, and room on demand for 4 of them: the other 4 wait in each hour of the later week, unless they are reserved, dear as that is.
    assert!((waits("on_demand") - 4.0 * 168.0).abs() < 1e-6, "{}", waits("on_demand"));
    assert!(waits("mix").abs() < 1e-9 && waits("peak").abs() < 1e-9);
    assert_eq!(answer["waiting_gpu_hours_per_week"].as_f64(), Some(0.0));
    assert_eq!((&answer["verdict"], &answer["recommendation"]), (&Value::from("not_comparable"), &Value::Null));
    assert!(
        answer["action"]
            .as_str()
            .unwrap()
            .contains("left 672 GPU-hours without GPUs with all on demand, and 0 with the mix"),
        "{}",
        answer["action"]
    );
}

#[test]
fn the_number_of_threads_changes_nothing() {
    is_the_same_with_any_threads(&SAMPLE);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let said = |offers: &str, more: &[&str]| {
        let offers = folder.file("offers.toml", offers);
        let output = tracecast(&[&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--quiet"][..], more].concat());
        assert!(!output.status.success());
        stderr(&output)
    };
    assert!(stderr(&tracecast(&["plan", "rent", "fleet", &jobs])).contains("--offers"));
    assert!(
        said(&OFFERS.replace("on_demand = 20.0\n", ""), &[])
            .contains("line 4: no instance with the GPU `V100` has an on_demand price")
    );
    assert!(said(&OFFERS.replace("20.0", "0"), &[]).contains("line 6: a: on_demand is 0; write what an hour"));
    assert!(said(&OFFERS.replace("10.0", "-1"), &[]).contains("line 7: a: price of reserved is -1"));
    assert!(said("currency = \"EUR\"\n", &[]).contains("there is no [[instance]]"));
    assert!(said(&OFFERS.replace("gpus = 8", "gpus = 8\nprice = 3"), &[]).contains("line 6: unknown field `price`"));
    let two = format!("{OFFERS}[[instance]]\nname = \"b\"\ngpu = \"T4\"\ngpus = 1\non_demand = 1.0\n");
    assert!(
        said(&two, &[]).contains("jobs come without a GPU type, and there are offers of 2 types; write at the top")
    );
    assert!(said(&OFFERS.replace("V100", "T4"), &["--scale", "90"]).contains("0.05 to 20"));
    assert!(said(OFFERS, &["--eval-from", "2020-04-22"]).contains("--eval-from"));
    assert!(said(OFFERS, &["--eval-from", "2020-04-02"]).contains("too few"));
    assert!(said(OFFERS, &["--where", "gpus = 1"]).contains("the fleet serves all jobs"));
    assert!(said(OFFERS, &["--emit", "karpenter"]).contains("--emit-to"));
    let spot = format!("{OFFERS}spot = {{ price = 5.0 }}\n");
    assert!(said(&spot, &["--spot-where", "gpus = 3"]).contains("no job meets"));
    assert!(said(&spot.replace("price = 5.0", "price = 5.0, availability = \"none.json\""), &[]).contains("none.json"));
    // Types that are not offered, and a trace without GPU jobs.
    let typed = tracecast(&[
        "plan",
        "rent",
        "fleet",
        "datasets/sample",
        "--offers",
        &folder.file("offers.toml", OFFERS),
        "--quiet",
    ]);
    assert!(
        stderr(&typed).contains(
            "jobs ask for GPUs that are not offered: `A100-80GB` (8,411 jobs); there are offers of V100; add"
        ),
        "{}",
        stderr(&typed)
    );
    let none = folder.file("cluster_log.csv", &hourly().replace(",va,8,", ",va,0,"));
    let output =
        tracecast(&["plan", "rent", "fleet", &none, "--offers", &folder.file("offers.toml", OFFERS), "--quiet"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("no jobs with GPUs"));
}

#[test]
fn a_trace_of_spot_says_how_often_it_is_there() {
    let folder = Folder::new();
    // Up for three hours of four.
    let ticks: Vec<&str> = (0..400).map(|tick| if tick % 4 == 3 { "0" } else { "1" }).collect();
    folder.file("zone.json", &format!("{{\"metadata\": {{\"gap_seconds\": 3600}}, \"data\": [{}]}}", ticks.join(", ")));
    let spot = format!("{OFFERS}spot = {{ price = 4.0, availability = \"zone.json\" }}\n");
    let (jobs, offers) = (folder.file("cluster_log.csv", &hourly()), folder.file("offers.toml", &spot));
    let output = tracecast(&["plan", "rent", "fleet", &jobs, "--offers", &offers, "--format", "json", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let row = |how: &str| answer["mix"].as_array().unwrap().iter().find(|row| row["how"] == how).cloned();
    // Interrupted every 3 h, a job of 59 min takes e^(10/180)·180·(e^(59/180) − 1)/59 = 1.2512 times as long, without checkpoints. Three quarters of the time at 4
    // times that, and else on demand at 20, are 8.754 an hour: less than the 10 of the reservation.
    let spot = row("spot").unwrap();
    assert!((spot["overhead"].as_f64().unwrap() - 1.2512).abs() < 1e-3, "{spot}");
    assert!(
        (answer["cost_per_month"]["value"].as_f64().unwrap() - 8.7536 * 730.5).abs() < 5.0,
        "{}",
        answer["cost_per_month"]
    );
    assert!(row("reserved").is_none());
    assert!(answer["stress"].as_array().unwrap().len() == 1);
}
