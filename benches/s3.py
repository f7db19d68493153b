#!/usr/bin/env python3
"""Amphora beside other S3 servers, on this machine, in one interleaved run; says which bars it meets.

  benches/s3.py                                  all phases, minio and versitygw, 2 rounds of 3 s a phase
  benches/s3.py --rounds 3 --seconds 5 --peers minio versitygw garage s3s-fs
  benches/s3.py --only 'put|list' --no-peers --amphora target/release/amphora

Every PUT that Amphora acknowledges is on disk: data, name and metadata. What the peers promise is printed with the
result. The exit status is 1 if a bar is missed.
"""

import argparse
import re
import statistics
import subprocess
import sys

from servers import PEERS, ROOT, Server, amphora_binary, installed, load_binary

MIB = 1 << 20

# Name, operation, options. A GET reads what the PUT of its size wrote; sizes in 16 or 64 MiB go by count.
PHASES = [
    ("PUT 4 KiB, 1 client", "put", dict(prefix="a/", size=4096, clients=1)),
    ("PUT 4 KiB, 64 clients", "put", dict(prefix="l/", size=4096, clients=64, count=10_000, seconds=60)),
    ("GET 4 KiB, 16 clients", "get", dict(prefix="l/", clients=16, keys="PUT 4 KiB, 64 clients")),
    ("LIST 10,000 keys", "list", dict(prefix="l/", clients=1)),
    ("LIST with delimiter", "list-prefixes", dict(prefix="l/", clients=1)),
    ("PUT 64 KiB, 16 clients", "put", dict(prefix="m/", size=64 << 10, clients=16)),
    ("GET 64 KiB, 16 clients", "get", dict(prefix="m/", clients=16, keys="PUT 64 KiB, 16 clients")),
    ("PUT 1 MiB, 16 clients", "put", dict(prefix="n/", size=MIB, clients=16)),
    ("GET 1 MiB, 16 clients", "get", dict(prefix="n/", clients=16, keys="PUT 1 MiB, 16 clients")),
    ("PUT 64 MiB, 4 clients", "put", dict(prefix="o/", size=64 * MIB, clients=4, count=16, seconds=60)),
    ("GET 64 MiB, 4 clients", "get", dict(prefix="o/", clients=4, keys="PUT 64 MiB, 4 clients")),
    ("DELETE, 16 clients", "delete", dict(prefix="l/", clients=16, count="PUT 4 KiB, 64 clients", seconds=60)),
]

# Phase, figure, peer (None: the bar is a number), factor, and whether more is better.
BARS = [
    ("PUT 4 KiB, 1 client", "per_second", "minio", 3, True),
    ("PUT 4 KiB, 1 client", "per_second", "garage", 5, True),
    ("PUT 4 KiB, 64 clients", "per_second", "minio", 4, True),
    ("PUT 4 KiB, 64 clients", "per_second", "garage", 10, True),
    ("PUT 4 KiB, 64 clients", "per_second", "versitygw", 1, True),
    ("PUT 4 KiB, 64 clients", "per_second", "s3s-fs", 1, True),
    ("PUT 4 KiB, 64 clients", "cpu_ms", "versitygw", 1, False),
    ("GET 4 KiB, 16 clients", "per_second", "minio", 1.2, True),
    ("GET 4 KiB, 16 clients", "per_second", "versitygw", 1.2, True),
    ("GET 4 KiB, 16 clients", "cpu_ms", "versitygw", 0.85, False),
    ("LIST 10,000 keys", "p50_ms", "garage", 1, False),
    ("LIST 10,000 keys", "p50_ms", None, 50, False),
    ("LIST with delimiter", "p50_ms", "minio", 1, False),
    ("PUT 64 KiB, 16 clients", "per_second", "minio", 1, True),
    ("GET 64 KiB, 16 clients", "per_second", "minio", 1, True),
    ("PUT 1 MiB, 16 clients", "per_second", "minio", 1, True),
    ("PUT 1 MiB, 16 clients", "cpu_ms", "minio", 0.77, False),
    ("GET 1 MiB, 16 clients", "per_second", "minio", 1, True),
    ("GET 1 MiB, 16 clients", "cpu_ms", "minio", 0.54, False),
    ("PUT 64 MiB, 4 clients", "per_second", "minio", 1, True),
    ("PUT 64 MiB, 4 clients", "cpu_ms", "minio", 1, False),
    ("GET 64 MiB, 4 clients", "per_second", "minio", 1, True),
    ("DELETE, 16 clients", "per_second", "minio", 1, True),
    ("DELETE, 16 clients", "per_second", "garage", 4, True),
    ("all phases", "peak_mib", None, 128, False),
]


# The column of the other build that --compare names.
BEFORE = "before"


def measure(name, options):
    """All phases on one server; the answers of the load generator by phase."""
    answers = {}
    with Server(name, options.load, {"amphora": options.amphora, BEFORE: options.compare}.get(name)) as server:
        for phase, operation, given in PHASES:
            if options.only and not re.search(options.only, phase, re.IGNORECASE):
                continue
            given = {"seconds": options.seconds, **given}
            # This phase reads what another one wrote; it is left out if that one did not run.
            before = [given.get(part) for part in ("keys", "count") if isinstance(given.get(part), str)]
            if any(part not in answers for part in before):
                continue
            given = {key: answers[value]["requests"] if value in before else value for key, value in given.items()}
            answers[phase] = server.run(operation, **given)
            if answers[phase]["errors"]:
                print(f"  {name}, {phase}: {answers[phase]['errors']} errors: {answers[phase]['error']}", file=sys.stderr)
            # Dirty pages are written now, so that writing them does not slow the next phase.
            subprocess.run(["sync"], check=False)
    peaks = [answer["peak_mib"] for answer in answers.values() if "peak_mib" in answer]
    answers["all phases"] = {"peak_mib": max(peaks, default=0.0)}
    return answers


def figure(results, name, phase, part):
    found = [answers[phase][part] for answers in results.get(name, []) if part in answers.get(phase, {})]
    return statistics.median(found) if found else None


def table(results, phases):
    for part, title in [("per_second", "Requests a second"), ("cpu_ms", "Server CPU, ms a request"),
                        ("p50_ms", "p50, ms"), ("p99_ms", "p99, ms")]:
        print(f"\n{title}\n{'':26}" + "".join(f"{name:>14}" for name in results))
        for phase in phases:
            cells = [figure(results, name, phase, part) for name in results]
            ours = cells[0]
            shown = [f"{cell:14,.3f}" if cell is not None else f"{'-':>14}" for cell in cells]
            ratios = [f" {name} x{ours / cell:.2f}" for name, cell in list(zip(results, cells))[1:] if ours and cell]
            print(f"{phase:26}" + "".join(shown) + "   " + ",".join(ratios))
    print("\nMemory, largest, MiB: " + ", ".join(
        f"{name} {figure(results, name, 'all phases', 'peak_mib'):.0f}" for name in results))


def print_bars(results):
    """Prints each bar; returns how many are missed."""
    missed = 0
    print("\nBars (medians)")
    for phase, part, peer, factor, more in BARS:
        ours = figure(results, "amphora", phase, part)
        theirs = 1 if peer is None else figure(results, peer, phase, part)
        if ours is None or theirs is None:
            continue
        bar = factor * theirs
        met = ours >= bar if more else ours <= bar
        missed += not met
        of = f" ({factor:g} x {peer})" if peer else ""
        print(f"  {'pass' if met else 'FAIL'}  {phase}: {part} {ours:,.3f} {'>=' if more else '<='} {bar:,.3f}{of}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a phase that is not bound by a count")
    parser.add_argument("--only", help="regular expression of phases")
    parser.add_argument("--peers", nargs="*", default=["minio", "versitygw"], choices=list(PEERS))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    parser.add_argument("--compare", help="another binary of Amphora, measured beside it in each round")
    options = parser.parse_args()
    peers = [] if options.no_peers else options.peers
    if peers:
        subprocess.run([str(ROOT / "benches" / "peers.sh"), *peers], check=True)
    options.amphora, options.load = amphora_binary(options.amphora), load_binary()
    servers = ["amphora", *([BEFORE] if options.compare else []), *installed(peers)]
    results = {name: [] for name in servers}
    for round_number in range(options.rounds):
        # In turn, each time with another server first, so that a drift of the machine affects all.
        turn = round_number % len(servers)
        for name in servers[turn:] + servers[:turn]:
            print(f"round {round_number + 1}: {name}", file=sys.stderr, flush=True)
            results[name].append(measure(name, options))
    for name in installed(peers):
        print(f"{name}: on disk when a PUT is acknowledged: {PEERS[name][1]}")
    table(results, [phase for phase, _, _ in PHASES if any(phase in answers for answers in results["amphora"])])
    return 1 if print_bars(results) else 0


if __name__ == "__main__":
    sys.exit(main())
