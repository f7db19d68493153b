"""Object versions through boto3: enabled and suspended versioning, delete markers, and the version `null` from before."""

from checks import check, equal, refused, run


def put(s3, bucket, key, body):
    return s3.put_object(Bucket=bucket, Key=key, Body=body).get("VersionId")


def versioning(s3, bucket, status):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
    equal(s3.get_bucket_versioning(Bucket=bucket).get("Status"), status, "state of versioning")


def listed(s3, bucket, page=1000, **arguments):
    """All versions and markers by key, as (id, latest, marker), the latest first: boto3 gives two groups."""
    found = {}
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": page}, **arguments)
    for answer in pages:
        for kind in ("Versions", "DeleteMarkers"):
            for version in answer.get(kind, []):
                entry = version["VersionId"], version["IsLatest"], kind == "DeleteMarkers"
                found.setdefault(version["Key"], []).append(entry)
    return {key: sorted(versions, key=lambda version: not version[1]) for key, versions in found.items()}


def body_of(s3, bucket, key, version=None):
    arguments = {"VersionId": version} if version else {}
    return s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()


@check
def each_put_keeps_the_previous_version(s3, bucket):
    equal(put(s3, bucket, "k", b"before"), None, "id without versioning")
    versioning(s3, bucket, "Enabled")
    first, second = put(s3, bucket, "k", b"first"), put(s3, bucket, "k", b"second")
    assert first and second and first != second, (first, second)
    equal(body_of(s3, bucket, "k"), b"second", "current")
    equal(body_of(s3, bucket, "k", first), b"first", "first")
    equal(body_of(s3, bucket, "k", "null"), b"before", "null")
    equal(s3.head_object(Bucket=bucket, Key="k")["VersionId"], second, "id of the current")
    order = [(second, True, False), (first, False, False), ("null", False, False)]
    equal(listed(s3, bucket), {"k": order}, "listing")
    equal(listed(s3, bucket, page=1), {"k": order}, "listing, a version a page")


@check
def a_delete_writes_a_marker_and_a_deleted_version_is_removed(s3, bucket):
    versioning(s3, bucket, "Enabled")
    only = put(s3, bucket, "d/k", b"x")
    answer = s3.delete_object(Bucket=bucket, Key="d/k")
    marker = answer["VersionId"]
    equal(answer["DeleteMarker"], True, "marker")
    refused("NoSuchKey", 404, s3.get_object, Bucket=bucket, Key="d/k")
    refused("MethodNotAllowed", 405, s3.get_object, Bucket=bucket, Key="d/k", VersionId=marker)
    equal(s3.list_objects_v2(Bucket=bucket).get("KeyCount"), 0, "keys")
    equal(body_of(s3, bucket, "d/k", only), b"x", "the version under the marker")
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="d/k", VersionId=marker)
    equal(body_of(s3, bucket, "d/k"), b"x", "current again")
    s3.delete_object(Bucket=bucket, Key="d/k", VersionId=only)
    equal(listed(s3, bucket), {}, "listing")
    refused("NoSuchVersion", 404, s3.get_object, Bucket=bucket, Key="d/k", VersionId=only)


@check
def the_newest_remaining_version_becomes_current(s3, bucket):
    versioning(s3, bucket, "Enabled")
    ids = [put(s3, bucket, "k", b"%d" % number) for number in range(4)]
    s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[3])
    equal(body_of(s3, bucket, "k"), b"2", "current")
    s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[1])
    equal(listed(s3, bucket), {"k": [(ids[2], True, False), (ids[0], False, False)]}, "listing")


@check
def suspended_buckets_replace_the_null_version(s3, bucket):
    versioning(s3, bucket, "Enabled")
    kept = put(s3, bucket, "k", b"kept")
    versioning(s3, bucket, "Suspended")
    for number in range(3):
        # S3 may return `null` or no version id, but never a new id.
        equal(put(s3, bucket, "k", b"%d" % number) in (None, "null"), True, "id while suspended")
    equal(listed(s3, bucket), {"k": [("null", True, False), (kept, False, False)]}, "listing")
    s3.delete_object(Bucket=bucket, Key="k")
    equal(listed(s3, bucket), {"k": [("null", True, True), (kept, False, False)]}, "listing with a marker")


@check
def copies_and_bulk_deletes_accept_versions(s3, bucket):
    versioning(s3, bucket, "Enabled")
    old, new = put(s3, bucket, "k", b"old"), put(s3, bucket, "k", b"new")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k", "VersionId": old})
    equal(body_of(s3, bucket, "copy"), b"old", "copy of a version")
    objects = [{"Key": "k", "VersionId": old}, {"Key": "k", "VersionId": new}, {"Key": "copy"}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    equal(answer.get("Errors", []), [], "errors")
    equal([marker for _, _, marker in listed(s3, bucket)["copy"]], [True, False], "the copy has a marker")
    equal("k" in listed(s3, bucket), False, "all versions of k are gone")


@check
def many_keys_page_in_order(s3, bucket):
    versioning(s3, bucket, "Enabled")
    keys = [f"{folder}/{number:02}" for folder in "abc" for number in range(7)]
    for key in keys * 3:
        put(s3, bucket, key, b"x")
    for page in (1, 4, 5, 1000):
        found = listed(s3, bucket, page=page)
        equal(list(found), keys, f"keys, {page} a page")
        equal({len(versions) for versions in found.values()}, {3}, f"versions each, {page} a page")
    folders = s3.list_object_versions(Bucket=bucket, Delimiter="/")
    equal([entry["Prefix"] for entry in folders["CommonPrefixes"]], ["a/", "b/", "c/"], "common prefixes")
    equal(list(listed(s3, bucket, Prefix="b/")), keys[7:14], "prefix")


run()
