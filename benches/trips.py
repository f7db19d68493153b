#!/usr/bin/env python3
"""What a mount's server is asked, and what that costs it: requests, time in the server, processor time, switches of threads.

    benches/trips.py                       all steps, 3 rounds, native and Amphora in turns
    benches/trips.py --only 'git|open'     the steps whose name matches
    benches/trips.py -- --keep-awake true  flags for the server behind the two dashes

Of each step: the time beside that of the native file system (medians; a ratio above 1 is faster than native), then each
kind of request with how often it came and the least mean time that the server took for it. Counts hold on a busy machine,
too; times do not. Needs root (to empty caches and to mount), fio and git.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import time

import mount_work
from mount_work import make_input, run, seconds
from mounts import Mount, Native, scratch
from servers import amphora_binary

FILES = 4000


def git_status(where):
    mount_work.git("status", "--porcelain", cwd=where / "clone")


def clone(where):
    mount_work.git("clone", "-q", "--no-hardlinks", scratch() / f"input-{FILES}" / "tree.git", where / "clone")
    # git reads files again that changed in the second in which it wrote its index, so a newer index is written.
    time.sleep(1.5)
    git_status(where)


def small_files(where):
    shutil.rmtree(where / "small", ignore_errors=True)
    (where / "small").mkdir()
    for number in range(FILES):
        mount_work.write_new(where / "small" / f"file-{number:06}")
    open_all(where)


def open_all(where):
    for number in range(FILES):
        descriptor = os.open(where / "small" / f"file-{number:06}", os.O_RDONLY)
        os.read(descriptor, 2 * mount_work.PAGE)
        os.close(descriptor)


def stat_all(where):
    for number in range(FILES):
        os.stat(where / "small" / f"file-{number:06}")


def fio(where, **options):
    # All writes are within existing files.
    common = dict(name="job", directory=where, thread=1, ioengine="psync", fallocate="none", invalidate=0, overwrite=1, randseed=11)
    run("fio", *(f"--{name}={value}" for name, value in (common | options).items()), cwd=where)


def eight_jobs(where):
    fio(where, rw="randrw", rwmixread=70, bs="16k", numjobs=8, size="16M", filename_format="many.$jobnum")


def one_writer(where):
    fio(where, rw="randwrite", bs="4k", size="64M", filename_format="one")


# Step: its preparation, whether the kernel's caches are emptied, and the measured work.
STEPS = {
    "git status, cold": (clone, True, git_status),
    "stat all, cold": (small_files, True, stat_all),
    "open+read+close all, warm": (small_files, False, open_all),
    "4k randwrite, one writer": (one_writer, False, one_writer),
    "8 jobs randrw 70/30 16k": (eight_jobs, False, eight_jobs),
}


class Watched:
    """The counters of a mount's server so far."""

    def __init__(self, mount):
        told = mount.command("--output", "json", "mount", "stats", str(mount.path))
        self.requests = {row["operation"]: (row["count"], row["totalNs"]) for row in json.loads(told)}
        with open(f"/proc/{mount.process.pid}/stat") as stat:
            user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
        self.cpu_seconds = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        self.switches = dict(switches(mount.process.pid))

    def since(self, before):
        """The count and mean time of each kind of request, the processor time, and the thread switches."""
        kinds = {}
        for kind, (count, total) in self.requests.items():
            count_before, total_before = before.requests.get(kind, (0, 0))
            if count > count_before:
                kinds[kind] = (count - count_before, (total - total_before) / 1e3 / (count - count_before))
        # A thread may end meanwhile.
        switched = sum(count - before.switches.get(task, 0) for task, count in self.switches.items())
        return kinds, self.cpu_seconds - before.cpu_seconds, switched


def switches(pid):
    """The threads of a process, with the number of voluntary context switches of each."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/status") as status:
            yield task, int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.MULTILINE)[1])


def report(step, times, watched):
    native, ours = (statistics.median(times[name]) for name in ("native", "amphora"))
    requests = max(1, sum(count for one in watched for count, _ in one[0].values()))
    cpu, switched = (sum(one[at] for one in watched) / requests for at in (1, 2))
    print(f"{step}: native {native:.3f} s, amphora {ours:.3f} s ({native / ours:.2f}); "
          f"server {cpu * 1e6:.1f} us of a processor and {switched:.2f} switches a request")
    kinds = {kind for one in watched for kind in one[0]}
    counts = {kind: statistics.median([one[0].get(kind, (0, 0))[0] for one in watched]) for kind in kinds}
    for kind in sorted(kinds, key=counts.get, reverse=True):
        if counts[kind] >= 10:
            least = min(one[0][kind][1] for one in watched if kind in one[0])
            print(f"    {kind:16}{counts[kind]:>9,.0f}{least:>9.1f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="regular expression of steps")
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    parser.add_argument("flags", nargs="*", help="flags for the server")
    options = parser.parse_args()
    source = scratch() / f"input-{FILES}"
    if not (source / "tree.git" / "packed-refs").exists():
        shutil.rmtree(source, ignore_errors=True)
        make_input(source, FILES)
    chosen = {step: about for step, about in STEPS.items() if re.search(options.only, step, re.IGNORECASE)}
    with Native() as native, Mount(amphora_binary(options.amphora), "", *options.flags) as mount:
        for step, (prepare, cold, work) in chosen.items():
            times, watched = {"native": [], "amphora": []}, []
            for place in (native, mount):
                prepare(place.path)
            for _ in range(options.rounds):
                for name, place in (("native", native), ("amphora", mount)):
                    if cold:
                        mount_work.cool()
                    before = Watched(mount)
                    times[name].append(seconds(lambda place=place: work(place.path)))
                    watched += [Watched(mount).since(before)] if place is mount else []
            report(step, times, watched)


if __name__ == "__main__":
    main()
