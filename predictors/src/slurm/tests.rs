//! The table by its bytes, and the script by running it under each Lua there is, in place of Slurm's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::escaped;
use super::*;

/// Stands in for slurmctld: what is logged goes to standard output, and `submit` shows what became of a job.
const STAND_IN: &str = r#"
slurm = { SUCCESS = 0, NO_VAL = 4294967294 }
function slurm.log_info(...) print("log " .. string.format(...)) end
partitions = { gpu = { flag_default = 1, max_time = 120 }, long = { flag_default = 0, max_time = 4294967295 } }
assert(assert(loadfile(SCRIPT))() == slurm.SUCCESS)
function submit(job)
  job.user_name = job.user_name or "u1"
  job.time_limit = job.time_limit or slurm.NO_VAL
  assert(slurm_job_submit(job, partitions, 1000) == slurm.SUCCESS)
  print(tostring(job.admin_comment) .. " | " .. tostring(job.comment) .. " | "
    .. (job.site_factor and string.format("%.0f", job.site_factor) or "-") .. " | "
    .. (job.time_limit ~= slurm.NO_VAL and string.format("%.0f", job.time_limit) or "-"))
end
function write(path, text) local f = assert(io.open(path, "wb")) f:write(text) f:close() end
function unhex(text) return (text:gsub("..", function(two) return string.char(tonumber(two, 16)) end)) end
function hex(text) return (text:gsub(".", function(one) return string.format("%02x", one:byte()) end)) end
"#;

/// A folder with a script and a table, and the interpreters there are.
struct Stage {
    folder: tempfile::TempDir,
    lua: Vec<String>,
}

impl Stage {
    /// `None`, with the reason printed, where there is no Lua.
    fn new() -> Option<Self> {
        let runs =
            |name: &str| Command::new(name).args(["-e", "os.exit(0)"]).status().is_ok_and(|status| status.success());
        let known = ["lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit", "lua"];
        let lua: Vec<String> = known.into_iter().filter(|name| runs(name)).map(str::to_owned).collect();
        if lua.is_empty() {
            println!("skipped: no Lua interpreter on this machine (one of {known:?})");
            return None;
        }
        println!("under {lua:?}");
        Some(Self { folder: tempfile::tempdir().unwrap(), lua })
    }

    fn table(&self) -> PathBuf {
        self.folder.path().join("table \"1\".txt")
    }

    /// The defaults, but for a table of this folder that is looked at for each job.
    fn options(&self) -> ScriptOptions {
        ScriptOptions {
            table_path: self.table().to_str().unwrap().to_owned(),
            refresh_s: 0,
            ..ScriptOptions::default()
        }
    }

    /// Output of `body`, checked to be the same under each Lua; `prepare` is called before each.
    fn run(&self, options: &ScriptOptions, body: &str, prepare: impl Fn(&Path)) -> Vec<String> {
        let (script, main) = (self.folder.path().join("job_submit.lua"), self.folder.path().join("main.lua"));
        std::fs::write(&script, super::script(options)).unwrap();
        let names = format!("SCRIPT, TABLE = {}, {}\n", quoted(script.to_str().unwrap()), quoted(&options.table_path));
        std::fs::write(&main, format!("{names}{STAND_IN}{body}")).unwrap();
        let mut said: Option<Vec<String>> = None;
        for lua in &self.lua {
            prepare(&self.table());
            let output = Command::new(lua).arg(&main).output().unwrap();
            assert!(output.status.success(), "{lua}: {}", String::from_utf8_lossy(&output.stderr));
            let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
            // What is wrong with a value is worded by each Lua in its own way.
            let lines: Vec<String> =
                lines.into_iter().map(|line| line.split("attempt to").next().unwrap().to_owned()).collect();
            if let Some(said) = &said {
                assert_eq!(said, &lines, "{lua} against {}", self.lua[0]);
            }
            said = Some(lines);
        }
        said.unwrap()
    }
}

fn entry(
    user: Option<&str>,
    stem: Option<&str>,
    vc: Option<&str>,
    gpus: Option<u32>,
    seconds: (f64, f64),
    jobs: u64,
) -> Entry {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Entry {
        user: owned(user),
        name_stem: owned(stem),
        vc: owned(vc),
        gpus,
        expected_s: seconds.0,
        p95_s: seconds.1,
        jobs,
        tested: Tested { jobs: 20, killed: 1 },
    }
}

/// An entry for each level, each with its own time.
fn levels() -> Vec<Entry> {
    vec![
        entry(Some("u1"), Some("train_v#"), None, Some(4), (5400.0, 9000.0), 40),
        entry(Some("u1"), None, None, Some(4), (1000.0, 2000.0), 60),
        entry(None, None, Some("gpu"), Some(4), (300.0, 400.0), 80),
        entry(None, None, Some("long"), Some(4), (3000.0, 4000.0), 80),
        entry(None, None, None, Some(4), (200.0, 250.0), 90),
        entry(None, None, None, None, (100.4, 150.6), 19),
    ]
}

fn lines(table: &[u8]) -> Vec<&str> {
    std::str::from_utf8(table).unwrap().lines().collect()
}

/// 2,000 names of up to 90 letters of one to four bytes, always the same.
fn names() -> Vec<String> {
    let letters: Vec<char> = "aZq09_#-./ \t\n\r\0\"'\\%|[]ßÄ€語🦀\u{7f}\u{80}\u{7ff}".chars().collect();
    let mut state = 1u64;
    let mut below = |bound: usize| {
        // A linear congruential generator (Knuth's MMIX), of which the upper half is good enough here.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut names: Vec<String> =
        (0..2000).map(|_| (0..below(91)).map(|_| letters[below(letters.len())]).collect()).collect();
    // Letters of each length about the cut.
    for letter in ['a', 'ß', '€', '🦀'] {
        names.extend((58..70).map(|length| "x".repeat(length) + &letter.to_string().repeat(3)));
    }
    names
}

#[test]
fn a_table_by_hand() {
    // 0.0004 s is 0 ms, 0.0006 s is 1 ms; 1e300 s is the longest there is.
    let entries = [
        entry(None, None, None, None, (0.0004, 0.0006), 7),
        entry(Some("o'neil"), Some("train_v#"), Some("any"), Some(4), (5400.0, 9000.0), 40),
        entry(Some("a b\n\"\0"), None, None, Some(0), (1.5, 1e300), u64::MAX),
        entry(None, None, Some("größe"), Some(u32::MAX), (1.0, 2.0), 0),
    ];
    let table = write_table(&entries);
    let lines = lines(&table);
    assert_eq!(
        lines[1..],
        [
            "a\t0\t1\t7\t20\t1",
            "s o%27neil train_v# 4\t5400000\t9000000\t40\t20\t1",
            "u a%20b%0A%22%00 0\t1500\t1000000000000000\t9007199254740992\t20\t1",
            "v gr%C3%B6%C3%9Fe 4294967295\t1000\t2000\t0\t20\t1",
            "end",
        ]
    );
    assert!(lines[0].starts_with("tracecast-durations 2 4 "), "{}", lines[0]);
    let reversed: Vec<Entry> = entries.iter().rev().cloned().collect();
    assert_eq!(write_table(&reversed), table);
    // Of a line `a`: 97 × 65,536 = 6,356,992, and (6,356,992 × 1,048,583 + 2^24 + 1) modulo 4,294,967,291 is this. Then one of two lines.
    assert_eq!(super::table::digest(b"a\n"), 0x03a7_1e51);
    assert_eq!(super::table::digest(b"a\t0\t1\t7\nend\n"), 0xf356_4487);
    let none = write_table(&[]);
    assert_eq!(std::str::from_utf8(&none).unwrap().lines().nth(1), Some("end"));
}

#[test]
fn one_key_has_one_entry() {
    // (3 × 10 s + 1 × 30 s) / 4 = 15 s; the longest of 20 s and 35 s; an entry of no jobs weighs as one of one.
    let same = [
        entry(Some("u"), Some("n"), Some("one"), Some(1), (10.0, 20.0), 3),
        entry(Some("u"), Some("n"), Some("two"), Some(1), (30.0, 35.0), 0),
    ];
    let table = write_table(&same);
    assert_eq!(lines(&table)[1..], ["s u n 1\t15000\t35000\t3\t40\t2", "end"]);
}

#[test]
fn what_cannot_be_looked_up_is_not_written() {
    let times = (1.0, 2.0);
    let without = [
        entry(None, Some("stem"), None, Some(1), times, 1),
        entry(Some("u"), None, None, None, times, 1),
        entry(None, None, Some("vc"), None, times, 1),
        entry(None, None, None, None, (f64::NAN, 2.0), 1),
        entry(None, None, None, None, (1.0, f64::INFINITY), 1),
        entry(None, None, None, None, (-1.0, 2.0), 1),
        // 1,333 letters of 3 bytes each in the key, "u " before and " 1" after them: 4,003 bytes.
        entry(Some(&" ".repeat(1333)), None, None, Some(1), times, 1),
    ];
    assert!(without.iter().all(|entry| entry.key().is_none()));
    assert_eq!(write_table(&without), write_table(&[]));
}

#[test]
fn the_longest_line_that_is_written_is_read() {
    let Some(stage) = Stage::new() else { return };
    // "u ", 3,996 bytes and " 1" are 4,000.
    let user = " ".repeat(1332);
    let longest = entry(Some(&user), None, None, Some(1), (1e300, 1e300), u64::MAX);
    let table = write_table(&[longest]);
    assert!(table.len() > 4000);
    let body = "submit{user_name = (' '):rep(1332), tres_per_job = 'gpu:1'}";
    let said = stage.run(&stage.options(), body, |path| std::fs::write(path, &table).unwrap());
    assert_eq!(said[1], "tracecast: expected 1000000000000 s, 95% under 1000000000000 s | nil | 0 | -");
}

#[test]
fn stems_and_keys_are_the_same_in_both_languages() {
    let Some(stage) = Stage::new() else { return };
    let hex = |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02x}")).collect() };
    let names = names();
    let list = stage.folder.path().join("names");
    std::fs::write(&list, names.iter().map(|name| hex(name) + "\n").collect::<String>()).unwrap();
    let body = format!(
        "for name in io.lines({}) do name = unhex(name) print(hex(tracecast.name_stem(name)) .. ' ' .. tracecast.escaped(name)) end",
        quoted(list.to_str().unwrap())
    );
    let said = stage.run(&stage.options(), &body, |table| std::fs::write(table, write_table(&[])).unwrap());
    // The first line is of the table.
    assert_eq!(said.len(), 1 + names.len());
    for (name, line) in names.iter().zip(&said[1..]) {
        assert_eq!(line, &format!("{} {}", hex(&name_stem(name)), escaped(name)), "{name:?}");
    }
    // Bytes that are no UTF-8 are cut at 64, or up to three before it.
    let body = "for byte = 128, 255 do local n = #tracecast.name_stem(string.char(byte):rep(99)) assert(n >= 61 and n <= 64) end";
    stage.run(&stage.options(), body, |_| ());
}

#[test]
fn gpus_of_a_job() {
    let Some(stage) = Stage::new() else { return };
    let none = "4294967294";
    let jobs = [
        ("", 0),
        ("tres_per_node = 'gres:gpu:a100:4'", 4),
        ("tres_per_node = 'gres/gpu:4'", 4),
        ("tres_per_node = 'gpu:2'", 2),
        ("tres_per_node = 'gres/gpu=3'", 3),
        ("tres_per_node = 'gres/gpu:h100=3'", 3),
        ("tres_per_node = 'gpu'", 1),
        ("tres_per_node = 'gpu:a100'", 1),
        ("tres_per_node = 'gres:gpu:a100_3g.20gb:2'", 2),
        ("tres_per_node = 'gres:gpu:0'", 0),
        ("tres_per_node = 'gpu:2(S:0-1)'", 2),
        ("tres_per_node = 'gres:gpu:1k'", 1024),
        // Two types, and what is no GPU.
        ("tres_per_node = 'gres:gpu:a100:2,gres:nic:1,gres:gpu:v100:1,gres:shard:9'", 3),
        ("tres_per_node = 'gres/gpumem:100,gres/gpuutil=7,nic:gpu:2'", 0),
        // For each of three nodes; as many as 10 tasks at 4 a node need, which are 3; at least one.
        ("tres_per_node = 'gres:gpu:4', min_nodes = 3", 12),
        ("tres_per_node = 'gres:gpu:4', num_tasks = 10, ntasks_per_node = 4", 12),
        ("tres_per_node = 'gres:gpu:4', min_nodes = NONE, num_tasks = NONE, ntasks_per_node = 65534", 4),
        ("gres = 'gpu:4', min_nodes = 2", 8),
        // For the whole job, whatever is asked for a node.
        ("tres_per_job = 'gres:gpu:8', tres_per_node = 'gres:gpu:4', min_nodes = 4", 8),
        ("tres_per_task = 'gres:gpu:2', num_tasks = 3", 6),
        ("tres_per_task = 'cpu=4,gres/gpu=2', num_tasks = NONE, min_nodes = 2, ntasks_per_node = 4", 16),
        ("tres_per_task = 'gres/gpu:2', num_tasks = NONE, min_nodes = 2, ntasks_per_node = 65534", 4),
        ("tres_per_socket = 'gres:gpu:2', sockets_per_node = 2, min_nodes = 2", 8),
        ("tres_per_socket = 'gres:gpu:2', sockets_per_node = 65534", 2),
    ];
    let body: String =
        jobs.iter().map(|(job, _)| format!("print(string.format('%.0f', tracecast.gpus({{{job}}})))\n")).collect();
    let said = stage.run(&stage.options(), &body.replace("NONE", none), |table| std::fs::write(table, "").unwrap());
    for ((job, gpus), said) in jobs.iter().zip(&said[1..]) {
        assert_eq!(said, &gpus.to_string(), "{job}");
    }
}

#[test]
fn a_job_is_looked_up_from_the_narrowest_to_the_widest() {
    let Some(stage) = Stage::new() else { return };
    let body = "
        submit{name = 'Train_v12', tres_per_node = 'gres:gpu:4'}
        submit{name = 'other', tres_per_job = 'gres:gpu:4'}
        submit{user_name = 'u2', name = 'Train_v12', tres_per_job = 'gres:gpu:4'}
        submit{user_name = 'u2', partition = 'long,gpu', tres_per_job = 'gres:gpu:4'}
        submit{user_name = 'u2', partition = 'none', tres_per_job = 'gres:gpu:4'}
        submit{name = 'Train_v12'}";
    let said = stage.run(&stage.options(), body, |table| std::fs::write(table, write_table(&levels())).unwrap());
    assert!(said[0].ends_with("6 entries"), "{}", said[0]);
    // 10,000 × (1 − ln(1 + s) / 18.42068): 21,600 GPU-s 4,582; 4,000 is 8.29430, 5,497; 1,200 is 7.09091, 6,151; 12,000 is 9.39275, 4,901;
    // 800 is 6.68586, 6,370; 100.4, of no GPU, is 4.61908, 7,492.
    let expected = [
        "tracecast: expected 5400 s, 95% under 9000 s | nil | 4582 | -",
        "tracecast: expected 1000 s, 95% under 2000 s | nil | 5497 | -",
        "tracecast: expected 300 s, 95% under 400 s | nil | 6151 | -",
        "tracecast: expected 3000 s, 95% under 4000 s | nil | 4901 | -",
        "tracecast: expected 200 s, 95% under 250 s | nil | 6370 | -",
        "tracecast: expected 100 s, 95% under 151 s | nil | 7492 | -",
    ];
    assert_eq!(said[1..], expected);
}

#[test]
fn what_users_and_sites_set_stays() {
    let Some(stage) = Stage::new() else { return };
    let options = ScriptOptions { comment: Comment::User, ..stage.options() };
    let body = "
        submit{comment = 'mine', admin_comment = 'theirs', site_factor = 5}
        submit{comment = '', site_factor = slurm.NO_VAL}
        submit{comment = ('x'):rep(990)}
        slurm_job_modify({}, {}, partitions, 0)";
    let all = [entry(None, None, None, None, (60.0, 90.0), 5)];
    let said = stage.run(&options, body, |table| std::fs::write(table, write_table(&all)).unwrap());
    // ln 61 = 4.11087: 10,000 × (1 − 0.223166) = 7,768. The last comment would be too long for Slurm.
    let expected = [
        "theirs | mine; tracecast: expected 60 s, 95% under 90 s | 5 | -".to_owned(),
        "nil | tracecast: expected 60 s, 95% under 90 s | 7768 | -".to_owned(),
        format!("nil | {} | 7768 | -", "x".repeat(990)),
    ];
    assert_eq!(said[1..], expected);
    let nothing = ScriptOptions { comment: Comment::Nowhere, site_factor: None, ..stage.options() };
    let said = stage.run(&nothing, "submit{comment = 'mine'}", |_| ());
    assert_eq!(said[1..], ["nil | mine | - | -"]);
}

#[test]
fn the_site_factor_falls_with_the_work_and_keeps_its_bounds() {
    let Some(stage) = Stage::new() else { return };
    let factor = SiteFactor { most: u32::MAX, ceiling_gpu_s: 1e6 };
    let options = ScriptOptions { site_factor: Some(factor), ..stage.options() };
    let body = "
        local before = math.huge
        for step = 0, 400 do
          local now = tracecast.site_factor(10 ^ (step / 20) - 1)
          assert(now < before or now == 0 and before == 0, step)
          before = now
        end
        for _, gpu_s in ipairs{0, 1e6, 1e300} do print(string.format('%.0f', tracecast.site_factor(gpu_s))) end";
    let said = stage.run(&options, body, |table| std::fs::write(table, write_table(&[])).unwrap());
    assert_eq!(said[1..], ["2147483645", "0", "0"]);
}

#[test]
fn time_limits_only_where_asked_for() {
    let Some(stage) = Stage::new() else { return };
    let limit = TimeLimit { least_min: 8, most_min: 150, ..TimeLimit::default() };
    let options = ScriptOptions { time_limit: Some(limit), ..stage.options() };
    let body = "
        submit{name = 'Train_v12', tres_per_node = 'gres:gpu:4'}
        submit{name = 'Train_v12', tres_per_node = 'gres:gpu:4', partition = 'long'}
        submit{name = 'Train_v12', tres_per_node = 'gres:gpu:4', partition = 'long,gpu'}
        submit{name = 'Train_v12', tres_per_node = 'gres:gpu:4', time_limit = 3}
        submit{name = 'other', tres_per_node = 'gres:gpu:4'}
        submit{user_name = 'u2', partition = 'none', tres_per_node = 'gres:gpu:4'}
        submit{name = 'Train_v12'}";
    let said = stage.run(&options, body, |table| std::fs::write(table, write_table(&levels())).unwrap());
    let minutes: Vec<&str> = said[1..].iter().map(|line| line.rsplit(" | ").next().unwrap()).collect();
    // 9,000 s × 1.5 = 225 min: the partition allows 120, the other any, but the most is 150; the user's own 3 stays; 2,000 s × 1.5 = 50 min;
    // 250 s × 1.5 = 6.25 min, at least 8; the last is known from 19 jobs.
    assert_eq!(minutes, ["120", "150", "120", "3", "50", "8", "-"]);
    // What was not tested, or killed more than one in twenty, sets none.
    for tested in [Tested::default(), Tested { jobs: 19, killed: 0 }, Tested { jobs: 40, killed: 3 }] {
        let entries: Vec<Entry> = levels().into_iter().map(|entry| Entry { tested, ..entry }).collect();
        let said = stage.run(&options, body, |table| std::fs::write(table, write_table(&entries)).unwrap());
        assert!(said[1..].iter().enumerate().all(|(at, line)| line.ends_with(if at == 3 { "| 3" } else { "| -" })));
    }
    let said = stage.run(&stage.options(), body, |table| std::fs::write(table, write_table(&levels())).unwrap());
    assert!(
        said[1..].iter().enumerate().all(|(at, line)| line.ends_with(if at == 3 { "| 3" } else { "| -" })),
        "{said:?}"
    );
}

#[test]
fn any_table_leaves_jobs_as_they_came() {
    let Some(stage) = Stage::new() else { return };
    let good = write_table(&levels());
    let text = String::from_utf8(good.clone()).unwrap();
    let garbage: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let tables: Vec<(&str, Vec<u8>)> = vec![
        ("is empty", vec![]),
        ("it is no table", b"\n\n\n".to_vec()),
        ("it is no table", b"return os.exit(9)\n".to_vec()),
        ("it is of another version", text.replace("tracecast-durations 2", "tracecast-durations 1").into_bytes()),
        ("its digest is another", text.replace("a\t100400", "a\t100401").into_bytes()),
        ("its digest is another", text.replace("u u1", "u u2").into_bytes()),
        ("does not end", vec![0; 100_000]),
        ("does not end", vec![b'9'; 100_000]),
        ("it is no table", garbage.clone()),
        ("line 2 is no entry", [b"tracecast-durations 2 9 0\n".to_vec(), garbage].concat()),
        ("line 2 is no entry", text.replace("a\t100400", "a\t-100400").into_bytes()),
        ("line 2 is no entry", text.replace("a\t100400", "a\t1e5").into_bytes()),
        ("should not be there", [&good[..], &good[..]].concat()),
        ("it is not complete", [&good[..], b"x"].concat()),
        ("it is not complete", text.replace("2 6 ", "2 7 ").into_bytes()),
        ("more than 2000000 bytes", vec![b'x'; 2_000_001]),
    ];
    let options = ScriptOptions { max_bytes: 2_000_000, ..stage.options() };
    // Jobs are as they came whatever becomes of the table, and the reason is logged once.
    let body = "submit{comment = 'mine'} submit{comment = 'mine'} submit{comment = 'mine'}";
    let untouched = "nil | mine | - | -";
    for (why, table) in &tables {
        let said = stage.run(&options, body, |path| std::fs::write(path, table).unwrap());
        assert!(said[0].contains(why), "{why}: {said:?}");
        assert_eq!(said[1..], [untouched; 3], "{why}");
    }
    // Cut short after each byte.
    let cuts = stage.folder.path().join("cuts");
    let body = format!(
        "local f = io.open({}, 'rb') local all = f:read('*a') f:close()
         for length = 0, #all - 1 do write(TABLE, all:sub(1, length)) submit{{comment = 'mine'}} end write(TABLE, all) submit{{}}",
        quoted(cuts.to_str().unwrap())
    );
    std::fs::write(&cuts, &good).unwrap();
    let said = stage.run(&stage.options(), &body, |path| std::fs::write(path, "").unwrap());
    let (last, before) = said.split_last().unwrap();
    assert!(last.starts_with("tracecast: expected 100 s"), "{last}");
    assert_eq!(before.iter().filter(|line| *line == untouched).count(), good.len());
    // The last line but its end; otherwise no job was touched.
    assert!(before.iter().all(|line| line == untouched || line.starts_with("log ")), "{before:?}");
    // No file, and a folder in its place.
    let missing = ScriptOptions { table_path: "/nowhere/at\nall".to_owned(), ..stage.options() };
    let said = stage.run(&missing, "submit{comment = 'mine'} submit{comment = 'mine'}", |_| ());
    assert!(said[0].starts_with("log tracecast: no predictions: /nowhere/at"), "{said:?}");
    assert_eq!(said[said.len() - 2..], [untouched; 2]);
    let folder = ScriptOptions { table_path: stage.folder.path().to_str().unwrap().to_owned(), ..stage.options() };
    let said = stage.run(&folder, "submit{comment = 'mine'}", |_| ());
    assert_eq!((said.len(), said[1].as_str()), (2, untouched), "{said:?}");
}

#[test]
fn errors_of_slurm_itself_leave_the_job_accepted() {
    let Some(stage) = Stage::new() else { return };
    // A description that refuses each field, one that cannot be read at all, and none; then a log that fails.
    let body = "
        local refuses = setmetatable({}, {__newindex = function(_, field) error('no ' .. field) end})
        assert(slurm_job_submit(refuses, partitions, 0) == 0)
        assert(next(refuses) == nil)
        assert(slurm_job_submit(setmetatable({}, {__index = function() error('unreadable') end}), nil, 0) == 0)
        assert(slurm_job_submit(nil, nil, nil) == 0)
        assert(slurm_job_submit({name = {}, partition = 7, tres_per_node = 4, user_name = false}, nil, nil) == 0)
        slurm.log_info = nil
        os.remove(TABLE)
        assert(slurm_job_submit({}, nil, 0) == 0)
        print('alive')";
    let said = stage.run(&stage.options(), body, |table| std::fs::write(table, write_table(&levels())).unwrap());
    assert_eq!(said.last().map(String::as_str), Some("alive"));
    // One reason each for the two fields, the unreadable and the missing description.
    assert!(
        said.iter().filter(|line| line.starts_with("log tracecast: a job was left as it came")).count() >= 3,
        "{said:?}"
    );
}

#[test]
fn a_new_table_is_taken_in_and_a_bad_one_is_not() {
    let Some(stage) = Stage::new() else { return };
    let all = |seconds: f64| write_table(&[entry(None, None, None, None, (seconds, seconds), 5)]);
    // Of 0.6 MB: three slices of 256 KiB.
    let mut large: Vec<Entry> =
        (0..14_500).map(|user| entry(Some(&format!("user{user:020}")), None, None, Some(1), (1.0, 1.0), 1)).collect();
    large.push(entry(None, None, None, None, (30.0, 30.0), 5));
    let large = write_table(&large);
    assert!((2 << 18..3 << 18).contains(&large.len()), "{}", large.len());
    for (name, table) in [("second", all(20.0)), ("third", large)] {
        std::fs::write(stage.folder.path().join(name), table).unwrap();
    }
    let body = "
        local function copy(name)
          local f = assert(io.open((SCRIPT:gsub('job_submit.lua$', name)), 'rb')) write(TABLE, f:read('*a')) f:close()
        end
        submit{} copy('second') submit{} write(TABLE, 'garbage') submit{}
        copy('third') submit{} submit{} submit{} submit{}
        os.remove(TABLE) submit{} copy('second') submit{}";
    let said = stage.run(&stage.options(), body, |table| std::fs::write(table, all(10.0)).unwrap());
    let seconds: Vec<&str> = said
        .iter()
        .filter(|line| !line.starts_with("log "))
        .map(|line| line.strip_prefix("tracecast: expected ").and_then(|rest| rest.split(' ').next()).unwrap_or("-"))
        .collect();
    // The first, the second, still the second though the file is garbage and while the third is read, the third; none without a file; the second again.
    assert_eq!(seconds, ["10", "20", "20", "20", "20", "30", "30", "-", "20"], "{said:?}");
    // A table that is looked at once an hour stays.
    let seldom = ScriptOptions { refresh_s: 3600, ..stage.options() };
    let said =
        stage.run(&seldom, "submit{} os.remove(TABLE) submit{}", |table| std::fs::write(table, all(10.0)).unwrap());
    assert_eq!(said[1], said[2]);
    assert!(said[1].starts_with("tracecast: expected 10 s"), "{said:?}");
}
