"""The backend on a GPU with a made-up driver, loops without PyTorch, and a daemon that is a script: processes, barrier,
memory, MIG, MPS, what is refused."""

import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import gpu  # noqa: E402
import measure  # noqa: E402
import nvml  # noqa: E402
import plan  # noqa: E402
import runner  # noqa: E402
from fake_nvml import Library  # noqa: E402
from runner import Unfit  # noqa: E402

SETTINGS = {"mode": "time-slicing", "gpu": 0, "keep": 0, "seed": 1, "warm_up_s": 0.02, "settle_s": 0.15, "window_s": 0.5}

# A control daemon: it notes what it is asked for, and leaves the file that the real one leaves.
DAEMON = """#!/bin/sh
if [ "$1" = -d ]; then
    echo "start $CUDA_VISIBLE_DEVICES" >>"$DAEMON_LOG"
    [ -z "$DAEMON_FAILS" ] || { echo 'no permission' >&2; exit 1; }
    echo 999999999 >"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
else
    read -r order
    echo "$order" >>"$DAEMON_LOG"
fi
"""


def job(kind):
    return plan.Job(kind, kind, kind, 1, 32, False)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        environment = mock.patch.dict(os.environ, {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"})
        environment.start()
        self.addCleanup(environment.stop)

    def backend(self, library=None, **settings):
        made = gpu.Gpu({**SETTINGS, **settings}, self.out, library or Library(), "fake_loops")
        self.addCleanup(made.close)
        return made

    def measure(self, *kinds, backend=None, **settings):
        run = plan.Run(tuple(map(job, kinds)), 1)
        return runner.measure(backend or self.backend(), run, {**SETTINGS, **settings})


class Processes(Case):
    def test_two_jobs_run_together_throughout_the_window(self):
        record = self.measure("prints", "slow")
        self.assertEqual(record["outcome"], "ran", record)
        # Sleeps of 2 and 4 ms; a busy machine may be slower, never faster.
        fast, slow = record["steps_per_s"]
        self.assertTrue(2.0 < fast < 500.0 and 1.0 < slow < 250.0, record["steps_per_s"])
        self.assertEqual([facts["parameters"] for facts in record["facts"]], [7, 7])
        for marks in record["marks"]:
            self.assertTrue(marks[0][0] <= 0.0 and marks[-1][0] >= 0.5, marks)
        self.assertTrue(1 <= len(record["readings"]) <= 5, record["readings"])
        self.assertEqual(record["readings"][0][1:], [80.0, 30.0, 1024.0, 123.456, 2.0, 1410.0, None])
        self.assertEqual(record["idle_memory_mb"], 1024.0)

    def test_no_memory_at_the_start_or_later_is_no_failure(self):
        for kinds in (["too_large"], ["slow", "too_large"], ["slow", "grows"]):
            record = self.measure(*kinds)
            self.assertEqual((record["outcome"], "out of memory" in record["why"]), ("did_not_fit", True), record)

    def test_a_job_that_fails_is_told_with_its_last_words(self):
        for kind, words in (("broken", "ValueError: no such layer"), ("dies", "illegal instruction")):
            record = self.measure("slow", kind)
            self.assertEqual(record["outcome"], "failed")
            self.assertIn(words, record["why"])

    def test_a_job_that_is_never_ready_is_given_up(self):
        with mock.patch.object(runner, "READY_S", 0.3):
            record = self.measure("slow", warm_up_s=0.0, backend=self.backend(warm_up_s=60.0))
        self.assertEqual(record["outcome"], "failed")
        self.assertIn("not ready in time", record["why"])

    def test_no_job_outlives_who_started_it(self):
        backend = self.backend()
        worker = backend.start(job("slow"), 0, "x")
        worker.ready(backend.now() + 60.0)
        now = backend.now()
        worker.go(runner.Times(now, now + 1000.0, now + 2000.0))
        worker._process.stdin.close()
        self.assertEqual(worker._process.wait(timeout=30), 0)
        worker.end()

    def test_a_job_that_hangs_is_killed(self):
        backend = self.backend(warm_up_s=0.0)
        worker = backend.start(job("hangs"), 0, "x")
        with mock.patch.object(gpu, "END_S", 0.2):
            worker.end()
        self.assertEqual(worker._process.returncode, -9)


class Kept(Case):
    def pids(self, backend):
        return [worker._process.pid for worker in backend._resting]

    def test_a_job_rests_and_runs_again(self):
        backend = self.backend(keep=4)
        first = self.measure("slow", backend=backend)
        resting = self.pids(backend)
        again = self.measure("slow", "prints", backend=backend)
        self.assertEqual((first["outcome"], again["outcome"]), ("ran", "ran"), again)
        self.assertEqual((first["rested"], again["rested"]), ([False], [True, False]))
        self.assertEqual(self.pids(backend)[: len(resting)], resting)
        # What it did in the first run does not count in the second.
        self.assertTrue(0.0 < again["steps_per_s"][0] < 250.0, again["steps_per_s"])
        for marks in again["marks"]:
            self.assertTrue(marks[0][0] <= 0.0 and marks[-1][0] >= 0.5, marks)
        twice = self.measure("slow", "slow", backend=backend)
        self.assertEqual((twice["outcome"], twice["rested"]), ("ran", [True, False]))
        there = backend._resting
        backend.close()
        self.assertEqual([worker._process.returncode for worker in there], [0, 0, 0])

    def test_no_more_than_asked_for_rest(self):
        backend = self.backend(keep=1)
        self.measure("slow", "prints", backend=backend)
        self.assertEqual([worker.key.split()[0] for worker in backend._resting], ["prints"])

    def test_processes_ahead_take_nothing_of_the_gpu(self):
        backend = self.backend(keep=3)
        runs = [plan.Run((job("slow"),), 1), plan.Run((job("slow"), job("slow")), 1)]
        backend.open(runs)
        ahead = [worker._process.pid for worker in backend._ahead]
        self.assertEqual(len(ahead), 2)
        # No run begins while processes load.
        self.assertTrue(all(worker._loaded for worker in backend._ahead))
        self.assertEqual(runner.measure(backend, runs[1], SETTINGS)["rested"], [False, False])
        self.assertEqual((self.pids(backend), backend._ahead), (ahead, []))
        backend.open([plan.Run((job("prints"),), 1)])
        waiting = backend._ahead[0]
        backend.close()
        self.assertEqual(waiting._process.returncode, 0)

    def test_a_job_that_does_not_fit_beside_resting_ones_has_them_ended(self):
        backend = self.backend(keep=2)
        self.measure("slow", backend=backend)
        there = backend._resting[0]
        self.assertEqual(self.measure("too_large", backend=backend)["outcome"], "did_not_fit")
        self.assertEqual((there._process.returncode, backend._resting), (0, []))

    def test_a_job_whose_run_failed_does_not_rest(self):
        backend = self.backend(keep=2)
        self.assertEqual(self.measure("slow", "dies", backend=backend)["outcome"], "failed")
        self.assertEqual(backend._resting, [])


class Tool(Case):
    def test_the_whole_tool_measures_with_processes(self):
        parser = measure.arguments()
        options = ["--families", "lstm-train", "--no-micro", "--repeats", "1", "--gpu-type", "v100"]
        lengths = ["--warm-up", "0.02", "--settle", "0.15", "--window", "0.3"]
        options = parser.parse_args([*options, *lengths, "--out", str(self.out / "out")])
        made = lambda options, settings: gpu.Gpu(settings, options.out, Library(), "fake_loops")
        with mock.patch.object(measure, "open_backend", made), mock.patch("sys.stderr", io.StringIO()):
            measure.run(options, parser)
        manifest = json.loads((options.out / "manifest.json").read_text())
        self.assertEqual(manifest["runs"], {"planned": 5, "ran": 5, "did_not_fit": 0, "failed": 0})
        self.assertEqual((manifest["note"], manifest["gpu_type"]), ("measured on the device named here", "v100"))
        self.assertEqual(manifest["device"]["driver"], "550.00")
        pairs = [row.split(",") for row in (options.out / "pairs.csv").read_text().splitlines()[1:]]
        # They sleep, so they do not slow each other; a busy machine may slow either.
        self.assertEqual([row[0] for row in pairs], ["v100"] * 3)
        self.assertTrue(all(0.0 < float(speed) for row in pairs for speed in row[3:]), pairs)
        profile = (options.out / "profiles.csv").read_text().splitlines()[1]
        self.assertTrue(
            profile.startswith("v100,lstm-train (batch size 20),lstm-train,80,30,0,123.456,2,20,7,32,"), profile
        )


class Checks(Case):
    def test_a_free_gpu_is_described(self):
        backend = self.backend()
        backend.check()
        about = backend.about()
        self.assertEqual((about["gpu_name"], about["driver"], about["memory_mb"]), ("Fake GPU", "550.00", 16384))
        self.assertEqual(about["versions"]["torch"], "none")

    def test_what_is_in_the_way_is_told_with_a_remedy(self):
        told = {
            "nvidia-smi shows who": (Library(processes=2), {}),
            "nvidia-smi -c DEFAULT": (Library(mode=nvml.EXCLUSIVE_PROCESS), {}),
            "sees no CUDA device": (Library(uuid=b"GPU-blind"), {}),
            "--mode mig": (Library(instances=[b"1g"]), {}),
            "makes none": (Library(), {"mode": "mig"}),
            "two MIG instances": (Library(instances=[b"3g", b"2g"]), {"mode": "mig"}),
            "no GPU number 3": (Library(), {"gpu": 3}),
        }
        for words, (library, settings) in told.items():
            with self.assertRaisesRegex(Unfit, words):
                self.backend(library, **settings).check()

    def test_no_driver_is_told(self):
        with mock.patch("ctypes.CDLL", side_effect=OSError("not found")), self.assertRaisesRegex(
            Unfit, "no NVIDIA driver"
        ):
            nvml.Nvml()

    def test_an_error_of_the_driver_names_its_function(self):
        library = Library()
        library.nvmlDeviceGetPowerUsage = lambda *_: 15
        with self.assertRaisesRegex(Unfit, "nvmlDeviceGetPowerUsage failed with NVML's error 15"):
            self.backend(library).read()

    def test_what_an_old_driver_does_not_have_is_unknown(self):
        class Old(Library):
            @property
            def nvmlDeviceGetPcieThroughput(self):
                raise AttributeError

        self.assertEqual(self.backend(Old()).read().pcie_mb_s, None)

    def test_jobs_of_a_mig_pair_get_two_instances_of_one_profile(self):
        backend = self.backend(Library(instances=[b"1g", b"3g", b"3g"]), mode="mig")
        visible = [backend._environment(place)["CUDA_VISIBLE_DEVICES"] for place in backend._places]
        self.assertEqual(visible, ["MIG-2", "MIG-3"])
        self.assertEqual(backend.read()[:3], (None, None, 2048.0))
        self.assertEqual(backend.about()["gpu_name"], "3g")

    def test_jobs_are_kept_from_a_daemon_of_others(self):
        backend = self.backend()
        folder = backend._environment(backend._places[0])["CUDA_MPS_PIPE_DIRECTORY"]
        self.assertEqual(os.listdir(folder), [])
        backend.close()
        self.assertFalse(os.path.exists(folder))


class MpsDaemon(Case):
    def setUp(self):
        super().setUp()
        self.log = self.out / "log"
        daemon = self.out / "bin" / gpu.MPS_CONTROL
        daemon.parent.mkdir()
        daemon.write_text(DAEMON)
        daemon.chmod(0o755)
        path = f"{daemon.parent}{os.pathsep}{os.environ['PATH']}"
        more = mock.patch.dict(os.environ, {"PATH": path, "DAEMON_LOG": str(self.log)})
        more.start()
        self.addCleanup(more.stop)

    def test_it_runs_while_it_is_needed_and_no_longer(self):
        backend = self.backend(mode="mps")
        backend.open([])
        folder = backend._mps.folder
        self.assertEqual(backend._environment(backend._places[0])["CUDA_MPS_PIPE_DIRECTORY"], f"{folder}/pipe")
        self.assertTrue((self.out / "mps-daemon").exists())
        self.assertEqual(self.measure("slow", backend=backend)["outcome"], "ran")
        backend.close()
        backend.close()
        self.assertEqual(self.log.read_text(), "start GPU-fake\nquit\n")
        self.assertFalse(folder.exists() or (self.out / "mps-daemon").exists())

    def test_one_that_an_interruption_left_is_stopped(self):
        left = self.backend(mode="mps")
        left.open([])
        backend = self.backend(mode="mps")
        backend.check()
        self.assertEqual(self.log.read_text(), "start GPU-fake\nquit\n")
        self.assertFalse(left._mps.folder.exists())
        left._mps.folder = None

    def test_a_folder_that_is_not_its_own_is_let_alone(self):
        (self.out / "mps-daemon").write_text(f"{self.out}\n")
        with self.assertRaisesRegex(Unfit, "names no folder"):
            self.backend(mode="mps").check()
        self.assertTrue(self.out.exists())

    def test_one_that_does_not_start_leaves_nothing(self):
        backend = self.backend(mode="mps")
        with mock.patch.dict(os.environ, {"DAEMON_FAILS": "1"}), self.assertRaisesRegex(Unfit, "no permission"):
            backend.open([])
        self.assertFalse((self.out / "mps-daemon").exists())

    def test_where_there_is_none_it_is_told(self):
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}), self.assertRaisesRegex(Unfit, "--mode time-slicing"):
            self.backend(mode="mps").open([])


try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Loops(unittest.TestCase):
    SIZE = {
        "width": 8,
        "image": 32,
        "vocabulary": 50,
        "tokens": 6,
        "heads": 2,
        "layers": 2,
        "rows": 20,
        "context": 5,
        "side": 16,
        "mib": 1,
        "sums": 2,
    }

    def test_every_loop_of_the_plan_makes_steps(self):
        import loops

        for one in plan.jobs(plan.FAMILIES) + plan.micro_loads():
            specification = {"loop": one.loop, "batch": one.batch and min(one.batch, 3), "seed": 1, "size": self.SIZE}
            loop = loops.build(specification, "cpu")
            for _ in range(7):
                loop.step()
            loop.wait()
            self.assertEqual(loop.facts["parameters"] is None, one.is_micro, one.name)

    def test_the_residual_network_is_that_of_18_layers(self):
        import loops

        # As published: He et al., "Deep residual learning for image recognition", in torchvision's count.
        self.assertEqual(sum(p.numel() for p in loops.residual_network(64).parameters()), 11_689_512)

    def test_a_lack_of_memory_is_told_from_other_errors(self):
        import loops

        told = loops.is_out_of_memory
        self.assertTrue(told(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")))
        self.assertTrue(told(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")))
        self.assertFalse(told(RuntimeError("CUDA error: an illegal memory access was encountered")))


if __name__ == "__main__":
    unittest.main()
