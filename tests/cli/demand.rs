//! `tracecast model train demand`, `model predict demand` and `model backtest demand`, as a user
//! meets them.

use super::*;

/// Twenty-five days of one-GPU jobs of VC `va` (three an hour by day, one by night) and, every sixth hour, one of four GPUs of `vb`.
pub(super) fn jobs(hours: u32) -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    let time = |s: u32| {
        let (day, rest) = (s / 86_400, s % 86_400);
        format!("2020-04-{:02} {:02}:{:02}:{:02}", 1 + day, rest / 3600, rest / 60 % 60, rest % 60)
    };
    let mut id = 0;
    let mut put = |submit: u32, vc: &str, gpus: u32, run: u32| {
        id += 1;
        let (from, to) = (time(submit), time(submit + run));
        text += &format!("{id},ann,{vc},{gpus},4,1,COMPLETED,{from},{from},{to},{run},0\n");
    };
    for hour in 0..hours {
        let many = if (8..20).contains(&(hour % 24)) { 3 } else { 1 };
        for at in 0..many {
            put(hour * 3600 + at * 1000 + 60, "va", 1, 3000 + hour * 37 % 2000);
        }
        if hour % 6 == 0 {
            put(hour * 3600 + 500, "vb", 4, 9000);
        }
    }
    text
}

const SLOTS: [&str; 6] = ["--slot", "30min", "--horizon", "4", "--trees", "20"];

#[test]
fn a_model_is_trained_and_forecasts_the_next_slots_of_each_vc_and_the_pool() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &jobs(500));
    let model = folder.path("demand.tcm");
    let output = tracecast(&[&["model", "train", "demand", &source, "--out", &model], &SLOTS[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("all VCs: "), "{}", stderr(&output));
    let output = tracecast(&["model", "predict", "demand", "--model", &model]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0][0], rows[0].len()), (1 + 3 * 4, "series", 15));
    let names: Vec<&str> = rows.iter().skip(1).step_by(4).map(|row| row[0]).collect();
    assert_eq!(names, ["va", "vb", "all VCs"]);
    for row in &rows[1..] {
        let quantiles: Vec<f64> = row[7..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!(quantiles.is_sorted() && quantiles[0] >= 0.0, "{row:?}");
    }
    // A newer record of the same log, whose last job of `vb` (9,500 s after the hour) ends six hours later, as then does the forecast begin.
    let other = Folder::new();
    let newer = other.file("cluster_log.csv", &jobs(506));
    let output = tracecast(&["model", "predict", "demand", "--model", &model, &newer, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let later = json(&stdout(&output));
    assert_eq!(
        (later["schema"].as_str(), later["levels"].as_array().unwrap().len()),
        (Some("model-predict-demand/1"), 8)
    );
    let first = |at: usize| later["series"][at]["slots"][0]["start_ms"].as_i64().unwrap();
    let before = {
        let output = tracecast(&["model", "predict", "demand", "--model", &model, "--format", "json"]);
        json(&stdout(&output))["series"][0]["slots"][0]["start_ms"].as_i64().unwrap()
    };
    assert_eq!(first(0) - before, 6 * 3_600_000);
    // Another kind of model file is refused in words.
    let wrong = folder.file("wrong.tcm", "{\"format\":\"else\"}\n");
    let output = tracecast(&["model", "predict", "demand", "--model", &wrong]);
    assert!(stderr(&output).contains("tracecast model train demand"), "{}", stderr(&output));
}

#[test]
fn the_back_test_says_how_each_model_did_beside_persistence_in_every_form() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &jobs(500));
    let ask = |more: &[&str]| tracecast(&[&["model", "backtest", "demand", &source], &SLOTS[..], more].concat());
    let output = ask(&["--eval-from", "2020-04-16", "--eval-to", "2020-04-18", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(
        (found["schema"].as_str(), found["series"].as_array().unwrap().len()),
        (Some("model-backtest-demand/1"), 3)
    );
    let va = &found["series"][0];
    // Three whole days of 48 slots, from midnight in Shanghai, which is 16:00 UTC the day before.
    assert_eq!((va["name"].as_str(), va["reported"]["slots"].as_u64()), (Some("va"), Some(144)));
    assert_eq!(va["reported"]["from_ms"].as_i64(), Some(1_586_966_400_000));
    let models: Vec<&str> =
        va["models"].as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
    let all = ["persistence", "seasonal_day", "seasonal_week", "smoothing", "boosted", "structural", "ensemble"];
    assert_eq!(models, all);
    for model in va["models"].as_array().unwrap() {
        let horizons = model["by_horizon"].as_array().unwrap();
        assert_eq!((horizons.len(), horizons[0]["pinball"].as_array().unwrap().len()), (4, 8));
    }
    let table = ask(&["--methods", "seasonal_day", "--vc", "vb"]);
    let text = stdout(&table);
    assert!(text.contains("seasonal_day") && text.contains("persistence") && !text.contains("all VCs"), "{text}");
    assert!(stdout(&ask(&["--methods", "persistence", "--format", "markdown"])).contains("| persistence"));
    let page = stdout(&ask(&["--methods", "smoothing", "--format", "html"]));
    assert!(page.contains("<svg") && page.contains("sMAPE by horizon"));
    // What is wrong is said, with what would do.
    let output = ask(&["--vc", "vz"]);
    assert!(stderr(&output).contains("there are va, vb"), "{}", stderr(&output));
    let output = ask(&["--methods", "structural", "--unit", "nodes"]);
    assert!(stderr(&output).contains("--counts jobs --unit gpus"), "{}", stderr(&output));
    let output = ask(&["--eval-from", "soon"]);
    assert!(stderr(&output).contains("2017-10-03"), "{}", stderr(&output));
}
