"""Multipart uploads, call by call."""

import hashlib

from checks import KIB, MIB, all_keys, check, content, equal, md5, refused, run

PART = 5 * MIB


def begin(s3, bucket, key, **arguments):
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **arguments)["UploadId"]


def named(etags):
    return {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in etags]}


@check
def parts_can_be_sent_in_any_order_and_twice(s3, bucket):
    upload = begin(s3, bucket, "k", Metadata={"m": "v"}, ContentType="text/parts")
    target = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    parts = {number: content(size, number) for number, size in [(1, PART), (2, PART + 1), (5, 100 * KIB), (9, 1)]}
    etags = {}
    s3.upload_part(PartNumber=2, Body=b"replaced below", **target)
    for number in [5, 2, 1, 9]:
        etags[number] = s3.upload_part(PartNumber=number, Body=parts[number], **target)["ETag"]
        equal(etags[number], f'"{md5(parts[number])}"', f"ETag of part {number}")
    refused("404", 404, s3.head_object, Bucket=bucket, Key="k")
    # The completion does not name part 9, so it is dropped.
    done = s3.complete_multipart_upload(MultipartUpload=named((n, etags[n]) for n in [1, 2, 5]), **target)
    data = parts[1] + parts[2] + parts[5]
    expected = md5(b"".join(hashlib.md5(parts[number]).digest() for number in [1, 2, 5]))
    equal(done["ETag"], f'"{expected}-3"', "ETag")
    got = s3.get_object(Bucket=bucket, Key="k")
    equal(md5(got["Body"].read()), md5(data), "content")
    equal((got["Metadata"], got["ContentType"], got["ContentLength"]), ({"m": "v"}, "text/parts", len(data)), "head")
    refused("NoSuchUpload", 404, s3.upload_part, PartNumber=1, Body=b"", **target)
    refused("NoSuchUpload", 404, s3.list_parts, **target)


@check
def parts_are_listed_in_pages(s3, bucket):
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    for number in [7, 1, 3, 10000, 2]:
        s3.upload_part(PartNumber=number, Body=content(number), **target)
    whole = s3.list_parts(**target)["Parts"]
    equal([(part["PartNumber"], part["Size"]) for part in whole], [(n, n) for n in [1, 2, 3, 7, 10000]], "parts")
    first = s3.list_parts(MaxParts=2, **target)
    equal((first["IsTruncated"], first["NextPartNumberMarker"]), (True, 2), "first page")
    second = s3.list_parts(MaxParts=3, PartNumberMarker=2, **target)
    equal((second["IsTruncated"], [part["PartNumber"] for part in second["Parts"]]), (False, [3, 7, 10000]), "second")
    for number in [0, 10001]:
        refused("InvalidArgument", 400, s3.upload_part, PartNumber=number, Body=b"x", **target)
    s3.abort_multipart_upload(**target)


@check
def uploads_are_listed_and_aborted(s3, bucket):
    keys = ["a", "a", "b/1", "b/2", "c/x/1", "é"]
    uploads = sorted((key, begin(s3, bucket, key)) for key in keys)
    listed = s3.list_multipart_uploads(Bucket=bucket)
    equal([(one["Key"], one["UploadId"]) for one in listed["Uploads"]], uploads, "uploads")
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    found = [(one["Key"], one["UploadId"]) for page in pages for one in page.get("Uploads", [])]
    equal(found, uploads, "uploads of all pages")
    below = s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")
    equal([one["Key"] for one in below["Uploads"]], ["b/1", "b/2"], "with a prefix")
    rolled = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    equal([one["Key"] for one in rolled["Uploads"]], ["a", "a", "é"], "with a delimiter")
    equal([one["Prefix"] for one in rolled["CommonPrefixes"]], ["b/", "c/"], "common prefixes")
    for key, upload in uploads:
        s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x")
        s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
        refused("NoSuchUpload", 404, s3.abort_multipart_upload, Bucket=bucket, Key=key, UploadId=upload)
    equal(s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []), [], "uploads after all were aborted")
    equal(all_keys(s3, bucket), [], "keys")


@check
def parts_are_copied_with_and_without_a_range(s3, bucket):
    source = content(12 * MIB, "source")
    s3.put_object(Bucket=bucket, Key="source", Body=source)
    s3.put_object(Bucket=bucket, Key="small", Body=b"0123456789")
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    etags = []
    for number, key, limits, data in [
        (1, "source", f"bytes={MIB}-{MIB + PART - 1}", source[MIB:MIB + PART]),
        (2, "source", None, source),
        (3, "small", "bytes=2-5", b"2345"),
    ]:
        extra = {"CopySourceRange": limits} if limits else {}
        copied = s3.upload_part_copy(PartNumber=number, CopySource=f"{bucket}/{key}", **extra, **target)
        equal(copied["CopyPartResult"]["ETag"], f'"{md5(data)}"', f"ETag of part {number}")
        etags.append((number, copied["CopyPartResult"]["ETag"]))
    for limits in ["bytes=5-100", "bytes=10-11", "bytes=5-2", "0-1"]:
        code = "InvalidRange" if limits in ("bytes=5-100", "bytes=10-11") else "InvalidArgument"
        status = 416 if code == "InvalidRange" else 400
        try:
            s3.upload_part_copy(PartNumber=4, CopySource=f"{bucket}/small", CopySourceRange=limits, **target)
        except s3.exceptions.ClientError as error:
            found = error.response["ResponseMetadata"]["HTTPStatusCode"]
            equal(found in (status, 400), True, f"status of {limits}: {error}")
        else:
            raise AssertionError(f"{limits} was not refused")
    s3.complete_multipart_upload(MultipartUpload=named(etags), **target)
    s3.delete_object(Bucket=bucket, Key="source")
    got = s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    equal(md5(got), md5(source[MIB:MIB + PART] + source + b"2345"), "content")


@check
def wrong_completions_change_nothing(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    small = s3.upload_part(PartNumber=1, Body=content(PART - 1), **target)["ETag"]
    large = s3.upload_part(PartNumber=2, Body=content(PART), **target)["ETag"]
    for code, parts in [
        ("EntityTooSmall", [(1, small), (2, large)]),
        ("InvalidPartOrder", [(2, large), (1, small)]),
        ("InvalidPart", [(1, large)]),
        ("InvalidPart", [(3, large)]),
        ("InvalidPart", [(1, '"00000000000000000000000000000000"')]),
    ]:
        refused(code, 400, s3.complete_multipart_upload, MultipartUpload=named(parts), **target)
    refused("MalformedXML", 400, s3.complete_multipart_upload, MultipartUpload={"Parts": []}, **target)
    refused("NoSuchUpload", 404, s3.complete_multipart_upload, MultipartUpload=named([(1, small)]),
            **{**target, "UploadId": "no-such-upload"})
    refused("NoSuchUpload", 404, s3.complete_multipart_upload, MultipartUpload=named([(1, small)]),
            **{**target, "Key": "another"})
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"before", "content")
    equal(len(s3.list_parts(**target)["Parts"]), 2, "parts")
    s3.complete_multipart_upload(MultipartUpload=named([(1, small)]), **target)
    equal(s3.head_object(Bucket=bucket, Key="k")["ContentLength"], PART - 1, "length")


@check
def a_wrong_checksum_of_a_part_is_refused(s3, bucket):
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k", ChecksumAlgorithm="SHA256")}
    refused("BadDigest", 400, s3.upload_part, PartNumber=1, Body=b"x", ChecksumSHA256="A" * 43 + "=", **target)
    equal(s3.list_parts(**target).get("Parts", []), [], "parts")
    part = s3.upload_part(PartNumber=1, Body=b"x", ChecksumAlgorithm="SHA256", **target)
    named_part = {"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]}
    done = s3.complete_multipart_upload(MultipartUpload={"Parts": [named_part]}, **target)
    equal(done["ChecksumSHA256"].endswith("-1"), True, "composite checksum")


@check
def deleting_a_bucket_removes_its_uploads(s3, bucket):
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    s3.upload_part(PartNumber=1, Body=content(100 * KIB), **target)
    s3.delete_bucket(Bucket=bucket)
    refused("NoSuchBucket", 404, s3.list_parts, **target)
    s3.create_bucket(Bucket=bucket)
    refused("NoSuchUpload", 404, s3.list_parts, **target)


@check
def a_completion_may_be_repeated(s3, bucket):
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    etag = s3.upload_part(PartNumber=1, Body=b"x", **target)["ETag"]
    done = [s3.complete_multipart_upload(MultipartUpload=named([(1, etag)]), **target)["ETag"] for _ in range(2)]
    equal(done[0], done[1], "ETag of the second answer")


@check
def completions_evaluate_their_conditions(s3, bucket):
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["ETag"]
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    parts = named([(1, s3.upload_part(PartNumber=1, Body=b"second", **target)["ETag"])])
    for condition in [{"IfNoneMatch": "*"}, {"IfMatch": '"no"'}]:
        refused("PreconditionFailed", 412, s3.complete_multipart_upload, MultipartUpload=parts, **condition, **target)
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"first", "content")
    s3.complete_multipart_upload(MultipartUpload=parts, IfMatch=first, **target)
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"second", "content")


@check
def parts_are_read_by_their_number(s3, bucket):
    target = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket, "k")}
    parts = [content(PART, 1), content(PART + 7, 2), content(10, 3)]
    etags = [(n, s3.upload_part(PartNumber=n, Body=data, **target)["ETag"]) for n, data in enumerate(parts, 1)]
    s3.complete_multipart_upload(MultipartUpload=named(etags), **target)
    for number, data in enumerate(parts, 1):
        got = s3.get_object(Bucket=bucket, Key="k", PartNumber=number)
        equal((got["PartsCount"], got["ContentLength"]), (3, len(data)), f"head of part {number}")
        equal(md5(got["Body"].read()), md5(data), f"content of part {number}")
        head = s3.head_object(Bucket=bucket, Key="k", PartNumber=number)
        equal((head["PartsCount"], head["ContentLength"]), (3, len(data)), f"HEAD of part {number}")
    refused("InvalidPartNumber", 416, s3.get_object, Bucket=bucket, Key="k", PartNumber=4)
    found = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ETag", "ObjectParts", "ObjectSize"])
    equal((found["ObjectSize"], found["ObjectParts"]["TotalPartsCount"]), (sum(map(len, parts)), 3), "attributes")


run()
