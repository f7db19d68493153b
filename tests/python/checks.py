"""What the boto3 checks share: clients, expectations, and a runner that prints one line a check.

- Where the server is and which keys there are comes from the environment, set by the test that starts a script.
- A request is never retried: one that fails once is a finding.
- Every check runs, also after one failed; the exit status is 1 if any did.
"""

import hashlib
import os
import sys
import time
import traceback

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

KIB, MIB = 1024, 1024 * 1024

_checks = []


def client(key="ROOT", **config):
    """A client with the key of that name: AMPHORA_KEY_ROOT holds `id:secret`."""
    key_id, secret = os.environ[f"AMPHORA_KEY_{key}"].split(":", 1)
    return client_of(key_id, secret, **config)


def client_of(key_id, secret, **config):
    settings = {
        "retries": {"total_max_attempts": 1},
        "s3": {"addressing_style": "path"},
        "signature_version": "s3v4",
        "max_pool_connections": 32,
        "read_timeout": 60,
    }
    return boto3.client(
        "s3",
        endpoint_url=os.environ["AMPHORA_S3"],
        region_name="us-east-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(**{**settings, **config}),
    )


def check(function):
    """Marks a check. It is called with a client that has the root key, and with its own bucket."""
    _checks.append(function)
    return function


def refused(code, status, call, **arguments):
    """Expects a call to be refused with this code and HTTP status; its message and our hint."""
    try:
        call(**arguments)
    except ClientError as error:
        found = error.response["Error"].get("Code"), error.response["ResponseMetadata"]["HTTPStatusCode"]
        equal(found, (code, status), f"refusal ({error})")
        return " ".join(error.response["Error"].get(name, "") for name in ("Message", "Hint"))
    raise AssertionError(f"it was not refused with {code}")


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: found {shorten(found)}, expected {shorten(expected)}")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]} ({len(text)} characters)"


def content(size, seed=0):
    """Bytes without repeated blocks, so that a swapped or missing block is noticed."""
    block = hashlib.sha256(str(seed).encode()).digest()
    out = bytearray()
    while len(out) < size:
        block = hashlib.sha256(block).digest()
        out += block * 128
    return bytes(out[:size])


def md5(data):
    return hashlib.md5(data).hexdigest()


def all_keys(s3, bucket, prefix=""):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def run():
    """Runs the checks of the script; exits with 1 if one fails."""
    s3, failures = client(), 0
    for function in _checks:
        bucket = function.__name__.replace("_", "-").strip("-")[:40].strip("-")
        start = time.monotonic()
        try:
            s3.create_bucket(Bucket=bucket)
            function(s3, bucket)
        except Exception as error:  # noqa: BLE001: after any error the next check runs
            failures += 1
            print(f"FAIL {function.__name__}: {type(error).__name__}: {error}")
            traceback.print_exc()
        else:
            print(f"ok {function.__name__} ({time.monotonic() - start:.1f} s)")
    print(f"{len(_checks) - failures} of {len(_checks)} checks passed")
    sys.exit(1 if failures else 0)
