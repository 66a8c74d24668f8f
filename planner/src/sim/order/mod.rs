//! Who is served first: the key of a job under each order, lowest first.
//!
//! *n* is the job's GPUs ([`Shape::as_gpus`](super::Shape::as_gpus)), *d* its estimate in seconds, at least 1 s where it divides or its
//! logarithm is taken; *w* the time since its submission in seconds; *t* now. *Attained* is the GPU time a job has held, thousandths of
//! GPU × milliseconds, all its segments together, to now. A *tenant* is a user, or a VC if
//! [`Policy::tenants_are_vcs`](super::Policy::tenants_are_vcs); fairness is within a pool. Keys marked *whole* are exact; the others go
//! through [`Key::of`](super::Key::of).
//!
//! | order | key | |
//! |---|---|---|
//! | `Fifo` | submit time, ms | whole |
//! | `FewestGpus` | what it asks for, thousandths of a GPU | whole |
//! | `Sjf`, `Ljf` | ± estimate, ms | whole |
//! | `Srtf` | estimate − run done so far + cost of preemptions still to be paid, ms, at least 0 | whole |
//! | `Qssf` | prediction (whatever [`Policy::estimate`](super::Policy::estimate) says; the estimate where there is none), in seconds, × n | |
//! | `Las` | attained | whole |
//! | `Tiresias(bounds)` | number of bounds (GPU-seconds) that attained (GPU-seconds) exceeds | whole |
//! | `Gittins` | − Gittins index at attained | |
//! | `Wfp3` | −(w/d)³·n | |
//! | `F1` | log₁₀(d)·n + 870·log₁₀(max(submit time from the origin in s, 1)) | |
//! | `Unicef` | −w / (log₂(1+n)·d) | |
//! | `Multifactor` | −(age·min(w/max_age, 1) + fair_share·2^(−U/S) + size·z) | |
//! | `FairShare(h)` | decayed GPU time of the tenant | |
//! | `LongTerm` | GPU time the tenant's jobs have held in the pool, to now, thousandths of GPU × ms | whole |
//! | `FinishTime` | −(w + d′) / (max(d, 0.001) · max(1, n·N/G)) | |
//! | `Score` | the score | |
//!
//! Ties go to the earlier submission, then the lower index; that is how `Tiresias` is FIFO within a queue.
//!
//! * **Run done so far** is the time a job has run usefully (time that repaid the cost of a preemption, and time lost with a
//!   failed node, are not in it).
//! * **Decayed GPU time** of a tenant at t is ∫ g(s)·2^(−(t−s)/h) ds in GPU-seconds, g(s) the GPUs its jobs held in the pool at s.
//! * **Multifactor**: U is the tenant's decayed GPU time (half-life [`Weights::half_life_ms`](super::Weights)) as a share of all
//!   tenants' in the pool, 0 if that is 0; S is 1 / the number of tenants with a job in the pool's workload; z is n/G, or 1 − n/G if
//!   small jobs are favoured; G is the most GPUs the pool ever has.
//! * **Finish time**: d′ is the estimate less the run done (at least 0), N the tenants with a job that runs or waits in the pool now
//!   (including one that has just been submitted), G the GPUs of the pool's nodes in service now, draining ones included, at least 1.
//! * **Gittins**: with the history's GPU times x₁ ≤ … ≤ x_m (GPU-seconds; if there are more than 1,000, the 1,000 at indices
//!   ⌊i·m/1000⌋), the index at attained a is max over k of k / (Σ_{i≤k}(xᵢ−a) + (m′−k)(x_k−a)) over the m′ values above a, counted from the
//!   lowest; 0 if none is above. It is tabulated at a = 0 and 1.1^k GPU-seconds (k = 0, 1, … 250); between two of these the lower counts.
//! * `Unicef` has log₂(1+n) where the published score has log₂(n), which is zero for one GPU.
//!
//! Sources: QSSF: Hu et al., SC 2021. Tiresias and its Gittins index: Gu et al., NSDI 2019. WFP3 and UNICEF: Tang et al., CLUSTER 2009.
//! F1: Carastan-Santos and de Camargo, SC 2017. Multifactor: Slurm's priority plugin. Long-term fairness: Astraea (Ye et al., TPDS 2021).
//! Finish-time fairness: Themis (Mahajan et al., NSDI 2020).
//!
//! Worked numbers: 8 GPUs predicted for 100 s have the QSSF key 800, before 1 GPU predicted for 900 s. A job of 4 GPUs that has run for
//! 1,000 s has attained 4,000 GPU-seconds and stands in the second of the Tiresias queues bounded at 3,250, 7,200 and 18,000.
