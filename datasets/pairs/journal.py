"""What was measured so far: a file to which each run adds one line, so that an interrupted measurement goes on where it
was.

The first line says what is measured on what. Each further line is JSON, written whole and flushed to the disk: a
session (`{"session": …}`), its end (`{"ended": …}`) or a run. A last line without its end was cut by an interruption
and is removed. Of a run that failed and was made again, the last counts. Only one process at a time holds a journal.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, List

from runner import Unfit

FORMAT = 1
# How every journal begins.
START = b'{"format":'


@contextmanager
def uninterrupted():
    """Lets no signal come between: it is answered afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _differences(was: Dict, now: Dict, below: str = "") -> List[str]:
    found = []
    for name in sorted({*was, *now}):
        old, new = was.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{below}{name}.")
        elif old != new:
            found.append(f"{below}{name} was {json.dumps(old)} and is now {json.dumps(new)}")
    return found


class Journal:
    """The journal of a folder, held against other processes. It says nothing before it is gone on with (`resume`)."""

    def __init__(self, folder: Path):
        self._path = path = folder / "journal.jsonl"
        self.runs: Dict[str, Dict] = {}
        self.sessions: List[Dict] = []
        # Without a buffer, so that what could not be written is not written later.
        self._file = open(path, "a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise Unfit(f"{path}: another process measures into this folder; wait for it, or name another --out")

    def resume(self, head: Dict) -> None:
        """Goes on with what is there, if it is of the same: `head` is what is measured on what."""
        path, head = self._path, {"format": FORMAT, **head}
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole == 0 and not content.startswith(START[: len(content)]):
            raise Unfit(f"{path}, line 1: it is no journal; move it away, or name another --out")
        if whole < len(content):
            os.ftruncate(self._file.fileno(), whole)
        lines = content[:whole].splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                if number > 1:
                    self._take(entry)
                elif differ := _differences(entry, json.loads(json.dumps(head))):
                    told = "; ".join(differ)
                    raise Unfit(f"{path}: something else was measured in this folder: {told}. Name another --out")
            except (ValueError, LookupError, TypeError, AttributeError):
                raise Unfit(
                    f"{path}, line {number}: it is no line of a journal; remove the folder, or name another --out"
                )
        if not lines:
            self._write(head)

    def _take(self, entry: Dict) -> None:
        if "session" in entry:
            self.sessions.append(dict(entry["session"]))
        elif "ended" in entry:
            self.sessions[-1]["ended"] = entry["ended"]
        else:
            self.runs[entry["run"]] = entry

    def _write(self, entry: Dict) -> None:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        before = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError:
            # The disk is full: half a line must not stand before others.
            os.ftruncate(self._file.fileno(), before)
            raise

    def add(self, entry: Dict) -> None:
        """Adds a session, its end, or a run."""
        with uninterrupted():
            self._write(entry)
            self._take(entry)

    def close(self) -> None:
        """Lets go of it. An empty one is removed."""
        if not self._file.closed and os.fstat(self._file.fileno()).st_size == 0:
            self._path.unlink()
        self._file.close()
