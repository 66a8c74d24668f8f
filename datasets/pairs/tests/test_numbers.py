"""The numbers: plan, rates, intervals, the model of contention, tables."""

import itertools
import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import plan  # noqa: E402
import runner  # noqa: E402
import simulated  # noqa: E402
import tables  # noqa: E402


def job(name, is_micro=False):
    return plan.Job(name, name.split(" (")[0], "x", None if is_micro else 8, 32, is_micro)


def record(run, rates=None, outcome="ran", readings=()):
    made = {
        "run": run.key,
        "began": "-",
        "outcome": outcome,
        "rested": [False, False],
        "idle_memory_mb": 400.0,
        "readings": [list(r) for r in readings],
    }
    if rates:
        made.update(steps_per_s=rates, drift=[0.01] * len(rates), facts=[{"parameters": 12}] * len(rates))
    else:
        made["why"] = "out of memory"
    return made


class Plan(unittest.TestCase):
    def test_a_repeat_has_every_job_alone_every_couple_and_every_micro_load(self):
        runs = plan.runs(plan.FAMILIES, True, 2, 1, {})
        self.assertEqual(len(runs), 2 * 142)
        self.assertEqual(len({run.key for run in runs}), len(runs))
        self.assertTrue(all(len(run.jobs) == 1 for run in runs[:16]))
        self.assertEqual({run.repeat for run in runs[:142]}, {1})

    def test_the_seed_tells_the_order_and_more_repeats_change_no_earlier_one(self):
        keys = lambda repeats, seed: [run.key for run in plan.runs(plan.FAMILIES, True, repeats, seed, {})]
        self.assertEqual(keys(3, 1)[:284], keys(2, 1))
        self.assertNotEqual(keys(1, 1), keys(1, 2))
        self.assertEqual(sorted(keys(1, 1)), sorted(keys(1, 2)))

    def test_micro_loads_may_be_left_out(self):
        self.assertEqual(len(plan.runs(["lstm-train"], False, 1, 1, {})), 2 + 3)

    def test_groups_are_drawn_once_and_follow_their_couples(self):
        runs = plan.runs(plan.FAMILIES, True, 2, 1, {3: 24, 4: 12})
        self.assertEqual(len(runs), 2 * (142 + 36))
        self.assertEqual(len({run.key for run in runs}), len(runs))
        for repeat in (1, 2):
            seen, groups = set(), set()
            for run in (run for run in runs if run.repeat == repeat):
                if len(run.jobs) > 2:
                    self.assertLessEqual(set(itertools.combinations(run.jobs, 2)), seen)
                    groups.add(run.jobs)
                seen.add(run.jobs)
            self.assertEqual(sorted(map(len, groups)), [3] * 24 + [4] * 12)
        self.assertEqual({run.jobs for run in runs[: len(runs) // 2]}, {run.jobs for run in runs[len(runs) // 2 :]})
        # Without groups nothing else changes its place.
        others = [run for run in runs if len(run.jobs) < 3]
        self.assertEqual(set(others), set(plan.runs(plan.FAMILIES, True, 2, 1, {})))

    def test_every_multiset_is_as_likely_as_any_other_and_no_more_are_drawn_than_there_are(self):
        a, b = job("a"), job("b")
        self.assertEqual(len(plan.groups([a, b], {3: 9, 4: 2}, 1)), 4 + 2)
        drawn = [plan.groups([a, b], {3: 1}, seed)[0].count(a) for seed in range(4000)]
        for count in range(4):
            self.assertAlmostEqual(drawn.count(count) / 4000.0, 0.25, delta=0.03)


class Rates(unittest.TestCase):
    def test_a_rate_is_between_the_marks_around_the_window(self):
        marks = [(9.0, 180), (9.9, 200), (15.0, 404), (20.1, 608), (21.0, 650)]
        self.assertAlmostEqual(runner.rate(marks, 10.0, 20.0), 40.0)

    def test_a_job_that_was_not_there_throughout_is_told(self):
        for marks in ([(10.5, 10), (20.1, 20)], [(9.5, 10), (19.9, 20)]):
            with self.assertRaises(runner.Failed):
                runner.rate(marks, 10.0, 20.0)

    def test_drift_is_the_second_half_over_the_first(self):
        marks = [(0.0, 0), (5.0, 50), (10.0, 105)]
        self.assertAlmostEqual(runner.drift(marks, runner.Times(-1.0, 0.0, 10.0)), 0.1)


class Intervals(unittest.TestCase):
    def test_the_worked_number(self):
        speed, low, high = tables.ratio([9.8, 10.0, 10.2], [19.8, 20.0, 20.2])
        self.assertEqual([round(x, 3) for x in (speed, low, high)], [0.5, 0.481, 0.519])
        self.assertEqual(round(speed, 4), 0.4999)

    def test_one_repeat_has_none_and_equal_ones_have_no_width(self):
        speed, *interval = tables.ratio([5.0], [10.0, 10.0])
        self.assertEqual((round(speed, 12), interval), (0.5, [None, None]))
        self.assertEqual([round(x, 12) for x in tables.ratio([5.0, 5.0], [10.0, 10.0])], [0.5, 0.5, 0.5])

    def test_students_quantiles_fall_to_the_normal_one(self):
        quantiles = [tables.student95(freedom) for freedom in range(1, 200)]
        self.assertEqual(quantiles, sorted(quantiles, reverse=True))
        self.assertAlmostEqual(tables.student95(60), 1.671, delta=0.001)
        self.assertAlmostEqual(quantiles[-1], 1.6449, delta=0.01)

    def test_ninety_percent_of_intervals_hold_the_truth(self):
        import random

        draw, held, tries = random.Random(3), 0, 4000
        for _ in range(tries):
            beside = [50.0 * math.exp(draw.gauss(0.0, 0.02)) for _ in range(3)]
            alone = [80.0 * math.exp(draw.gauss(0.0, 0.02)) for _ in range(3)]
            _, low, high = tables.ratio(beside, alone)
            held += low <= 50.0 / 80.0 <= high
        self.assertTrue(0.89 < held / tries < 0.95, held / tries)


class Contention(unittest.TestCase):
    def test_max_min(self):
        self.assertEqual(simulated.divide([0.3, 0.4]), [1.0, 1.0])
        got = simulated.divide([0.9, 0.3, 0.0])
        self.assertAlmostEqual(got[0], 0.7 / 0.9)
        self.assertEqual(got[1:], [1.0, 1.0])
        self.assertEqual(simulated.divide([0.8, 0.8]), [0.625, 0.625])

    def test_modes(self):
        heavy = simulated.Demand(0.9, 0.2, 0.2, 0.0, 1.0, 10.0)
        light = simulated.Demand(0.1, 0.3, 0.1, 0.0, 1.0, 10.0)
        sliced = simulated.speeds("time-slicing", [heavy, light])
        self.assertAlmostEqual(sliced[0], 0.97 * 0.7 / 0.9)
        self.assertAlmostEqual(sliced[1], 0.97)
        # Each holds another resource, so beside each other by MPS they lose nothing.
        self.assertEqual(simulated.speeds("mps", [heavy, light]), [1.0, 1.0])
        self.assertEqual(simulated.speeds("mig", [heavy, light]), [0.5 / 0.9, 1.0])
        self.assertEqual(simulated.speeds("time-slicing", [heavy]), [1.0])

    def test_every_job_of_the_plan_has_demands(self):
        names = {job.name for job in plan.jobs(plan.FAMILIES) + plan.micro_loads()}
        self.assertEqual(names, set(simulated.DEMANDS))


class Tables(unittest.TestCase):
    def sheets(self, entries):
        records = {}
        for run, *rest in entries:
            records[run.key] = record(run, *rest)
        measured = tables.Measured([run for run, *_ in entries], records)
        return tables.sheets("g", measured), measured.left_out()

    def test_a_hand_worked_table(self):
        a, b, m, large = job("a (batch size 8)"), job("b (batch size 8)"), job("m", True), job("l (batch size 8)")
        run = plan.Run
        sheets, left_out = self.sheets(
            [
                (
                    run((a,), 1),
                    [10.0],
                    "ran",
                    [
                        (0.0, 70.0, 20.0, 1400.0, 100.0, None, 1.0, None),
                        (0.1, 90.0, None, 2400.0, 200.0, None, 1.0, None),
                    ],
                ),
                (run((b,), 1), [40.0]),
                (run((m,), 1), [5.0]),
                (run((large,), 1), None, "did_not_fit"),
                (run((a, b), 1), [8.0, 10.0]),
                (run((a, a), 1), None, "did_not_fit"),
                (run((b, b), 1), None, "failed"),
                (run((a, m), 1), [2.5, 4.0]),
                (run((a, large), 1), None, "did_not_fit"),
            ]
        )
        as_csv = {name: tables.as_csv(rows).decode() for name, rows in sheets.items()}
        head = "gpu_type,job_a,job_b,speed_a,speed_b\n"
        self.assertEqual(
            as_csv["pairs.csv"],
            head + "g,a (batch size 8),a (batch size 8),,\ng,a (batch size 8),b (batch size 8),0.8,0.25\n",
        )
        self.assertEqual(as_csv["micro.csv"], head + "g,a (batch size 8),m,0.25,0.8\n")
        profiles = as_csv["profiles.csv"].splitlines()
        self.assertEqual(profiles[1], "g,a (batch size 8),a,80,20,2000,150,,8,12,32,10")
        self.assertEqual(as_csv["micro_profiles.csv"].splitlines(), [*profiles, "g,m,m,,,,,,,12,32,5"])
        self.assertEqual(profiles[2], "g,b (batch size 8),b,,,,,,8,12,32,40")
        self.assertIn("g,a (batch size 8),b (batch size 8),a,1,0,10,8,0.8,,,0.01\n", as_csv["speeds.csv"])
        self.assertEqual(len(as_csv["samples.csv"].splitlines()), 3)
        self.assertEqual(
            left_out,
            [
                "b (batch size 8) + b (batch size 8) #1: out of memory",
                "l (batch size 8): did not fit alone, so it has no pairs",
            ],
        )

    def test_a_pair_that_fits_now_and_then_and_a_speed_that_cannot_be(self):
        a, b, run = job("a"), job("b"), plan.Run
        alone = [(run((a,), 1), [1.0]), (run((b,), 1), [1.0])]
        fits_once = [(run((a, b), 1), [0.5, 0.5]), (run((a, b), 2), None, "did_not_fit")]
        sheets, left_out = self.sheets(alone + fits_once)
        self.assertEqual(sheets["pairs.csv"][1:], [["g", "a", "b", None, None]])
        self.assertEqual(left_out, ["a + b: fitted in 1 repeats, did not in 1"])
        sheets, left_out = self.sheets(alone + fits_once + [(run((a, b), 3), [0.5, 0.5])])
        self.assertEqual(sheets["pairs.csv"][1][1:3], ["a", "b"])
        self.assertAlmostEqual(sheets["pairs.csv"][1][3], 0.5)
        sheets, left_out = self.sheets(alone + [(run((a, b), 1), [20.0, 0.5])])
        self.assertEqual((len(sheets["pairs.csv"]), left_out), (1, ["a beside b: 20 times its speed alone, a mistake"]))

    def test_a_group_has_a_row_for_each_job_and_is_no_pair(self):
        a, b, run = job("a"), job("b"), plan.Run
        alone = [(run((a,), 1), [10.0]), (run((b,), 1), [40.0])]
        groups = [(run((a, a, b), 1), [2.0, 4.0, 10.0]), (run((b, b, b), 1), None, "did_not_fit")]
        sheets, left_out = self.sheets(alone + groups)
        as_csv = {name: tables.as_csv(rows).decode() for name, rows in sheets.items()}
        rows = ["a + a + b,a,0.2", "a + a + b,a,0.4", "a + a + b,b,0.25", *["b + b + b,b,"] * 3]
        self.assertEqual(as_csv["groups.csv"], "gpu_type,group,job,speed\n" + "".join(f"g,{row}\n" for row in rows))
        self.assertEqual((len(sheets["pairs.csv"]), left_out), (1, []))
        self.assertIn("g,b,a + a,c,1,0,40,10,0.25,,,0.01\n", as_csv["speeds.csv"])
        self.assertNotIn("groups.csv", self.sheets(alone)[0])

    def test_cells(self):
        self.assertEqual(
            [tables.cell(x) for x in (None, 0.000012345678, 3, "a,b", 1e7)], ["", "1.23457e-05", "3", "a,b", "1e+07"]
        )
        self.assertEqual(tables.as_csv([["a,b", None]]), b'"a,b",\n')


if __name__ == "__main__":
    unittest.main()
