//! Journals that end in the middle of a line, that others hold, or that tell what cannot be.

use super::*;

fn ended(job: u64) -> Event {
    Event::Ended { job_id: format!("job \"{job}\"\n"), time_ms: job as i64 * 1000, run_s: Some(0.1), failed: None }
}

/// Opens a folder; what it holds comes back as the snapshot's bytes and the events.
fn open(folder: &Path) -> ServeResult<(Journal, Recovered, Vec<u8>, Vec<Event>)> {
    let (mut snapshot, mut events) = (Vec::new(), Vec::new());
    let (journal, recovered) = Journal::open(folder, &mut |result| {
        match result {
            Found::Snapshot(bytes, _) => {
                assert!(events.is_empty() && snapshot.is_empty());
                snapshot = bytes.to_vec();
            }
            Found::Event(event) => events.push(event.clone()),
        }
        Ok(true)
    })?;
    Ok((journal, recovered, snapshot, events))
}

fn only_file(folder: &Path) -> PathBuf {
    let mut files = segments(folder).unwrap();
    assert_eq!(files.len(), 1);
    files.pop().unwrap().1
}

#[test]
fn a_line_is_as_described() {
    let mut line = Vec::new();
    write_line(&mut line, 7, &Event::Started { job_id: "a".into(), time_ms: 5 }).unwrap();
    let rest = r#""seq":7,"event":{"event":"started","job_id":"a","time_ms":5}}"#;
    let text = format!("{{\"crc\":\"{:08x}\",{rest}\n", crc32fast::hash(rest.as_bytes()));
    assert_eq!(String::from_utf8(line).unwrap(), text);
    // The check value of CRC-32/ISO-HDLC, so that another program can verify a journal.
    assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
}

#[test]
fn a_second_server_is_kept_out() {
    let folder = tempfile::tempdir().unwrap();
    let held = open(folder.path()).unwrap();
    assert!(matches!(open(folder.path()), Err(ServeError::Locked { .. })));
    drop(held);
    assert!(open(folder.path()).is_ok());
}

#[test]
fn cut_at_every_byte_nothing_acknowledged_is_lost_and_nothing_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let mut ends = vec![0];
    {
        let (mut journal, ..) = open(folder.path()).unwrap();
        for post in [vec![ended(1)], vec![ended(2), ended(3)], vec![ended(4)]] {
            for event in &post {
                let mut line = Vec::new();
                write_line(&mut line, ends.len() as u64, event).unwrap();
                ends.push(ends.last().unwrap() + line.len());
            }
            journal.append(post.iter()).unwrap();
        }
        assert_eq!(journal.bytes(), *ends.last().unwrap() as u64);
    }
    let bytes = fs::read(only_file(folder.path())).unwrap();
    assert_eq!(bytes.len(), *ends.last().unwrap());
    for length in 0..=bytes.len() {
        let again = tempfile::tempdir().unwrap();
        fs::write(segment(again.path(), 1), &bytes[..length]).unwrap();
        let whole = ends.iter().filter(|end| **end <= length && **end > 0).count();
        let torn = !ends.contains(&length);
        let (mut journal, recovered, _, events) = open(again.path()).unwrap();
        let wanted: Vec<Event> = (1..=whole as u64).map(ended).collect();
        assert_eq!(events, wanted, "cut at {length}");
        assert_eq!((recovered.torn, recovered.corrupt), (u64::from(torn), 0), "cut at {length}");
        // The client posts again what was not acknowledged, and all is there once.
        let missing: Vec<Event> = (whole as u64 + 1..=4).map(ended).collect();
        journal.append(missing.iter()).unwrap();
        drop(journal);
        assert_eq!(fs::read(segment(again.path(), 1)).unwrap(), bytes, "cut at {length}");
    }
}

#[test]
fn any_byte_wrong_costs_at_most_that_line_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (mut journal, ..) = open(folder.path()).unwrap();
        journal.append([ended(1), ended(2), ended(3)].iter()).unwrap();
    }
    let path = only_file(folder.path());
    let bytes = fs::read(&path).unwrap();
    let first_end = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let second_end = first_end + bytes[first_end..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for at in first_end..second_end {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x11;
        fs::write(&path, &damaged).unwrap();
        let (_, recovered, _, events) = open(folder.path()).unwrap();
        if at == second_end - 1 {
            // Its line break gone, the second and the third are one corrupt line.
            assert_eq!((events, recovered.corrupt), (vec![ended(1)], 1));
            assert_eq!(recovered.missing, 0, "nothing sound follows, so it is not known how many there were");
        } else {
            // 0x11 turns no character of a line into a line break, save 0x1b, which JSON escapes.
            assert_eq!((events, recovered.corrupt), (vec![ended(1), ended(3)], 1), "byte {at}");
            assert_eq!(recovered.missing, 1, "byte {at}");
        }
        assert!(recovered.warning().unwrap().contains("1 lines have a wrong checksum"));
        assert_eq!(recovered.torn, 0);
    }
}

#[test]
fn a_snapshot_takes_the_place_of_what_it_stands_for_and_of_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (mut journal, ..) = open(folder.path()).unwrap();
        journal.append([ended(1), ended(2)].iter()).unwrap();
        let cut = journal.cut().unwrap();
        // Learnt while the snapshot is being written.
        journal.append([ended(3)].iter()).unwrap();
        let recent: Vec<Identity> = [1, 2].map(|job| Identity::new(&ended(job))).to_vec();
        cut.replace(b"one and two", &recent).unwrap();
        let (_, kept, _) = read_snapshot(folder.path()).unwrap().unwrap();
        assert_eq!(kept, recent);
        journal.replaced();
        let third = only_file(folder.path());
        assert_eq!(third, segment(folder.path(), 3));
        assert_eq!(journal.bytes(), fs::metadata(third).unwrap().len());
    }
    let (mut journal, recovered, snapshot, events) = open(folder.path()).unwrap();
    assert_eq!((snapshot.as_slice(), events), (&b"one and two"[..], vec![ended(3)]));
    assert_eq!(recovered, Recovered { snapshot_seq: 2, events: 1, ..Recovered::default() });
    // A cut with nothing new since makes no second file, and a snapshot of it is still right.
    journal.cut().unwrap().replace(b"all three", &[]).unwrap();
    let again = journal.cut().unwrap();
    again.replace(b"all three", &[]).unwrap();
    drop(journal);
    let (_, recovered, snapshot, events) = open(folder.path()).unwrap();
    assert_eq!((snapshot.as_slice(), events.len(), recovered.snapshot_seq), (&b"all three"[..], 0, 3));
}

#[test]
fn a_crash_between_snapshot_and_removal_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let old = {
        let (mut journal, ..) = open(folder.path()).unwrap();
        journal.append([ended(1), ended(2)].iter()).unwrap();
        let old = fs::read(segment(folder.path(), 1)).unwrap();
        let cut = journal.cut().unwrap();
        cut.replace(b"one and two", &[]).unwrap();
        old
    };
    // As if the files had not been removed, and the next snapshot had been left half written.
    fs::write(segment(folder.path(), 1), old).unwrap();
    fs::write(folder.path().join("snapshot.tmp"), b"tracecast-snap").unwrap();
    let (mut journal, recovered, snapshot, events) = open(folder.path()).unwrap();
    assert_eq!((snapshot.as_slice(), events.len(), recovered.repeated), (&b"one and two"[..], 0, 2));
    journal.append([ended(3)].iter()).unwrap();
    drop(journal);
    assert_eq!(open(folder.path()).unwrap().3, vec![ended(3)]);
}

#[test]
fn a_damaged_snapshot_or_an_unknown_event_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let recent = [Identity::new(&ended(1))];
    open(folder.path()).unwrap().0.cut().unwrap().replace(b"state", &recent).unwrap();
    let path = folder.path().join(SNAPSHOT);
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        // Each bit of each byte, `seq` included: a `seq` too high would take acknowledged events for repeated ones.
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            fs::write(&path, &damaged).unwrap();
            let same = damaged.eq_ignore_ascii_case(&bytes);
            match open(folder.path()) {
                Err(ServeError::Memory { .. }) => {}
                // A letter of the checksum in the other case is the same digit.
                Ok(_) => assert!(same && bytes[at].is_ascii_hexdigit(), "byte {at}, bit {bit}"),
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
    }
    fs::write(&path, &bytes).unwrap();
    let rest = r#""seq":9,"event":{"event":"paused","job_id":"a"}}"#;
    let line = format!("{{\"crc\":\"{:08x}\",{rest}\n", crc32fast::hash(rest.as_bytes()));
    fs::write(only_file(folder.path()), line).unwrap();
    let Err(ServeError::Memory { found, .. }) = open(folder.path()) else {
        panic!("an event of a later version was taken")
    };
    assert!(found.contains("line 1"), "{found}");
}

#[test]
fn a_snapshot_of_version_1_is_read() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let sum = crc32fast::hash(b"state");
    fs::write(folder.path().join(SNAPSHOT), format!("tracecast-snapshot 1 seq=7 bytes=5 crc={sum:08x}\nstate"))
        .unwrap();
    fs::remove_file(only_file(folder.path())).unwrap();
    let (mut journal, recovered, snapshot, _) = open(folder.path()).unwrap();
    assert_eq!((snapshot.as_slice(), recovered.snapshot_seq, recovered.missing), (&b"state"[..], 7, 0));
    journal.append([ended(8)].iter()).unwrap();
    assert!(only_file(folder.path()).ends_with("journal-00000000000000000008.jsonl"));
}

#[test]
fn numbers_that_no_line_has_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (mut journal, ..) = open(folder.path()).unwrap();
        journal.append([ended(1), ended(2), ended(3), ended(4), ended(5)].iter()).unwrap();
    }
    let path = only_file(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The third and fourth are gone, and the next file begins at 9: 6, 7 and 8 are, too.
    fs::write(&path, format!("{}\n{}\n{}\n", lines[0], lines[1], lines[4])).unwrap();
    let mut line = Vec::new();
    write_line(&mut line, 9, &ended(9)).unwrap();
    fs::write(segment(folder.path(), 9), line).unwrap();
    let (_, recovered, _, events) = open(folder.path()).unwrap();
    assert_eq!((events.len(), recovered.missing, recovered.corrupt), (4, 5, 0));
    assert!(recovered.warning().unwrap().contains("5 events are missing"));
    assert_eq!(Recovered::default().warning(), None);
}

#[test]
fn a_probe_leaves_the_journal_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, ..) = open(folder.path()).unwrap();
    journal.append([ended(1)].iter()).unwrap();
    let before = fs::read(only_file(folder.path())).unwrap();
    journal.probe().unwrap();
    assert_eq!(fs::read(only_file(folder.path())).unwrap(), before);
    journal.append([ended(2)].iter()).unwrap();
    drop(journal);
    assert_eq!(open(folder.path()).unwrap().3, vec![ended(1), ended(2)]);
}
