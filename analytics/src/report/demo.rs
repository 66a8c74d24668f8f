//! A made-up report with every kind of block, for tests of the writers. Its numbers come from formulas, not from a trace.
#![allow(clippy::unwrap_used)]

use jiff::tz::TimeZone;

use super::*;

/// Every kind of chart, each with the awkward parts of real traces: zeros on logarithmic axes, gaps, long names.
pub(crate) fn charts() -> Vec<Chart> {
    // ECDF of a log-logistic with median m: F(t) = t / (t + m); 12 % of the jobs start at once.
    let ecdf = |median: f64| -> Vec<(f64, f64)> {
        std::iter::once((0.0, 0.12))
            .chain((0..400).map(|i| {
                let t = 10_f64.powf(f64::from(i) / 400.0 * 6.0);
                (t, 0.12 + 0.88 * t / (t + median))
            }))
            .collect()
    };
    let wait = Chart::xy(
        "wait-ecdf",
        "Wait by requested GPUs",
        Axis::log_duration("Wait"),
        Axis::share("Share of jobs that waited at most this long"),
        vec![
            ChartSeries::new("1 GPU", Mark::Step, ecdf(60.0)),
            ChartSeries::new("2–4 GPUs", Mark::Step, ecdf(600.0)),
            ChartSeries::new("8 GPUs", Mark::Step, ecdf(7_200.0)),
            ChartSeries::new("More than 8 GPUs", Mark::Step, ecdf(40_000.0)),
        ],
    )
    .with_reading("Read upwards from a duration: the curve is the share of jobs that waited **at most** that long. Larger jobs wait longer.");

    let day = 86_400.0;
    let start = 1_506_816_000.0;
    let used: Vec<(f64, f64)> = (0..(75 * 24))
        .map(|h| {
            let t = f64::from(h);
            let wave = 1_700.0
                + 350.0 * (t / 24.0 * std::f64::consts::TAU).sin()
                + 250.0 * (t / 24.0 / 7.0 * std::f64::consts::TAU).cos();
            (start + t * 3_600.0, if (600..640).contains(&h) { f64::NAN } else { wave })
        })
        .collect();
    let in_use = Chart::xy(
        "gpus-in-use",
        "GPUs in use",
        Axis::time("", TimeZone::UTC),
        Axis::linear("GPUs"),
        vec![ChartSeries::new("In use", Mark::Area, used)],
    )
    .with_reference(Reference::Horizontal { at: 2_490.0, label: "2,490 GPUs installed".to_string() })
    .with_reference(Reference::Vertical { at: start + 40.0 * day, label: "quota change".to_string() })
    .with_reading("The shaded area is the number of GPUs that jobs held; the dashed line is what was installed.");

    let statuses = ["Passed", "Killed", "Failed"];
    let sizes = ["1", "2", "4", "8", "16", "32 or more"];
    let status = Chart::bars(
        "status-by-size",
        "Outcome by requested GPUs",
        Axis::share("Share of jobs"),
        BarLayout::Stacked,
        sizes.iter().map(ToString::to_string).collect(),
        statuses
            .iter()
            .enumerate()
            .map(|(k, name)| {
                let share = |i: usize| [0.7 - 0.06 * i as f64, 0.15 + 0.04 * i as f64, 0.15 + 0.02 * i as f64][k];
                BarSeries::new(*name, (0..sizes.len()).map(|i| Some(share(i))).collect())
            })
            .collect(),
    )
    .with_reading("Each bar is all jobs of that size. Larger jobs are killed more often.");

    let heat = Chart::heatmap(
        "arrivals",
        "Submissions by hour and weekday",
        (0..24).map(|h| format!("{h:02}")).collect(),
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
            .iter()
            .map(ToString::to_string)
            .collect(),
        (0..7)
            .map(|d| {
                (0..24)
                    .map(|h| {
                        let work = if d < 5 { 1.0 } else { 0.4 };
                        let value = work * 80.0 * (1.0 - ((f64::from(h) - 15.0) / 14.0).powi(2)).max(0.05);
                        if d == 6 && h < 2 { None } else { Some(value) }
                    })
                    .collect()
            })
            .collect(),
        Axis::linear("Jobs per hour"),
    )
    .with_reading(
        "The stronger the colour, the more submissions. Columns are hours of the day in the cluster's time zone.",
    );

    let lorenz: Vec<(f64, f64)> = (0..=100).map(|i| f64::from(i) / 100.0).map(|x| (x, x.powi(5))).collect();
    let lorenz = Chart::xy(
        "lorenz",
        "Concentration of GPU time over users",
        Axis::share("Share of users, smallest first"),
        Axis::share("Share of GPU time"),
        vec![ChartSeries::new("GPU time", Mark::Line, lorenz)],
    )
    .with_reference(Reference::Diagonal { label: "All users equal".to_string() })
    .with_reading("The further the curve hangs below the dashed line, the fewer users hold most of the GPU time.");

    let survival: Vec<(f64, f64)> =
        (0..60).map(|i| 10_f64.powf(f64::from(i) / 10.0)).map(|t| (t, 1.0 / (1.0 + t / 3_000.0))).collect();
    let band = survival.iter().map(|(t, s)| (*t, (s - 0.05).max(0.0), (s + 0.05).min(1.0))).collect();
    let survival = Chart::xy(
        "survival",
        "Share of jobs still running",
        Axis::log_duration("Run time"),
        Axis::share("Share still running"),
        vec![ChartSeries::new("Kaplan–Meier", Mark::Step, survival).with_band(band)],
    )
    .with_reading("The curve is the share of jobs that run longer than a duration; shaded is the 95 % interval.");

    let boxes = (0..8)
        .map(|i| {
            let m = 60.0 * 3_f64.powi(i);
            let label = if i == 3 {
                "a-virtual-cluster-with-quite-a-long-name-indeed-0123456789".to_string()
            } else {
                format!("vc-{i}")
            };
            let p05 = if i == 0 { 0.0 } else { m / 30.0 };
            BoxSummary {
                label,
                count: 1_000 * 4_u64.pow(i.unsigned_abs()),
                p05,
                p25: m / 5.0,
                p50: m,
                p75: m * 6.0,
                p95: m * 20.0,
            }
        })
        .collect();
    let boxes = Chart::boxes("wait-by-vc", "Wait by VC", Axis::log_duration("Wait"), boxes)
        .with_reading("Each row is one virtual cluster. A box far to the right means long waits for most jobs.");

    let users: Vec<String> = (0..10)
        .map(|i| {
            if i == 2 {
                "<script>alert('user')</script> & a very long user name that goes on and on and on".to_string()
            } else {
                format!("user-{i:03}")
            }
        })
        .collect();
    let top = Chart::rows(
        "top-users",
        "Users by GPU-hours",
        Axis::linear("GPU-hours"),
        BarLayout::Grouped,
        users,
        vec![BarSeries::new("GPU-hours", (0..10).map(|i| Some(1_400_000.0 / f64::from(i + 1))).collect())],
    )
    .with_reading("The ten users with most GPU time.");

    let sample: Vec<(f64, f64)> =
        (1..60).map(|i| f64::from(i) / 60.0).map(|p| (3_000.0 * (p / (1.0 - p)).powf(1.4), p)).collect();
    let model: Vec<(f64, f64)> =
        sample.iter().map(|(t, _)| (*t, 1.0 / (1.0 + (t / 3_000.0).powf(-1.0 / 1.5)))).collect();
    let fit = Chart::xy(
        "fit",
        "Run time and fitted log-logistic",
        Axis::log_duration("Run time"),
        Axis::share("Share of jobs"),
        vec![ChartSeries::new("Measured", Mark::Points, sample), ChartSeries::new("Log-logistic", Mark::Dashed, model)],
    )
    .with_reading("Dots on the dashed line mean that the model fits there.");

    let grouped = Chart::bars(
        "saving",
        "Change of mean wait against first come, first served",
        Axis::linear("Change of mean wait").as_percent(),
        BarLayout::Grouped,
        ["shortest job first, by predicted run time", "backfill", "priority by quota"]
            .iter()
            .map(ToString::to_string)
            .collect(),
        vec![
            BarSeries::new("Small jobs", vec![Some(-0.62), Some(-0.3), Some(0.1)]),
            BarSeries::new("Large jobs", vec![Some(0.21), Some(-0.12), None]),
        ],
    )
    .with_reading("Bars below zero are shorter waits.");

    let waterfall = Chart::waterfall(
        "waterfall",
        "From the meter to work",
        Axis::linear("Energy (kWh)"),
        vec![
            Step::total("Facility", 1_250.0),
            Step::change("Cooling and losses", -250.0),
            Step::total("IT equipment", 1_000.0),
            Step::change("Readings above the meter", 30.0),
            Step::change("Nodes beside their GPUs, with a name that is much too long to stand beside a bar", -400.0),
            Step::change("Unknown", f64::NAN),
            Step::total("Work", 630.0),
        ],
    )
    .with_reading("Each row begins where the one above ends.");

    vec![wait, in_use, status, heat, lorenz, survival, boxes, top, fit, grouped, waterfall]
}

/// A report with every kind of section.
pub(crate) fn report() -> Report {
    let mut report = Report::new("Cluster trace report", "Demo trace, 1 Oct 2017 to 15 Dec 2017, times in UTC");
    report.summary = vec![
        "Jobs held **3.62 M GPU-hours**, 68 % of what was installed.".to_string(),
        "Half of all jobs started within **1 min 12 s**, but jobs of 8 GPUs and more waited a median of **2 h 4 min**."
            .to_string(),
        "**31 %** of GPU time went to jobs that failed or were killed.".to_string(),
    ];
    let mut table = ReportTable::new(
        "Jobs by requested GPUs",
        vec![
            Column::text("GPUs"),
            Column::number("Jobs"),
            Column::number("Share"),
            Column::number("Median wait"),
            Column::number("95 % wait"),
            Column::with_unit("GPU time", "h"),
        ],
    );
    for (i, name) in ["1", "2–4", "8", "more than 8"].iter().enumerate() {
        let k = i as f64 + 1.0;
        table.rows.push(vec![
            Cell::from(*name),
            Cell::Int(90_000 / (i as i64 + 1).pow(3)),
            Cell::Percent(0.8 / k.powi(3)),
            Cell::Duration(60.0 * k.powi(4)),
            Cell::opt((i < 3).then_some(4_000.0 * k.powi(3)), Cell::Duration),
            Cell::Compact(450_000.0 * k),
        ]);
    }
    table.note = Some("The 95 % wait of the largest jobs is unknown: **too few** of them started.".to_string());
    let finding = [
        "Jobs that ask for more GPUs wait longer at every quantile.",
        "GPUs were busy on working days and idle at weekends.",
        "A third of large jobs do not finish on their own.",
        "Submissions peak at 15:00 on working days.",
        "5 % of users hold **four fifths** of the GPU time.",
        "Half of the jobs end within 50 min.",
        "Waits differ by a factor of a thousand between VCs.",
        "Ten users account for most of the GPU time.",
        "A log-logistic describes run times within 3 points.",
        "Predicting run times helps small jobs and costs large ones.",
        "Half of the energy is work.",
    ];
    for (i, chart) in charts().into_iter().enumerate() {
        let mut section = Section::new(chart.id.clone(), chart.title.clone())
            .with_finding(finding[i])
            .with_gpu_hours(if i == 3 { None } else { Some(3_620_000.0 / (i as f64 + 1.0)) })
            .with_coverage("98.2 % of 111,549 jobs have a wait")
            .with_chart(chart)
            .with_definition("**Wait**: from submission to the first start of the job.");
        if i == 0 {
            section = section
                .with_table(table.clone())
                .with_text("Jobs that never started are counted as waiting until the end of the trace.");
        }
        report.sections.push(section);
    }
    report.sections.push(Section::not_available("power", "Energy and power", "The trace has no power readings."));
    report.sections.push(Section::not_available("frag", "Fragmentation", "Jobs do not name the nodes they ran on."));
    let mut quality = ReportTable::new(
        "Rows by what happened to them",
        vec![Column::text("Reason"), Column::number("Rows"), Column::text("Treatment")],
    );
    quality.rows.push(vec![Cell::from("end before start"), Cell::Int(17), Cell::from("kept, run time unknown")]);
    quality.rows.push(vec![Cell::from("duplicate identifier"), Cell::Int(1_204), Cell::from("last row kept")]);
    report.quality = Some(quality);
    report.provenance = vec![
        (
            "Source".to_string(),
            "jobs.json, 112.4 MiB, SHA-256 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                .to_string(),
        ),
        ("Time zone".to_string(), "UTC".to_string()),
        ("Tool".to_string(), "tracecast 0.1.0".to_string()),
    ];
    report
}

/// Renders everything; into the folder named by `TRACECAST_DEMO_DIR` if set, for looking at, else into a temporary one.
#[test]
fn every_writer_gives_the_same_bytes_twice_and_files_can_be_written() {
    let report = report();
    let html = html::render(&report).unwrap();
    assert_eq!(html, html::render(&report).unwrap());
    let narrow = text::TextOptions { width: 80, color: false };
    let terminal = text::render(&report, narrow);
    assert_eq!(terminal, text::render(&report, narrow));
    assert!(text::widest_line(&terminal) <= 80, "{terminal}");
    let markdown = markdown::render(&report);
    assert!(!markdown.contains("<script"));
    assert!(!html.contains("<script"));

    let temporary = tempfile::tempdir().unwrap();
    let folder =
        std::env::var_os("TRACECAST_DEMO_DIR").map_or_else(|| temporary.path().to_path_buf(), std::path::PathBuf::from);
    std::fs::write(folder.join("report.html"), &html).unwrap();
    std::fs::write(folder.join("report.md"), markdown).unwrap();
    std::fs::write(folder.join("report.txt"), terminal).unwrap();
    for chart in charts() {
        std::fs::write(folder.join(format!("{}.svg", chart.id)), plot::svg(&chart, plot::SvgUse::Standalone).unwrap())
            .unwrap();
        std::fs::write(folder.join(format!("{}.png", chart.id)), plot::png(&chart).unwrap()).unwrap();
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3 + 2 * charts().len());
}
