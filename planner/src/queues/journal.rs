//! What a [search](super::search) has replayed, on disk, so that it goes on after an interruption, and may be asked for more.
//! Not responsible for what is replayed, nor for its order: what a search finds is the same with a journal and without.
//!
//! Lines of JSON:
//! - the first says of which search it is: the version of tracecast, digests of the jobs and of the nodes, today's policy, the objective and the split. A
//!   journal of other input is refused, and so is a file that is no journal;
//! - each other is one setup and what it did to some jobs, `{"jobs":"earlier","setup":"…","outcome":{…}}`, in the order in which replays ended.
//!
//! Each line is handed to the system whole, so that the end of the process loses none; after a round of the search they are on disk as well. A last line without its
//! line break was cut off: it is dropped, and the setup is replayed again. Any other line that cannot be read is an error. One search at a time writes to a journal.
//!
//! Today's setup and the chosen are replayed at the end all the same, as intervals need each job: where the journal tells something else of them, it is refused.
//!
//! Numbers are written so that they read back the same to the last bit. O(bytes) to open, O(log lines) to look up. Worked example: a search is ended after 57 of 200
//! replays, within the 58th line. Opened again, the journal holds 57 outcomes and drops one line; 143 setups are replayed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracecast_analytics::ingest::sha256;
use tracecast_analytics::report::format;
use tracecast_analytics::watch::Watch;

use super::objective::Objective;
use super::setup::Setup;
use crate::error::{Error, Result};
use crate::plan::forecast::runs::ChosenRuns;
use crate::replay::input::Loaded;
use crate::sim::Policy;

/// The form of the lines; a change of what they hold raises it.
const FORM: &str = "plan-queues-journal/1";

/// Head of a journal: the search that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    journal: String,
    version: String,
    jobs_sha256: String,
    nodes_sha256: String,
    today: String,
    objective: String,
    split_ms: i64,
}

impl Head {
    pub(super) fn new(loaded: &Loaded, (today, objective): (&Policy, &Objective), split_ms: i64) -> Self {
        let digest = |of: &dyn Debug| sha256(format!("{of:?}").as_bytes());
        Self {
            journal: FORM.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            jobs_sha256: digest(&(&loaded.workload, &loaded.recorded_start_ms)),
            nodes_sha256: digest(&loaded.cluster),
            today: format!("{today:?}"),
            objective: objective.to_string(),
            split_ms,
        }
    }

    /// In what another differs, in words.
    fn differs(&self, other: &Self) -> Vec<&'static str> {
        [
            ("the form", self.journal != other.journal),
            ("the version of tracecast", self.version != other.version),
            ("the jobs, with what is predicted of them", self.jobs_sha256 != other.jobs_sha256),
            ("the nodes and shares", self.nodes_sha256 != other.nodes_sha256),
            ("today's policy", self.today != other.today),
            ("the objective", self.objective != other.objective),
            ("the split", self.split_ms != other.split_ms),
        ]
        .into_iter()
        .filter_map(|(what, differs)| differs.then_some(what))
        .collect()
    }
}

/// A setup and what it did to some jobs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<J, O> {
    /// Jobs that the outcome is of.
    jobs: J,
    /// The setup, as it is written out for whoever debugs: whatever is added to it makes it another.
    setup: J,
    outcome: O,
}

/// Most that a journal has, bytes.
const MOST_BYTES: u64 = 1 << 30;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    name: String,
    /// Locked until dropped.
    file: Mutex<File>,
    known: BTreeMap<(String, String), Value>,
    dropped: bool,
}

impl Journal {
    /// Opens a journal, or begins one.
    ///
    /// # Errors
    /// If the file is of another search, or of something else, if another search writes to it, or if the system refuses it.
    pub(super) fn open(path: &Path, head: &Head) -> Result<Self> {
        let name = path.display().to_string();
        let io = |source: std::io::Error| Error::Io { file: name.clone(), source };
        let wrong = |line: u64, what: String| Error::file(name.clone(), line, what);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(wrong(1, "another search writes to this journal; wait for its end".to_owned()));
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let mut bytes = Vec::new();
        (&mut file).take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(wrong(
                1,
                "it has more than 1 GiB, which no journal of a search has; give --journal another file".to_owned(),
            ));
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (whole, cut) = bytes.split_at_checked(whole).unwrap_or_default();
        let first = line(head)?;
        let mut known = BTreeMap::new();
        if whole.is_empty() {
            // A first line that was cut off is the beginning of ours; all else is somebody's.
            if !first.starts_with(cut) {
                return Err(wrong(1, "this is no journal of a search; give --journal another file".to_owned()));
            }
        } else {
            for (number, text) in (1u64..).zip(whole.split(|byte| *byte == b'\n')) {
                if number == 1 {
                    let other: Head = serde_json::from_slice(text).map_err(|_| {
                        wrong(1, "this is no journal of a search; give --journal another file".to_owned())
                    })?;
                    let differs = head.differs(&other);
                    if !differs.is_empty() {
                        let what = format!(
                            "this is the journal of another search: it differs in {}; give --journal another file, or delete this one",
                            differs.join(", ")
                        );
                        return Err(wrong(1, what));
                    }
                } else if !text.is_empty() {
                    let line: Line<String, Value> = serde_json::from_slice(text).map_err(|error| {
                        let what = format!("{error}; the journal is damaged: delete it, and the search begins anew");
                        wrong(number, what)
                    })?;
                    known.insert((line.jobs, line.setup), line.outcome);
                }
            }
        }
        let kept = whole.len() as u64;
        file.set_len(kept).and_then(|()| file.seek(SeekFrom::Start(kept))).map_err(io)?;
        if kept == 0 {
            file.write_all(&first).map_err(io)?;
        }
        let dropped = kept > 0 && !cut.is_empty();
        Ok(Self { file: Mutex::new(file), known, dropped, name })
    }

    /// Describes what was found in the journal; `None` of one that just begins.
    pub fn told(&self) -> Option<String> {
        let cut = if self.dropped { "; its last line was cut off and is dropped" } else { "" };
        (self.dropped || !self.known.is_empty()).then(|| {
            let replays = format::counted(self.known.len() as u64, "replay", "replays");
            format!("{}: {replays} done before, of all jobs and draws{cut}", self.name)
        })
    }

    /// Outcome of a setup on some jobs: as it is known, else by a replay, which is written down.
    fn outcome<O: Serialize + DeserializeOwned>(
        &self,
        jobs: &str,
        setup: &Setup,
        replay: impl FnOnce() -> Result<O>,
    ) -> Result<O> {
        let setup = format!("{setup:?}");
        let key = (jobs.to_owned(), setup);
        // What is no number, which JSON does not have, is found again.
        if let Some(outcome) = self.known.get(&key).and_then(|known| O::deserialize(known).ok()) {
            return Ok(outcome);
        }
        let outcome = replay()?;
        let line = line(&Line { jobs, setup: key.1.as_str(), outcome: &outcome })?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).map_err(|source| Error::Io { file: self.name.clone(), source })?;
        Ok(outcome)
    }

    /// The error that the journal contradicts a replay.
    fn contradicted(&self) -> Error {
        let what = "a replay gives other waits than this journal tells, so another build of tracecast wrote it, or somebody changed it: delete it, and the search begins anew";
        Error::file(self.name.clone(), 1, what.to_owned())
    }

    /// Writes everything to disk.
    fn sync(&self) -> Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.sync_data().map_err(|source| Error::Io { file: self.name.clone(), source })
    }
}

/// A line of JSON.
fn line(of: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(of).map_err(|error| Error::defect(format!("a line of a journal: {error}")))?;
    line.push(b'\n');
    Ok(line)
}

/// What stands beside a search.
#[derive(Clone, Copy)]
pub struct SearchRun<'a> {
    /// Observer of each replay, and of each that was done before.
    pub watch: &'a dyn Watch,
    /// What was replayed before, and where replays are written down.
    pub journal: Option<&'a Journal>,
    /// Predicted runs of the jobs, whose worth is told.
    pub runs: Option<&'a ChosenRuns>,
}

impl Default for SearchRun<'_> {
    /// Nobody is told, and nothing is written down.
    fn default() -> Self {
        Self { watch: &(), journal: None, runs: None }
    }
}

impl Debug for SearchRun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchRun").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl SearchRun<'_> {
    /// Outcome of a setup on some jobs, by a replay if it is not known.
    pub(super) fn outcome<O: Serialize + DeserializeOwned>(
        &self,
        jobs: &str,
        setup: &Setup,
        replay: impl FnOnce() -> Result<O>,
    ) -> Result<O> {
        let found = match self.journal {
            Some(journal) => journal.outcome(jobs, setup, replay),
            None => replay(),
        };
        self.watch.made();
        found
    }

    /// The error that the journal contradicts a replay.
    pub(super) fn contradicted(&self) -> Error {
        self.journal.map_or_else(|| Error::defect("two replays of one setup differ".to_owned()), Journal::contradicted)
    }

    /// Writes what was found so far to disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.journal.map_or(Ok(()), Journal::sync)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::fs;

    use super::super::search::tests::{request, uneven};
    use super::super::search::{self, QueuesRequest, SearchOutcome};
    use super::*;
    use crate::replay::growth::Growth;

    /// A search, with a journal.
    fn found(path: &Path, loaded: &Loaded, request: &QueuesRequest) -> (SearchOutcome, Option<String>) {
        let journal = search::journal(path, loaded, request).unwrap();
        let run = SearchRun { journal: Some(&journal), ..SearchRun::default() };
        (search::search(loaded, request, run).unwrap(), journal.told())
    }

    fn lines(path: &Path) -> Vec<String> {
        let mut lines: Vec<String> = fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn wherever_it_was_interrupted_it_finds_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.jsonl");
        let loaded = uneven(300);
        let growth = Growth::new(1.2, Vec::new(), 2, 1).unwrap();
        let request = QueuesRequest { replays: 45, growth: Some(growth), ..request(None) };
        let plain = search::search(&loaded, &request, SearchRun::default()).unwrap();
        assert_eq!(found(&path, &loaded, &request), (plain.clone(), None));
        let (whole, all) = (fs::read(&path).unwrap(), lines(&path));
        for cut in [0, 20, whole.len() / 3, whole.len() / 2 + 1, whole.len() - 1, whole.len()] {
            fs::write(&path, &whole[..cut]).unwrap();
            let (again, told) = found(&path, &loaded, &request);
            assert!(again == plain, "cut at {cut}");
            // What was known is not replayed: no line is there twice, and none is missing.
            assert_eq!(lines(&path), all, "cut at {cut}");
            let kept = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(told.is_some(), kept > 1, "{told:?}");
            let torn = kept > 0 && whole[cut - 1] != b'\n';
            assert_eq!(told.is_some_and(|told| told.contains("cut off")), torn, "cut at {cut}");
        }
    }

    #[test]
    fn it_may_be_asked_for_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.jsonl");
        let loaded = uneven(300);
        let with = |replays: usize| QueuesRequest { replays, ..request(None) };
        found(&path, &loaded, &with(40));
        let before = lines(&path).len();
        let (more, told) = found(&path, &loaded, &with(60));
        assert_eq!(more, search::search(&loaded, &with(60), SearchRun::default()).unwrap());
        let after = lines(&path);
        assert!(after.len() > before && after.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(told.unwrap().contains(&format!("{} replays done before", before - 1)));
    }

    #[test]
    fn one_that_tells_what_no_replay_finds_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.jsonl");
        let (loaded, asked) = (uneven(300), request(None));
        let (plain, _) = found(&path, &loaded, &asked);
        let later = |text: &str| text.contains(r#""jobs":"later""#);
        let of_today = format!("{:?}", plain.tried[0].setup).replace('"', "\\\"");
        let altered: Vec<String> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| match later(line) && line.contains(&of_today) {
                true => line.replacen("\"mean_wait_s\":", "\"mean_wait_s\":1", 1),
                false => line.to_owned(),
            })
            .collect();
        fs::write(&path, altered.join("\n") + "\n").unwrap();
        let journal = search::journal(&path, &loaded, &asked).unwrap();
        let run = SearchRun { journal: Some(&journal), ..SearchRun::default() };
        let said = search::search(&loaded, &asked, run).unwrap_err().to_string();
        assert!(said.contains("gives other waits") && said.contains("search.jsonl"), "{said}");
    }

    #[test]
    fn of_another_search_or_none_it_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.jsonl");
        let (loaded, asked) = (uneven(300), request(None));
        found(&path, &loaded, &asked);
        let written = fs::read(&path).unwrap();
        let said =
            |loaded: &Loaded, asked: &QueuesRequest| search::journal(&path, loaded, asked).unwrap_err().to_string();
        let tail = QueuesRequest { objective: "tail".parse().unwrap(), ..asked.clone() };
        assert!(said(&loaded, &tail).contains("differs in the objective;"), "{}", said(&loaded, &tail));
        let mut other = loaded.clone();
        other.workload.predicted_s[7] = Some(1.0);
        other.cluster.vcs[0].name = "c".to_owned();
        let told = said(&other, &asked);
        assert!(told.contains("the jobs, with what is predicted of them, the nodes and shares;"), "{told}");
        let split = QueuesRequest { eval_from_ms: Some(150 * 600_000), ..asked.clone() };
        assert!(said(&loaded, &split).contains("the split"));
        assert_eq!(fs::read(&path).unwrap(), written);
        // One at a time.
        let open = search::journal(&path, &loaded, &asked).unwrap();
        assert!(said(&loaded, &asked).contains("another search writes"));
        drop(open);
        let damaged = String::from_utf8(written.clone()).unwrap().replacen("\n{\"jobs\"", "\n{\"job\"", 1);
        fs::write(&path, &damaged).unwrap();
        let told = said(&loaded, &asked);
        assert!(told.contains("line 2") && told.contains("damaged"), "{told}");
        // Somebody's file is not written over, whether it ends in a line break or not.
        for text in ["my notes", "my notes\n", "{}\n"] {
            fs::write(&path, text).unwrap();
            assert!(said(&loaded, &asked).contains("no journal of a search"));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
