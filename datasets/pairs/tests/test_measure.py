"""The tool as a user meets it, on the simulated backend: whole, interrupted, resumed, refused."""

import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import simulated  # noqa: E402
from journal import Journal  # noqa: E402
from runner import Unfit  # noqa: E402

SHORT = ["--backend", "simulated", "--window", "1", "--repeats", "2", "--families", "lstm-train,cnn-train"]
TABLES = ["pairs.csv", "profiles.csv", "micro.csv", "micro_profiles.csv", "speeds.csv", "samples.csv"]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, *arguments):
        command = [sys.executable, "-B", str(HERE.parent / "measure.py"), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_it(self, *arguments):
        process = self.start(*arguments)
        out, said = process.communicate(timeout=300)
        return process.returncode, out, said

    def tables(self, out):
        return {name: (out / name).read_bytes() for name in TABLES}


class Whole(Case):
    def test_files_say_what_they_are(self):
        out = self.folder / "out"
        code, _, said = self.run_it(*SHORT, "--out", out, "--gpu-type", "v100")
        self.assertEqual(code, 0, said)
        manifest = json.loads((out / "manifest.json").read_text())
        self.assertEqual((manifest["backend"], manifest["gpu_type"]), ("simulated", "simulated v100"))
        self.assertIn("nothing in these files was measured", manifest["note"])
        # 4 job types and 4 micro-loads alone, 10 pairs, 16 beside micro-loads.
        self.assertEqual(manifest["runs"], {"planned": 68, "ran": 66, "did_not_fit": 2, "failed": 0})
        for name, told in manifest["files"].items():
            content = (out / name).read_bytes()
            self.assertEqual(told["sha256"], hashlib.sha256(content).hexdigest())
            self.assertEqual(told["rows"], content.count(b"\n") - 1)
        pairs = (out / "pairs.csv").read_text()
        self.assertIn("simulated v100,cnn-train (batch size 128),cnn-train (batch size 128),,\n", pairs)
        self.assertEqual(len(pairs.splitlines()), 11)
        self.assertEqual(
            sorted(path.name for path in out.iterdir()), sorted([*TABLES, "journal.jsonl", "manifest.json"])
        )

    def test_speeds_are_those_of_the_model(self):
        out = self.folder / "out"
        self.run_it(*SHORT, "--out", out)
        # By time slicing 0.97 and 0.46 get 0.54 and 0.46.
        known = {("cnn-train (batch size 128)", "lstm-train (batch size 20)"): (0.97 * 0.54 / 0.97, 0.97)}
        rows = [line.split(",") for line in (out / "pairs.csv").read_text().splitlines()[1:]]
        found = {(row[1], row[2]): tuple(map(float, row[3:])) for row in rows if row[3]}
        for couple, speeds in known.items():
            for speed, truth in zip(found[couple], speeds):
                self.assertAlmostEqual(speed, truth, delta=0.025)

    def test_groups_are_measured_where_they_are_asked_for(self):
        out, parts = self.folder / "out", self.folder / "parts"
        asked = [*SHORT, "--no-micro", "--mode", "mps", "--groups", "3=4,4=2"]
        code, _, said = self.run_it(*asked, "--out", out)
        self.assertEqual(code, 0, said)
        rows = [line.split(",") for line in (out / "groups.csv").read_text().splitlines()[1:]]
        self.assertEqual(len(rows), 4 * 3 + 2 * 4)
        demands = {"lstm-train (batch size 20)": 0.46, "lstm-train (batch size 80)": 0.68}
        small = [row for row in rows if set(row[1].split(" + ")) <= set(demands)]
        self.assertTrue(small)
        for _, group, name, speed in small:
            parts_of = simulated.divide([demands[other] for other in group.split(" + ")])
            self.assertAlmostEqual(float(speed), min(parts_of[group.split(" + ").index(name)], 1.0), delta=0.03)
        self.assertIn("groups.csv", json.loads((out / "manifest.json").read_text())["files"])
        self.run_it(*asked, "--out", parts, "--stop-after", "5")
        self.run_it(*asked, "--out", parts)
        self.assertEqual((parts / "groups.csv").read_bytes(), (out / "groups.csv").read_bytes())

    def test_the_plan_is_said_and_nothing_is_written(self):
        code, out, _ = self.run_it("--plan")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("426 runs (3 repeats of 142), about 3.8 h"), out)


class Kept(Case):
    def test_jobs_that_stay_on_the_gpu_give_the_same_tables_sooner(self):
        usual, kept = self.folder / "usual", self.folder / "kept"
        self.run_it(*SHORT, "--out", usual)
        self.assertEqual(self.run_it(*SHORT, "--out", kept, "--keep", "20")[0], 0)
        same = [name for name in TABLES if name != "samples.csv"]
        for name in same:
            self.assertEqual((kept / name).read_bytes(), (usual / name).read_bytes(), name)
        ended = [json.loads((out / "manifest.json").read_text())["sessions"][-1]["ended"] for out in (usual, kept)]
        self.assertLess(ended[1], ended[0])

    def test_the_plan_counts_their_starts_once(self):
        # 28 processes start and warm up for 20 s, 426 runs are of 12 s.
        _, out, _ = self.run_it("--plan", "--keep", "28")
        self.assertTrue(out.startswith("426 runs (3 repeats of 142), about 1.6 h"), out)


class Interrupted(Case):
    def test_parts_make_the_same_tables_as_the_whole(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        self.assertEqual(self.run_it(*SHORT, "--out", whole)[0], 0)
        for _ in range(3):
            code, _, said = self.run_it(*SHORT, "--out", parts, "--stop-after", "5")
            self.assertEqual(code, 0, said)
            self.assertIn("the same command goes on", said)
            journal = parts / "journal.jsonl"
            # Cut in a line, as a machine that lost its power leaves it.
            journal.write_bytes(journal.read_bytes()[:-100])
        partial = json.loads((parts / "manifest.json").read_text())["runs"]
        self.assertTrue(partial["ran"] < partial["planned"])
        self.assertEqual(self.run_it(*SHORT, "--out", parts)[0], 0)
        self.assertEqual(self.tables(parts), self.tables(whole))
        # All is done: nothing more is measured.
        code, _, said = self.run_it(*SHORT, "--out", parts)
        self.assertEqual((code, said.count("\n"), self.tables(parts)), (0, 1, self.tables(whole)))

    def test_more_repeats_are_added(self):
        once, twice = self.folder / "once", self.folder / "twice"
        self.run_it(*SHORT, "--out", once, "--repeats", "1")
        self.assertEqual(self.run_it(*SHORT, "--out", once)[0], 0)
        self.run_it(*SHORT, "--out", twice)
        self.assertEqual(self.tables(once), self.tables(twice))

    def test_a_signal_keeps_what_was_measured(self):
        out, whole = self.folder / "out", self.folder / "whole"
        long = [*SHORT[:4], "--repeats", "60", *SHORT[6:]]
        process = self.start(*long, "--out", out)
        journal, limit = out / "journal.jsonl", time.monotonic() + 60.0
        while not (journal.exists() and journal.stat().st_size > 20_000) and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, said)
        ran = json.loads((out / "manifest.json").read_text())["runs"]["ran"]
        self.assertTrue(0 < ran < 60 * 34, ran)
        fewer = [*SHORT[:4], "--repeats", "2", *SHORT[6:]]
        self.assertEqual(self.run_it(*fewer, "--out", out)[0], 0)
        self.run_it(*fewer, "--out", whole)
        self.assertEqual(self.tables(out), self.tables(whole))


class Refused(Case):
    def test_another_measurement_in_the_folder(self):
        out = self.folder / "out"
        self.run_it(*SHORT, "--out", out, "--repeats", "1")
        before = self.tables(out)
        code, _, said = self.run_it(*SHORT, "--out", out, "--seed", "2")
        self.assertEqual(code, 1)
        self.assertIn("settings.seed was 1 and is now 2. Name another --out", said)
        self.assertEqual(self.tables(out), before)

    def test_two_at_once_and_a_file_that_is_no_journal(self):
        held = Journal(self.folder)
        with self.assertRaisesRegex(Unfit, "another process"):
            Journal(self.folder)
        held.resume({"x": 1})
        held.close()
        journal = self.folder / "journal.jsonl"
        good = journal.read_bytes()
        for text, line in (
            (b"{}\n", "something else"),
            (b"poem\n", "line 1"),
            (b"poem", "line 1"),
            (good + b"[1]\n", "line 2"),
            (good + b'{"ended": 1}\n', "line 2"),
        ):
            journal.write_bytes(text)
            held = Journal(self.folder)
            self.addCleanup(held.close)
            with self.assertRaisesRegex(Unfit, line):
                held.resume({"x": 1})
            held.close()

    def test_options_that_mean_nothing(self):
        for arguments, words in (
            (["--backend", "simulated"], "--out is needed"),
            (["--out", "x", "--families", "gpt"], "gpt is none of cnn-train"),
            (["--out", "x", "--window", "0"], "--window"),
            (["--out", "x", "--repeats", "0"], "--repeats"),
            (["--out", "x", "--mode", "fast"], "time-slicing"),
            (["--out", "x", "--groups", "2=5"], "from 3 to 16 once"),
            (["--out", "x", "--groups", "3=5,3=6"], "from 3 to 16 once"),
            (["--out", "x", "--groups", "3=0"], "--groups"),
            (["--out", "x", "--groups", "3=5", "--mode", "mig"], "one on each"),
        ):
            code, _, said = self.run_it(*arguments)
            self.assertEqual(code, 2)
            self.assertIn(words, said)

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        code, _, said = self.run_it(*SHORT, "--out", self.folder / "file" / "out")
        self.assertEqual((code, said.startswith("error: ")), (1, True), said)

    def test_what_a_gpu_needs_is_told_where_it_is_missing(self):
        # There is no such GPU, where there is a driver and PyTorch at all.
        code, _, said = self.run_it("--out", self.folder / "out", "--gpu", "4096")
        self.assertEqual(code, 1)
        self.assertEqual(list((self.folder / "out").iterdir()), [])
        self.assertRegex(said, "PyTorch|NVIDIA driver|no GPU number")


if __name__ == "__main__":
    unittest.main()
