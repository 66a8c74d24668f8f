"""The backend on a real GPU: processes of PyTorch, read through NVML.

What it needs is looked at before anything runs: a driver, PyTorch that sees CUDA, a GPU on which nobody computes. It
changes nothing of the GPU: no reset, no MIG mode, no clocks, no compute mode. What it starts ends with it:

* jobs: one process each; it ends when its standard input closes, so none outlives a killed measurement. With `keep`, so
  many of them rest on the GPU between runs, those used last. Processes for them are started before the first run, which
  waits until all are loaded: loading would slow what is measured;
* in the mode `mps`, a control daemon of its own in a temporary folder. Where it is is written into the measurement's
  folder before it starts, so that the same command stops one that an interruption left.

In the other modes jobs are pointed to an empty folder, so that a daemon that is there for others does not take them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import nvml
import plan
from runner import READY_S, DidNotFit, Failed, Mark, Reading, Times, Unfit

HERE = Path(__file__).resolve().parent
MPS_CONTROL = "nvidia-cuda-mps-control"
# Where its folder is: a short path, as that of a socket may have 107 characters only.
TEMPORARY, MPS_FOLDER = Path("/tmp"), "tracecast-mps-"
# Longest that a job may take to end by itself, seconds.
END_S = 20.0
# Longest that the daemon may take to start or to end, seconds.
MPS_S = 30.0


class Worker:
    """A job in a process of its own. It is told what to do, and tells what it did, in lines of JSON (see `worker`)."""

    def __init__(self, specification: Dict, environment: Dict[str, str], key: str):
        # What it can be taken for: a job at a place.
        self.key = key
        self._facts: Optional[Dict] = None
        self._loaded = False
        # Whether it was on the GPU before the run.
        self.rested = False
        # A file, as a pipe that nobody reads would stop the job.
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), json.dumps(specification)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment,
            # An interruption from the keyboard is for the measurement, which ends its jobs.
            start_new_session=True,
        )
        self._rest = b""

    def _tell(self, order: Dict) -> None:
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"a job ended early: {self._last_words()}") from error

    def _hear(self, wanted: str, limit: float) -> Dict:
        while b"\n" not in self._rest:
            left = limit - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise Failed(f"a job was not {wanted} in time: {self._last_words()}")
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise Failed(f"a job ended early: {self._last_words()}")
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        told = json.loads(line)
        if told["event"] == "did_not_fit":
            raise DidNotFit(told["why"])
        if told["event"] != wanted:
            raise Failed(told.get("why", f"a job said {told['event']} where {wanted} was due"))
        return told

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:400] if lines else "it said nothing"

    def wait_until_loaded(self, limit: float) -> None:
        """Waits until it has loaded what it needs."""
        if not self._loaded:
            self._hear("loaded", limit)
            self._loaded = True

    def _ask(self, order: Dict) -> None:
        """Tells it what it answers later. One that ended already is found out then."""
        try:
            self._tell(order)
        except Failed:
            pass

    def build(self) -> None:
        """Lets it take to the GPU."""
        self._ask({"build": True})

    def ready(self, limit: float) -> Dict:
        """Waits until it has warmed up, if it has not yet; what is known of its model."""
        if self._facts is None:
            self.wait_until_loaded(limit)
            self._facts = self._hear("ready", limit)["facts"]
        return self._facts

    def go(self, times: Times) -> None:
        """Tells it when to begin, and which window counts."""
        self._tell(times._asdict())

    def marks(self, limit: float) -> List[Mark]:
        """Waits for its marks through the window. It runs on until it is ended."""
        return [(t, steps) for t, steps in self._hear("marks", limit)["marks"]]

    def rest(self) -> None:
        """Tells it to do nothing until it is told to go."""
        self._ask({"rest": True})

    def wait_for_rest(self) -> None:
        """Waits until it has no work left on the GPU."""
        self._hear("resting", time.monotonic() + END_S)

    def end(self) -> None:
        """Ends it. By MPS, a job that is killed with work on the GPU can harm the one beside it: it may end by itself."""
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()


def _taken(workers: List[Worker], key: str) -> Optional[Worker]:
    """The first of some processes for a job at a place, which is taken out of them."""
    found = next((worker for worker in workers if worker.key == key), None)
    if found:
        workers.remove(found)
    return found


class Mps:
    """A control daemon of one's own for NVIDIA's multi-process service."""

    def __init__(self, out: Path, visible: str):
        self._marker = out / "mps-daemon"
        self._visible = visible
        self.folder: Optional[Path] = None

    def _environment(self) -> Dict[str, str]:
        own = {"CUDA_VISIBLE_DEVICES": self._visible}
        own.update(CUDA_MPS_PIPE_DIRECTORY=str(self.folder / "pipe"), CUDA_MPS_LOG_DIRECTORY=str(self.folder / "log"))
        return {**os.environ, **own}

    def stop_leftover(self) -> None:
        """Stops the daemon that an interruption left."""
        if not self._marker.exists():
            return
        folder = Path(self._marker.read_text().strip())
        if folder.parent != TEMPORARY or not folder.name.startswith(MPS_FOLDER):
            raise Unfit(f"{self._marker} names no folder of an MPS daemon; remove it if no daemon was left running")
        self.folder = folder
        self.stop()

    def start(self) -> None:
        """Starts the daemon."""
        if shutil.which(MPS_CONTROL) is None:
            raise Unfit(f"{MPS_CONTROL} is not on the path; it comes with the driver. Measure with --mode time-slicing")
        self.folder = Path(tempfile.mkdtemp(prefix=MPS_FOLDER, dir=TEMPORARY))
        self._marker.write_text(f"{self.folder}\n")
        for name in ("pipe", "log"):
            (self.folder / name).mkdir()
        try:
            done = subprocess.run([MPS_CONTROL, "-d"], env=self._environment(), capture_output=True, timeout=MPS_S)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Unfit(f"{MPS_CONTROL} -d did not come back. Measure with --mode time-slicing") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            self.stop()
            raise Unfit(f"{MPS_CONTROL} -d failed: {said[:400]}. Measure with --mode time-slicing")

    def stop(self) -> None:
        """Stops it and removes its folder. Nothing happens where none was started."""
        if self.folder is None:
            return
        if self.folder.is_dir():
            pid = self.folder / "pipe" / f"{MPS_CONTROL}.pid"
            number = pid.read_text().strip() if pid.exists() else ""
            try:
                quit_it = {"input": b"quit\n", "env": self._environment(), "capture_output": True, "timeout": MPS_S}
                subprocess.run([MPS_CONTROL], **quit_it)
            except (OSError, subprocess.TimeoutExpired):
                pass
            limit = time.monotonic() + MPS_S
            while number.isdigit() and Path(f"/proc/{number}").exists():
                if time.monotonic() > limit:
                    raise Unfit(
                        f"the MPS daemon (process {number}) did not stop: "
                        f"CUDA_MPS_PIPE_DIRECTORY={self.folder}/pipe; echo quit | {MPS_CONTROL}"
                    )
                time.sleep(0.1)
            shutil.rmtree(self.folder, ignore_errors=True)
        self._marker.unlink(missing_ok=True)
        self.folder = None


class Gpu:
    """A GPU with PyTorch. `library` and `loops` stand in for NVML and the loops in tests."""

    NOTE = "measured on the device named here"

    def __init__(self, settings: Dict, out: Path, library=None, loops: str = "loops"):
        self._settings = settings
        self._loops = loops
        self._nvml = nvml.Nvml(library)
        self._gpu = self._nvml.gpu(settings["gpu"])
        self._places = self._choose_places()
        self._mps = Mps(out, self._gpu.uuid) if settings["mode"] == "mps" else None
        # No daemon is in it.
        self._no_mps = tempfile.mkdtemp(prefix="no-mps-")
        self._versions: Dict = {}
        # Processes that hold nothing of the GPU yet, and jobs that rest on it, the one used last at the end.
        self._ahead: List[Worker] = []
        self._resting: List[Worker] = []

    def _choose_places(self) -> List[nvml.Device]:
        """Where the jobs of a run are: one place for all, or one for each of two."""
        mig = self._nvml.mig_is_on(self._gpu)
        if self._settings["mode"] != "mig":
            if mig:
                raise Unfit("the GPU is divided by MIG; measure with --mode mig, or choose another with --gpu")
            return [self._gpu]
        instances = self._nvml.mig_instances(self._gpu) if mig else []
        for at, first in enumerate(instances):
            for second in instances[at + 1 :]:
                if second.name == first.name:
                    return [first, second]
        raise Unfit(
            "--mode mig needs two MIG instances of one profile on the GPU, and it makes none. "
            "An administrator makes them, for example with nvidia-smi mig -cgi 3g.20gb,3g.20gb -C"
        )

    def check(self) -> None:
        """Looks at all that is needed.

        Raises `Unfit` with what would mend it."""
        if self._mps:
            self._mps.stop_leftover()
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / "worker.py"), "--about", self._loops],
                env=self._environment(self._places[0]),
                capture_output=True,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            raise Unfit("PyTorch does not start within five minutes") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing was said"]
            raise Unfit(f"PyTorch does not start: {said[-1][:400]}")
        self._versions = json.loads(done.stdout)
        if not self._versions["sees_cuda"]:
            raise Unfit("PyTorch sees no CUDA device; install a build for CUDA that this driver knows")
        mode = self._nvml.compute_mode(self._gpu)
        shares = (nvml.DEFAULT_MODE, nvml.EXCLUSIVE_PROCESS) if self._mps else (nvml.DEFAULT_MODE,)
        if mode not in shares:
            raise Unfit(
                "the compute mode of the GPU lets no two processes in; nvidia-smi -c DEFAULT changes it (as root)"
            )
        others = sum(self._nvml.processes(place) for place in self._places)
        if others > 0:
            raise Unfit("somebody computes on the GPU (nvidia-smi shows who); wait until it is free")

    def open(self, runs: Sequence) -> None:
        """Starts what the mode needs, and processes ahead for jobs of some runs that may be kept."""
        if self._mps:
            self._mps.start()
        jobs = {self._key(job, side): (job, side) for run in runs for side, job in enumerate(run.jobs)}
        needed = sorted(plan.processes(runs, self._key).elements())
        self._ahead = [self._spawn(*jobs[key]) for key in needed[: self._settings["keep"]]]
        limit = self.now() + READY_S
        for worker in self._ahead:
            try:
                worker.wait_until_loaded(limit)
            except Failed:
                # The run that needs it finds out, and says so.
                continue

    def close(self) -> None:
        """Ends and stops what `open` started."""
        for worker in self._ahead:
            worker.end()
        self._ahead = []
        self.make_room()
        shutil.rmtree(self._no_mps, ignore_errors=True)
        if self._mps:
            self._mps.stop()

    def about(self) -> Dict:
        """What is measured on; the journal goes on only on the same."""
        memory = self._nvml.memory(self._places[0])
        return {
            "gpu_name": self._places[0].name,
            "gpu_uuid": self._gpu.uuid,
            "memory_mb": None if memory is None else round(memory.total / nvml.MIB),
            "driver": self._nvml.driver(),
            "versions": {**self._versions, "python": platform.python_version(), "system": platform.platform()},
        }

    def now(self) -> float:
        """Seconds on a clock that all processes of the machine share."""
        return time.monotonic()

    def date(self) -> str:
        """The time of day."""
        return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def sleep_until(self, moment: float) -> None:
        """Waits for a moment of `now`."""
        time.sleep(max(0.0, moment - time.monotonic()))

    def read(self) -> Reading:
        """The GPU now."""
        places = self._places if self._settings["mode"] == "mig" else [self._gpu]
        return self._nvml.read(self._gpu, places)

    def _environment(self, place: nvml.Device) -> Dict[str, str]:
        pipe = str(self._mps.folder / "pipe") if self._mps and self._mps.folder else self._no_mps
        return {**os.environ, "CUDA_VISIBLE_DEVICES": place.uuid, "CUDA_MPS_PIPE_DIRECTORY": pipe}

    def _key(self, job, side: int) -> str:
        return f"{job.name} on {self._place(side).uuid}"

    def _place(self, side: int) -> nvml.Device:
        return self._places[side % len(self._places)]

    def _spawn(self, job, side: int) -> Worker:
        specification = {
            "loops": self._loops,
            "loop": job.loop,
            "batch": job.batch,
            "precision_bits": job.precision_bits,
            "seed": self._settings["seed"],
            "warm_up_s": self._settings["warm_up_s"],
        }
        return Worker(specification, self._environment(self._place(side)), self._key(job, side))

    def start(self, job, side: int, run: str) -> Worker:
        """Starts a job of a run, the first as 0, or takes one that rests."""
        key = self._key(job, side)
        if resting := _taken(self._resting, key):
            resting.rested = True
            return resting
        worker = _taken(self._ahead, key) or self._spawn(job, side)
        worker.build()
        return worker

    def leave(self, workers: Sequence[Worker], well: bool) -> None:
        """Ends jobs of a run, or lets them rest if all went well and they may be kept."""
        if not well or self._settings["keep"] == 0:
            for worker in workers:
                worker.end()
            return
        for worker in workers:
            worker.rest()
        for worker in workers:
            try:
                worker.wait_for_rest()
                self._resting.append(worker)
            except (Failed, DidNotFit):
                worker.end()
        while len(self._resting) > self._settings["keep"]:
            self._resting.pop(0).end()

    def make_room(self) -> bool:
        """Ends all jobs that rest; whether there were any."""
        there = bool(self._resting)
        for worker in self._resting:
            worker.end()
        self._resting = []
        return there
