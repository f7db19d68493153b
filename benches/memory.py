#!/usr/bin/env python3
"""What the server takes of memory under large bodies: less than 300 MiB, or the exit status is 1.

  benches/memory.py [--amphora target/release/amphora]

64 clients PUT 64 MiB each at the same time, 64 GET them, and one PUTs 1 GiB in signed aws-chunked frames. It needs
5 GiB of disk.
"""

import argparse
import sys

from servers import Server, amphora_binary, load_binary

LIMIT_MIB = 300
MIB = 1 << 20
PHASES = [
    ("64 PUTs of 64 MiB", "put", dict(prefix="p/", size=64 * MIB, clients=64, count=64)),
    ("64 GETs of 64 MiB", "get", dict(prefix="p/", clients=64, count=64, keys=64)),
    ("a signed PUT of 1 GiB", "put-signed", dict(prefix="g/", size=1024 * MIB, clients=1, count=1)),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--amphora", help="the binary; a release build if not given")
    options = parser.parse_args()
    binary, failed = amphora_binary(options.amphora), False
    with Server("amphora", load_binary(), binary) as server:
        for name, operation, given in PHASES:
            answer = server.run(operation, seconds=500, **given)
            met = answer["errors"] == 0 and answer["peak_mib"] < LIMIT_MIB
            failed |= not met
            print(f"{'pass' if met else 'FAIL'}  {name}: {answer['requests']} done, {answer['errors']} errors, at most "
                  f"{answer.get('peak_mib', 0):.0f} MiB (bar: {LIMIT_MIB}), "
                  f"{answer.get('mib_per_second', 0):.0f} MiB/s {answer['error']}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
