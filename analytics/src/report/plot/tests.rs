//! Properties of drawings that hold for any data: well-formed, finite, inside the sheet, and the same twice.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::scene::{Anchor, NARROW, Shape, WIDTH, text_width};
use super::*;
use crate::report::chart::{Axis, BarLayout, BarSeries, BoxSummary, ChartSeries, Mark, Reference};
use crate::report::demo;

/// Checks tags, attributes and entities of an XML document by hand: every tag closed in order, every `&` an entity.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = xml;
    let mut elements = 0;
    while let Some(at) = rest.find('<') {
        assert_text(&rest[..at]);
        let end = rest[at..].find('>').unwrap_or_else(|| panic!("tag without end: {}", &rest[at..])) + at;
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "odd quotes in <{tag}>");
        assert!(!tag.contains('<'), "tag within <{tag}>");
        let name = tag.trim_matches('/').split_whitespace().next().unwrap().to_string();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_ref(), Some(&name), "closed out of order");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        elements += 1;
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(elements > 2);
}

fn assert_text(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "control character in {text:?}");
    for (at, _) in text.match_indices('&') {
        let tail = &text[at..];
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#39;"];
        assert!(known.iter().any(|e| tail.starts_with(e)), "bare & in {text:?}");
    }
}

fn assert_sound(chart: &Chart) -> String {
    for place in [SvgUse::Standalone, SvgUse::Inline, SvgUse::Narrow] {
        let once = svg(chart, place).unwrap();
        assert_well_formed(&once);
        assert!(!once.contains("NaN") && !once.contains("inf"), "{once}");
        assert_eq!(once, svg(chart, place).unwrap());
    }
    for sheet_width in [WIDTH, NARROW] {
        let scene = layout(chart, Sheet { title: Some(chart.title.as_str()), width: sheet_width });
        for shape in &scene.shapes {
            let places: Vec<(f64, f64)> = match shape {
                Shape::Path { points, .. } | Shape::Polygon { points, .. } => points.clone(),
                Shape::Rect { x, y, width, height, .. } => vec![(*x, *y), (x + width, y + height)],
                Shape::Dot { x, y, .. } => vec![(*x, *y)],
                Shape::Text { x, y, text, size, anchor, .. } => {
                    let width = text_width(text, *size);
                    let from = match anchor {
                        Anchor::Start => *x,
                        Anchor::Middle => x - width / 2.0,
                        Anchor::End => x - width,
                    };
                    assert!(from >= 0.0 && from + width <= sheet_width + 0.5, "clipped label {text:?} in {}", chart.id);
                    vec![(*x, *y)]
                }
            };
            for (x, y) in places {
                assert!(x.is_finite() && y.is_finite());
                assert!(
                    (-1.0..=sheet_width + 1.0).contains(&x) && (-1.0..=scene.height + 1.0).contains(&y),
                    "{x}, {y} off the sheet: {shape:?}"
                );
            }
        }
    }
    svg(chart, SvgUse::Standalone).unwrap()
}

fn curve(mark: Mark, x: Axis, y: Axis, points: Vec<(f64, f64)>) -> Chart {
    let band = points.iter().map(|(a, b)| (*a, b - 1.0, b + 1.0)).collect();
    Chart::xy(
        "c",
        "Title",
        x,
        y,
        vec![ChartSeries::new("a", mark, points).with_band(band), ChartSeries::new("b", mark, vec![])],
    )
}

#[test]
fn every_demo_chart_is_sound() {
    for chart in demo::charts() {
        assert_sound(&chart);
        let png = png(&chart).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 1_520);
        assert_eq!(png, super::png(&chart).unwrap());
    }
}

#[test]
fn degenerate_curves_are_sound() {
    let cases: Vec<Vec<(f64, f64)>> = vec![
        vec![],
        vec![(3.0, 4.0)],
        vec![(0.0, 0.0)],
        vec![(5.0, 5.0); 10],
        vec![(f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, f64::NEG_INFINITY)],
        vec![(-3.0, -4.0), (0.0, 0.0), (1e-300, 1e-300), (1e300, 1e300)],
        vec![(f64::MIN, f64::MIN), (f64::MAX, f64::MAX)],
        vec![(1.0, f64::MIN_POSITIVE), (1.0 + f64::EPSILON, 2.0)],
        (0..50_000).map(|i| (f64::from(i), f64::from(i % 977))).collect(),
    ];
    let axes: Vec<fn() -> Axis> = vec![
        || Axis::linear("v"),
        || Axis::log("v"),
        || Axis::share("v"),
        || Axis::duration("v"),
        || Axis::log_duration("v"),
        || Axis::doubling("v"),
        || Axis::time("v", jiff::tz::TimeZone::UTC),
        || Axis::log("v").as_percent(),
    ];
    for points in &cases {
        for mark in [Mark::Line, Mark::Dashed, Mark::Step, Mark::Area, Mark::Points] {
            // Ticks do not depend on the mark, so two marks meet every axis; the long series tests thinning.
            let every = matches!(mark, Mark::Dashed | Mark::Area) && points.len() < 100;
            for axis in axes.iter().take(if every { axes.len() } else { 2 }) {
                assert_sound(&curve(mark, axis(), Axis::linear("y"), points.clone()));
                assert_sound(&curve(mark, Axis::linear("x"), axis(), points.clone()));
            }
        }
    }
}

#[test]
fn the_file_does_not_grow_with_the_trace() {
    let chart = |n: i32| {
        curve(
            Mark::Step,
            Axis::linear("x"),
            Axis::linear("y"),
            (0..n).map(|i| (f64::from(i), f64::from(i % 7))).collect(),
        )
    };
    let (small, large) = (svg(&chart(20_000), SvgUse::Inline).unwrap(), svg(&chart(200_000), SvgUse::Inline).unwrap());
    assert!(large.len() < small.len() * 11 / 10, "{} and {}", small.len(), large.len());
}

#[test]
fn what_a_logarithmic_axis_cannot_hold_is_counted_on_the_chart() {
    let points = vec![(-1.0, 0.1), (0.0, 0.3), (10.0, 0.5), (f64::NAN, 0.5), (100.0, 1.0)];
    let chart = curve(Mark::Step, Axis::log("x"), Axis::share("y"), points);
    let drawn = assert_sound(&chart);
    assert!(drawn.contains("2 points at or below zero lie left of the logarithmic axis."), "{drawn}");
    assert!(drawn.contains("1 point without a value not drawn."), "{drawn}");
}

#[test]
fn names_of_points_that_find_no_place_are_counted() {
    let chart = |points: u32| {
        let point = |at: u32| (f64::from(at % 6) / 1e3, f64::from(at / 6) / 1e3);
        let one = |at| ChartSeries::new(format!("policy {at} of many"), Mark::Points, vec![point(at)]);
        // Two far away stretch the axes, so that the others lie in a heap.
        let far = [(1.0, 0.0), (0.0, 1.0)].map(|at| ChartSeries::new("far", Mark::Points, vec![at]));
        let series = (0..points).map(one).chain(far).collect();
        assert_sound(&Chart::xy("p", "P", Axis::linear("x"), Axis::linear("y"), series))
    };
    let named = |drawn: &str| drawn.matches(" of many\n").count();
    let few = chart(4);
    assert!(named(&few) == 4 && !few.contains("not fit"), "{few}");
    let many = chart(60);
    assert!(
        named(&many) < 60 && many.contains(&format!("{} names do not fit; the table has all", 60 - named(&many))),
        "{many}"
    );
}

#[test]
fn an_empty_chart_says_so() {
    for chart in [
        curve(Mark::Line, Axis::linear("x"), Axis::linear("y"), vec![]),
        Chart::bars("b", "B", Axis::linear("v"), BarLayout::Stacked, vec![], vec![]),
        Chart::rows(
            "b",
            "B",
            Axis::linear("v"),
            BarLayout::Grouped,
            vec!["a".into()],
            vec![BarSeries::new("s", vec![None])],
        ),
        Chart::heatmap("h", "H", vec![], vec![], vec![], Axis::linear("v")),
        Chart::boxes("x", "X", Axis::log_duration("v"), vec![]),
    ] {
        assert!(assert_sound(&chart).contains("No data to show"), "{}", chart.id);
    }
}

#[test]
fn degenerate_rows_are_sound() {
    let bad = "<script>\u{1b}[31m&\"'".repeat(20);
    for value in [0.0, -5.0, 1e300, f64::MAX, f64::NAN, 1e-300] {
        for layout in [BarLayout::Grouped, BarLayout::Stacked] {
            let series = || {
                vec![
                    BarSeries::new(bad.clone(), vec![Some(value), None, Some(1.0)]),
                    BarSeries::new("t", vec![Some(value)]),
                ]
            };
            let names = || vec![bad.clone(), String::new(), "x".to_string()];
            assert_sound(&Chart::bars("b", bad.clone(), Axis::linear(bad.clone()), layout, names(), series()));
            assert_sound(&Chart::rows("b", bad.clone(), Axis::log(bad.clone()), layout, names(), series()));
            let one = vec![BarSeries::new("t", vec![Some(value), Some(-value)])];
            assert_sound(&Chart::rows("b", "t", Axis::linear("v"), layout, names(), one));
        }
        let summary = BoxSummary {
            label: bad.clone(),
            count: u64::MAX,
            p05: value,
            p25: value,
            p50: value,
            p75: value,
            p95: value,
        };
        assert_sound(&Chart::boxes("x", "t", Axis::log_duration("v"), vec![summary.clone()]));
        assert_sound(&Chart::boxes("x", "t", Axis::linear("v"), vec![summary]));
        let cells = vec![vec![Some(value), None], vec![Some(value)]];
        assert_sound(&Chart::heatmap(
            "h",
            "t",
            vec!["a".into(), "b".into()],
            vec!["r".into(), "s".into()],
            cells,
            Axis::linear("v"),
        ));
    }
}

#[test]
fn references_far_outside_do_not_break_the_chart() {
    let chart = curve(Mark::Line, Axis::linear("x"), Axis::share("y"), vec![(0.0, 0.1), (1.0, 0.9)])
        .with_reference(Reference::Horizontal { at: 1e12, label: "far".to_string() })
        .with_reference(Reference::Vertical { at: f64::NAN, label: "nowhere".to_string() })
        .with_reference(Reference::Diagonal { label: "equal".to_string() });
    assert_sound(&chart);
}

#[test]
fn bars_that_stack_end_at_their_sum() {
    // 0.25 + 0.75 = 1 fills the axis of shares; the second bar begins where the first ends, a quarter up.
    let chart = Chart::bars(
        "b",
        "t",
        Axis::share("v"),
        BarLayout::Stacked,
        vec!["only".into()],
        vec![BarSeries::new("a", vec![Some(0.25)]), BarSeries::new("b", vec![Some(0.75)])],
    );
    let scene = layout(&chart, Sheet { title: None, width: WIDTH });
    let of = |color: (u8, u8, u8)| {
        // The largest rectangle of a colour is the bar, the other is in the legend.
        let area = |s: &&Shape| match s {
            Shape::Rect { width, height, color: c, .. } if *c == color => width * height,
            _ => -1.0,
        };
        match scene.shapes.iter().max_by(|a, b| area(a).total_cmp(&area(b))) {
            Some(Shape::Rect { y, height, .. }) => (*y, *height),
            other => panic!("no bar: {other:?}"),
        }
    };
    let (first, second) = (of(palette::series(0)), of(palette::series(1)));
    assert!((second.0 + second.1 - first.0).abs() < 1e-9);
    assert!((second.1 / first.1 - 3.0).abs() < 1e-9);
}
