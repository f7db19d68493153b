"""Objects through boto3: round trips, attributes, ranges, keys, copies, deletions."""

import datetime
import hashlib
import io
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

from boto3.s3.transfer import TransferConfig

from checks import KIB, MIB, all_keys, check, content, equal, md5, refused, run

SIZES = [0, 1, 4 * KIB, 4 * KIB + 1, 128 * KIB, 128 * KIB + 1, 5 * MIB]

# Keys that are special in a shell, a URL, XML or a path. Each is a separate object.
KEYS = [
    "a", "a/", "a/b", "a//b", "a/b/", "a!", "a0", "./x", "../x", "..", ".", "x/.", "x/../y", "/lead", "//", "trail//",
    " ", " lead", "trail ", "two  spaces", "plus+plus", "per%cent", "%2F", "%", "and&and", "ask?ask", "hash#hash",
    "semi;colon", "eq=eq", "at@", "colon:x", "comma,", "dollar$", "star*", "tilde~", "paren(s)", "brack[et]", "{brace}",
    "back\\slash", "pipe|", "caret^", "tick`", "<xml>&amp;</xml>", "quote\"double", "quote'single", "tab\tx", "line\nx",
    "cr\rx", "\x01ctl", "\x7fdel", "é", "e\u0301", "日本語/キー", "😀", "\U0010ffff", "\ufffd", "k" * 1024,
    "d" * 256 + "/f", "é" * 512, "/".join(["deep"] * 200),
]


@check
def round_trips_of_every_placement(s3, bucket):
    for size in SIZES:
        data, key = content(size, size), f"size-{size}"
        put = s3.put_object(Bucket=bucket, Key=key, Body=data)
        equal(put["ETag"], f'"{md5(data)}"', f"{size}: ETag of the put")
        got = s3.get_object(Bucket=bucket, Key=key)
        equal(got["Body"].read(), data, f"{size}: content")
        head = s3.head_object(Bucket=bucket, Key=key)
        for answer in (got, head):
            equal(answer["ContentLength"], size, f"{size}: length")
            equal(answer["ETag"], put["ETag"], f"{size}: ETag")
            equal(answer["ContentType"], "binary/octet-stream", f"{size}: type")
            equal(answer["Metadata"], {}, f"{size}: metadata")
            age = datetime.datetime.now(datetime.timezone.utc) - answer["LastModified"]
            equal(abs(age) < datetime.timedelta(minutes=5), True, f"{size}: LastModified")


@check
def overwritten_objects_are_the_last_one(s3, bucket):
    for size in [10, 5 * MIB, 0, 128 * KIB, 4 * KIB, 1]:
        data = content(size, f"again-{size}")
        s3.put_object(Bucket=bucket, Key="k", Body=data)
        equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), data, f"{size}: content")
    equal(all_keys(s3, bucket), ["k"], "keys")


@check
def a_file_of_64_mib_goes_up_and_down_in_parts(s3, bucket):
    with tempfile.TemporaryDirectory() as folder:
        up, down = os.path.join(folder, "up"), os.path.join(folder, "down")
        data = content(64 * MIB)
        with open(up, "wb") as file:
            file.write(data)
        s3.upload_file(up, bucket, "large", Config=TransferConfig(), ExtraArgs={"Metadata": {"by": "parts"}})
        head = s3.head_object(Bucket=bucket, Key="large")
        equal(head["ETag"].strip('"').split("-")[1], "8", "parts in the ETag")
        sums = b"".join(hashlib.md5(data[at:at + 8 * MIB]).digest() for at in range(0, len(data), 8 * MIB))
        equal(head["ETag"], f'"{md5(sums)}-8"', "ETag")
        equal((head["ContentLength"], head["Metadata"]), (64 * MIB, {"by": "parts"}), "head")
        s3.download_file(bucket, "large", down, Config=TransferConfig())
        with open(down, "rb") as file:
            equal(hashlib.sha256(file.read()).hexdigest(), hashlib.sha256(data).hexdigest(), "content")
        # Across the border of two parts, and the last byte.
        for first, last in [(8 * MIB - 3, 8 * MIB + 3), (64 * MIB - 1, 64 * MIB - 1), (1, 40 * MIB)]:
            got = s3.get_object(Bucket=bucket, Key="large", Range=f"bytes={first}-{last}")
            equal(md5(got["Body"].read()), md5(data[first:last + 1]), f"range {first}-{last}")


@check
def checksums_are_stored_and_wrong_ones_are_refused(s3, bucket):
    data = content(200 * KIB)
    s3.put_object(Bucket=bucket, Key="default", Body=data)
    head = s3.head_object(Bucket=bucket, Key="default", ChecksumMode="ENABLED")
    equal("ChecksumCRC32" in head, True, "the checksum that boto3 sends by default")
    for algorithm in ["CRC32", "SHA1", "SHA256"]:
        put = s3.put_object(Bucket=bucket, Key=algorithm, Body=data, ChecksumAlgorithm=algorithm)
        got = s3.get_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        equal(got["Body"].read(), data, f"{algorithm}: content")
        equal(got[f"Checksum{algorithm}"], put[f"Checksum{algorithm}"], f"{algorithm}: checksum")
    for arguments in [
        {"ChecksumSHA256": "A" * 43 + "="},
        {"ChecksumCRC32": "AAAAAA=="},
        {"ContentMD5": "AAAAAAAAAAAAAAAAAAAAAA=="},
    ]:
        refused("BadDigest", 400, s3.put_object, Bucket=bucket, Key="wrong", Body=data, **arguments)
    refused("404", 404, s3.head_object, Bucket=bucket, Key="wrong")


@check
def bodies_of_unknown_length_stream(s3, bucket):
    data = content(9 * MIB)
    s3.upload_fileobj(io.BytesIO(data), bucket, "stream")
    out = io.BytesIO()
    s3.download_fileobj(bucket, "stream", out)
    equal(md5(out.getvalue()), md5(data), "content")
    body = s3.get_object(Bucket=bucket, Key="stream")["Body"]
    equal(body.read(10), data[:10], "first bytes")
    body.close()  # The client closes the connection in the middle of the answer; the server continues.
    equal(s3.head_object(Bucket=bucket, Key="stream")["ContentLength"], 9 * MIB, "length")


@check
def metadata_and_content_headers_are_returned(s3, bucket):
    headers = {
        "ContentType": "text/plain; charset=utf-8",
        "CacheControl": "max-age=60, private",
        "ContentDisposition": 'attachment; filename="a b.txt"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de-DE, en",
    }
    metadata = {"plain": "value", "with-dash": "a=b; c", "empty": "", "long": "x" * 1500}
    expires = datetime.datetime(2031, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)
    s3.put_object(Bucket=bucket, Key="k", Body=b"body", Metadata=metadata, Expires=expires, **headers)
    for answer in (s3.head_object(Bucket=bucket, Key="k"), s3.get_object(Bucket=bucket, Key="k")):
        equal(answer["Metadata"], metadata, "metadata")
        equal({name: answer.get(name) for name in headers}, headers, "headers")
        equal(answer["Expires"], expires, "Expires")
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="image/png", ResponseCacheControl="no-store")
    equal((got["ContentType"], got["CacheControl"]), ("image/png", "no-store"), "response overrides")
    s3.put_object(Bucket=bucket, Key="k", Body=b"again")
    equal(s3.head_object(Bucket=bucket, Key="k")["Metadata"], {}, "metadata of the object that replaced it")
    refused("MetadataTooLarge", 400, s3.put_object, Bucket=bucket, Key="k", Body=b"", Metadata={"m": "x" * 2100})


@check
def ranges_of_every_placement(s3, bucket):
    for size in [10, 4 * KIB + 1, 128 * KIB + 1]:
        data, key = content(size, f"range-{size}"), f"r{size}"
        s3.put_object(Bucket=bucket, Key=key, Body=data)
        for text, first, end in [
            ("0-0", 0, 1), ("3-7", 3, 8), ("5-", 5, size), ("-4", size - 4, size), (f"0-{size * 3}", 0, size),
            (f"-{size * 3}", 0, size), (f"{size - 1}-", size - 1, size), (f"0-{size - 1}", 0, size),
        ]:
            got = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={text}")
            equal(got["ResponseMetadata"]["HTTPStatusCode"], 206, f"{size}: status of {text}")
            equal(got["Body"].read(), data[first:end], f"{size}: bytes {text}")
            equal(got["ContentRange"], f"bytes {first}-{end - 1}/{size}", f"{size}: ContentRange of {text}")
            head = s3.head_object(Bucket=bucket, Key=key, Range=f"bytes={text}")
            equal(head["ContentLength"], end - first, f"{size}: head of {text}")
        for text in [f"{size}-", f"{size + 5}-{size + 9}", "-0"]:
            refused("InvalidRange", 416, s3.get_object, Bucket=bucket, Key=key, Range=f"bytes={text}")
    s3.put_object(Bucket=bucket, Key="none", Body=b"")
    refused("InvalidRange", 416, s3.get_object, Bucket=bucket, Key="none", Range="bytes=0-0")


@check
def conditions_are_evaluated(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"one")["ETag"]
    equal(s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read(), b"one", "If-Match")
    refused("PreconditionFailed", 412, s3.get_object, Bucket=bucket, Key="k", IfMatch='"no"')
    refused("304", 304, s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag)
    refused("304", 304, s3.head_object, Bucket=bucket, Key="k", IfNoneMatch=etag)
    past, future = (datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc) for year in (2001, 2100))
    refused("PreconditionFailed", 412, s3.get_object, Bucket=bucket, Key="k", IfUnmodifiedSince=past)
    refused("304", 304, s3.get_object, Bucket=bucket, Key="k", IfModifiedSince=datetime.datetime.now())
    equal(s3.get_object(Bucket=bucket, Key="k", IfModifiedSince=past)["Body"].read(), b"one", "If-Modified-Since")
    equal(s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=future)["Body"].read(), b"one", "Unmodified")
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key="k", Body=b"two", IfNoneMatch="*")
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key="k", Body=b"two", IfMatch='"no"')
    refused("NoSuchKey", 404, s3.put_object, Bucket=bucket, Key="absent", Body=b"two", IfMatch=etag)
    s3.put_object(Bucket=bucket, Key="k", Body=b"three", IfMatch=etag)
    s3.put_object(Bucket=bucket, Key="new", Body=b"four", IfNoneMatch="*")
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"three", "content")


@check
def only_one_of_many_creators_wins(s3, bucket):
    def create(number):
        try:
            s3.put_object(Bucket=bucket, Key="once", Body=str(number), IfNoneMatch="*")
            return [number]
        except s3.exceptions.ClientError as error:
            equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 412, "status of a loser")
            return []

    with ThreadPoolExecutor(8) as pool:
        winners = sum(pool.map(create, range(16)), [])
    equal(len(winners), 1, "winners")
    equal(s3.get_object(Bucket=bucket, Key="once")["Body"].read(), str(winners[0]).encode(), "content")


@check
def unusual_keys_are_separate_objects(s3, bucket):
    equal(len(set(KEYS)), len(KEYS), "keys")
    for number, key in enumerate(KEYS):
        s3.put_object(Bucket=bucket, Key=key, Body=f"content {number}".encode())
    for number, key in enumerate(KEYS):
        got = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        equal(got, f"content {number}".encode(), f"content of {key!r}")
    equal(all_keys(s3, bucket), sorted(KEYS, key=str.encode), "listed keys")
    s3.copy_object(Bucket=bucket, Key="copy of é?&+", CopySource={"Bucket": bucket, "Key": "日本語/キー"})
    equal(s3.get_object(Bucket=bucket, Key="copy of é?&+")["Body"].read(), b"content %d" % KEYS.index("日本語/キー"),
          "copy")
    s3.delete_object(Bucket=bucket, Key="copy of é?&+")
    remaining = sorted(KEYS, key=str.encode)
    for key in KEYS[::3]:
        s3.delete_object(Bucket=bucket, Key=key)
        remaining.remove(key)
    equal(all_keys(s3, bucket), remaining, "keys after deletions")
    # A control character cannot be written in the XML of a list of keys.
    plain = [key for key in remaining if all(letter >= " " or letter in "\t\n\r" for letter in key)]
    result = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in plain]})
    equal(result.get("Errors", []), [], "errors")
    equal(all_keys(s3, bucket), [key for key in remaining if key not in plain], "keys after all deletions")


@check
def invalid_keys_are_refused(s3, bucket):
    refused("KeyTooLongError", 400, s3.put_object, Bucket=bucket, Key="k" * 1025, Body=b"")
    refused("KeyTooLongError", 400, s3.put_object, Bucket=bucket, Key="é" * 512 + "x", Body=b"")
    refused("InvalidArgument", 400, s3.put_object, Bucket=bucket, Key="nul\0nul", Body=b"")
    # XML cannot carry a control character; the refusal can.
    refused("NoSuchKey", 404, s3.get_object, Bucket=bucket, Key="\x01absent")
    refused("InvalidArgument", 400, s3.create_multipart_upload, Bucket=bucket, Key="\x01parts")
    equal(all_keys(s3, bucket), [], "keys")


@check
def copies_within_and_between_buckets(s3, bucket):
    other = f"{bucket}-other"
    s3.create_bucket(Bucket=other)
    for size in [0, 100, 100 * KIB, MIB]:
        data = content(size, f"copy-{size}")
        put = s3.put_object(Bucket=bucket, Key=f"{size}", Body=data, ContentType="text/x", Metadata={"m": "1"})
        for target in (bucket, other):
            copied = s3.copy_object(Bucket=target, Key=f"copy/{size}", CopySource=f"{bucket}/{size}")
            equal(copied["CopyObjectResult"]["ETag"], put["ETag"], f"{size}: ETag")
            got = s3.get_object(Bucket=target, Key=f"copy/{size}")
            equal(got["Body"].read(), data, f"{size}: content")
            equal((got["ContentType"], got["Metadata"]), ("text/x", {"m": "1"}), f"{size}: attributes")
        # The copy does not depend on its source.
        s3.put_object(Bucket=bucket, Key=f"{size}", Body=b"other")
        s3.delete_object(Bucket=bucket, Key=f"{size}")
        equal(s3.get_object(Bucket=other, Key=f"copy/{size}")["Body"].read(), data, f"{size}: content afterwards")


@check
def a_copy_onto_itself_replaces_metadata(s3, bucket):
    data = content(10 * KIB)
    s3.put_object(Bucket=bucket, Key="k", Body=data, Metadata={"old": "1"}, ContentType="text/old")
    source = {"Bucket": bucket, "Key": "k"}
    refused("InvalidRequest", 400, s3.copy_object, Bucket=bucket, Key="k", CopySource=source)
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"new": "2"},
                   ContentType="text/new")
    got = s3.get_object(Bucket=bucket, Key="k")
    equal((got["Metadata"], got["ContentType"]), ({"new": "2"}, "text/new"), "attributes")
    equal(got["Body"].read(), data, "content")
    refused("NoSuchKey", 404, s3.copy_object, Bucket=bucket, Key="c", CopySource=f"{bucket}/absent")
    refused("NoSuchBucket", 404, s3.copy_object, Bucket=bucket, Key="c", CopySource="no-such-bucket-here/k")
    refused("PreconditionFailed", 412, s3.copy_object, Bucket=bucket, Key="c", CopySource=source,
            CopySourceIfMatch='"no"')


@check
def deletions_are_idempotent(s3, bucket):
    s3.put_object(Bucket=bucket, Key="dir/k", Body=b"1")
    for _ in range(2):
        answer = s3.delete_object(Bucket=bucket, Key="dir/k")
        equal(answer["ResponseMetadata"]["HTTPStatusCode"], 204, "status")
    refused("NoSuchKey", 404, s3.get_object, Bucket=bucket, Key="dir/k")
    refused("NoSuchBucket", 404, s3.delete_object, Bucket="no-such-bucket-here", Key="k")
    # Deleting an absent key must not delete the keys beside or below it.
    s3.put_object(Bucket=bucket, Key="dir/sub/k", Body=b"2")
    for key in ["dir", "dir/", "dir/sub", "dir/sub/", "dir/sub/k/"]:
        s3.delete_object(Bucket=bucket, Key=key)
    equal(all_keys(s3, bucket), ["dir/sub/k"], "keys")


@check
def a_thousand_keys_are_deleted_at_once(s3, bucket):
    keys = [f"many/{number:04}" for number in range(1000)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=key.encode()), keys))
    s3.put_object(Bucket=bucket, Key="stays", Body=b"")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    equal(sorted(entry["Key"] for entry in answer["Deleted"]), keys, "deleted keys")
    equal(answer.get("Errors", []), [], "errors")
    equal(all_keys(s3, bucket), ["stays"], "keys")
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "stays"}, {"Key": "absent"}], "Quiet": True})
    equal((quiet.get("Deleted", []), quiet.get("Errors", [])), ([], []), "quiet answer")
    refused("MalformedXML", 400, s3.delete_objects, Bucket=bucket,
            Delete={"Objects": [{"Key": f"{number}"} for number in range(1001)]})


run()
