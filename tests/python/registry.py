"""An image pushed to, pulled from and deleted at a registry, by the API of the OCI distribution specification.

registry.py URL push|pull|delete: the image is the same in all three.
"""

import hashlib
import json
import random
import sys
import urllib.error
import urllib.parse
import urllib.request

NAME = "library/hello"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
MIB = 1 << 20


def content(seed, size):
    return random.Random(seed).randbytes(size)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# One layer in a single request, one in several parts of a multipart upload, and one almost empty.
LAYERS = [content(1, 1000), content(2, 13 * MIB + 7), content(3, 1)]
CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()


def manifest():
    def described(kind, data):
        return {"mediaType": kind, "size": len(data), "digest": digest(data)}

    layer = "application/vnd.oci.image.layer.v1.tar"
    return json.dumps({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
        "config": described("application/vnd.oci.image.config.v1+json", CONFIG),
        "layers": [described(layer, data) for data in LAYERS],
    }).encode()


def ask(method, url, body=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def expect(wanted, answer):
    status, headers, body = answer
    assert status == wanted, f"{wanted} expected, not {status}: {body[:500]!r}"
    return headers, body


def absolute(base, location):
    return urllib.parse.urljoin(base, location)


def with_digest(location, data):
    return location + ("&" if "?" in location else "?") + urllib.parse.urlencode({"digest": digest(data)})


def push_blob(base, data, piece):
    """Uploads a blob in pieces of `piece` bytes, one request for each."""
    headers, _ = expect(202, ask("POST", f"{base}/blobs/uploads/", b""))
    location = absolute(base, headers["Location"])
    for start in range(0, len(data), piece):
        part = data[start:start + piece]
        headers, _ = expect(202, ask(
            "PATCH", location, part, Content_Type="application/octet-stream",
            Content_Range=f"{start}-{start + len(part) - 1}"))
        location = absolute(base, headers["Location"])
    expect(201, ask("PUT", with_digest(location, data), b""))


def push(base):
    for data in [*LAYERS, CONFIG]:
        expect(404, ask("HEAD", f"{base}/blobs/{digest(data)}"))
        push_blob(base, data, 4 * MIB)
        headers, _ = expect(200, ask("HEAD", f"{base}/blobs/{digest(data)}"))
        assert int(headers["Content-Length"]) == len(data)
    # Content that does not match its digest is refused.
    headers, _ = expect(202, ask("POST", f"{base}/blobs/uploads/", b""))
    wrong = with_digest(absolute(base, headers["Location"]), b"another")
    expect(400, ask("PUT", wrong, b"content", Content_Type="application/octet-stream"))
    for tag in ["latest", "1.0"]:
        expect(201, ask("PUT", f"{base}/manifests/{tag}", manifest(), Content_Type=MANIFEST_TYPE))


def pull(base, root):
    _, body = expect(200, ask("GET", f"{base}/manifests/latest", Accept=MANIFEST_TYPE))
    assert body == manifest(), "the manifest changed"
    for data in [*LAYERS, CONFIG]:
        _, body = expect(200, ask("GET", f"{base}/blobs/{digest(data)}"))
        assert body == data, f"a blob of {len(data)} bytes changed"
    _, part = expect(206, ask("GET", f"{base}/blobs/{digest(LAYERS[1])}", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 9}"))
    assert part == LAYERS[1][5 * MIB - 3:5 * MIB + 10], "a range changed"
    _, tags = expect(200, ask("GET", f"{base}/tags/list"))
    assert sorted(json.loads(tags)["tags"]) == ["1.0", "latest"], tags
    _, catalog = expect(200, ask("GET", f"{root}/v2/_catalog"))
    assert json.loads(catalog)["repositories"] == [NAME], catalog


def delete(base):
    expect(202, ask("DELETE", f"{base}/manifests/{digest(manifest())}"))
    expect(404, ask("GET", f"{base}/manifests/latest", Accept=MANIFEST_TYPE))
    for data in [*LAYERS, CONFIG]:
        expect(202, ask("DELETE", f"{base}/blobs/{digest(data)}"))
        expect(404, ask("GET", f"{base}/blobs/{digest(data)}"))


def main(root, step):
    base = f"{root}/v2/{NAME}"
    {"push": lambda: push(base), "pull": lambda: pull(base, root), "delete": lambda: delete(base)}[step]()


main(*sys.argv[1:])
