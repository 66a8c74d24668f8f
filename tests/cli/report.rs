//! The page of `tracecast report`, and of a comparison: what stands where.

use std::path::Path;

use serde_json::Value;

use crate::{Folder, json, stderr, stdout, tracecast};

/// The text of a piece of HTML: without tags, styles and drawings.
fn text(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        out.push(' ');
        let end =
            ["style", "svg"].iter().find(|name| rest[at + 1..].starts_with(*name)).map(|name| format!("</{name}>"));
        let end = end.and_then(|end| rest[at..].find(&end).map(|found| at + found)).unwrap_or(at);
        rest = rest[end..].find('>').map_or("", |close| &rest[end + close + 1..]);
    }
    out.push_str(rest);
    out
}

/// Text between two marks, the first time they occur.
fn between<'h>(html: &'h str, from: &str, to: &str) -> &'h str {
    let begin = html.find(from).unwrap_or_else(|| panic!("no {from} in the page"));
    let rest = &html[begin..];
    rest.find(to).map_or(rest, |end| &rest[..end])
}

/// The headings of a page, as text.
fn headings(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for tag in ["h1", "h2", "h3", "summary"] {
        for piece in html.split(&format!("<{tag}")).skip(1) {
            let piece = piece.split_once('>').map_or("", |(_, rest)| rest);
            found.push(text(piece.split(&format!("</{tag}>")).next().unwrap_or_default()).trim().to_owned());
        }
    }
    found
}

fn sentences(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.ends_with(['.', '?', '!']) && word.len() > 1).count()
}

#[test]
fn the_report_opens_with_decisions() {
    let folder = Folder::new();
    let out = folder.path("report");
    let output = tracecast(&["report", "datasets/sample", "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let html = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    // The row of figures, the whole time, what to change, what was found: in this order.
    let row = between(&html, "<dl class=\"figures\">", "</dl>");
    assert!((5..=6).contains(&row.matches("<dt>").count()), "{row}");
    let place = |what: &str| html.find(what).unwrap_or_else(|| panic!("no {what} in the page"));
    assert!(place("class=\"figures\"") < place("GPUs over the whole time"));
    assert!(place("GPUs over the whole time") < place("id=\"what-to-change\""));
    assert!(place("id=\"what-to-change\"") < place("id=\"what-we-found\""));
    // At most five cards, each with its effect, its cost, how to apply and how to undo it.
    let changes = between(&html, "id=\"what-to-change\"", "id=\"what-we-found\"");
    let cards: Vec<&str> = changes.split("<article").skip(1).collect();
    assert!((1..=5).contains(&cards.len()), "{}", cards.len());
    for card in &cards {
        for part in ["class=\"effect\"", "Confidence", "Who pays", "Apply", "Undo"] {
            assert!(card.contains(part), "no {part} in {card}");
        }
    }
    let data = json(&std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap());
    assert_eq!(data["recommendations"].as_array().map(Vec::len), Some(cards.len()));
    for recommendation in data["recommendations"].as_array().unwrap() {
        let first = &recommendation["effects"][0];
        let number = |of: &str| first[of].as_f64().unwrap();
        assert!(number("low") <= number("change") && number("change") <= number("high"), "{first}");
        // What is recommended is told from doing nothing.
        assert!(number("low") * number("high") > 0.0, "{first}");
    }
    // Few words before the first chart of what was found.
    let found = between(&html, "id=\"what-we-found\"", "<svg");
    assert!(sentences(&text(found)) <= 7, "{}", text(found));
    let page = text(&html);
    assert!(!page.contains('`'), "{}", page.split('`').nth(1).unwrap_or_default());
    for heading in headings(&html) {
        let coded = heading.split_whitespace().next().is_some_and(|word| {
            word.len() <= 3 && word.starts_with('A') && word[1..].chars().all(|c| c.is_ascii_digit()) && word.len() > 1
        });
        assert!(!coded, "{heading}");
    }
    // Every link leads somewhere.
    for link in html.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap_or_default();
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    // The same in the terminal.
    let said = stdout(&output);
    assert!(said.find("What to change").unwrap() < said.find("Who waits and why?").unwrap(), "{said}");
}

/// The bytes do not depend on the threads.
#[test]
fn the_report_is_the_same_on_one_thread() {
    // Each engine that it asks is held by a test of its own.
    if !tracecast_tests::full_tier() {
        return;
    }
    let folder = Folder::new();
    let page = |threads: &str| {
        let out = folder.path(&format!("report-{threads}"));
        let output = tracecast(&["report", "datasets/sample", "--out", &out, "--threads", threads]);
        assert!(output.status.success(), "{}", stderr(&output));
        ["report.html", "report.json"].map(|name| std::fs::read(Path::new(&out).join(name)).unwrap())
    };
    assert!(page("1") == page("3"));
}

/// A report where nothing waits, fails or is measured recommends nothing, and says so.
#[test]
fn where_nothing_is_worth_changing_the_report_says_so() {
    let folder = Folder::new();
    let mut jobs =
        "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
            .to_owned();
    for at in 0..40 {
        let (hour, day) = (at % 24, 1 + at / 24);
        jobs.push_str(&format!(
            "{at},u,vc1,train,1,4,1,COMPLETED,2020-09-{day:02} {hour:02}:00:00,2020-09-{day:02} {hour:02}:00:00,2020-09-{day:02} {hour:02}:30:00,1800,0\n"
        ));
    }
    let source = folder.file("cluster_log.csv", &jobs);
    let out = folder.path("report");
    let output = tracecast(&["report", &source, "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let html = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    let changes = between(&html, "id=\"what-to-change\"", "id=\"what-we-found\"");
    // Regression: "nothing is worth changing", where nothing could be judged.
    let judged = changes.contains("Nothing could be judged") || changes.contains("Nothing that could be judged");
    assert!(judged && !changes.contains("Nothing is worth changing"), "{changes}");
    let why = "queues: shared nodes and another order (The trace does not allow it: the source does not say how many GPUs its VCs have";
    assert!(text(changes).contains(why) && !changes.contains("<article"), "{changes}");
    let data = json(&std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap());
    assert_eq!(data["recommendations"], Value::Array(Vec::new()));
    assert!(data["left_alone"].as_array().is_some_and(|left| left.len() >= 3), "{}", data["left_alone"]);
}

/// Regression test: a command that a report gave failed, and left out how the source had been read.
#[test]
fn commands_that_a_report_gives_are_commands() {
    let folder = Folder::new();
    let out = folder.path("report");
    let output = tracecast(&["report", "datasets/sample", "--timezone", "Europe/Berlin", "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let data = json(&std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap());
    let commands: Vec<&str> =
        data["recommendations"].as_array().unwrap().iter().filter_map(|of| of["command"].as_str()).collect();
    assert!(!commands.is_empty(), "{data}");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        assert!(command.contains("datasets/sample --timezone Europe/Berlin"), "{command}");
        // Help is told only where all words before it are of the command.
        let output = tracecast(&[&words[1..], &["--help"]].concat());
        assert!(words[0] == "tracecast" && output.status.success(), "{command}: {}", stderr(&output));
    }
}

/// The report asks the plans with their own defaults, so that it says what they say, and shows their sections.
#[test]
fn the_report_says_what_the_plans_say() {
    let folder = Folder::new();
    let out = folder.path("report");
    let output = tracecast(&["report", "datasets/sample", "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
    let (data, html) = (json(&read("report.json")), read("report.html"));
    let plan = |name: &str| json(&stdout(&tracecast(&["plan", name, "datasets/sample", "--format", "json"])));
    let of = |list: &str, key: &str, wanted: &str| -> Value {
        let found = data[list].as_array().unwrap().iter().find(|of| of[key].as_str().unwrap().starts_with(wanted));
        found.unwrap_or_else(|| panic!("no {wanted} in {data}")).clone()
    };
    let queues = plan("queues");
    let told = of("recommendations", "plan", "queues");
    for key in ["action", "effects", "confidence", "harmed"] {
        assert_eq!(told[key], queues["recommendation"][key], "{key}");
    }
    let defer = plan("defer");
    let left = of("left_alone", "what", "Waiting for hours");
    assert_eq!((&defer["recommendation"], left["judged"].as_bool()), (&Value::Null, Some(true)));
    assert_eq!(left["why"].as_str().unwrap(), defer["action"].as_str().unwrap().replace("**", ""));
    for title in ["Plan of queues: ", "Plan to wait for cleaner hours: "] {
        assert!(headings(&html).iter().any(|heading| heading.starts_with(title)), "{title}");
    }
    // The surest first.
    let sure: Vec<&str> =
        data["recommendations"].as_array().unwrap().iter().map(|of| of["confidence"].as_str().unwrap()).collect();
    let rank = |of: &&str| ["high", "medium", "low"].iter().position(|name| name == of);
    assert!(sure.is_sorted_by_key(rank), "{sure:?}");
    // What takes more than a record is named with its command, and is not said to be judged.
    let unasked = of("left_alone", "what", "What to rent");
    assert!(unasked["judged"] == false && unasked["why"].as_str().unwrap().contains("plan rent fleet datasets/sample"));
}

/// Regression test: traces of 2017 and of 2024 were described as one.
#[test]
fn sources_of_other_years_are_not_one_cluster() {
    let folder = Folder::new();
    let log = |name: &str, year: u32| {
        let mut jobs =
            "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
                .to_owned();
        for day in 1..29 {
            let at = |hour: u32| format!("{year}-02-{day:02} {hour:02}:00:00");
            jobs.push_str(&format!("{year}{day},u,vc1,train,1,4,1,COMPLETED,{},{},{},3600,0\n", at(1), at(1), at(2)));
        }
        folder.file(name, &jobs)
    };
    let (old, new, next) = (log("a.csv", 2017), log("b.csv", 2024), log("c.csv", 2023));
    let refused = tracecast(&["describe", &old, &new]);
    let told = stderr(&refused);
    assert!(!refused.status.success() && told.contains("6.9 years") && told.contains("--one-cluster"), "{told}");
    assert!(tracecast(&["describe", &old, &new, "--one-cluster"]).status.success());
    // The same of trace folders.
    let (first, second) = (folder.path("old"), folder.path("new"));
    for (source, out) in [(&old, &first), (&new, &second)] {
        assert!(tracecast(&["ingest", source, "--out", out]).status.success());
    }
    assert!(stderr(&tracecast(&["describe", &first, &second])).contains("--one-cluster"));
    // Less than a year lies between these.
    assert!(tracecast(&["describe", &next, &new]).status.success());
}

/// A comparison's report is of the comparison.
#[test]
fn a_comparison_opens_with_the_comparison() {
    let output = tracecast(&["simulate", "datasets/sample", "--compare", "fifo,sjf,fewest-gpus", "--format", "html"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let html = stdout(&output);
    let title = text(between(&html, "<h1>", "</h1>"));
    assert!(title.contains("3 policies compared"), "{title}");
    let summary = text(between(&html, "id=\"summary\"", "</section>"));
    assert!(summary.contains("has the least mean wait") && summary.contains("against"), "{summary}");
    let place = |what: &str| html.find(what).unwrap_or_else(|| panic!("no {what} in the page"));
    assert!(place("id=\"s-comparison\"") < place("id=\"s-fidelity\""));
    // FIFO waits longer than shortest first in both, and no index of fairness saves it.
    assert!(summary.contains("beaten"), "{summary}");
}
