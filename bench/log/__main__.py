"""`python -m bench.log [--rounds N] [--directory DIR]`: batches appended by one process, and by several at once.

Bare writes, topics in files and SQLite rows take turns, so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench.goals import word
from bench.log.appending import bare, files, measure, sqlite_rows, together

_BATCHES = (1, 5, 50)
_MOST_OF_FLOOR = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--directory", type=Path, help="on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        here = Path(place)
        ways = {"bare write + sync": bare(here), "topics in files": files(here), "SQLite rows": sqlite_rows(here)}
        print(f"| records | {' | '.join(f'{name} (CPU)' for name in ways)} | files to bare |")
        print("| --- | --- | --- | --- | --- |")
        for size in _BATCHES:
            found = measure(ways, size, options.rounds)
            cells = [f"{seconds * 1e6:.0f} µs ({cpu * 1e6:.0f} µs)" for seconds, cpu in found.values()]
            ratio = found["topics in files"][0] / found["bare write + sync"][0]
            print(f"| {size} | {' | '.join(cells)} | {ratio:.2f} ({word(ratio <= _MOST_OF_FLOOR)}) |")
        for processes in (1, 2, 4):
            median, rate = together(here, processes, 2.0)
            print(f"{processes} processes, batches of 5: {median * 1e6:.0f} µs at the median, {rate:.0f} batches/s")


if __name__ == "__main__":
    main()
