"""Signatures that must not pass: each request is signed well, then spoilt in one place, and sent as it is.

- What is refused leaves the bucket as it was; the same request unspoilt is let in, so that each refusal has its reason.
"""

import datetime
import hashlib

from checks import check, equal, run
from signer import UNSIGNED, Signer, host, message, send


def cases(bucket):
    """Name, what to send, and the status and code that have to come back."""
    path, body = f"/{bucket}/k", b"spoilt"
    digest = hashlib.sha256(body).hexdigest()
    good = Signer()
    put = lambda signer, **more: signer.headers("PUT", path, payload=more.pop("payload", digest), **more)
    without = lambda headers, name: {key: value for key, value in headers.items() if key != name}
    mismatch = (403, "SignatureDoesNotMatch")
    now = good.time

    yield "no signature", ("PUT", path, {"host": host()}, body), (403, "AccessDenied")
    meta = put(good, x_amz_meta_a="1")
    yield "a changed header", ("PUT", path, {**meta, "x-amz-meta-a": "2"}, body), mismatch
    yield "a header that was not signed", ("PUT", path, {**put(good), "x-amz-meta-b": "1"}, body), (403, "AccessDenied")
    yield "a signed header left out", ("PUT", path, without(meta, "x-amz-meta-a"), body), mismatch
    yield "another path", ("PUT", f"/{bucket}/l", put(good), body), mismatch
    yield "another method", ("DELETE", path, put(good), b""), mismatch
    yield "a parameter more", ("PUT", f"{path}?partNumber=1&uploadId=x", put(good), body), mismatch
    yield "another body", ("PUT", path, put(good), b"SPOILT"), (400, "XAmzContentSHA256Mismatch")
    yield "a secret of others", ("PUT", path, put(Signer(secret="x" * 40)), body), mismatch
    yield "a key of others", ("PUT", path, put(Signer(key_id="AKIAFOREIGN")), body), (403, "InvalidAccessKeyId")
    stamp = (now - datetime.timedelta(minutes=1)).strftime("%Y%m%dT%H%M%SZ")
    yield "another date", ("PUT", path, {**put(good), "x-amz-date": stamp}, body), mismatch
    for minutes in (-20, 20):
        late = Signer(time=now + datetime.timedelta(minutes=minutes))
        yield f"a clock {minutes} minutes off", ("PUT", path, put(late), body), (403, "RequestTimeTooSkewed")
    yield "another region", ("PUT", path, put(Signer(region="eu-west-1")), body), (400, "AuthorizationHeaderMalformed")
    yield "another service", ("PUT", path, put(Signer(service="ec2")), body), (501, "NotImplemented")
    version2 = {"host": host(), "authorization": f"AWS {good.key_id}:c2ln"}
    yield "Signature Version 2", ("PUT", path, version2, body), (400, "InvalidRequest")
    query = f"{path}?AWSAccessKeyId={good.key_id}&Expires=2000000000&Signature=c2ln"
    yield "a URL of Signature Version 2", ("PUT", query, {"host": host()}, body), (400, "InvalidRequest")
    rubbish = {**put(good), "authorization": "AWS4-HMAC-SHA256 rubbish"}
    yield "rubbish", ("PUT", path, rubbish, body), (400, "InvalidRequest")
    yield "a session token", ("PUT", path, put(good, x_amz_security_token="t"), body), (400, "InvalidToken")
    twice = [*put(good).items(), ("host", "elsewhere")]
    yield "two hosts", ("PUT", path, twice, body), (400, "InvalidRequest")

    long_ago = Signer(time=now - datetime.timedelta(seconds=90))
    yield "an expired URL", ("PUT", long_ago.presign("PUT", path, 60), {"host": host()}, body), (403, "AccessDenied")
    week = 7 * 24 * 3600
    yield "a URL for over a week", ("PUT", good.presign("PUT", path, week + 1), {"host": host()}, body), (
        400, "AuthorizationQueryParametersError")
    tomorrow = Signer(time=now + datetime.timedelta(days=1))
    yield "a URL of tomorrow", ("PUT", tomorrow.presign("PUT", path, 60), {"host": host()}, body), (
        403, "RequestTimeTooSkewed")
    yield "a URL for another method", ("PUT", good.presign("GET", path, 60), {"host": host()}, body), mismatch
    url = good.presign("PUT", path, 60).replace("/k?", "/l?")
    yield "a URL with another key", ("PUT", url, {"host": host()}, body), mismatch

    frames = {"payload": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "content_encoding": "aws-chunked"}
    framed = put(good, x_amz_decoded_content_length="6", **frames)
    yield "a wrong chunk signature", ("PUT", path, framed, good.chunked(framed, [body], spoil=True)), mismatch
    changed = good.chunked(framed, [body]).replace(body, b"SPOILT")
    yield "a changed chunk", ("PUT", path, framed, changed), mismatch
    yield "chunks cut short", ("PUT", path, framed, good.chunked(framed, [body])[:-90]), (400, "IncompleteBody")
    wrong = put(good, x_amz_decoded_content_length="7", **frames)
    yield "another decoded length", ("PUT", path, wrong, good.chunked(wrong, [body])), (400, "IncompleteBody")
    plain = put(good, payload=UNSIGNED, content_encoding="aws-chunked", x_amz_decoded_content_length="6")
    yield "frames under an unsigned payload", ("PUT", path, plain, good.chunked(plain, [body])), (400, "InvalidRequest")


@check
def good_signatures_are_let_in(s3, bucket):
    signer, path, body = Signer(), f"/{bucket}/k", b"good"
    digest = hashlib.sha256(body).hexdigest()
    for what, request in {
        "a header": ("PUT", path, signer.headers("PUT", path, payload=digest, x_amz_meta_a="1"), body),
        "an unsigned payload": ("PUT", path, signer.headers("PUT", path, payload=UNSIGNED), body),
        "a URL": ("PUT", signer.presign("PUT", path, 60), {"host": host()}, body),
        "a URL for a week": ("PUT", signer.presign("PUT", path, 7 * 24 * 3600), {"host": host()}, body),
    }.items():
        s3.put_object(Bucket=bucket, Key="k", Body=b"before")
        equal(send(*request)[0], 200, what)
        equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), body, what)
    framed = signer.headers("PUT", path, payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", content_encoding="aws-chunked",
                            x_amz_decoded_content_length="70000")
    chunks = [b"a" * 65536, b"b" * 4464]
    equal(send("PUT", path, framed, signer.chunked(framed, chunks))[0], 200, "chunks")
    got = s3.get_object(Bucket=bucket, Key="k")
    equal(got["Body"].read(), b"".join(chunks), "content of chunks")
    equal(got.get("ContentEncoding", ""), "", "the frames are no encoding of the object")


@check
def spoilt_signatures_are_refused_and_change_nothing(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before", Metadata={"m": "1"})
    before = s3.list_objects_v2(Bucket=bucket)["Contents"]
    for what, request, expected in cases(bucket):
        status, code, text = send(*request)
        equal((status, code), expected, f"{what} ({text})")
        print(f"  {what}: {status} {code}: {message(text)}")
        equal(s3.list_objects_v2(Bucket=bucket)["Contents"], before, f"{what}: the listing")
    got = s3.get_object(Bucket=bucket, Key="k")
    equal((got["Body"].read(), got["Metadata"]), (b"before", {"m": "1"}), "the object")


run()
