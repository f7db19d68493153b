"""Correctly signed, invalid requests: odd ranges, sizes, headers and documents, each with S3's error code."""

import hashlib
import socket

from checks import all_keys, check, equal, run
from signer import UNSIGNED, Signer, host, message, send

CASES = [
    # method, path after the bucket, query, headers, body, status, code
    ("PUT", "/k", "", {"content_md5": "not base64"}, b"x", 400, "InvalidDigest"),
    ("PUT", "/k", "", {"content_md5": "AAAA"}, b"x", 400, "InvalidDigest"),
    ("PUT", "/k", "", {"x_amz_checksum_crc32": "AAA"}, b"x", 400, "InvalidRequest"),
    ("PUT", "/k", "", {"x_amz_sdk_checksum_algorithm": "ROT13"}, b"x", 400, "InvalidRequest"),
    ("PUT", "/k", "", {"x_amz_tagging": "a=1&a=2"}, b"x", 400, "InvalidTag"),
    ("PUT", "/k", "", {"x_amz_copy_source": "no-slash"}, b"", 400, "InvalidArgument"),
    ("PUT", "/k", "", {"x_amz_copy_source": "/"}, b"", 400, "InvalidArgument"),
    ("PUT", "/k", "", {"x_amz_copy_source": "/%FF/%FF"}, b"", 400, "InvalidArgument"),
    ("PUT", "/%FF", "", {}, b"x", 400, "InvalidURI"),
    ("GET", "", "list-type=2&max-keys=many", {}, b"", 400, "InvalidArgument"),
    ("GET", "", "list-type=2&max-keys=99999999999", {}, b"", 400, "InvalidArgument"),
    ("GET", "/k", "partNumber=0", {}, b"", 400, "InvalidArgument"),
    ("GET", "/k", "partNumber=x", {}, b"", 400, "InvalidArgument"),
    ("GET", "/k", "versionId=", {}, b"", 400, "InvalidArgument"),
    ("PUT", "/k", "partNumber=1", {}, b"x", 400, "InvalidArgument"),
    ("PUT", "/k", "uploadId=y", {}, b"x", 400, "InvalidArgument"),
    ("PUT", "/k", "partNumber=x&uploadId=y", {}, b"x", 400, "InvalidArgument"),
    ("POST", "", "delete=", {}, b"not xml", 400, "MalformedXML"),
    ("POST", "", "delete=", {}, b"<Delete></Delete>", 400, "MalformedXML"),
    ("POST", "", "delete=", {}, b"<Delete><Object><Key></Key></Object></Delete>", 200, "InvalidArgument"),
    ("POST", "/k", "uploadId=x", {}, b"<Complete", 400, "MalformedXML"),
    ("POST", "/k", "uploadId=x", {}, b"", 400, "MalformedXML"),
    ("PUT", "", "", {}, b"<CreateBucketConfiguration><LocationConstraint>", 400, "MalformedXML"),
    ("POST", "/k", "", {}, b"", 405, "MethodNotAllowed"),
    ("BREW", "/k", "", {}, b"", 405, "MethodNotAllowed"),
    ("DELETE", "/k", "retention=", {}, b"", 405, "MethodNotAllowed"),
    ("PUT", "/k", "uploads=", {}, b"x", 405, "MethodNotAllowed"),
]


def signed(method, path, query, headers, body):
    payload = hashlib.sha256(body).hexdigest()
    return Signer().headers(method, path, query, payload, **headers)


@check
def each_request_is_refused_and_changes_nothing(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    before = s3.list_objects_v2(Bucket=bucket)["Contents"]
    wrong = []
    for method, rest, query, headers, body, status, code in CASES:
        path = f"/{bucket}{rest}"
        target = f"{path}?{query}" if query else path
        found = send(method, target, signed(method, path, query, headers, body), body)
        what = f"{method} {rest}?{query} {headers} {body[:30]}"
        print(f"  {what}: {found[0]} {found[1]}: {message(found[2])[:100]}")
        if (found[0], found[1]) != (status, code):
            wrong.append(f"{what}: found {found[:2]}, expected {(status, code)}")
        equal(s3.list_objects_v2(Bucket=bucket)["Contents"], before, f"{what}: the listing")
    equal(wrong, [], "refusals")


@check
def malformed_ranges_return_no_wrong_part(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    path = f"/{bucket}/k"
    for text in ["bytes=a-b", "bytes", "bytes=", "bytes=5-2", "bytes=1-2,4-5", "lines=1-2", "bytes=-", "bytes=1-2-3"]:
        status, code, body = send("GET", path, Signer().headers("GET", path, range=text))
        print(f"  {text}: {status} {code}")
        whole = status == 200 and body == "0123456789"
        equal(whole or (status, code) in [(400, "InvalidArgument"), (416, "InvalidRange")], True, f"{text}: {body}")


@check
def a_body_without_a_length_is_refused(s3, bucket):
    path = f"/{bucket}/k"
    headers = {**Signer().headers("PUT", path, payload=UNSIGNED), "transfer-encoding": "chunked"}
    status, code, text = send("PUT", path, headers)
    equal((status, code), (411, "MissingContentLength"), text)
    equal(all_keys(s3, bucket), [], "keys")


@check
def a_client_that_disconnects_leaves_nothing(s3, bucket):
    path = f"/{bucket}/k"
    headers = Signer().headers("PUT", path, payload=UNSIGNED)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    name, port = host().split(":")
    for sent in (0, 1000, 300_000):
        with socket.create_connection((name, int(port)), timeout=10) as connection:
            connection.sendall(f"PUT {path} HTTP/1.1\r\n{head}content-length: 1000000\r\n\r\n".encode() + b"x" * sent)
    for rubbish in [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 100]:
        with socket.create_connection((name, int(port)), timeout=10) as connection:
            connection.sendall(rubbish)
    equal(all_keys(s3, bucket), [], "keys")
    s3.put_object(Bucket=bucket, Key="k", Body=b"after")
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"after", "content")


run()
