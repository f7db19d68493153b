"""Listings of 5,000 keys, compared page by page with a model in Python.

- The order is that of the keys' UTF-8 bytes, which is neither that of UTF-16 nor that of a file tree.
"""

import random
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from botocore import handlers

from checks import all_keys, check, client, equal, refused, run

COUNT = 5000
SEED = 20240611


def make_keys():
    """Keys that share prefixes, are prefixes of others, and contain bytes below and above that of `/`."""
    rng = random.Random(SEED)
    parts = ["a", "ab", "a-", "a.b", "b", "B", "é", "z", "日", "😀", "\uffee", "x y", "+", "~", "!", "0"]
    keys = {"a", "a/", "a/b", "a//b", "a/b/", "a!", "a0", "/", "//", "😀", "\ufffd"}
    while len(keys) < COUNT:
        key = "/".join(rng.choice(parts) for _ in range(rng.randint(1, 6)))
        keys.add(key + rng.choice(["", "", "", "/", f"-{rng.randint(0, 999)}"]))
    return sorted(keys, key=str.encode)


def rolled(keys, prefix, delimiter, after):
    """Keys and common prefixes after `after`, in order: the content of all pages together."""
    found = []
    for key in keys:
        if not key.startswith(prefix):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = (key[:at + len(delimiter)], True) if at >= 0 else (key, False)
        if key.encode() <= after.encode() or (entry[1] and entry[0] == after):
            continue
        if not found or found[-1] != entry:
            found.append(entry)
    return found


def entries(page, decode=str):
    keys = [(decode(entry["Key"]), False) for entry in page.get("Contents", [])]
    prefixes = [(decode(entry["Prefix"]), True) for entry in page.get("CommonPrefixes", [])]
    equal(keys, sorted(keys, key=lambda entry: entry[0].encode()), "order of the keys")
    equal(prefixes, sorted(prefixes, key=lambda entry: entry[0].encode()), "order of the prefixes")
    return sorted(keys + prefixes, key=lambda entry: entry[0].encode())


def pages_v2(s3, bucket, **arguments):
    token = None
    while True:
        more = {"ContinuationToken": token} if token else {}
        page = s3.list_objects_v2(Bucket=bucket, **arguments, **more)
        equal(page["KeyCount"], len(page.get("Contents", [])) + len(page.get("CommonPrefixes", [])), "KeyCount")
        yield page
        token = page.get("NextContinuationToken")
        equal(page["IsTruncated"], token is not None, "IsTruncated")
        if token is None:
            return


def pages_v1(s3, bucket, **arguments):
    marker = arguments.pop("Marker", "")
    while True:
        page = s3.list_objects(Bucket=bucket, Marker=marker, **arguments)
        yield page
        if not page["IsTruncated"]:
            return
        marker = page.get("NextMarker") or page["Contents"][-1]["Key"]


def compare(pages, model, size, what):
    """Compares all pages with the model; every page but the last is full."""
    found = []
    for page in pages:
        listed = entries(page)
        expected = model[len(found):len(found) + size]
        equal(listed, expected, f"{what}: page from {len(found)}")
        found += listed
    equal(len(found), len(model), f"{what}: entries")


CASES = [
    # prefix, delimiter, size of a page
    ("", "", 1000), ("", "", 333), ("", "/", 1000), ("", "/", 7), ("a/", "/", 1000), ("a", "/", 13), ("a/", "", 100),
    ("a/b", "/", 5), ("é/", "/", 50), ("日", "", 200), ("😀/", "/", 9), ("x y/", "", 64), ("+/", "/", 1000),
    ("a//", "/", 10), ("/", "/", 10), ("", "b", 17), ("a", "-", 11), ("", "é/", 31), ("none", "/", 10), ("", "😀", 40),
]


@check
def five_thousand_keys_list_in_byte_order(s3, bucket):
    keys = make_keys()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=key.encode()[:3]), keys))
    equal(all_keys(s3, bucket), keys, "all keys")
    for prefix, delimiter, size in CASES:
        what = f"prefix {prefix!r}, delimiter {delimiter!r}, pages of {size}"
        model = rolled(keys, prefix, delimiter, "")
        arguments = {"Prefix": prefix, "Delimiter": delimiter, "MaxKeys": size}
        compare(pages_v2(s3, bucket, **arguments), model, size, f"v2, {what}")
        compare(pages_v1(s3, bucket, **arguments), model, size, f"v1, {what}")
    starts(s3, bucket, keys)
    attributes(s3, bucket, keys)
    encodings(s3, bucket, keys)
    limits(s3, bucket, keys)
    versions(s3, bucket, keys)
    pages_stay_correct_while_keys_are_deleted(s3, bucket, keys)


def starts(s3, bucket, keys):
    rng = random.Random(SEED)
    afters = rng.sample(keys, 5) + ["", "a", "a/", "a/b", "a/zzz", "zzzz", "absent", "\U0010ffff"]
    for after in afters:
        for prefix, delimiter in [("", ""), ("a", ""), ("a/", "/"), ("", "/")]:
            model = rolled(keys, prefix, delimiter, after)
            what = f"after {after!r}, prefix {prefix!r}, delimiter {delimiter!r}"
            arguments = {"Prefix": prefix, "Delimiter": delimiter, "MaxKeys": 1000}
            compare(pages_v2(s3, bucket, StartAfter=after, **arguments), model, 1000, f"v2, {what}")
            compare(pages_v1(s3, bucket, Marker=after, **arguments), model, 1000, f"v1, {what}")


def attributes(s3, bucket, keys):
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=50, FetchOwner=True)
    for entry in page["Contents"]:
        head = s3.head_object(Bucket=bucket, Key=entry["Key"])
        equal(entry["ETag"], head["ETag"], f"ETag of {entry['Key']!r}")
        equal(entry["Size"], len(entry["Key"].encode()[:3]), f"size of {entry['Key']!r}")
        equal(entry["LastModified"].replace(microsecond=0), head["LastModified"], f"time of {entry['Key']!r}")
        equal(entry["StorageClass"], "STANDARD", "class")
        equal(bool(entry["Owner"]["ID"]), True, "owner")


def encodings(s3, bucket, keys):
    page = s3.list_objects_v2(Bucket=bucket, EncodingType="url", Prefix="x y/", Delimiter="/")
    equal((page["EncodingType"], page["Prefix"]), ("url", "x%20y/"), "encoding and prefix")
    equal(entries(page, urllib.parse.unquote), rolled(keys, "x y/", "/", ""), "decoded entries")
    refused("InvalidArgument", 400, s3.list_objects_v2, Bucket=bucket, EncodingType="base64")


@check
def a_control_character_is_replaced_and_exact_with_an_encoding(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a\x01b", Body=b"")
    equal(all_keys(s3, bucket), ["a\x01b"], "keys")
    plain = client()
    for operation, list_them in [("ListObjects", plain.list_objects), ("ListObjectsV2", plain.list_objects_v2),
                                 ("ListObjectVersions", plain.list_object_versions)]:
        # The SDK asks for the encoding by itself.
        event = f"before-parameter-build.s3.{operation}"
        plain.meta.events.unregister(event, handlers.set_list_objects_encoding_type_url)
        page = list_them(Bucket=bucket)
        names = [entry["Key"] for entry in page.get("Contents", []) + page.get("Versions", [])]
        equal(names, ["a\ufffdb"], f"{operation}: keys")
        headers = page["ResponseMetadata"]["HTTPHeaders"]
        equal(headers.get("x-amphora-replaced-names"), "1", f"{operation}: names that were replaced")


def limits(s3, bucket, keys):
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    equal((entries(page), page["IsTruncated"]), ([], False), "a page of none")
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=5000)
    equal((len(page["Contents"]), page["MaxKeys"]), (1000, 1000), "a page of too many")
    refused("InvalidArgument", 400, s3.list_objects_v2, Bucket=bucket, MaxKeys=-1)
    refused("InvalidArgument", 400, s3.list_objects_v2, Bucket=bucket, ContinuationToken="not one of ours")
    refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket="no-such-bucket-here")


def versions(s3, bucket, keys):
    found = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 700}):
        for version in page.get("Versions", []):
            equal((version["VersionId"], version["IsLatest"]), ("null", True), f"version of {version['Key']!r}")
            found.append(version["Key"])
        equal(page.get("DeleteMarkers", []), [], "markers")
    equal(found, keys, "versions")
    page = s3.list_object_versions(Bucket=bucket, Prefix="a/", Delimiter="/")
    prefixes = [entry["Prefix"] for entry in page["CommonPrefixes"]]
    equal(prefixes, [name for name, common in rolled(keys, "a/", "/", "") if common], "prefixes of versions")


def pages_stay_correct_while_keys_are_deleted(s3, bucket, keys):
    """Deletions before and after a continuation token make no key appear twice or be left out."""
    pages = pages_v2(s3, bucket, MaxKeys=1000)
    first = entries(next(pages))
    gone = [key for key in keys if key == first[-1][0] or keys.index(key) % 5 == 0]
    for at in range(0, len(gone), 1000):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in gone[at:at + 1000]]})
    left = [key for key in keys if key not in set(gone)]
    rest = [name for page in pages for name, _ in entries(page)]
    equal(rest, [key for key in left if key.encode() > first[-1][0].encode()], "the pages after the first")
    equal(all_keys(s3, bucket), left, "what is left")


run()
