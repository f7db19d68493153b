"""An issuer of OpenID Connect tokens for tests: its keys, its HTTPS server, and tokens that are good or forged.

Keys and signatures are made by openssl, so nothing of the server under test checks itself.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time


def encoded(data):
    """Base64url without padding."""
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*args, data=None):
    return subprocess.run(["openssl", *args], input=data, capture_output=True, check=True).stdout


class Key:
    """A key of an issuer: RSA for RS256, or P-256 for ES256."""

    def __init__(self, kid, kind="RSA"):
        self.kid, self.kind = kid, kind
        self.algorithm = "RS256" if kind == "RSA" else "ES256"
        options = ["rsa_keygen_bits:2048"] if kind == "RSA" else ["ec_paramgen_curve:prime256v1"]
        private = openssl("genpkey", "-algorithm", kind, "-pkeyopt", *options)
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(private)
        self.file.flush()
        self.public = openssl("pkey", "-in", self.file.name, "-pubout")
        self.der = openssl("pkey", "-in", self.file.name, "-pubout", "-outform", "DER")

    def jwk(self):
        common = {"kid": self.kid, "alg": self.algorithm, "use": "sig"}
        if self.kind == "RSA":
            text = openssl("rsa", "-in", self.file.name, "-noout", "-modulus").decode().strip()
            return {**common, "kty": "RSA", "n": encoded(bytes.fromhex(text.split("=")[1])), "e": "AQAB"}
        # The last 64 bytes of the public key are the coordinates.
        return {**common, "kty": "EC", "crv": "P-256", "x": encoded(self.der[-64:-32]), "y": encoded(self.der[-32:])}

    def sign(self, text):
        signature = openssl("dgst", "-sha256", "-sign", self.file.name, data=text)
        return signature if self.kind == "RSA" else joined(signature)


def joined(der):
    """The two numbers of an ECDSA signature, 32 bytes each, from its DER form."""
    numbers, at = [], 2
    for _ in range(2):
        length = der[at + 1]
        numbers.append(der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(32, b"\0"))
        at += 2 + length
    return b"".join(numbers)


class Issuer:
    """An issuer with its server. Attributes may be changed between requests."""

    def __init__(self, port, certificate, key):
        self.url = f"https://localhost:{port}"
        self.keys = [Key("one")]
        self.requests = []
        self.delay_seconds = 0
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.requests.append(self.path)
                time.sleep(issuer.delay_seconds)
                documents = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": issuer.url + "/keys"},
                    "/keys": {"keys": [key.jwk() for key in issuer.keys]},
                }
                document = documents.get(self.path)
                body = json.dumps(document).encode()
                self.send_response(200 if document else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def claims(self, **changes):
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "system:serviceaccount:shop:web",
            "aud": ["amphora"],
            "exp": now + 600,
            "iat": now,
            "nbf": now,
        }
        claims.update(changes)
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key=None, header=None, **changes):
        """A token, signed with the newest key or the given one."""
        key = key or self.keys[-1]
        head = {"alg": key.algorithm, "kid": key.kid, **(header or {})}
        text = f"{encoded(head)}.{encoded(self.claims(**changes))}"
        return f"{text}.{encoded(key.sign(text.encode()))}"

    def unsigned(self, algorithm="none"):
        return f"{encoded({'alg': algorithm, 'kid': self.keys[-1].kid})}.{encoded(self.claims())}."

    def confused(self, secret):
        """A token whose HMAC has the public key as its secret."""
        text = f"{encoded({'alg': 'HS256', 'kid': self.keys[-1].kid})}.{encoded(self.claims())}"
        return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"
