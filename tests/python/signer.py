"""Signature Version 4 implemented here, and requests sent byte by byte, as no SDK permits."""

import datetime
import hashlib
import hmac
import http.client
import os
import re

REGION, SERVICE = "us-east-1", "s3"
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()


class Signer:
    """Signature Version 4, implemented from its specification."""

    def __init__(self, **changed):
        self.key_id, self.secret = os.environ["AMPHORA_KEY_ROOT"].split(":", 1)
        self.time = datetime.datetime.now(datetime.timezone.utc)
        self.region, self.service = REGION, SERVICE
        self.__dict__.update(changed)
        self.stamp = self.time.strftime("%Y%m%dT%H%M%SZ")

    @property
    def scope(self):
        return f"{self.stamp[:8]}/{self.region}/{self.service}/aws4_request"

    def sign(self, text):
        key = f"AWS4{self.secret}".encode()
        for part in self.scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    def sign_canonical(self, method, path, query, headers, payload):
        names = sorted(headers)
        canonical = "\n".join([
            method, path, query, *[f"{name}:{headers[name].strip()}" for name in names], "", ";".join(names), payload,
        ])
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        return self.sign("\n".join(["AWS4-HMAC-SHA256", self.stamp, self.scope, digest])), ";".join(names)

    def headers(self, method, path, query="", payload=EMPTY, **more):
        """The headers of a request, including its signature."""
        headers = {"host": host(), "x-amz-date": self.stamp, "x-amz-content-sha256": payload}
        headers.update({name.replace("_", "-"): value for name, value in more.items()})
        signature, names = self.sign_canonical(method, path, query, headers, payload)
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key_id}/{self.scope}, SignedHeaders={names}, Signature={signature}"
        )
        return headers


def host():
    return os.environ["AMPHORA_S3"].removeprefix("http://")


def send(method, target, headers, body=b""):
    """Sends exactly these headers; returns status, error code and the whole answer."""
    connection = http.client.HTTPConnection(host(), timeout=30)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        pairs = headers if isinstance(headers, list) else list(headers.items())
        if body and not any(name.lower() == "content-length" for name, _ in pairs):
            pairs = [*pairs, ("content-length", str(len(body)))]
        for name, value in pairs:
            connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        found = re.search("<Code>(.*?)</Code>", text)
        return answer.status, found.group(1) if found else "", text
    finally:
        connection.close()


def message(text):
    found = re.search("<Message>(.*?)</Message>", text)
    return found.group(1) if found else text
