"""One job, in a process of its own.

`python3 worker.py SPECIFICATION` loads what a loop needs, and then speaks in lines of JSON with the process that
started it:

    it says                                        it is told
    {"event": "loaded"}
                                                   {"build": true}
    {"event": "ready", "facts": {…}}
                                                   {"start": t, "open": t, "close": t}
    {"event": "marks", "marks": [[t, steps], …]}
                                                   {"rest": true}
    {"event": "resting"}
    {"event": "did_not_fit" | "failed", "why": …}

It holds nothing of the GPU before it is told to build. One that rests keeps its model and its memory, does nothing, and
can be told to start again.

Times are seconds of the clock that all processes of a machine share (`CLOCK_MONOTONIC`). Steps are put to the GPU in
chunks of about 50 ms, and each chunk is waited for, so that a mark tells steps that are done and waiting costs little.
Worked number: a step of 0.8 ms makes chunks of round(50 / 0.8) = 62 steps.

After its marks it runs on, so that the job beside it is not alone in its last chunk. It rests after a chunk, with no
work left on the GPU, and so it ends when its standard input closes: that is how it is ended, and what happens when who
started it is gone.

`python3 worker.py --about LOOPS` prints what the module of the loops tells of itself: versions, and whether it sees a
GPU.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import sys
import threading
import time
from typing import Dict, TextIO

CHUNK_S = 0.05
MOST_STEPS = 10_000
# Fewest steps of a warm-up.
FEWEST = 3
# Longest that a step may hold up the end, seconds.
END_S = 60.0


class Orders:
    """What this process is told, and whether it should end."""

    def __init__(self, stream: TextIO):
        self.over = threading.Event()
        self._lines: "queue.Queue[str]" = queue.Queue()
        threading.Thread(target=self._listen, args=(stream,), daemon=True).start()

    def _listen(self, stream: TextIO) -> None:
        for line in stream:
            self._lines.put(line)
        self.over.set()
        self._lines.put("")
        # A step that never ends must not keep the GPU.
        time.sleep(END_S)
        os._exit(1)

    def are_there(self) -> bool:
        """Whether there is a line that was not taken yet, or will be none."""
        return not self._lines.empty()

    def wait(self) -> str:
        """The next line; empty where there will be none."""
        return self._lines.get()


def warm_up(loop, seconds: float, over: threading.Event) -> int:
    """Runs until the loop is in its steady state; how many steps make a chunk."""
    loop.step()
    loop.wait()
    lengths = []
    end = time.monotonic() + seconds
    while not over.is_set() and (len(lengths) < FEWEST or time.monotonic() < end):
        began = time.monotonic()
        loop.step()
        loop.wait()
        lengths.append(time.monotonic() - began)
    late = sorted(lengths[len(lengths) // 2 :]) or [CHUNK_S]
    usual = late[len(late) // 2]
    return max(1, min(MOST_STEPS, round(CHUNK_S / max(usual, 1e-9))))


def run(loop, chunk: int, times: Dict[str, float], say, orders: Orders) -> None:
    """Runs from `start` until the next order, and says its marks once it has one after `close`."""
    time.sleep(max(0.0, times["start"] - time.monotonic()))
    steps, marks = 0, [(time.monotonic(), 0)]
    while not orders.are_there():
        for _ in range(chunk):
            loop.step()
        loop.wait()
        steps += chunk
        if marks is None:
            continue
        at = time.monotonic()
        # Of the marks before the window only the last counts.
        if at <= times["open"]:
            marks = []
        marks.append((at, steps))
        if at >= times["close"]:
            say({"event": "marks", "marks": marks})
            marks = None


def main() -> int:
    if sys.argv[1] == "--about":
        print(json.dumps(importlib.import_module(sys.argv[2]).about()))
        return 0
    specification = json.loads(sys.argv[1])
    # What a library prints must not come between the lines that are meant.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(event: Dict) -> None:
        channel.write(json.dumps(event) + "\n")

    orders = Orders(sys.stdin)
    loops = importlib.import_module(specification["loops"])
    say({"event": "loaded"})
    if not orders.wait():
        return 0
    try:
        loop = loops.build(specification)
        chunk = warm_up(loop, specification["warm_up_s"], orders.over)
        say({"event": "ready", "facts": {**loop.facts, "chunk": chunk}})
        while order := orders.wait():
            told = json.loads(order)
            if "rest" in told:
                say({"event": "resting"})
            else:
                run(loop, chunk, told, say, orders)
    except Exception as error:
        event = "did_not_fit" if loops.is_out_of_memory(error) else "failed"
        say({"event": event, "why": f"{type(error).__name__}: {error}"[:400]})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
