"""Loops without PyTorch, to test processes: each is named for what it does."""

import os
import time


class OutOfMemory(Exception):
    """Stands for that of a GPU."""


class Loop:
    def __init__(self, kind, step_s):
        self.kind, self.step_s, self.steps = kind, step_s, 0
        self.facts = {"parameters": 7}

    def step(self):
        self.steps += 1
        if self.kind == "prints":
            os.write(1, b"a library prints {\n")
        if self.kind == "hangs":
            time.sleep(1000)
        if self.kind == "grows" and self.steps > 40:
            raise OutOfMemory("CUDA out of memory")
        if self.kind == "dies" and self.steps > 40:
            os.write(2, b"illegal instruction\n")
            os._exit(7)
        time.sleep(self.step_s)

    def wait(self):
        pass


def about():
    return {"torch": "none", "sees_cuda": os.environ.get("CUDA_VISIBLE_DEVICES", "") != "GPU-blind"}


def build(specification):
    kind = specification["loop"]
    if kind == "too_large":
        raise OutOfMemory("CUDA out of memory")
    if kind == "broken":
        raise ValueError("no such layer")
    return Loop(kind, 0.004 if kind == "slow" else 0.002)


def is_out_of_memory(error):
    return isinstance(error, OutOfMemory)
