#!/usr/bin/env python3
"""A mount of a store on another machine beside a local mount: over links with several round trips, in one run.

    benches/remote.py                       a local mount, and remote ones at 0, 0.1 and 1 ms of round trip
    benches/remote.py --trips 0,0.1         other round trips, in ms
    benches/remote.py --groups small,git    of: small, append, trees, git, large, postgres
    benches/remote.py --compare BINARY      another build of Amphora (server and node) beside it, as `before`
    benches/remote.py --peers juicefs,seaweedfs   these beside it, over the same links (`benches/peers.sh` installs them)
    benches/remote.py --stats               also the round trips that each operation of the store took

One server serves a bucket for each column; a remote mount reaches it through a proxy of ours that delays (`delay.rs`). All
columns of a group run before the next group begins, each round another one first. Figures are medians of the rounds; in
brackets the ratio to the local mount, above 1 is faster. Needs root, rustc and what `mount.py` needs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import mount
from mount_work import GROUPS, make_input
from mounts import Mount, scratch
from remote_peers import PEERS
from servers import TOOLS, amphora_binary

STEPS = {
    "append": {"append 4 KiB+fsync": ("calls/s", None)},
    **{group: mount.STEPS[group] for group in ("small", "trees", "git", "large", "postgres")},
}


def proxy_binary():
    program = TOOLS / "delay"
    source = pathlib.Path(__file__).with_name("delay.rs")
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", program, source], check=True)
    return program


class Store(Mount):
    """A server with one bucket for each column."""

    def __init__(self, binary, columns):
        super().__init__(binary, "", "--keep-awake", "false", "--volume-listen", "127.0.0.1:0")
        self.columns = columns

    def __enter__(self):
        super().__enter__()
        for name in self.columns:
            self.command("bucket", "create", name)
        return self

    def word(self, name):
        """A word of the line that says `ready`."""
        line = next(line for line in self.log().splitlines() if line.startswith("ready"))
        return next(word for word in line.split() if word.startswith(f"{name}=")).split("=", 1)[1]


class Remote:
    """A mount of a bucket through a proxy; use it in a `with`."""

    def __init__(self, store, bucket, round_trip_ms):
        self.store, self.bucket, self.delay = store, bucket, round(round_trip_ms * 500)

    def __enter__(self):
        words = [str(proxy_binary()), self.store.word("volume"), str(self.delay)]
        self.proxy = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        address = self.proxy.stdout.readline().strip()
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="remote-", dir=scratch()))
        self.call("mount", self.bucket, str(self.path), "--server", address, "--credentials", self.store.word("credentials"))
        os.chmod(self.path, 0o755)
        return self

    def call(self, *words):
        done = subprocess.run([self.store.binary, *words], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"amphora {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def __exit__(self, *_):
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            self.call("umount", str(self.path))
        self.proxy.kill()
        self.proxy.wait()
        subprocess.run(["umount", "--lazy", str(self.path)], stderr=subprocess.DEVNULL, check=False)
        if not os.path.ismount(self.path):
            shutil.rmtree(self.path, ignore_errors=True)


def appends(where, size):
    descriptor = os.open(where.path / "appends", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < size["seconds"]:
        os.write(descriptor, bytes(4096))
        os.fsync(descriptor)
        done += 1
    took = time.perf_counter() - begin
    os.close(descriptor)
    os.unlink(where.path / "appends")
    return {"append 4 KiB+fsync": done / took}, None


def table(results, columns):
    print(f"{'':38}{'':>10}" + "".join(f"{name:>20}" for name in columns))
    for group in results:
        for step, (unit, _) in STEPS[group].items():
            found = {name: [run[step] for run in results[group][name] if step in run] for name in columns}
            medians = {name: statistics.median(figures) for name, figures in found.items() if figures}
            cells = ""
            for name in columns:
                if name not in medians:
                    cells += f"{'fails':>20}"
                elif name == "local" or "local" not in medians:
                    cells += f"{mount.shown(medians[name]):>20}"
                else:
                    part = mount.ratio(unit, medians[name], medians["local"])
                    cells += f"{mount.shown(medians[name]):>12} ({part:5.2f})"
            print(f"{step:38}{unit:>10}{cells}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--trips", default="0,0.1,1", help="round trips in ms")
    parser.add_argument("--groups", default="small,append,trees,git,large")
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    parser.add_argument("--compare", help="another binary of Amphora, measured beside it in each round")
    parser.add_argument("--peers", default="", help="of: juicefs, seaweedfs")
    parser.add_argument("--stats", action="store_true", help="print the round trips by operation")
    parser.add_argument("--size", default="{}", help="JSON that changes sizes, such as '{\"files\": 200}'")
    options = parser.parse_args()
    trips = [float(trip) for trip in options.trips.split(",")]
    size = {**mount.SMALL, **json.loads(options.size)}
    size["input"] = str(scratch() / f"input-{size['tree']}")
    if not os.path.exists(f"{size['input']}/tree.git/packed-refs"):
        shutil.rmtree(size["input"], ignore_errors=True)
        make_input(pathlib.Path(size["input"]), size["tree"])
    groups = options.groups.split(",")
    assert set(groups) <= set(STEPS) and set(STEPS) - {"append"} <= set(GROUPS)
    builds = {"": amphora_binary(options.amphora), **({"before ": options.compare} if options.compare else {})}
    buckets = {trip: f"trip-{round(trip * 1000)}" for trip in trips}
    with contextlib.ExitStack() as stack:
        places = {}
        for build, binary in builds.items():
            store = stack.enter_context(Store(binary, buckets.values()))
            if not build:
                places["local"] = store
            for trip, bucket in buckets.items():
                places[f"{build}{trip:g} ms"] = stack.enter_context(Remote(store, bucket, trip))
        for peer in filter(None, options.peers.split(",")):
            for trip in trips:
                places[f"{peer} {trip:g} ms"] = stack.enter_context(PEERS[peer](proxy_binary(), trip))
        results = {group: {name: [] for name in places} for group in groups}
        for number in range(options.rounds):
            for turn, group in enumerate(groups, number):
                names = list(places)
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    print(f"round {number + 1}: {group}, {name}", file=sys.stderr, flush=True)
                    work = appends if group == "append" else lambda where, size: mount.measure(group, where, size, 600)
                    figures, error = work(places[name], size)
                    results[group][name].append(figures)
                    if error:
                        print(f"error: {group} on {name}: {error}")
                    if options.stats and isinstance(places[name], Remote):
                        print(f"{group} on {name}, since it was mounted:", places[name].call("mount", "stats", str(places[name].path)))
        table(results, list(places))


if __name__ == "__main__":
    sys.exit(main())
