"""Uploads by HTML forms (POST Object): the policy that boto3 signs, what it allows, and what it does not."""

import urllib.error
import urllib.request
import uuid

from checks import all_keys, check, content, equal, run


def post(address, fields, data, last=()):
    """Sends a form as a browser does, with the file after the fields; returns status, headers and body of the answer."""
    boundary = uuid.uuid4().hex
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a b.txt"\r\n\r\n'
    tail = "".join(f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\nx' for name in last)
    body = head.encode() + file.encode() + data + tail.encode() + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=body, headers=headers), timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def form(s3, bucket, key="up/${filename}", fields=None, conditions=(), seconds=60):
    signed = s3.generate_presigned_post(bucket, key, Fields=dict(fields or {}), Conditions=list(conditions),
                                        ExpiresIn=seconds)
    return signed["url"], signed["fields"]


@check
def a_form_puts_an_object(s3, bucket):
    data = content(300_000)
    fields = {"Content-Type": "text/x", "x-amz-meta-by": "form", "success_action_status": "201"}
    conditions = [{name: value} for name, value in fields.items()]
    address, signed = form(s3, bucket, fields=fields, conditions=conditions)
    status, headers, body = post(address, signed, data, last=["submit"])
    equal((status, b"<Key>up/a b.txt</Key>" in body), (201, True), f"answer: {body}")
    got = s3.get_object(Bucket=bucket, Key="up/a b.txt")
    equal(got["Body"].read(), data, "content")
    equal((got["ContentType"], got["Metadata"], got["ETag"]), ("text/x", {"by": "form"}, headers["ETag"]), "attributes")
    equal(post(*form(s3, bucket, key="plain"), b"x")[0], 204, "status without success_action_status")


@check
def what_the_policy_does_not_allow_is_refused(s3, bucket):
    address, signed = form(s3, bucket, conditions=[["content-length-range", 2, 10], ["starts-with", "$key", "up/"]])
    cases = {
        "too long": (signed, b"x" * 11, 400, b"EntityTooLarge"),
        "too short": (signed, b"x", 400, b"EntityTooSmall"),
        "another key": ({**signed, "key": "down/k"}, b"123", 403, b"AccessDenied"),
        "a field more": ({**signed, "x-amz-meta-evil": "1"}, b"123", 403, b"AccessDenied"),
        "another policy": ({**signed, "policy": signed["policy"][:-8] + "AAAAAAAA"}, b"123", 403, b"SignatureDoesNotMatch"),
        "another signature": ({**signed, "x-amz-signature": "0" * 64}, b"123", 403, b"SignatureDoesNotMatch"),
        "no signature": ({"key": "up/k"}, b"123", 403, b"AccessDenied"),
    }
    for what, (fields, data, status, code) in cases.items():
        found, _, body = post(address, fields, data)
        equal((found, code in body), (status, True), f"{what}: {body}")
    found, _, body = post(*form(s3, bucket, seconds=-5), b"123")
    equal((found, b"AccessDenied" in body), (403, True), f"an expired policy: {body}")
    equal(all_keys(s3, bucket), [], "keys")
    equal(post(address, signed, b"123")[0], 204, "the same within its limits")


run()
