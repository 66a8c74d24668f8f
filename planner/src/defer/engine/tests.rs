//! The engine against hand-worked hours, against a reference that looks at every minute, and its properties.

use proptest::prelude::*;
use tracecast_analytics::time::MINUTE_MS;

use super::*;
use crate::defer::policy::{PAIRS, THRESHOLDS};

const H: i64 = 60;
/// The run of all classes in tables.
const CLASS_RUN_MS: i64 = 90 * MINUTE_MS;

fn series(values: &[i64]) -> HourSeries {
    HourSeries::from_values(0, values.iter().copied().map(Some).collect())
}

/// Submission, run and expected run in minutes.
fn job(submit: i64, run: i64, expected: i64) -> DeferJob {
    DeferJob {
        row: 0,
        submit_ms: submit * MINUTE_MS,
        run_ms: run * MINUTE_MS,
        milli_gpus: 1_000,
        predicted_ms: expected * MINUTE_MS,
        size_mean_ms: expected * MINUTE_MS,
        cell: Some(0),
    }
}

fn pieces(engine: &DeferEngine<'_>, policy: DeferPolicy, job: &DeferJob, bound: i64) -> Vec<(i64, i64)> {
    let result = engine.pieces(policy, job, bound * MINUTE_MS);
    result.iter().map(|(from, to)| (from / MINUTE_MS, to / MINUTE_MS)).collect()
}

fn every_policy() -> Vec<DeferPolicy> {
    let mut all = vec![DeferPolicy::Now, DeferPolicy::FreeHours, DeferPolicy::oracle()];
    for by in ForecastBy::SCORED.into_iter().chain([ForecastBy::Known]) {
        for runs in [ExpectedRun::Predicted, ExpectedRun::Recorded] {
            for goal in [WindowGoal::Cleanest, WindowGoal::MostATime, WindowGoal::Worth(300)] {
                all.push(DeferPolicy::Window { goal, by, runs });
            }
        }
        all.push(DeferPolicy::Hours(by));
        all.push(DeferPolicy::Table(by));
    }
    all.extend(THRESHOLDS.map(DeferPolicy::Threshold));
    all.extend(
        PAIRS.map(|(percent, pause)| DeferPolicy::TwoThresholds { resume: PastPercentile { percent, days: 7 }, pause }),
    );
    all
}

#[test]
fn three_jobs_and_six_hours() {
    // 400 400 100 300 50 500; the hours after are as dirty as the last.
    let series = series(&[400, 400, 100, 300, 50, 500, 500, 500, 500, 500]);
    let policies = every_policy();
    let engine = DeferEngine::new(&series, &policies, (0, 10), 6 * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
    let first = job(30, 60, 60);
    // The worked example: with 2 h the job waits for hour 2, with 4 h for hour 4; with 1 h it can but begin at 1:30.
    for (bound, start) in [(2 * H, 120), (4 * H, 240), (H, 90), (0, 30)] {
        assert_eq!(pieces(&engine, DeferPolicy::oracle(), &first, bound), [(start, start + 60)], "{bound}");
    }
    // A run of 2 h from 0:00: hours 3 and 4 make 350, 2 and 3 make 400, 1 and 2 make 500, 0 and 1 make 800. Saved for each hour to the end:
    // 450 / 5, 400 / 4 or 300 / 3, and of equals the earlier.
    let second = job(0, 2 * H, 2 * H);
    assert_eq!(pieces(&engine, DeferPolicy::oracle(), &second, 4 * H), [(3 * H, 5 * H)]);
    let by_time =
        DeferPolicy::Window { goal: WindowGoal::MostATime, by: ForecastBy::Known, runs: ExpectedRun::Recorded };
    assert_eq!(pieces(&engine, by_time, &second, 4 * H), [(H, 3 * H)]);
    // The job may pause: hours 2 and 4. Resuming costs 6 min, so what is known of the hours is
    // taken only if it is less: 100 + 50 and 6 min more.
    assert_eq!(pieces(&engine, DeferPolicy::FreeHours, &second, 4 * H), [(2 * H, 3 * H), (4 * H, 5 * H)]);
    let paying = pieces(&engine, DeferPolicy::Hours(ForecastBy::Known), &second, 4 * H);
    // 126 min: hours 2 and 4, and 6 min of hour 3 beside hour 4, which are what resuming takes.
    assert_eq!(paying, [(2 * H, 3 * H + 6), (4 * H, 5 * H)]);
    let told = engine.decide(DeferPolicy::Hours(ForecastBy::Known), &second, &[4 * H * MINUTE_MS])[0];
    assert_eq!((told.wait_ms / MINUTE_MS, told.extra_ms / MINUTE_MS), (3 * H, 6));
    assert_eq!(told.amount, i128::from(MINUTE_MS) * (60 * 100 + 6 * 300 + 60 * 50));
    // On the first day nothing is known of the past, so nobody waits for a percentile, or by a table.
    let third = job(3 * H, 30, 30);
    let low = DeferPolicy::Threshold(PastPercentile { percent: 20, days: 7 });
    assert_eq!(pieces(&engine, low, &third, 3 * H), [(3 * H, 3 * H + 30)]);
    assert_eq!(pieces(&engine, DeferPolicy::Table(ForecastBy::Mean(7)), &third, 3 * H), [(3 * H, 3 * H + 30)]);
}

/// A day whose first five hours emit 50 and 100, and all others 300; then a day of 400 400 100 300 50, and 500 from then on.
fn a_day_before() -> HourSeries {
    let first = [50, 100, 100, 100, 100].into_iter().chain([300; 19]);
    let second = [400, 400, 100, 300, 50].into_iter().chain([500; 19]);
    series(&first.chain(second).collect::<Vec<i64>>())
}

#[test]
fn a_limit_and_a_table_know_the_day_before() {
    let series = a_day_before();
    let policies = every_policy();
    let engine = DeferEngine::new(&series, &policies, (0, 24), 6 * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
    let day = 24 * H;
    // The lowest fifth of the 24 hours before is 100: the fifth lowest.
    let low = PastPercentile { percent: 20, days: 7 };
    assert_eq!((engine.limit(low, 24), engine.limit(low, 47), engine.limit(low, 23)), (Some(100), Some(100), None));
    // Of 48 hours the tenth lowest is 300.
    assert_eq!(engine.limit_after(low), Some(300));
    let policy = DeferPolicy::Threshold(low);
    assert_eq!(pieces(&engine, policy, &job(day + 10, 30, 30), 3 * H), [(day + 2 * H, day + 2 * H + 30)]);
    assert_eq!(pieces(&engine, policy, &job(day + 3 * H, 30, 30), 45), [(day + 3 * H + 45, day + 3 * H + 75)]);
    // By yesterday the cleanest 90 min within 3 h of 23:00 are from 0:00 on: 50 and half of 100. Of what is submitted at 23:10 and at 23:50 all starts then.
    let table = DeferPolicy::Table(ForecastBy::Yesterday);
    assert_eq!(engine.table(ForecastBy::Yesterday, 0, (23, 47), &[3 * H * MINUTE_MS]), [48 * H * MINUTE_MS]);
    // The table of 0:00 says at once for what is submitted at 0:10 of the second day; it does not
    // look at the second day itself.
    assert_eq!(pieces(&engine, table, &job(day + 10, 60, 5), 3 * H), [(day + 10, day + 70)]);
}

#[test]
fn what_runs_pauses_above_the_higher_percentile_and_resumes_below_the_lower() {
    // The day before, 100 is the lowest fifth and 300 the lower 70 %. Starts in hour 4 (100), pauses in hour 6 (500), resumes in hour 9 (100) after 3 h, and pays 6 min.
    let before = [100; 6].into_iter().chain([300; 12]).chain([500; 6]);
    let values: Vec<i64> = before.chain([200, 300, 400, 300, 100, 200, 500, 450, 300, 100, 100, 100, 100]).collect();
    let series = series(&values);
    let day = 24 * H;
    let policy = DeferPolicy::TwoThresholds { resume: PastPercentile { percent: 20, days: 7 }, pause: 70 };
    let engine = DeferEngine::new(&series, &[policy], (0, 0), 6 * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
    let job = job(day + 2 * H, 3 * H, H);
    let pieces = |policy: DeferPolicy, bound: i64| -> Vec<(i64, i64)> {
        pieces(&engine, policy, &job, bound).iter().map(|(from, to)| (from - day, to - day)).collect()
    };
    assert_eq!(pieces(policy, 6 * H), [(4 * H, 6 * H), (9 * H, 10 * H + 6)]);
    // A bound of 4 h leaves 2 h from hour 4 on, of which 6 min are what resuming costs.
    assert_eq!(pieces(policy, 4 * H), [(4 * H, 6 * H), (7 * H + 54, 9 * H)]);
    // A run of 2 h and 6 min leaves no time to pause.
    assert_eq!(pieces(policy, 2 * H + 6), [(4 * H, 7 * H)]);
}

/// What a window emits, by looking at every minute; the earliest of the best starts.
fn by_minutes(at: &dyn Fn(i64) -> i64, job: &DeferJob, expected: i64, bound: i64, goal: WindowGoal) -> i64 {
    let submit = job.submit_ms / MINUTE_MS;
    // Sums of all minutes from the submission on.
    let mut sums = vec![0i128];
    for minute in submit..submit + bound + expected {
        sums.push(sums[sums.len() - 1] + i128::from(at(minute / H)));
    }
    let of = |start: i64| sums[(start - submit + expected) as usize] - sums[(start - submit) as usize];
    let now = of(submit);
    let mut best = (submit, 0i128, 1i128);
    for start in submit..=submit + bound {
        let gain = now - of(start);
        let time = i128::from(start - submit + expected);
        let better = match goal {
            WindowGoal::Cleanest => gain > best.1,
            WindowGoal::MostATime => gain * best.2 > best.1 * time,
            WindowGoal::Worth(least) => {
                let gpus = i128::from(job.milli_gpus);
                let worth = |gain: i128, start: i64| gain * gpus - i128::from(least) * i128::from(start - submit);
                worth(gain, start) > worth(best.1, best.0)
            }
        };
        if better {
            best = (start, gain, time);
        }
    }
    best.0
}

/// Two thresholds, minute by minute.
fn paused_by_minutes(
    engine: &DeferEngine<'_>,
    values: &[i64],
    (low, high): (PastPercentile, PastPercentile),
    job: &DeferJob,
    bound: i64,
    resume: i64,
) -> Vec<i64> {
    let (submit, mut work) = (job.submit_ms / MINUTE_MS, job.run_ms / MINUTE_MS);
    let is_low = |minute: i64| engine.limit(low, minute / H).is_none_or(|limit| values[(minute / H) as usize] <= limit);
    let is_high =
        |minute: i64| engine.limit(high, minute / H).is_some_and(|limit| values[(minute / H) as usize] > limit);
    let (mut running, mut begun, mut paying, mut lost) = (false, false, 0, 0);
    let mut worked = false;
    let mut drawn = Vec::new();
    let mut minute = submit;
    while work > 0 {
        if worked && minute % H == 0 && is_high(minute) && !is_low(minute) && bound - lost > resume {
            running = false;
        }
        if !running {
            let cost = if begun { resume } else { 0 };
            if is_low(minute) || lost + cost >= bound {
                (running, paying, begun) = (true, cost, true);
            } else {
                lost += 1;
            }
        }
        worked = running && paying == 0;
        if running {
            drawn.push(minute);
            if paying > 0 {
                paying -= 1;
                lost += 1;
            } else {
                work -= 1;
            }
        }
        minute += 1;
    }
    drawn
}

fn minutes(pieces: &[(i64, i64)]) -> Vec<i64> {
    pieces.iter().flat_map(|(from, to)| *from..*to).collect()
}

/// Hours, submission, run and expected run in minutes, bound, and what resuming costs.
fn cases() -> impl Strategy<Value = (Vec<i64>, i64, i64, i64, i64, i64)> {
    (prop::collection::vec(0i64..9, 40), 0i64..600, 1i64..500, 1i64..500, 0i64..700, 0i64..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn windows_and_bounds_are_those_of_every_minute((values, submit, run, expected, bound, resume) in cases()) {
        let series = series(&values);
        let policies = every_policy();
        let engine = DeferEngine::new(&series, &policies, (0, 10), resume * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
        let job = job(submit, run, expected);
        let now = submit / H;
        for policy in &policies {
            match *policy {
                DeferPolicy::Window { goal, by, runs } => {
                    let forecast = engine.forecast(by).unwrap();
                    let expected = runs.of(&job) / MINUTE_MS;
                    // What all windows share need not be known.
                    let hours = |from: i64| (from / H)..(from + bound + H - 1) / H;
                    let known = bound == 0 || hours(submit).chain(hours(submit + expected)).all(|hour| forecast.at(now, hour).is_some());
                    let at = |hour: i64| forecast.at(now, hour).unwrap_or(0);
                    let slow = if known { by_minutes(&at, &job, expected, bound, goal) } else { submit };
                    prop_assert_eq!(pieces(&engine, *policy, &job, bound), [(slow, slow + run)], "{:?}", policy);
                }
                DeferPolicy::FreeHours => {
                    let mut all: Vec<i64> = (submit..submit + run + bound).map(|minute| values[(minute / H) as usize]).collect();
                    all.sort_unstable();
                    let least: i64 = all[..run as usize].iter().sum();
                    let result = engine.decide(*policy, &job, &[bound * MINUTE_MS])[0];
                    prop_assert_eq!(result.amount, i128::from(least * MINUTE_MS));
                }
                DeferPolicy::Threshold(at) => {
                    let low = |minute: i64| engine.limit(at, minute / H).is_some_and(|limit| values[(minute / H) as usize] <= limit);
                    let slow = (submit..submit + bound).find(|minute| low(*minute)).unwrap_or(submit + bound);
                    let slow = if engine.limit(at, now).is_some() { slow } else { submit };
                    prop_assert_eq!(pieces(&engine, *policy, &job, bound), [(slow, slow + run)], "{:?}", policy);
                }
                DeferPolicy::Table(by) => {
                    // A window of the class's run from the beginning of the hour, with what the day
                    // before knew.
                    let forecast = engine.forecast(by).unwrap();
                    let known_to = now.div_euclid(24) * 24 - 1;
                    let class = DeferJob { submit_ms: now * H * MINUTE_MS, ..job };
                    let expected = CLASS_RUN_MS / MINUTE_MS;
                    let hours = |from: i64| (from / H)..(from + bound + H - 1) / H;
                    let known = bound == 0
                        || hours(now * H).chain(hours(now * H + expected)).all(|hour| forecast.at(known_to, hour).is_some());
                    let at = |hour: i64| forecast.at(known_to, hour).unwrap_or(0);
                    let slow = if known { by_minutes(&at, &class, expected, bound, WindowGoal::Cleanest) } else { submit };
                    let slow = slow.max(submit);
                    prop_assert_eq!(pieces(&engine, *policy, &job, bound), [(slow, slow + run)], "{:?}", policy);
                }
                DeferPolicy::TwoThresholds { resume: low, pause } => {
                    let high = PastPercentile { percent: pause, ..low };
                    let slow = paused_by_minutes(&engine, &values, (low, high), &job, bound, resume);
                    prop_assert_eq!(minutes(&pieces(&engine, *policy, &job, bound)), slow, "{:?}", policy);
                }
                DeferPolicy::Now | DeferPolicy::Hours(_) => {}
            }
        }
    }

    #[test]
    fn nothing_is_lost_nobody_waits_too_long_and_nothing_beats_its_bound((values, submit, run, expected, bound, resume) in cases()) {
        let series = series(&values);
        let policies = every_policy();
        let engine = DeferEngine::new(&series, &policies, (0, 10), resume * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
        let job = job(submit, run, expected);
        let bounds = [0, bound / 2, bound].map(|bound| bound * MINUTE_MS);
        let of = |policy: DeferPolicy| engine.decide(policy, &job, &bounds);
        let (window, free, now) = (of(DeferPolicy::oracle()), of(DeferPolicy::FreeHours), of(DeferPolicy::Now));
        for policy in &policies {
            for (at, result) in of(*policy).iter().enumerate() {
                let pieces = engine.pieces(*policy, &job, bounds[at]);
                // What is drawn is the run and what resuming costs, once for each pause.
                let drawn: i64 = pieces.iter().map(|(from, to)| to - from).sum();
                prop_assert_eq!(drawn, job.run_ms + result.extra_ms);
                let pays = *policy != DeferPolicy::FreeHours;
                prop_assert!(!pays || result.extra_ms <= (pieces.len() as i64 - 1) * resume * MINUTE_MS, "{:?}", policy);
                prop_assert!(pieces.windows(2).all(|pair| pair[0].1 < pair[1].0) && pieces[0].0 >= job.submit_ms);
                prop_assert!((0..=bounds[at]).contains(&result.wait_ms), "{:?}", policy);
                prop_assert_eq!(result.amount, pieces.iter().map(|(from, to)| series.integral(*from, *to)).sum::<i128>());
                prop_assert!(free[at].amount <= result.amount, "{:?}", policy);
                prop_assert!(pieces.len() > 1 || window[at].amount <= result.amount, "{:?}", policy);
                // A bound alone, and beside others, is the same.
                prop_assert_eq!(engine.decide(*policy, &job, &bounds[at..=at])[0], *result);
            }
        }
        prop_assert!(window[2].amount <= window[1].amount && window[1].amount <= window[0].amount && window[0] == now[0]);
        // With what came as the forecast, pausing is taken only where it is less.
        prop_assert!(of(DeferPolicy::Hours(ForecastBy::Known))[2].amount <= window[2].amount);
    }

    #[test]
    fn what_comes_after_a_moment_changes_nothing_before_it((values, submit, run, expected, bound, resume) in cases(), other in prop::collection::vec(0i64..9, 40)) {
        let job = job(submit, run, expected);
        let policies = every_policy();
        let first = series(&values);
        let engine = DeferEngine::new(&first, &policies, (0, 10), resume * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
        for policy in policies.iter().filter(|policy| !matches!(policy, DeferPolicy::FreeHours)) {
            if policy.forecast() == Some(ForecastBy::Known) {
                continue;
            }
            let result = pieces(&engine, *policy, &job, bound);
            let start = result[0].0;
            // The clock knows ten hours before it is used.
            let from = if policy.forecast() == Some(ForecastBy::Clock) { (start / H + 1).max(10) } else { start / H + 1 };
            let mut changed = values.clone();
            for (slot, value) in changed.iter_mut().zip(&other).skip(from as usize) {
                *slot = *value;
            }
            let second = series(&changed);
            let again = DeferEngine::new(&second, &[*policy], (0, 10), resume * MINUTE_MS, [CLASS_RUN_MS; CELLS]);
            prop_assert_eq!(pieces(&again, *policy, &job, bound)[0].0, start, "{:?}", policy);
        }
    }
}
