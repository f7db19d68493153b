#!/usr/bin/env python3
"""What mounts take of the server's memory: at rest, at work, at rest again, and after many files were deleted.

  benches/mount_memory.py [--amphora target/release/amphora] [--mounts 50] [--files 50000] [--compare OTHER_BINARY]

Each line is the resident set of the server in MiB. A mount at rest may take 0.5 MiB, and the rest of the server 64: more is
an exit status of 1. With --compare another binary is measured first, and held to nothing. It needs root and 2 GiB of disk.
"""

import argparse
import concurrent.futures
import os
import sys
import time

from mounts import Mount
from servers import amphora_binary

MIB = 1 << 20
A_MOUNT_MIB, SERVER_MIB = 0.5, 64
# Longer than the time after which an idle thread frees its buffer, and the allocator returns free memory.
REST_SECONDS = 20


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def work(path):
    """The work of a busy program: large writes and reads, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(4) as programs:
        list(programs.map(lambda number: write_and_read(path / f"large-{number}"), range(4)))


def write_and_read(path):
    for _ in range(3):
        path.write_bytes(b"x" * (4 * MIB))
        path.read_bytes()
    path.unlink()


def make_and_delete(path, count):
    folders = [path / f"d{number}" for number in range(16)]
    for folder in folders:
        folder.mkdir()
    for number in range(count):
        (folders[number % 16] / f"f{number}").write_bytes(b"content")
    for folder in folders:
        for entry in os.scandir(folder):
            os.unlink(entry.path)
        folder.rmdir()


def measure(binary, mounts, files):
    figures = {}
    with Mount(binary) as first:
        pid = first.process.pid
        figures["one mount"] = resident_mib(pid)
        paths = [first.path]
        for number in range(1, mounts):
            path = first.path.parent / f"m{number}"
            path.mkdir()
            first.command("mount", "work", str(path))
            paths.append(path)
        try:
            time.sleep(REST_SECONDS)
            figures[f"{mounts} mounts at rest"] = resident_mib(pid)
            for path in paths:
                work(path)
            figures["at work"] = resident_mib(pid)
            time.sleep(REST_SECONDS)
            figures["at rest again"] = resident_mib(pid)
            make_and_delete(first.path, files)
            figures[f"{files} files deleted"] = resident_mib(pid)
            time.sleep(REST_SECONDS)
            figures["at rest after that"] = resident_mib(pid)
        finally:
            for path in paths[1:]:
                first.command("umount", str(path))
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    parser.add_argument("--compare", help="another binary, to be measured before it")
    parser.add_argument("--mounts", type=int, default=50)
    parser.add_argument("--files", type=int, default=50_000)
    options = parser.parse_args()
    binary, failed = amphora_binary(options.amphora), False
    before = measure(options.compare, options.mounts, options.files) if options.compare else {}
    allowed = SERVER_MIB + options.mounts * A_MOUNT_MIB
    for name, figure in measure(binary, options.mounts, options.files).items():
        held = "rest" in name
        failed |= held and figure > allowed
        verdict = "    " if not held else "pass" if figure <= allowed else "FAIL"
        bar = f" (bar: {allowed:.0f})" if held else ""
        other = f", {before[name]:.0f} before" if name in before else ""
        print(f"{verdict}  {name}: {figure:.0f} MiB{bar}{other}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
