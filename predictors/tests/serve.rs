//! The server over real sockets: what it answers, what it survives, and what it remembers.
//!
//! The model is a tiny stand-in: every job is predicted to run a multiple of its GPUs, and a job ends once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracecast_predictors::job::{Event, Prediction, Submission};
use tracecast_predictors::serve::{Config, OnlineModel, Recovered, ServeError, Task, Token, serve};

const TOKEN: &str = "open-sesame";

/// Behaviour of the stand-in's training.
#[derive(Default)]
struct Training {
    /// Held while the test wants a training not to end.
    hold: Mutex<()>,
    fails: AtomicBool,
    panics: AtomicBool,
    begun: AtomicU64,
}

/// Predicts `factor` seconds a GPU; a training adds one to the factor.
#[derive(Clone, Default)]
struct Fake {
    factor: f64,
    ended: BTreeMap<String, i64>,
    ended_since: u64,
    training: Arc<Training>,
    /// Duration of a prediction.
    slow: Duration,
    /// Whether it forgets jobs that have ended, as a real model does.
    forgets: bool,
    /// Time of the training, milliseconds.
    trained_ms: i64,
}

impl OnlineModel for Fake {
    type Model = (f64, u64);

    fn predict(&mut self, jobs: &[Submission], _now_ms: Option<i64>) -> Vec<Prediction> {
        sleep(self.slow);
        let predict = |job: &Submission| {
            let mean_s = self.factor * job.gpus;
            Prediction {
                job_id: job.job_id.clone(),
                mean_s,
                p05_s: mean_s,
                p10_s: mean_s,
                p50_s: mean_s,
                p90_s: mean_s,
                p95_s: mean_s,
                predicted_duration_s: mean_s,
                unsure: false,
            }
        };
        jobs.iter().map(predict).collect()
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let Event::Ended { job_id, time_ms, .. } = event else { return Ok(()) };
        if self.ended.contains_key(job_id) {
            return Err(format!("{job_id} has ended before"));
        }
        if !self.forgets {
            self.ended.insert(job_id.clone(), *time_ms);
        }
        self.ended_since += 1;
        Ok(())
    }

    fn ended_since_training(&self) -> u64 {
        self.ended_since
    }

    fn trained_ms(&self) -> Option<i64> {
        Some(self.trained_ms)
    }

    fn trainer(&self) -> Task<Self::Model> {
        let (training, factor, known) = (Arc::clone(&self.training), self.factor, self.ended_since);
        Box::new(move || {
            training.begun.fetch_add(1, Ordering::SeqCst);
            drop(training.hold.lock());
            assert!(!training.panics.load(Ordering::SeqCst), "asked to panic");
            if training.fails.load(Ordering::SeqCst) {
                Err("asked to fail".to_owned())
            } else {
                Ok((factor + 1.0, known))
            }
        })
    }

    fn adopt(&mut self, (factor, known): Self::Model) {
        self.factor = factor;
        self.ended_since -= known;
    }

    fn snapshot(&self) -> Task<Vec<u8>> {
        let state = json!([self.factor, self.ended, self.ended_since]);
        Box::new(move || Ok(state.to_string().into_bytes()))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String> {
        (self.factor, self.ended, self.ended_since) =
            serde_json::from_slice(snapshot).map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn fake() -> Fake {
    Fake { factor: 10.0, ..Fake::default() }
}

fn config() -> Config {
    let mut config = Config::new(Token::new(TOKEN).unwrap());
    assert!(config.bind.ip().is_loopback(), "nobody outside reaches a server by default");
    config.bind.set_port(0);
    config
}

/// A server on its own thread; stopped when dropped.
struct Running {
    address: SocketAddr,
    recovered: Recovered,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    fn start(config: Config, online: Fake) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = spawn(move || {
            let started = |address, recovered: &_| tell.send((address, *recovered)).unwrap();
            serve(config, online, started, async { drop(stopped.await) })
        });
        let (address, recovered) = told.recv().unwrap();
        Self { address, recovered, stop: Some(stop), thread: Some(thread) }
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    fn connect(&self) -> Client {
        Client::new(self.address)
    }

    /// Posts one request on its own connection.
    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.connect().post(path, body)
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, _, text) = self.connect().ask("GET", "/metrics", &[], b"");
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("tracecast_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    fn wait_for(&self, name: &str, value: u64) {
        let until = Instant::now() + Duration::from_secs(10);
        while self.metric(name) != value {
            assert!(Instant::now() < until, "{name} stayed {}, not {value}", self.metric(name));
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A connection that is kept alive.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> (u16, String, Vec<u8>) {
        let authorization = format!("Authorization: Bearer {TOKEN}");
        self.ask_as(method, path, &[&[authorization.as_str()], headers].concat(), body)
    }

    fn ask_as(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> (u16, String, Vec<u8>) {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", body.len()).into_bytes();
        for header in headers {
            request.extend_from_slice(header.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        self.send(&request);
        self.answer().expect("an answer")
    }

    /// Status, head and body of the next answer; None if the connection ends before it.
    fn answer(&mut self) -> Option<(u16, String, Vec<u8>)> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Some((status, head, body))
    }

    fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, body) = self.ask("POST", path, &[], body.to_string().as_bytes());
        (status, serde_json::from_slice(&body).unwrap())
    }
}

fn jobs(count: usize) -> Value {
    let job = |index| json!({"job_id": format!("j{index}"), "submit_ms": 0, "gpus": index});
    json!({"jobs": (0..count).map(job).collect::<Vec<_>>()})
}

fn ended(jobs: std::ops::Range<usize>) -> Value {
    let event = |index| json!({"event": "ended", "job_id": format!("j{index}"), "time_ms": index});
    json!({"events": jobs.map(event).collect::<Vec<_>>()})
}

fn learning(folder: &Path) -> Config {
    Config { journal: Some(folder.to_owned()), ..config() }
}

#[test]
fn predictions_come_in_order_and_many_at_once() {
    let server = Running::start(config(), fake());
    let mut client = server.connect();
    // 200 jobs are more than three pieces; 10 s a GPU.
    let (status, answer) = client.post("/v1/predict", &jobs(200));
    assert_eq!(status, 200);
    let predictions: Vec<Prediction> = serde_json::from_value(answer["predictions"].clone()).unwrap();
    assert_eq!(predictions.len(), 200);
    for (index, prediction) in predictions.iter().enumerate() {
        assert_eq!(
            (prediction.job_id.as_str(), prediction.mean_s),
            (format!("j{index}").as_str(), 10.0 * index as f64)
        );
    }
    // A body of some 900 KB, parsed and answered on another thread.
    assert_eq!(client.post("/v1/predict", &jobs(20_000)).1["predictions"].as_array().unwrap().len(), 20_000);
    // The same connection serves on, and so does one that sends the head in two pieces and the body in chunks.
    assert_eq!(client.post("/v1/predict", &jobs(0)), (200, json!({"predictions": []})));
    client.send(b"POST /v1/predict HTTP/1.1\r\nAuthor");
    sleep(Duration::from_millis(20));
    client.send(format!("ization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{{\"jobs\r\n").as_bytes());
    sleep(Duration::from_millis(20));
    client.send(b"5\r\n\":[]}\r\n0\r\n\r\n");
    assert_eq!(client.answer().unwrap().0, 200);
    assert_eq!(server.metric("predictions_total"), 20_200);
}

/// Two families of two job types, the later ones slower and slowing others more; the largest does not fit beside itself.
fn sharing() -> Arc<tracecast_predictors::interference::predictor::SharingPredictor> {
    use tracecast_predictors::interference::predictor::SharingPredictor;
    use tracecast_predictors::interference::table::{SharedPair, SharingTable, Speeds};
    let mut table = SharingTable::new();
    let gpu = table.gpu_type("v100");
    let jobs: Vec<usize> = (0..6).map(|at| table.job(&format!("m{} (batch size {})", at / 2, 8 << (at % 2)))).collect();
    let mut pairs = Vec::new();
    for (i, a) in jobs.iter().enumerate() {
        for (j, b) in jobs.iter().enumerate().skip(i) {
            let speed = |own: usize, other: usize| 0.97 - 0.02 * own as f64 - 0.06 * other as f64;
            let speeds = (i + j < 10).then(|| Speeds { a: speed(i, j), b: speed(j, i) });
            pairs.push(SharedPair { gpu, a: *a, b: *b, speeds });
        }
    }
    table.add_pairs(pairs);
    Arc::new(SharingPredictor::train(&table.sorted(), 1).unwrap())
}

#[test]
fn running_candidates_are_ranked_within_the_latency_of_predictions() {
    let server = Running::start(Config { sharing: Some(sharing()), ..config() }, fake());
    let mut client = server.connect();
    let running = json!([
        {"id": "slow", "job_type": "m2 (batch size 16)"},
        {"id": "new", "job_type": "of nobody", "seen": {"sm_util_pct": 40, "memory_mb": null}},
        {"id": "light", "job_type": "m0 (batch size 8)"}
    ]);
    let ask = json!({"gpu_type": "v100", "job": {"job_type": "m0 (batch size 16)"}, "running": running});
    let (status, told) = client.post("/v1/share", &ask);
    assert_eq!(status, 200, "{told}");
    let candidates = told["candidates"].as_array().unwrap();
    let first = &candidates[0];
    assert_eq!(
        (first["id"].as_str(), first["rank"].as_u64(), first["share"].as_bool()),
        (Some("light"), Some(1), Some(true))
    );
    // Measured: 0.97 − 0.02 and 0.97 − 0.06.
    let progress = first["expected_progress"].as_f64().unwrap();
    assert!((progress - (0.95 + 0.91)).abs() < 0.01 && first["slowdown90"].as_f64().unwrap() < 1.5, "{first}");
    assert_eq!(first["basis"], "measured");
    let of = |id: &str| candidates.iter().find(|candidate| candidate["id"] == id).unwrap();
    assert_eq!(of("new")["basis"], "stranger");
    for candidate in candidates {
        for key in ["expected_progress", "out_of_memory"] {
            assert!(candidate[key].as_f64().is_some_and(f64::is_finite), "{candidate}");
        }
        // A slowdown without a bound is no number.
        assert!(candidate["slowdown90"].is_null() || candidate["slowdown90"].as_f64().is_some_and(f64::is_finite));
        assert_eq!(candidate["share"] == true, candidate["broken"].as_array().is_some_and(Vec::is_empty));
    }
    // Limits of the request hold, and a GPU type that is unknown is no error.
    let strict = json!({"gpu_type": "h900", "job": {"job_type": "x"}, "running": running, "limits": {"slo": 1.01}});
    let (status, told) = client.post("/v1/share", &strict);
    assert_eq!(
        (status, told["candidates"][0]["share"].as_bool(), told["candidates"][0]["basis"].as_str()),
        (200, Some(false), Some("nothing"))
    );
    let unknown = &told["candidates"][0];
    let broken = unknown["broken"].as_array().unwrap();
    assert!(unknown["slowdown90"].is_null() && broken.iter().any(|of| of["limit"] == "slowdown"), "{unknown}");
    assert!(broken.iter().all(|of| of["forecast"].is_null()), "{unknown}");
    assert_eq!((told["gpu_type_measured"].as_bool(), &told["measured_gpu_types"]), (Some(false), &json!(["v100"])));
    // A GPU that runs two is ranked by what the new job adds, and says what it is composed from.
    let groups = json!([
        {"id": "two", "jobs": [{"job_type": "m0 (batch size 8)"}, {"job_type": "m1 (batch size 8)"}]},
        {"id": "one", "job_type": "m0 (batch size 8)"}
    ]);
    let (status, told) = client
        .post("/v1/share", &json!({"gpu_type": "v100", "job": {"job_type": "m0 (batch size 16)"}, "running": groups}));
    let (first, second) = (&told["candidates"][0], &told["candidates"][1]);
    assert_eq!((status, first["id"].as_str(), second["id"].as_str()), (200, Some("one"), Some("two")), "{told}");
    assert_eq!(
        (second["composed_from_pairs"].as_bool(), second["jobs"].as_array().map(Vec::len)),
        (Some(true), Some(3))
    );
    assert!(second["expected_progress"].as_f64() > second["progress_before"].as_f64(), "{second}");
    // 2,000 candidates in pieces, others served between; one candidate costs no more than a prediction does.
    let many: Vec<Value> =
        (0..2000).map(|at| json!({"id": format!("c{at}"), "job_type": "m1 (batch size 8)"})).collect();
    let (status, told) =
        client.post("/v1/share", &json!({"gpu_type": "v100", "job": {"job_type": "m0"}, "running": many}));
    assert_eq!(
        (status, told["candidates"].as_array().unwrap().len(), told["candidates"][0]["id"].as_str()),
        (200, 2000, Some("c0"))
    );
    let mut took = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        assert_eq!(client.post("/v1/share", &ask).0, 200);
        took.push(began.elapsed());
    }
    took.sort();
    println!("three candidates: median {:?}, 99 % {:?}", took[100], took[198]);
    assert!(took[100] < Duration::from_millis(20), "{:?}", took[100]);
    // What cannot be is told.
    for (body, word) in [
        (json!({"gpu_type": "v100", "job": {"job_type": "x", "seen": {"colour": 1}}, "running": []}), "no quantity"),
        (json!({"gpu_type": "v100", "job": {"job_type": "x", "seen": {"sm_util_pct": 140}}, "running": []}), "140"),
        (json!({"gpu_type": "v100", "job": {"job_type": "x"}, "running": [], "limits": {"slo": 0.5}}), "SLO"),
        (json!({"job": {"job_type": "x"}, "running": []}), "gpu_type"),
        (json!({"gpu_type": "v100", "job": {"job_type": "x"}, "running": [{"id": "n"}]}), "job_type"),
        (json!({"gpu_type": "v100", "job": {"job_type": "x"}, "running": [], "slices": ["1g.5gb"]}), "--slices"),
    ] {
        let (status, told) = client.post("/v1/share", &body);
        assert!(status == 400 && told.to_string().contains(word), "{told}");
    }
    let without = Running::start(config(), fake());
    let (status, told) = without.post("/v1/share", &ask);
    assert!(status == 404 && told.to_string().contains("--share-model"), "{told}");
}

#[test]
fn arrow_goes_in_and_comes_out() {
    use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::Float64Type;
    let server = Running::start(config(), fake());
    let columns: [(&str, arrow::array::ArrayRef); 3] = [
        ("job_id", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("submit_ms", Arc::new(Int64Array::from(vec![0, 0]))),
        ("gpus", Arc::new(Int64Array::from(vec![1, 4]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut body = Vec::new();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut body, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let kind = "Content-Type: application/vnd.apache.arrow.stream";
    let accept = "Accept: text/html, application/vnd.apache.arrow.stream;q=0.9";
    let mut client = server.connect();
    let (status, head, answer) = client.ask("POST", "/v1/predict", &[kind, accept], &body);
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/vnd.apache.arrow.stream"));
    let mut reader = arrow::ipc::reader::StreamReader::try_new(answer.as_slice(), None).unwrap();
    let means = reader.next().unwrap().unwrap().column_by_name("mean_s").unwrap().as_primitive::<Float64Type>().clone();
    assert_eq!(means.values().as_ref(), [10.0, 40.0]);
    // Without Accept it is JSON; a body that is no Arrow is refused and the connection serves on.
    let (status, _, answer) = client.ask("POST", "/v1/predict", &[kind], &body);
    assert_eq!(
        (status, serde_json::from_slice::<Value>(&answer).unwrap()["predictions"][1]["mean_s"].as_f64()),
        (200, Some(40.0))
    );
    assert_eq!(client.ask("POST", "/v1/predict", &[kind], &body[..body.len() - 100]).0, 400);
    assert_eq!(client.ask("POST", "/v1/predict", &[kind], b"{}").0, 400);
    assert_eq!(client.post("/v1/predict", &jobs(1)).0, 200);
}

#[test]
fn malformed_bodies_are_told_where_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(learning(folder.path()), fake());
    let mut client = server.connect();
    // (path, headers, body, line, column): places counted by hand.
    let lines = "Content-Type: application/x-ndjson";
    let cases: [(&str, &[&str], &str, u64, u64); 8] = [
        ("/v1/predict", &[], "", 1, 1),
        ("/v1/predict", &[], "{\"jobs\":[}", 1, 10),
        ("/v1/predict", &[], "{\"jobs\":\n  [{\"job_id\":1}]}", 2, 14),
        ("/v1/predict", &[], "{\"jobs\":[{\"job_id\":\"a\",\"submit_ms\":0,\"gpu\":1}]}", 1, 42),
        ("/v1/events", &[], "{\"event\":1}", 1, 8),
        ("/v1/events", &[lines], "{\"event\":\"started\",\"job_id\":\"a\",\"time_ms\":1}\n\n{\"event\"", 3, 8),
        ("/scheduler/filter", &[], "[1,", 1, 2),
        ("/scheduler/prioritize", &[], "{\"Pod\":\n7}", 2, 1),
    ];
    for (path, headers, body, line, column) in cases {
        let (status, head, answer) = client.ask("POST", path, headers, body.as_bytes());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let error = &answer["error"];
        assert_eq!(status, 400, "{body}");
        assert!(head.contains("application/json"));
        assert_eq!((error["line"].as_u64(), error["column"].as_u64()), (Some(line), Some(column)), "{body}: {error}");
        assert!(error["remedy"].as_str().unwrap().contains("send"), "{error}");
    }
    let (status, answer) = client.post("/v1/predict", &json!({"jobs": [{"job_id": "a", "submit_ms": 0, "gpus": -1}]}));
    assert_eq!((status, answer["error"]["message"].as_str()), (400, Some("gpus of job 0 (counted from 0) is -1")));
    assert_eq!(client.ask("POST", "/v1/predict", &[], &[0xff; 100]).0, 400);
    assert_eq!(client.ask("POST", "/v1/predict", &[], "[".repeat(100_000).as_bytes()).0, 400);
    assert_eq!(client.ask("GET", "/v1/predict", &[], b"").0, 405);
    assert_eq!(client.ask("GET", "/v1/predictions", &[], b"").0, 404);
    // One bad event, and nothing of the post is kept.
    assert_eq!(server.metric("journal_commits_total"), 0);
    // What is not HTTP at all.
    let mut stranger = server.connect();
    stranger.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello, is this TLS?\r\n\r\n");
    assert!(stranger.answer().is_none_or(|(status, ..)| status == 400));
    assert_eq!(client.post("/v1/predict", &jobs(1)).0, 200);
}

#[test]
fn without_the_token_only_health_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(learning(folder.path()), fake());
    let wrong: [&[&str]; 6] = [
        &[],
        &["Authorization: Bearer open-sesam"],
        &["Authorization: Bearer open-sesame2"],
        &["Authorization: Bearer "],
        &["Authorization: open-sesame"],
        &["Authorization: Basic b3Blbi1zZXNhbWU="],
    ];
    let paths = [
        ("POST", "/v1/predict"),
        ("POST", "/v1/events"),
        ("POST", "/scheduler/filter"),
        ("POST", "/scheduler/prioritize"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
        ("DELETE", "/healthz"),
        ("GET", "/healthz/../metrics"),
    ];
    for headers in wrong {
        for (method, path) in paths {
            let (status, head, answer) =
                server.connect().ask_as(method, path, headers, ended(0..1).to_string().as_bytes());
            assert_eq!(status, 401, "{method} {path} {headers:?}");
            assert!(head.contains("www-authenticate: bearer"), "{head}");
            assert!(!String::from_utf8(answer).unwrap().contains("sesame"));
        }
        assert_eq!(server.connect().ask_as("GET", "/healthz", headers, b"").0, 200);
    }
    assert_eq!(server.metric("journal_commits_total"), 0);
    assert_eq!(server.connect().ask("GET", "/readyz", &[], b"").0, 200);
    // base64("tracecast:open-sesame"): the password form, for kube-scheduler.
    let password = "Authorization: Basic dHJhY2VjYXN0Om9wZW4tc2VzYW1l";
    assert_eq!(server.connect().ask_as("GET", "/readyz", &[password], b"").0, 200);
}

#[test]
fn oversized_bodies_are_refused_however_they_come() {
    let server = Running::start(Config { body_limit_bytes: 1000, ..config() }, fake());
    let body = |length: usize| format!("{{\"jobs\":[]{}}}", " ".repeat(length - 11)).into_bytes();
    assert_eq!(server.connect().ask("POST", "/v1/predict", &[], &body(1000)).0, 200);
    for length in [1001, 3000, 3_000_000] {
        let head =
            format!("POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n");
        let mut client = server.connect();
        client.send(head.as_bytes());
        // The server may close before it has read all of it.
        let _ = client.0.get_mut().write_all(&body(length));
        if let Some((status, head, _)) = client.answer() {
            assert_eq!(status, 413);
            assert!(head.contains("connection: close"));
        } else {
            assert!(length > 5000, "a body within four times the limit is read on, so the answer arrives");
        }
    }
    let mut chunked = server.connect();
    chunked.send(
        format!("POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n")
            .as_bytes(),
    );
    for _ in 0..3 {
        chunked.send(format!("1f4\r\n{}\r\n", " ".repeat(500)).as_bytes());
    }
    chunked.send(b"0\r\n\r\n");
    assert_eq!(chunked.answer().unwrap().0, 413);
    // One that asks first is not made to send.
    let mut asking = server.connect();
    let head = format!(
        "POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n"
    );
    asking.send(head.as_bytes());
    assert_eq!(asking.answer().unwrap().0, 413);
}

#[test]
fn slow_clients_are_closed_and_hold_nobody_up() {
    let server = Running::start(Config { timeout: Duration::from_millis(600), ..config() }, fake());
    let head = format!("POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 11\r\n\r\n");
    let drip = |address: SocketAddr, first: Vec<u8>| {
        spawn(move || {
            let mut client = Client::new(address);
            let began = Instant::now();
            client.send(&first);
            let mut writer = client.0.get_ref().try_clone().unwrap();
            spawn(move || {
                while writer.write_all(b"{").is_ok() {
                    sleep(Duration::from_millis(100));
                }
            });
            (client.answer().map(|(status, ..)| status), began.elapsed())
        })
    };
    let slow_head = drip(server.address, b"POST /v1/predict HTTP/1.1\r\nX: ".to_vec());
    let slow_body = drip(server.address, head.replace("11", "1000").into_bytes());
    let idle = drip(server.address, Vec::new());
    // Meanwhile others are served at once.
    let mut fast = server.connect();
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(fast.post("/v1/predict", &jobs(1)).0, 200);
        assert!(began.elapsed() < Duration::from_millis(400));
        sleep(Duration::from_millis(10));
    }
    for (slow, statuses) in
        [(slow_head, [None, Some(408)]), (slow_body, [Some(408), Some(408)]), (idle, [None, Some(400)])]
    {
        let (status, took) = slow.join().unwrap();
        assert!(statuses.contains(&status), "{status:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    server.wait_for("connections", 2);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let server = Running::start(Config { timeout: Duration::from_millis(300), ..config() }, fake());
    let mut client = server.connect();
    let body = jobs(20_000).to_string();
    let head =
        format!("POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n", body.len());
    // Answers of some megabytes each, none of which is read, until the sockets' buffers are full.
    spawn(move || {
        for _ in 0..20 {
            if client
                .0
                .get_mut()
                .write_all(head.as_bytes())
                .and_then(|()| client.0.get_mut().write_all(body.as_bytes()))
                .is_err()
            {
                return;
            }
        }
        sleep(Duration::from_secs(60));
    });
    sleep(Duration::from_millis(500));
    // Only the connection that asks is left.
    server.wait_for("connections", 1);
}

#[test]
fn two_hundred_at_once_are_all_answered() {
    let server = Running::start(config(), fake());
    let address = server.address;
    let clients: Vec<_> = (0..200)
        .map(|index| {
            spawn(move || {
                let mut client = Client::new(address);
                for _ in 0..5 {
                    let job = json!({"jobs": [{"job_id": "x", "submit_ms": 0, "gpus": index}]});
                    let (status, answer) = client.post("/v1/predict", &job);
                    assert_eq!(
                        (status, answer["predictions"][0]["mean_s"].as_f64()),
                        (200, Some(10.0 * f64::from(index)))
                    );
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(server.metric("predictions_total"), 1000);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = Running::start(Config { max_connections: 2, ..config() }, fake());
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!((first.post("/v1/predict", &jobs(1)).0, second.post("/v1/predict", &jobs(1)).0), (200, 200));
    let mut third = server.connect();
    third.send(format!("GET /readyz HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n").as_bytes());
    let (status, head, _) = third.answer().unwrap();
    assert!(status == 503 && head.contains("connection: close"), "{head}");
    // Its health is told beyond the most, and the connection then closed.
    let mut fourth = server.connect();
    let (status, head, _) = fourth.ask_as("GET", "/healthz", &[], b"");
    assert!(status == 200 && head.contains("connection: close"), "{head}");
    drop(second);
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let mut again = server.connect();
        again.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        if again.answer().is_some_and(|(status, ..)| status == 200) {
            break;
        }
        assert!(Instant::now() < until);
    }
}

#[test]
fn the_scheduler_is_told_which_nodes_stay() {
    let server = Running::start(config(), fake());
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let node = |name: &str, left_s: u64| json!({"metadata": {"name": name, "labels": {"tracecast.io/available-until": (now_s + left_s).to_string()}}});
    let pod = |gpus: &str| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}});
    let nodes = json!({"items": [node("short", 1800), node("mid", 5400), node("long", 7200)]});
    // 360 GPUs at 10 s each: 3,600 s.
    let args = json!({"Pod": pod("360"), "Nodes": nodes, "NodeNames": null});
    let (status, answer) = server.post("/scheduler/filter", &args);
    assert_eq!(status, 200);
    let names: Vec<&str> = answer["Nodes"]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mid", "long"]);
    assert!(answer["FailedNodes"]["short"].as_str().unwrap().contains("available-until"));
    let (_, answer) = server.post("/scheduler/prioritize", &args);
    let wanted = json!([{"Host": "short", "Score": 0}, {"Host": "mid", "Score": 5}, {"Host": "long", "Score": 10}]);
    assert_eq!(answer, wanted);
    let (_, answer) = server.post("/scheduler/filter", &json!({"pod": pod("1"), "nodenames": ["a"]}));
    assert_eq!((&answer["NodeNames"], &answer["Nodes"]), (&json!(["a"]), &Value::Null));
}

#[test]
fn events_are_kept_and_learnt_once() {
    let folder = tempfile::tempdir().unwrap();
    {
        let server = Running::start(learning(folder.path()), fake());
        assert_eq!(server.post("/v1/events", &ended(0..3)), (200, json!({"accepted": 3, "refused": 0})));
        let reason = "this event was learnt before";
        let again = json!({"accepted": 1, "refused": 1, "reasons": [{"index": 0, "reason": reason}]});
        assert_eq!(server.post("/v1/events", &ended(2..4)), (200, again));
        let line = "{\"event\":\"ended\",\"job_id\":\"j4\",\"time_ms\":4}\n";
        let kind = "Content-Type: application/x-ndjson; charset=utf-8";
        let (status, _, answer) = server.connect().ask("POST", "/v1/events", &[kind], line.as_bytes());
        assert_eq!((status, answer), (200, b"{\"accepted\":1,\"refused\":0}".to_vec()));
        assert_eq!((server.metric("events_accepted_total"), server.metric("events_refused_total")), (5, 1));
        assert_eq!(server.metric("ended_since_training"), 5);
    }
    let server = Running::start(learning(folder.path()), fake());
    // The refused one is in the journal too, and refused again.
    assert_eq!((server.recovered.events, server.recovered.refused, server.recovered.torn), (6, 1, 0));
    assert_eq!(server.metric("ended_since_training"), 5);
    let without = Running::start(config(), fake());
    assert_eq!(without.post("/v1/events", &ended(0..1)).0, 404);
}

#[test]
fn concurrent_posts_are_all_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(learning(folder.path()), fake());
    let address = server.address;
    let posting: Vec<_> = (0..50)
        .map(|index| {
            spawn(move || {
                (0..20).all(|turn| {
                    Client::new(address).post("/v1/events", &ended(index * 20 + turn..index * 20 + turn + 1)).0 == 200
                })
            })
        })
        .collect();
    assert!(posting.into_iter().all(|post| post.join().unwrap()));
    assert_eq!(server.metric("ended_since_training"), 1000);
    assert!(server.metric("journal_commits_total") <= 1000);
}

#[test]
fn a_long_journal_becomes_a_snapshot_with_nothing_lost_or_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let config = || Config { compact_bytes: 2000, ..learning(folder.path()) };
    {
        let server = Running::start(config(), fake());
        for post in 0..100 {
            assert_eq!(server.post("/v1/events", &ended(post * 3..post * 3 + 3)).0, 200);
        }
        assert!(server.metric("snapshots_total") > 3);
        assert!(server.metric("journal_bytes") < 10_000);
    }
    let server = Running::start(config(), fake());
    assert!(server.recovered.snapshot_seq > 0 && server.recovered.events < 100, "{:?}", server.recovered);
    assert_eq!((server.metric("ended_since_training"), server.recovered.repeated), (300, 0));
    // All of them are known by name.
    assert_eq!(server.post("/v1/events", &ended(0..300)).1["refused"], 300);
}

#[test]
fn predictions_go_on_while_a_training_is_slow_fails_or_panics() {
    let folder = tempfile::tempdir().unwrap();
    let online = fake();
    let training = Arc::clone(&online.training);
    static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let notice = |text: &str| NOTICES.lock().unwrap().push(text.to_owned());
    let config = || Config { retrain_after: Some(10), notice, ..learning(folder.path()) };
    let server = Running::start(config(), online);
    let mean = || server.post("/v1/predict", &jobs(2)).1["predictions"][1]["mean_s"].as_f64().unwrap();
    let begun = |count| {
        let until = Instant::now() + Duration::from_secs(5);
        while training.begun.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < until, "training {count} did not begin");
            sleep(Duration::from_millis(5));
        }
    };
    // Slow: held, it lets predictions and events through, and no second one begins.
    let held = training.hold.lock().unwrap();
    server.post("/v1/events", &ended(0..10));
    begun(1);
    for turn in 0..20 {
        assert_eq!(mean(), 10.0);
        assert_eq!(server.post("/v1/events", &ended(10 + turn..11 + turn)).0, 200);
    }
    assert_eq!(training.begun.load(Ordering::SeqCst), 1);
    training.fails.store(true, Ordering::SeqCst);
    drop(held);
    // Failed at 30 ended: the old model stays, and it is tried again at 40, not at every event.
    server.wait_for("retrains_failed_total", 1);
    assert_eq!(mean(), 10.0);
    server.post("/v1/events", &ended(30..39));
    assert_eq!(training.begun.load(Ordering::SeqCst), 1);
    training.fails.store(false, Ordering::SeqCst);
    training.panics.store(true, Ordering::SeqCst);
    server.post("/v1/events", &ended(39..40));
    server.wait_for("retrains_failed_total", 2);
    assert_eq!((training.begun.load(Ordering::SeqCst), mean()), (2, 10.0));
    let told = ["asked to fail", "the training panicked"]
        .map(|reason| format!("the training failed and the old model stays: {reason}"));
    let of_training = |notice: &&String| !notice.contains("can be guessed");
    assert_eq!(NOTICES.lock().unwrap().iter().filter(of_training).cloned().collect::<Vec<_>>(), told);
    // And then one succeeds: 11 s a GPU, events learnt meanwhile still count as new, and a snapshot keeps the model.
    training.panics.store(false, Ordering::SeqCst);
    let held = training.hold.lock().unwrap();
    server.post("/v1/events", &ended(40..50));
    begun(3);
    server.post("/v1/events", &ended(50..53));
    drop(held);
    server.wait_for("retrains_ok_total", 1);
    assert_eq!((mean(), server.metric("ended_since_training")), (11.0, 3));
    server.wait_for("snapshots_total", 1);
    drop(server);
    let again = Running::start(config(), fake());
    assert_eq!((again.metric("ended_since_training"), again.metric("retrains_ok_total")), (3, 0));
    assert_eq!(again.post("/v1/predict", &jobs(2)).1["predictions"][1]["mean_s"], 11.0);
}

#[test]
fn a_stop_answers_what_is_in_flight_and_closes_what_idles() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(learning(folder.path()), Fake { slow: Duration::from_millis(300), ..fake() });
    let mut idle = server.connect();
    assert_eq!(idle.ask("GET", "/readyz", &[], b"").0, 200);
    let mut busy = server.connect();
    let mut learning = server.connect();
    let slow = spawn(move || busy.post("/v1/predict", &jobs(1)).0);
    sleep(Duration::from_millis(50));
    let event = spawn(move || learning.post("/v1/events", &ended(0..1)).0);
    sleep(Duration::from_millis(50));
    let address = server.address;
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!((slow.join().unwrap(), event.join().unwrap()), (200, 200));
    assert!(idle.answer().is_none());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let mut server = Running::start(Config { grace: Duration::from_millis(200), ..config() }, fake());
    let mut stuck = server.connect();
    stuck.send(
        format!("POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n").as_bytes(),
    );
    sleep(Duration::from_millis(100));
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let wrong = [
        Config { max_connections: 0, ..config() },
        Config { timeout: Duration::ZERO, ..config() },
        Config { retrain_after: Some(0), ..config() },
        Config { body_budget_bytes: 1, ..config() },
    ];
    for config in wrong {
        assert!(matches!(serve(config, fake(), |_, _| {}, async {}), Err(ServeError::Setting { .. })));
    }
}

#[test]
fn an_event_posted_again_is_learnt_once_though_its_job_is_forgotten_and_the_server_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let online = || Fake { forgets: true, ..fake() };
    let event = json!({"events": [{"event": "ended", "job_id": "a", "time_ms": 5, "run_s": 5.0}]});
    let known = |answer: (u16, Value)| (answer.1["accepted"].as_u64(), answer.1["refused"].as_u64());
    {
        let server = Running::start(learning(folder.path()), online());
        assert_eq!(known(server.post("/v1/events", &event)), (Some(1), Some(0)));
        // The answer was lost: the client posts it again, alone, and twice in one body.
        assert_eq!(known(server.post("/v1/events", &event)), (Some(0), Some(1)));
        let twice = json!({"events": [ended(0..1)["events"][0], ended(0..1)["events"][0]]});
        assert_eq!(known(server.post("/v1/events", &twice)), (Some(1), Some(1)));
        assert_eq!(server.metric("ended_since_training"), 2);
    }
    // From the journal, and then from a snapshot that took its place.
    for compact_bytes in [1 << 20, 200] {
        let server = Running::start(Config { compact_bytes, ..learning(folder.path()) }, online());
        assert_eq!(known(server.post("/v1/events", &event)), (Some(0), Some(1)));
        assert_eq!(server.metric("ended_since_training"), 2);
        if compact_bytes == 200 {
            server.wait_for("snapshots_total", 1);
        }
    }
    let server = Running::start(learning(folder.path()), online());
    assert!(server.recovered.snapshot_seq > 0);
    assert_eq!(known(server.post("/v1/events", &event)), (Some(0), Some(1)));
    assert_eq!(server.metric("ended_since_training"), 2);
}

#[test]
fn fields_that_are_not_known_are_refused_in_every_event() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(learning(folder.path()), fake());
    for event in [
        json!({"event": "submitted", "job_id": "a", "submit_ms": 0, "gpu": 1}),
        json!({"event": "started", "job_id": "a", "time_ms": 0, "at": 1}),
        json!({"event": "ended", "job_id": "a", "time_ms": 0, "run": 5}),
    ] {
        let (status, answer) = server.post("/v1/events", &json!({"events": [event]}));
        assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains("unknown field"), "{answer}");
    }
    assert_eq!(server.metric("journal_commits_total"), 0);
}

#[test]
fn times_and_sizes_that_cannot_be_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let online = Fake { trained_ms: now_ms, ..fake() };
    let server = Running::start(Config { cluster_gpus: Some(320.0), ..learning(folder.path()) }, online);
    let job = |submit_ms: i64, gpus: f64| json!({"job_id": "a", "submit_ms": submit_ms, "gpus": gpus});
    let predict = |submit_ms, gpus| server.post("/v1/predict", &json!({"jobs": [job(submit_ms, gpus)]}));
    assert_eq!(predict(now_ms, 320.0).0, 200);
    for (submit_ms, gpus, result, remedy) in [
        (0, 1.0, "1970-01-01", "milliseconds"),
        (now_ms / 1000, 1.0, "1970-01-", "looks like seconds"),
        (now_ms + 3 * 86_400_000, 1.0, "submit_ms of job 0", "clock"),
        (now_ms, 4000.0, "gpus of job 0 (counted from 0) is 4000", "at most 320"),
    ] {
        let (status, answer) = predict(submit_ms, gpus);
        let error = &answer["error"];
        assert_eq!(status, 400, "{answer}");
        assert!(error["message"].as_str().unwrap().contains(result), "{error}");
        assert!(error["remedy"].as_str().unwrap().contains(remedy), "{error}");
        let mut event = job(submit_ms, gpus);
        event["event"] = json!("submitted");
        assert_eq!(server.post("/v1/events", &json!({"events": [event]})).0, 400);
    }
    assert_eq!(server.post("/v1/events", &ended(0..1)).0, 400, "an end of 1970");
    assert_eq!(server.metric("journal_commits_total"), 0);
}

#[test]
fn what_the_journal_lost_is_told_at_start_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    {
        let server = Running::start(learning(folder.path()), fake());
        for index in 0..6 {
            assert_eq!(server.post("/v1/events", &ended(index..index + 1)).0, 200);
        }
    }
    let path = folder.path().join("journal-00000000000000000001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The second is gone, the fourth damaged: two of six are missing, one of them as a corrupt line.
    let damaged = lines[3].replace("j3", "jX");
    let left = [lines[0], lines[2], &damaged, lines[4], lines[5]].map(|line| format!("{line}\n")).concat();
    std::fs::write(&path, left).unwrap();
    static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let notice = |text: &str| NOTICES.lock().unwrap().push(text.to_owned());
    let server = Running::start(Config { notice, ..learning(folder.path()) }, fake());
    assert_eq!((server.recovered.events, server.recovered.missing, server.recovered.corrupt), (4, 2, 1));
    assert_eq!((server.metric("journal_missing_total"), server.metric("journal_corrupt_total")), (2, 1));
    let notices = NOTICES.lock().unwrap().join("\n");
    assert!(notices.contains("2 events are missing") && notices.contains("1 lines have a wrong checksum"), "{notices}");
}

#[test]
fn clients_that_do_not_read_hold_no_more_than_the_budget_of_answers() {
    // 20,000 jobs are some 4 MB of answer, thought to be 10 MB before it is made: one at a time.
    let budget = Config { answer_budget_bytes: 11 << 20, timeout: Duration::from_millis(1500), ..config() };
    let server = Running::start(budget, fake());
    let body = jobs(20_000).to_string();
    let head =
        format!("POST /v1/predict HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n", body.len());
    let request = [head.as_bytes(), body.as_bytes()].concat();
    // One after the other on a connection, none of which is read: once the sockets' buffers are full, an answer waits.
    let mut deaf: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut deaf {
        for _ in 0..4 {
            if client.0.get_mut().write_all(&request).is_err() {
                break;
            }
        }
    }
    // Small answers need no share of the budget, and are served all the while.
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(server.post("/v1/predict", &jobs(2)).0, 200);
        assert!(began.elapsed() < Duration::from_millis(1200));
        sleep(Duration::from_millis(100));
    }
    // Those that took nothing are closed, and what they held is free again.
    let until = Instant::now() + Duration::from_secs(20);
    while server.post("/v1/predict", &jobs(20_000)).0 != 200 {
        assert!(Instant::now() < until, "the budget never came back");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn connections_without_the_token_keep_nobody_out() {
    let server = Running::start(Config { max_connections: 8, ..config() }, fake());
    let mut trusted = server.connect();
    assert_eq!(trusted.post("/v1/predict", &jobs(1)).0, 200);
    // Five times as many as there may be, half of them with a part of a head.
    let mut idle = Vec::new();
    for index in 0..40 {
        let mut client = server.connect();
        if index % 2 == 0 {
            let _ = client.0.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        }
        idle.push(client);
    }
    for _ in 0..20 {
        assert_eq!(server.connect().ask_as("GET", "/healthz", &[], b"").0, 200);
        assert_eq!(server.post("/v1/predict", &jobs(1)).0, 200);
        idle.push(server.connect());
    }
    // The one that has shown the token was never made to leave.
    assert_eq!(trusted.post("/v1/predict", &jobs(1)).0, 200);
    assert!(server.metric("connections_displaced_total") >= 32);
    assert!(server.metric("connections") <= 16);
}

/// Server that the next test kills; not a test by itself. Runs only when that test starts it.
#[test]
fn child_server() {
    let Some(folder) = std::env::var_os("TRACECAST_SERVE_FOLDER") else { return };
    // A journal this short is cut again and again while it is posted to.
    let config = Config { compact_bytes: 3000, retrain_after: Some(40), ..learning(Path::new(&folder)) };
    let started = |address: SocketAddr, recovered: &Recovered| {
        // Nobody has posted an event twice yet, so one that the model refuses would be one that the journal doubled.
        assert_eq!((recovered.refused, recovered.corrupt), (0, 0));
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nlistening on {address}").unwrap();
        out.flush().unwrap();
    };
    serve(config, fake(), started, tracecast_predictors::serve::terminated()).unwrap();
}

fn child(folder: &Path, shell: &str) -> (Child, SocketAddr) {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{shell} exec \"$0\" --exact child_server --nocapture")])
        .arg(std::env::current_exe().unwrap());
    let mut child = command.env("TRACECAST_SERVE_FOLDER", folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address =
        lines.find_map(|line| line.unwrap().strip_prefix("listening on ").map(|address| address.parse().unwrap()));
    // The rest of its output must not fill the pipe.
    spawn(move || lines.count());
    (child, address.unwrap())
}

#[test]
fn a_full_disk_refuses_events_keeps_what_it_acknowledged_and_predicts_on() {
    let folder = tempfile::tempdir().unwrap();
    // Files of at most two blocks, 1 or 2 KiB by the shell: less than the length at which the child's journal is cut.
    let (mut child, address) = child(folder.path(), "trap '' XFSZ; ulimit -f 2;");
    let mut client = Client::new(address);
    let kept = (0..100).take_while(|index| client.post("/v1/events", &ended(*index..index + 1)).0 == 200).count();
    assert!((5..30).contains(&kept), "a line has some 100 bytes, and {kept} were kept");
    let (status, answer) = client.post("/v1/events", &ended(kept..kept + 1));
    assert_eq!(status, 503);
    assert!(answer["error"]["message"].as_str().unwrap().contains("not on disk"), "{answer}");
    assert_eq!(client.post("/v1/predict", &jobs(2)).0, 200);
    // It was taken back whole, so the journal is sound; but who asks is told that events cannot be kept, also after it was tried again.
    for wait in [0, 2500] {
        sleep(Duration::from_millis(wait));
        let (status, _, answer) = client.ask("GET", "/readyz", &[], b"");
        let answer = String::from_utf8(answer).unwrap();
        assert!(status == 503 && answer.contains("cannot be kept just now"), "{status} {answer}");
    }
    let (_, _, metrics) = client.ask("GET", "/metrics", &[], b"");
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("tracecast_journal_refusing 1") && metrics.contains("tracecast_journal_broken 0"));
    child.kill().unwrap();
    child.wait().unwrap();
    let server = Running::start(learning(folder.path()), fake());
    assert_eq!((server.recovered.events, server.recovered.torn, server.recovered.corrupt), (kept as u64, 0, 0));
    assert_eq!(server.post("/v1/events", &ended(kept..kept + 1)).1["accepted"], 1);
}

#[test]
fn killed_in_the_middle_of_learning_it_forgets_nothing_acknowledged_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    let mut acknowledged = Vec::new();
    for round in 0..6u64 {
        let (mut child, address) = child(folder.path(), "");
        // Four clients post one event after the other until the server dies.
        let posting: Vec<_> = (0..4usize)
            .map(|client| {
                spawn(move || {
                    let mut known = Vec::new();
                    for turn in 0.. {
                        let index = next + turn * 4 + client;
                        let body = ended(index..index + 1).to_string();
                        let Ok(mut stream) = TcpStream::connect(address) else { return (known, turn) };
                        let head = format!(
                            "POST /v1/events HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                            body.len()
                        );
                        let mut answer = String::new();
                        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
                        if sent.and_then(|()| stream.read_to_string(&mut answer)).is_err() || answer.is_empty() {
                            return (known, turn + 1);
                        }
                        // Nothing is learnt twice, so nothing is refused.
                        assert!(answer.ends_with("{\"accepted\":1,\"refused\":0}"), "{answer}");
                        known.push(index);
                    }
                    unreachable!()
                })
            })
            .collect();
        sleep(Duration::from_millis(150 + 37 * round));
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let mut turns = 0;
        for posted in posting {
            let (known, most) = posted.join().unwrap();
            acknowledged.extend(known);
            turns = turns.max(most);
        }
        next += (turns + 1) * 4;
    }
    assert!(acknowledged.len() > 50, "only {} posts were acknowledged", acknowledged.len());
    let (mut child, address) = child(folder.path(), "");
    let mut client = Client::new(address);
    // Every acknowledged event is known: posting it again is refused, which also says that it was learnt.
    for index in &acknowledged {
        assert_eq!(client.post("/v1/events", &ended(*index..index + 1)).1["refused"], 1, "event {index} is lost");
    }
    // SIGTERM stops it in good order.
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(child.wait().unwrap().success());
    let server = Running::start(Config { retrain_after: None, ..learning(folder.path()) }, fake());
    assert_eq!((server.recovered.corrupt, server.recovered.torn), (0, 0), "an earlier start cut off what was torn");
}
