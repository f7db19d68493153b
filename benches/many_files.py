#!/usr/bin/env python3
"""What a file costs in directories of 1,000, 10,000 and 100,000, and what a level costs in trees of 20 and 200.

    benches/many_files.py            an Amphora mount
    benches/many_files.py --native   and the native file system beside it

Prints microseconds a file, and how often as much it is in the largest as in the smallest: flat is 1. The exit status is
1 where that is above 1.5. Needs root, to mount and to empty caches.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import time

from mount_work import cool
from mounts import Mount, Native
from servers import amphora_binary

COUNTS = (1_000, 10_000, 100_000)
DEPTHS = (20, 200)
BAR = 1.5


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def stat_all(folder, names):
    for name in names:
        os.stat(f"{folder}/{name}")


def create(folder, names):
    for name in names:
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def names_in(folder, count):
    seen = sum(1 for _ in os.scandir(folder))
    if seen != count:
        raise SystemExit(f"{seen} of {count} names listed")


def directory(folder, count):
    """The seconds that each step takes for `count` files."""
    folder.mkdir()
    old, new = ([f"{kind}-{number:06}" for number in range(count)] for kind in ("file", "name"))
    taken = {"create": timed(lambda: create(folder, old))}
    cool()
    taken["list, cold"] = timed(lambda: names_in(folder, count))
    cool()
    taken["stat, cold"] = timed(lambda: stat_all(folder, old))
    taken["stat, warm"] = timed(lambda: stat_all(folder, old))
    cool()
    taken["list and stat, cold"] = timed(lambda: [entry.stat() for entry in os.scandir(folder)])
    taken["rename"] = timed(lambda: [os.rename(f"{folder}/{one}", f"{folder}/{two}") for one, two in zip(old, new)])
    taken["delete"] = timed(lambda: [os.unlink(f"{folder}/{name}") for name in new])
    folder.rmdir()
    return taken


def tree(folder, depth):
    """The seconds that each step takes on a chain of folders with a file in each."""
    paths = [folder]
    for level in range(depth - 1):
        paths.append(paths[-1] / str(level % 10))
    taken = {"mkdir": timed(lambda: [path.mkdir() for path in paths])}
    taken["create"] = timed(lambda: [(path / "f").touch() for path in paths])
    cool()
    taken["walk, cold"] = timed(lambda: [os.stat(path / "f") for path in paths])
    taken["list"] = timed(lambda: [os.listdir(path) for path in paths])
    moved = folder.with_name(folder.name + "-moved")
    # One call for the whole tree, so the unit is microseconds per call, not per level.
    taken["rename, the call"] = timed(lambda: os.rename(folder, moved)) * depth
    paths = [moved / path.relative_to(folder) for path in paths]
    taken["delete"] = timed(lambda: [((path / "f").unlink(), path.rmdir()) for path in reversed(paths)])
    return taken


def runs(sizes):
    """Size and number of each. The small ones several times, since they take no time, and half of them after the largest,
    so that a drift of the machine hits all."""
    times = {size: max(1, min(10, sizes[-1] // size // 5)) for size in sizes}
    before = [(size, number) for size in sizes for number in range(times[size] // 2)]
    return before + [(size, number) for size in reversed(sizes) for number in range(times[size] // 2, times[size])]


def measure(where, sizes, work):
    """Microseconds per file or level, by step and size."""
    taken = {}
    for size, number in runs(sizes):
        for step, seconds in work(where / f"many-{size}-{number}", size).items():
            taken.setdefault(step, {}).setdefault(size, []).append(seconds / size * 1e6)
    return {step: {size: statistics.median(costs) for size, costs in found.items()} for step, found in taken.items()}


def show(title, costs, sizes, flat):
    """Prints a table; returns the steps whose cost grows with the size."""
    print(f"\n{title:24}" + "".join(f"{size:>12,}" for size in sizes) + "       ratio")
    steep = []
    for step, cost in costs.items():
        grown = cost[sizes[-1]] / cost[sizes[0]]
        steep += [f"{title}: {step}"] if flat and grown > BAR else []
        print(f"{step:24}" + "".join(f"{cost[size]:>12.1f}" for size in sizes) + f"{grown:>12.2f}")
    return steep


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        places = [("amphora", stack.enter_context(Mount(amphora_binary(options.amphora))))]
        if options.native:
            places.append(("native", stack.enter_context(Native())))
        steep = []
        print("microseconds a file, and a level")
        for name, place in places:
            where = pathlib.Path(place.path)
            steep += show(f"{name}, files", measure(where, COUNTS, directory), COUNTS, name == "amphora")
            steep += show(f"{name}, levels", measure(where, DEPTHS, tree), DEPTHS, False)
    print("\nflat" if not steep else f"\nnot flat (above {BAR}): {'; '.join(steep)}")
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
