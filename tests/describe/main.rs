//! Every number of a description of real traces against plain loops over the raw files, and what holds of every
//! description: it fits its schema, and says the same of a trace folder, on every run and on any number of threads.
//!
//! The real traces lie outside the repository; without them these tests say so and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

mod checker;
mod contract;
mod earth;
mod extreme;
mod jobs;
mod law;
mod placed;
mod plain;
mod times;
mod world;

use std::path::PathBuf;

use checker::Checker;
use tracecast_analytics::describe::Description;
use tracecast_tests::{read, real_trace};

/// The description of some files as JSON, ready to check, with what comes before the topics checked.
fn described(paths: &[PathBuf], rows: u64) -> Checker {
    let trace = read(paths).unwrap();
    let mut c = Checker::new(serde_json::to_value(Description::new(&trace)).unwrap());
    c.text("schema", "describe/3");
    c.list("sources", paths.len());
    for (ix, path) in paths.iter().enumerate() {
        c.text(&format!("sources[{ix}].name"), path.to_str().unwrap());
        c.count(&format!("sources[{ix}].size_bytes"), std::fs::metadata(path).unwrap().len());
    }
    c.count("quality.read", rows);
    c.count("quality.kept", rows);
    c.count("quality.repaired", 0);
    c.count("quality.quarantined", 0);
    for field in ["entries", "damage", "skipped"] {
        c.list(&format!("quality.{field}"), 0);
    }
    c
}

#[test]
fn philly_joined() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let world = world::philly_joined(&path);
    let mut c = described(&[path], world.rows);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    times::wait(&mut c, &world);
    jobs::status(&mut c, &world);
    times::calendar(&mut c, &world);
    times::vc(&mut c, &world);
    times::arrival(&mut c, &world);
    jobs::lost(&mut c, &world);
    jobs::limits(&mut c, &world);
    c.missing(&[
        "pool",
        "users",
        "usage",
        "fragment",
        "locality",
        "recurrence",
        "failure",
        "sharing",
        "power",
        "backlog",
        "repeated",
    ]);
    c.finish("Philly, joined table");
}

#[test]
fn philly_log() {
    let Some(path) = real_trace("philly/philly_cluster_job_log_ge4gpu.json.gz") else { return };
    let world = world::philly_log(&path);
    let mut c = described(&[path], world.rows);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    times::wait(&mut c, &world);
    times::calendar(&mut c, &world);
    times::arrival(&mut c, &world);
    c.missing(&[
        "status",
        "vc",
        "pool",
        "users",
        "usage",
        "fragment",
        "locality",
        "recurrence",
        "failure",
        "sharing",
        "power",
        "backlog",
        "lost",
        "repeated",
        "limits",
    ]);
    c.finish("Philly, job log of four GPUs and more");
}

fn openb_topics(c: &mut Checker, world: &world::World) {
    jobs::summary(c, world);
    jobs::size(c, world);
    times::duration(c, world);
    times::wait(c, world);
    jobs::status(c, world);
    times::calendar(c, world);
    jobs::failure(c, world);
    jobs::locality(c, world);
    jobs::sharing(c, world);
    times::arrival(c, world);
    jobs::lost(c, world);
    jobs::limits(c, world);
    c.missing(&["vc", "pool", "users", "usage", "fragment", "recurrence", "power", "backlog", "repeated"]);
}

#[test]
fn openb() {
    let Some(pods) = real_trace("openb_2023/openb_pod_list_default.csv.gz") else { return };
    let Some(nodes) = real_trace("openb_2023/openb_node_list_all_node.csv") else { return };
    let world = world::openb(&pods, &nodes);
    let mut c = described(&[pods, nodes], world.rows);
    openb_topics(&mut c, &world);
    c.finish("openb");
}

fn helios_slice_topics(c: &mut Checker, world: &world::World) {
    jobs::summary(c, world);
    jobs::size(c, world);
    times::duration(c, world);
    jobs::status(c, world);
    times::calendar(c, world);
    times::vc(c, world);
    jobs::users(c, world);
    jobs::recurrence(c, world);
    jobs::failure(c, world);
    times::arrival(c, world);
    jobs::lost(c, world);
    jobs::limits(c, world);
    c.missing(&["wait", "pool", "usage", "fragment", "locality", "sharing", "power", "backlog", "repeated"]);
}

#[test]
fn helios_slice() {
    let Some(path) = real_trace("helios/helios_venus_2vc_sept.csv") else { return };
    let world = world::helios_slice(&path);
    let mut c = described(&[path], world.rows);
    helios_slice_topics(&mut c, &world);
    c.finish("Helios Venus slice");
}

/// Description of these jobs beside the GPUs of each VC by day.
#[test]
fn helios_slice_with_quotas() {
    let Some(path) = real_trace("helios/helios_venus_2vc_sept.csv") else { return };
    let Some(quotas) = real_trace("helios/Venus_cluster_gpu_number.csv") else { return };
    let mut world = world::helios_slice(&path);
    world.quotas = world::helios_quotas(&quotas);
    let trace = read(&[path, quotas]).unwrap();
    let mut c = Checker::new(serde_json::to_value(Description::new(&trace)).unwrap());
    jobs::summary(&mut c, &world);
    times::calendar(&mut c, &world);
    times::vc(&mut c, &world);
    c.finish_below("Helios Venus slice with quotas", &["vc.", "calendar.", "summary."]);
}

#[test]
fn earth() {
    let Some(folder) = real_trace("helios/earth_vc_1min") else { return };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let rows = 8 * 44_640;
    let mut c = described(&files, rows);
    earth::check(&mut c, &files);
    c.missing(&[
        "summary",
        "size",
        "duration",
        "wait",
        "status",
        "users",
        "usage",
        "fragment",
        "locality",
        "recurrence",
        "failure",
        "sharing",
        "power",
        "arrival",
        "backlog",
        "lost",
        "repeated",
        "limits",
    ]);
    c.finish("Helios Earth, eight VCs");
}

/// A series of nodes without GPUs or jobs.
#[test]
fn philly_nodes() {
    let Some(path) = real_trace("philly/philly_node_sequence.csv.gz") else { return };
    let rows = world::rows(&path);
    let trace = read(&[path]).unwrap();
    let mut c = Checker::new(serde_json::to_value(Description::new(&trace)).unwrap());
    times::node_series(&mut c, &rows);
    c.finish_below("Philly, nodes in use", &["calendar.nodes_in_use"]);
}

/// A made-up log with what the real ones lack: jobs that still run, retries and outcomes, users with waits.
#[test]
fn made_up_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster_job_log.json");
    std::fs::write(&path, world::generate_log()).unwrap();
    let world = world::philly_log(&path);
    let number = |keep: fn(&world::Job) -> bool| world.jobs.iter().filter(|job| keep(job)).count();
    assert!(number(|job| job.running) > 5 && number(|job| job.running && job.held.len() > 1) > 0);
    assert_eq!(number(|job| job.held.is_empty()), 4);
    let mut c = described(&[path], world.rows);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    times::wait(&mut c, &world);
    jobs::status(&mut c, &world);
    times::calendar(&mut c, &world);
    times::vc(&mut c, &world);
    jobs::users(&mut c, &world);
    jobs::recurrence(&mut c, &world);
    jobs::failure(&mut c, &world);
    times::arrival(&mut c, &world);
    jobs::lost(&mut c, &world);
    jobs::repeated(&mut c, &world);
    jobs::limits(&mut c, &world);
    c.missing(&["pool", "usage", "fragment", "locality", "sharing", "power", "backlog"]);
    c.finish("made-up log");
}

/// The checks themselves: with every number changed a little, each is found wrong. Points of curves are found by their x,
/// and fits judged by their parameters, so those are changed on their own.
#[test]
fn every_changed_number_is_found() {
    let Some(pods) = real_trace("openb_2023/openb_pod_list_default.csv.gz") else { return };
    let Some(nodes) = real_trace("openb_2023/openb_node_list_all_node.csv") else { return };
    let Some(slice) = real_trace("helios/helios_venus_2vc_sept.csv") else { return };
    let found = |world: &world::World, files: &[PathBuf], topics: fn(&mut Checker, &world::World)| {
        let rounds: [fn(&str) -> bool; 3] =
            [|key| key != "x" && key != "value", |key| key == "x", |key| key == "value"];
        for chosen in rounds {
            let mut c = described(files, world.rows);
            c.spoil(chosen);
            topics(&mut c, world);
            let mut unharmed = c.unharmed(chosen);
            // What comes before the topics was checked before it was spoilt.
            unharmed.retain(|path| !path.starts_with("quality.") && !path.starts_with("sources["));
            assert!(unharmed.is_empty(), "{} changed numbers pass: {unharmed:?}", unharmed.len());
        }
    };
    found(&world::openb(&pods, &nodes), &[pods, nodes], openb_topics);
    found(&world::helios_slice(&slice), &[slice], helios_slice_topics);
}

/// The totals that are known of these traces from outside this repository.
#[test]
fn published_totals() {
    if let Some(path) = real_trace("philly/philly_jobs.csv.gz") {
        let json = serde_json::to_value(Description::new(&read(&[path]).unwrap())).unwrap();
        assert_eq!(json["summary"]["jobs"], 111_549);
        assert_eq!((json["summary"]["gpu_hours"].as_f64().unwrap() / 1e4).round(), 362.0, "3.62 million GPU-hours");
        for (gpus, jobs) in [(1.0, 96_662), (2.0, 2_522), (4.0, 5_487), (8.0, 5_716)] {
            let sizes = json["size"]["by_gpus"].as_array().unwrap();
            let size = sizes.iter().find(|size| size["gpus"].as_f64() == Some(gpus)).unwrap();
            assert_eq!(size["jobs"], jobs, "jobs of {gpus} GPUs");
        }
    }
    if let Some(path) = real_trace("openb_2023/openb_pod_list_default.csv.gz") {
        let json = serde_json::to_value(Description::new(&read(&[path]).unwrap())).unwrap();
        assert_eq!(json["summary"]["jobs"], 8_152);
        let fractional = json["sharing"]["fractional_share"].as_f64().unwrap();
        assert_eq!((fractional * 1e3).round(), 436.0, "43.6 % of the GPU pods ask for a fraction");
    }
}
