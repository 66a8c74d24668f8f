use std::io::Write;
use std::path::PathBuf;

use proptest::strategy::Strategy;

use super::*;

fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.csv");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn pool(threads: usize) -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn read_text(text: &[u8]) -> (Totals, Ledger) {
    let (_folder, path) = file(text);
    read(&SourceFile::new(&path), &pool(2)).unwrap()
}

#[test]
fn bad_rows_are_quarantined_with_their_lines_and_the_rest_is_counted() {
    let text = b"\xef\xbb\xbf# made by hand\nsubmit,start,end,req_gpus,state,user\n\
        1000,1000,2000,1,completed,ann\n\
        1000,soon,2000,1,completed,ann\n\
        \n\
        1000,1000,2000\n\
        1000,1000,2000,many,completed,ann\n\
        1000,1000,2000,1,completed,ann,more\n\
        ,,,,,\r\n\
        2000,,,\"2\",\"completed\",\"ann, the \"\"second\"\"\"";
    let (totals, ledger) = read_text(text);
    // Lines 3, 9 and 10 are kept; 4 has no time, 6 and 8 another number of fields, 7 no number; 5 is blank.
    assert_eq!((ledger.read, ledger.kept, ledger.quarantined), (7, 3, 4));
    assert!(ledger.balances());
    let places: Vec<(&str, u64, &str)> = ledger
        .entries
        .iter()
        .flat_map(|entry| entry.examples.iter().map(|e| (entry.reason.as_str(), e.line, e.column.as_str())))
        .collect();
    assert_eq!(
        places,
        [("field_count", 6, ""), ("field_count", 8, ""), ("not_a_number", 7, "req_gpus"), ("not_a_time", 4, "start")]
    );
    let names: Vec<&[u8]> = totals.users.words().collect();
    assert!(names.contains(&&b"ann"[..]) && names.contains(&&b"ann, the \"second\""[..]), "{names:?}");
    assert_eq!(totals.by_user[0].jobs, 1, "the row of unknowns names nobody");
}

#[test]
fn lines_are_numbered_across_blocks_and_only_the_first_few_are_shown() {
    let mut text = b"submit,user\n".to_vec();
    let rows = 200_000;
    for row in 0..rows {
        // Every ten-thousandth row is bad: 20 of them. About 14 bytes a row: three blocks.
        let line =
            if row % 10_000 == 9_999 { format!("x{row},u\n") } else { format!("{},u{}\n", row * 1_000, row % 7) };
        text.extend_from_slice(line.as_bytes());
    }
    assert!(text.len() > 2 * BLOCK);
    let (_folder, path) = file(&text);
    for threads in [1, 4] {
        let (totals, ledger) = read(&SourceFile::new(&path), &pool(threads)).unwrap();
        assert_eq!((totals.jobs, ledger.quarantined, ledger.read), (rows - 20, 20, rows));
        let lines: Vec<u64> = ledger.entries[0].examples.iter().map(|example| example.line).collect();
        // Row 9,999 (from 0) stands in line 10,001, as the header is line 1.
        assert_eq!(lines, [10_001, 20_001, 30_001, 40_001, 50_001]);
        assert_eq!(ledger.entries[0].count, 20);
    }
}

#[test]
fn a_line_longer_than_a_block_is_a_row_and_one_longer_than_any_row_is_quarantined() {
    let mut text = b"submit,name,user\n1000,a,u\n2000,".to_vec();
    text.resize(text.len() + 2 * BLOCK, b'x');
    text.extend_from_slice(b",u\n3000,");
    text.resize(text.len() + LONGEST_LINE + 2 * BLOCK, b'y');
    text.extend_from_slice(b",u\n4000,b,u\nbad,b,u\n");
    let (totals, ledger) = read_text(&text);
    assert_eq!((totals.jobs, ledger.count("line_too_long"), ledger.count("not_a_time")), (3, 1, 1));
    // Header, three rows (the last too long), one more row, then the bad one: line 6.
    let bad = ledger.entries.iter().find(|entry| entry.reason == "not_a_time").unwrap();
    assert_eq!(bad.examples[0].line, 6);
}

#[test]
fn a_gzip_file_that_breaks_off_gives_its_whole_lines_and_says_so() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"submit,user\n").unwrap();
    for row in 0..50_000u64 {
        // Multiplying by an odd number scatters the digits, so that the file stays long after compression.
        writeln!(encoder, "{},u", row.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000_000_000).unwrap();
    }
    let whole = encoder.finish().unwrap();
    let (all, ledger) = read_text(&whole);
    assert_eq!((all.jobs, ledger.damage.len()), (50_000, 0));
    let (some, ledger) = read_text(&whole[..whole.len() / 2]);
    assert!(some.jobs > 10_000 && some.jobs < 40_000, "{}", some.jobs);
    assert_eq!((ledger.quarantined, ledger.damage.len()), (0, 1), "the broken line is no row");
    assert_eq!(ledger.damage[0].after_line, some.jobs + 1);
}

#[test]
fn a_file_without_submit_or_without_a_header_is_an_error_that_says_so() {
    let (_folder, path) = file(b"job,user\n1,u\n");
    let message = read(&SourceFile::new(&path), &pool(1)).err().unwrap().to_string();
    assert!(message.contains("line 1, column submit") && message.contains("among job, user"), "{message}");
    let (_folder, path) = file(b"\n# nothing\n");
    assert!(read(&SourceFile::new(&path), &pool(1)).err().unwrap().to_string().contains("no header"));
}

#[test]
fn tabs_and_semicolons_separate_too() {
    for separator in ["\t", ";", "|"] {
        let text = "submit,user\n1000,a\n".replace(',', separator);
        let (totals, _) = read_text(text.as_bytes());
        assert_eq!(totals.users.words().collect::<Vec<_>>(), [b"a"], "{separator:?}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_the_bytes_every_line_is_kept_quarantined_or_blank(
        pieces in proptest::collection::vec(
            proptest::prelude::prop_oneof![
                proptest::prelude::any::<Vec<u8>>(),
                proptest::sample::select(vec![
                    &b","[..], b"\n", b"\r\n", b"\"", b"\"\"", b"1502753220000", b"2017-08-14 23:27:00", b"1,2,3,4", b"-9"
                ]).prop_map(<[u8]>::to_vec),
            ],
            0..80,
        ),
    ) {
        let body = pieces.concat();
        let mut text = b"submit,start,user,req_gpus\n".to_vec();
        text.extend_from_slice(&body);
        let (totals, ledger) = read_text(&text);
        let blank = |line: &[u8]| line.trim_ascii().is_empty();
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !blank(line)).count() as u64;
        proptest::prop_assert!(ledger.balances());
        proptest::prop_assert_eq!((ledger.read, ledger.kept), (lines, totals.jobs));
    }
}
