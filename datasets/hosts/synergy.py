#!/usr/bin/env python3
"""Writes how fast models are on so many processors and so much memory a GPU, as the authors of Synergy (OSDI 2022) publish it, for job types of Gavel's throughputs.

    git clone https://github.com/msr-fiddle/synergy
    python3 datasets/hosts/synergy.py synergy/simulator/models > host.csv
    tracecast plan allocation simulation_throughputs.json.gz … --host-table host.csv

Each of their files holds a table: nine numbers of processors by five amounts of memory, in speeds of the model. Their ResNet-18 and ResNet-50 are put onto
Gavel's types of these names, though the data sets differ. Their language models are at full speed from one processor on, and so are LM and Transformer here.
The other types of Gavel's are not in the table: they depend on nothing. Nothing of theirs is copied into this repository.
"""

import ast
import pathlib
import re
import sys

PROCESSORS = [1, 2, 3, 4, 5, 6, 9, 12, 24]
MEMORY_GB = [20.83, 62.5, 125, 187.5, 250]
TABLES = {"ResNet-18": ("res18_1.py", [16, 32, 64, 128, 256]), "ResNet-50": ("res50_1.py", [16, 32, 64, 128])}
AT_ONCE = {"LM": [5, 10, 20, 40, 80], "Transformer": [16, 32, 64, 128, 256]}


def speeds(path):
    """The table of a file: a row for each number of processors."""
    found = re.search(r"self\.tput\s*=\s*np\.array\((\[.*?\])\s*\)", path.read_text(), re.DOTALL)
    if not found:
        sys.exit(f"{path}: no table self.tput in it; name the folder simulator/models of Synergy's repository")
    rows = ast.literal_eval(found.group(1))
    if len(rows) != len(PROCESSORS) or any(len(row) != len(MEMORY_GB) for row in rows):
        sys.exit(f"{path}: its table is not of {len(PROCESSORS)} by {len(MEMORY_GB)} numbers")
    return rows


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    lines = ["job,cpus,memory_gb,speed"]
    for model, (name, batches) in TABLES.items():
        path = folder / name
        if not path.is_file():
            sys.exit(f"{path}: there is no such file; name the folder simulator/models of Synergy's repository")
        table = speeds(path)
        for batch in batches:
            for processors, row in zip(PROCESSORS, table):
                for memory, speed in zip(MEMORY_GB, row):
                    lines.append(f'"{model} (batch size {batch})",{processors},{memory},{speed}')
    for model, batches in AT_ONCE.items():
        lines += [f'"{model} (batch size {batch})",1,,1' for batch in batches]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
