#!/usr/bin/env python3
"""A mount beside the file system that its store lies on: builds, starts, measures, judges.

    benches/mount.py                     all groups, 2 rounds: native, Amphora, Amphora with --keep-awake true
    benches/mount.py --columns native,amphora   leaves the third out; `node` is a mount with locks=node
    benches/mount.py --only 'sqlite|git' the groups or steps whose name matches
    benches/mount.py --compare BINARY    another build beside it, as `before`
    benches/mount.py --full              the sizes of the bars: 1 GiB, 10,000 files, 6,000 in the tree

Within a round each group runs on all directories before the next group begins, each time another directory first, so
that a drift of the machine hits all. Figures are medians; a ratio above 1 is faster than native. Bars are judged by the
server's defaults (`amphora`): `awake` changes how the whole machine sleeps (decision 0032). The exit status is 1 when a bar
is missed or a step fails. Needs root (to empty caches and to mount), fio, git, tar and PostgreSQL.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys

from mount_work import GROUPS, make_input
from mounts import Mount, Native, scratch
from servers import ROOT, amphora_binary

# Step: unit, least ratio to native (None: no bar).
STEPS = {
    "large": {
        "seq write 1 MiB, fsync at end": ("MB/s", 0.65),
        "seq read 1 MiB, cold": ("MB/s", 0.85),
        "seq read 1 MiB, warm": ("MB/s", 0.9),
        "4k randread, warm file": ("IOPS", 0.7),
        "4k randread, cold": ("IOPS", 0.8),
        "4k randwrite buffered, fsync at end": ("IOPS", 0.6),
        "4k randwrite, fsync each": ("IOPS", 0.5),
        "8 jobs randrw 70/30 16k": ("IOPS", 1.0),
    },
    "small": {
        "create+write 4 KiB+close": ("files/s", 0.10),
        "the same, plus a sync of all": ("files/s", None),
        "stat all, cold": ("files/s", 0.25),
        "stat all, warm": ("files/s", None),
        "open+read+close all, cold": ("files/s", 0.35),
        "open+read+close all, warm": ("files/s", 0.10),
        "open+close all, warm": ("files/s", None),
        "ls -l, cold": ("entries/s", 1.0),
        "ls -l, warm": ("entries/s", 0.8),
        "open O_TRUNC+write 4 KiB+close": ("files/s", 0.35),
        "rename all": ("files/s", 0.12),
        "rm -rf": ("files/s", 0.35),
    },
    "synced": {
        "create+write 4 KiB+fsync+close": ("files/s", 0.45),
        "write tmp+fsync+rename over": ("files/s", 0.4),
        "the same by 8 processes": ("files/s", 0.6),
    },
    "trees": {
        "untar the tree": ("s", 0.5),
        "find -type f, cold": ("s", 0.6),
        "du -s, cold": ("s", None),
        "grep -r (reads all), cold": ("s", 0.5),
        "cp -r within the mount": ("s", 0.5),
        "rm -rf of one tree": ("s", 0.4),
    },
    "git": {
        "git clone, local, no hardlinks": ("s", 0.33),
        "git status, cold": ("s", 0.45),
        "edit 50 files, git commit -a": ("s", 0.35),
        "git gc": ("s", 0.35),
    },
    "sqlite": {
        "sqlite, journal=DELETE, sync=FULL": ("tx/s", 0.35),
        "sqlite, journal=WAL, sync=FULL": ("tx/s", 0.6),
    },
    "postgres": {
        "initdb": ("s", 0.8),
        "pgbench -i -s 5": ("s", 0.5),
        "pgbench, 2 clients": ("tx/s", 0.75),
    },
}

SMALL = dict(file_mib=256, random_mib=16, files=1000, tree=800, transactions=500, seconds=2, pgbench_seconds=5)
FULL = dict(file_mib=1024, random_mib=64, files=10_000, tree=6000, transactions=2000, seconds=10, pgbench_seconds=20)


def measure(group, where, size, limit):
    """The figures of one group in a new folder of a directory, and the error, if there was one."""
    folder = where.path / f"bench-{group}"
    folder.mkdir()
    folder.chmod(0o755)
    words = [sys.executable, str(ROOT / "benches" / "mount_work.py"), group, str(folder), json.dumps(size)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        told, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        told = process.communicate(timeout=30)[0] + json.dumps({"error": f"longer than {limit} s"})
    answers = [json.loads(line) for line in told.splitlines()]
    shutil.rmtree(folder, ignore_errors=True)
    figures = {answer["step"]: answer["figure"] for answer in answers if "step" in answer}
    return figures, next((answer["error"] for answer in answers if "error" in answer), None)


def ratio(unit, ours, native):
    return native / ours if unit == "s" else ours / native


def shown(figure):
    return f"{figure:,.3f}" if figure < 10 else f"{figure:,.1f}" if figure < 1000 else f"{figure:,.0f}"


def table(results, chosen, columns):
    """Prints all medians; returns the bars that are missed."""
    missed = []
    print(f"{'':38}{'':>10}" + "".join(f"{name:>20}" for name in columns) + "     bar")
    for group, steps in chosen.items():
        for step, (unit, bar) in steps.items():
            found = {name: [figures[step] for figures in results[name] if step in figures] for name in columns}
            medians = {name: statistics.median(figures) for name, figures in found.items() if figures}
            native = medians.get("native")
            cells, verdict = [], ""
            for name in columns:
                if name not in medians:
                    cells.append(f"{'fails':>20}")
                elif name == "native" or native is None:
                    cells.append(f"{shown(medians[name]):>20}")
                else:
                    part = ratio(unit, medians[name], native)
                    cells.append(f"{shown(medians[name]):>12} ({part:5.2f})")
                    if name == "amphora" and bar is not None:
                        verdict = f"{bar:8.2f} {'pass' if part >= bar else 'FAIL'}"
                        missed += [step] if part < bar else []
            print(f"{step:38}{unit:>10}" + "".join(cells) + verdict)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="regular expression of groups and steps; whole groups are run")
    parser.add_argument("--full", action="store_true", help="the sizes of the bars")
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    parser.add_argument("--options", default="", help="options of the mount")
    parser.add_argument("--columns", default="native,amphora,awake", help="what to measure: of these three, and node")
    parser.add_argument("--compare", help="another binary of Amphora, measured beside it in each round")
    options = parser.parse_args()
    size = FULL if options.full else SMALL
    wanted = re.compile(options.only, re.IGNORECASE)
    chosen = {group: {step: about for step, about in steps.items() if wanted.search(group) or wanted.search(step)}
              for group, steps in STEPS.items()}
    chosen = {group: steps for group, steps in chosen.items() if steps}
    binary = amphora_binary(options.amphora)
    size["input"] = str(scratch() / f"input-{size['tree']}")
    if not os.path.exists(f"{size['input']}/tree.git/packed-refs"):
        shutil.rmtree(size["input"], ignore_errors=True)
        make_input(scratch() / f"input-{size['tree']}", size["tree"])
    with contextlib.ExitStack() as stack:
        kinds = {"native": Native,
                 "amphora": lambda: Mount(binary, options.options, "--keep-awake", "false"),
                 "node": lambda: Mount(binary, ",".join(filter(None, [options.options, "locks=node"])), "--keep-awake", "false"),
                 "awake": lambda: Mount(binary, options.options, "--keep-awake", "true"),
                 "before": lambda: Mount(options.compare, options.options, "--keep-awake", "false")}
        columns = options.columns.split(",") + (["before"] if options.compare else [])
        places = {name: stack.enter_context(kinds[name]()) for name in columns}
        results, errors = {name: [] for name in places}, []
        for number in range(options.rounds):
            for turn, group in enumerate(chosen, number):
                names = list(places)
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    print(f"round {number + 1}: {group}, {name}", file=sys.stderr, flush=True)
                    figures, error = measure(group, places[name], size, 1800 if options.full else 300)
                    results[name].append(figures)
                    errors += [f"{group} on {name}: {error}"] if error else []
    missed = table(results, chosen, list(places))
    for error in errors:
        print(f"error: {error}")
    bars = sum(bar is not None for steps in chosen.values() for _, bar in steps.values())
    print(f"{bars - len(missed)} of {bars} bars are met" + (f"; not: {'; '.join(missed)}" if missed else ""))
    return 1 if missed or errors else 0


if __name__ == "__main__":
    assert set(GROUPS) == set(STEPS)
    sys.exit(main())
