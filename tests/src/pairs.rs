//! Made-up measurements of jobs that share a GPU, and jobs to plan for: what `plan share couples`
//! and `plan share mig` are asked in tests.

/// Ten job types of five families.
pub fn job_types() -> Vec<String> {
    (0..10).map(|kind| format!("m{} (batch size {})", kind / 2, 16 << (kind % 2))).collect()
}

/// Pairs and profiles, as CSV, of the [`job_types`] on a GPU type on which jobs slow each other so much: the light ones hardly slow each other, the heavy ones do, and the two heaviest do not fit together.
pub fn measured_on(gpu_type: &str, slope: f64) -> (String, String) {
    let mut pairs = "gpu_type,job_a,job_b,speed_a,speed_b\n".to_owned();
    let mut profiles = "gpu_type,job,family,sm_util_pct,memory_mb\n".to_owned();
    let names = job_types();
    // Families of every weight, so that one that is left out lies among the others.
    let weight = |at: usize| [0.15, 0.25, 0.75, 0.85, 0.3, 0.4, 0.55, 0.65, 0.2, 0.35][at];
    for (a, name) in names.iter().enumerate() {
        profiles += &format!("{gpu_type},{name},m{},{:.0},{:.0}\n", a / 2, 100.0 * weight(a), 16000.0 * weight(a));
        for (b, other) in names.iter().enumerate().skip(a) {
            let (x, y) = (weight(a), weight(b));
            let speed = |own: f64, other: f64| 1.0 - slope * f64::max(0.0, own + other - 0.5) - 0.03 * other;
            if x + y > 1.65 {
                pairs += &format!("{gpu_type},{name},{other},,\n");
            } else {
                pairs += &format!("{gpu_type},{name},{other},{:.3},{:.3}\n", speed(x, y), speed(y, x));
            }
        }
    }
    (pairs, profiles)
}

/// Output of `sacct` about jobs of one GPU whose names are drawn from some: on each of 60 days 50
/// within five hours, of 20 min to 2 h.
pub fn jobs_named(names: &[String]) -> String {
    let mut jobs = "JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES\n".to_owned();
    let mut state = 1u64;
    for at in 0..3000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (day, number, kind) = (at / 50, at % 50, (state >> 33) as usize % names.len());
        let (submit, run) = (8 * 3600 + number * 300, 1200 + (state >> 40) % 6000);
        let date = format!("2020-{:02}-{:02}", 6 + day / 30, 1 + day % 30);
        let time = |of_day: u64| format!("{date}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
        let name = &names[kind];
        let (begin, end) = (time(submit), time(submit + run));
        jobs += &format!("{}|{name}|u|vc1|gpu|COMPLETED|{begin}|{begin}|{end}|cpu=4,gres/gpu=1,node=1\n", at + 1);
    }
    jobs
}
