//! Benchmark of the server: single predictions answered a second, and the latency of each, by
//! `cargo bench -p tracecast-predictors --bench serve`.
//!
//! The server runs on one thread of this process, clients on others, each with one connection kept alive that sends a request when it
//! has the answer to the last. Without a third argument the model takes no time, and this is the cost of the protocol; with the absolute path
//! of a model file (`tracecast model train duration`) it is that model's. Latency is what a
//! client sees. Memory is the resident set of the whole process, clients and their latencies included, so it is read after 10 % of the
//! requests and at the end: it should not grow in between. Arguments: requests (200,000), clients (4), model file.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::spawn;
use std::time::Instant;

use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::job::{Event, Prediction, Submission};
use tracecast_predictors::serve::{Config, OnlineModel, Recovered, Task, Token, serve};

const BODY: &str = r#"{"jobs":[{"job_id":"4711","submit_ms":1600000000000,"user":"u0123","vc":"vc07","name":"train_resnet50_b256_run3","gpus":8}]}"#;

/// Predicts a length of GPUs × 1,000 s.
struct Constant;

impl OnlineModel for Constant {
    type Model = ();

    fn predict(&mut self, jobs: &[Submission], _now_ms: Option<i64>) -> Vec<Prediction> {
        let predict = |job: &Submission| {
            let mean_s = job.gpus * 1000.0;
            Prediction {
                job_id: job.job_id.clone(),
                mean_s,
                p05_s: mean_s * 0.1,
                p10_s: mean_s * 0.2,
                p50_s: mean_s * 0.9,
                p90_s: mean_s * 2.1,
                p95_s: mean_s * 3.3,
                predicted_duration_s: mean_s,
                unsure: false,
            }
        };
        jobs.iter().map(predict).collect()
    }

    fn observe(&mut self, _event: &Event) -> Result<(), String> {
        Ok(())
    }

    fn ended_since_training(&self) -> u64 {
        0
    }

    fn trained_ms(&self) -> Option<i64> {
        None
    }

    fn trainer(&self) -> Task<()> {
        Box::new(|| Ok(()))
    }

    fn adopt(&mut self, _model: ()) {}

    fn snapshot(&self) -> Task<Vec<u8>> {
        Box::new(|| Ok(Vec::new()))
    }

    fn restore(&mut self, _snapshot: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// Resident set of this process, MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Sends requests until the count is used up; the latencies in nanoseconds.
fn client(address: SocketAddr, left: &AtomicU64) -> Vec<u32> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let request = format!(
        "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut latencies = Vec::new();
    let mut buffer = [0; 4096];
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let began = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let mut read = 0;
        // The answer is one object whose text ends the body, and nothing follows it.
        while !buffer[..read].ends_with(b"}]}") {
            let more = stream.read(&mut buffer[read..]).unwrap();
            assert!(more > 0, "the server closed the connection");
            read += more;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200 "));
        latencies.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    latencies
}

/// Requests a second and the latencies, sorted.
fn load(address: SocketAddr, requests: u64, clients: usize) -> (f64, Vec<u32>) {
    let left = Arc::new(AtomicU64::new(requests));
    let began = Instant::now();
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let left = Arc::clone(&left);
            spawn(move || client(address, &left))
        })
        .collect();
    let mut latencies: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let rate = requests as f64 / began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    (rate, latencies)
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let requests = numbers.first().copied().unwrap_or(200_000).max(10);
    let clients = numbers.get(1).map_or(4, |clients| usize::try_from(*clients).unwrap()).max(1);
    let mut config = Config::new(Token::new("bench").unwrap());
    config.bind.set_port(0);
    config.max_connections = config.max_connections.max(clients * 2);
    let (tell, told) = mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let model = std::env::args().skip(1).find(|argument| argument.starts_with('/'));
    let server = spawn(move || {
        let started = |address, _: &Recovered| tell.send(address).unwrap();
        let stop = async { drop(stopped.await) };
        match model {
            None => serve(config, Constant, started, stop),
            Some(path) => {
                let predictor = Predictor::from_bytes(&path, &std::fs::read(&path).unwrap()).unwrap();
                serve(config, predictor, started, stop)
            }
        }
    });
    let address = told.recv().unwrap();
    let before = resident_mib();
    let (_, warm) = load(address, requests / 10, clients);
    drop(warm);
    let warmed = resident_mib();
    let (rate, latencies) = load(address, requests, clients);
    let kept_mib = latencies.len() as f64 * 4.0 / f64::from(1 << 20);
    let at = |share: f64| f64::from(latencies[((latencies.len() - 1) as f64 * share) as usize]) / 1e6;
    println!("{requests} requests, {clients} clients: {rate:.0} requests/s");
    println!("latency ms: p50 {:.3}, p99 {:.3}, p99.9 {:.3}, most {:.3}", at(0.5), at(0.99), at(0.999), at(1.0));
    println!(
        "resident MiB: {before:.1} before, {warmed:.1} after {}, {:.1} after all (of which up to {:.1} are this program's latencies)",
        requests / 10,
        resident_mib(),
        kept_mib * 2.0
    );
    drop(stop);
    server.join().unwrap().unwrap();
}
