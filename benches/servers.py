"""The servers of a benchmark: each starts on an empty folder and is stopped by its process id."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".test-tools" / "bench"
KEY, SECRET = "GK31c2f218a2e44f485b94239e", "b892c0665f0ada8a4755dae98baa3b133590e11dae3bcc1f9d769d67f16c3835"


def build(*command, cwd=ROOT):
    """Runs a build, and shows its output only if it fails."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


def amphora_binary(given=None):
    """The server to measure: the given binary, or a release build."""
    if given:
        return pathlib.Path(given).resolve()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    build("cargo", "build", "--release", "--ignore-rust-version", "-p", "amphora")
    return target / "release" / "amphora"


def load_binary():
    """The load generator."""
    build("cargo", "build", "--release", "--target-dir", str(TOOLS / "load"), cwd=ROOT / "benches" / "load")
    return TOOLS / "load" / "release" / "load"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def amphora(data, port, binary):
    env = {"AMPHORA_ROOT_ACCESS_KEY_ID": KEY, "AMPHORA_ROOT_SECRET_ACCESS_KEY": SECRET}
    listen = ["--s3-listen", f"127.0.0.1:{port}", "--http-listen", "127.0.0.1:0"]
    # No request log, as the peers have none.
    return [binary, "serve", "--data-dir", data, "--log-level", "warn", *listen], env


def minio(data, port, binary):
    env = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off", "MINIO_UPDATE": "off"}
    address = ["--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{free_port()}"]
    return [binary, "server", "--quiet", *address, data], env


def versitygw(data, port, binary):
    return [binary, "--port", f"127.0.0.1:{port}", "--access", KEY, "--secret", SECRET, "--quiet", "posix", data], {}


def s3s_fs(data, port, binary):
    listen = ["--host", "127.0.0.1", "--port", str(port)]
    return [binary, *listen, "--access-key", KEY, "--secret-key", SECRET, data], {"RUST_LOG": "error"}


def garage(data, port, binary):
    config = pathlib.Path(data) / "garage.toml"
    config.write_text(f"""
metadata_dir = "{data}/meta"
data_dir = "{data}/data"
db_engine = "lmdb"
metadata_fsync = true
data_fsync = true
replication_factor = 1
rpc_bind_addr = "127.0.0.1:{free_port()}"
rpc_secret = "{"5a" * 32}"
[s3_api]
s3_region = "us-east-1"
api_bind_addr = "127.0.0.1:{port}"
""")
    config.chmod(0o600)
    key = {"GARAGE_DEFAULT_ACCESS_KEY": KEY, "GARAGE_DEFAULT_SECRET_KEY": SECRET, "GARAGE_DEFAULT_BUCKET": "made"}
    return [binary, "-c", config, "server", "--single-node", "--default-access-key"], {**key, "RUST_LOG": "warn"}


# Name, how it is started, and what is on disk when it acknowledges a PUT.
PEERS = {
    "minio": (minio, "the data, not its name"),
    "versitygw": (versitygw, "nothing"),
    "garage": (garage, "all (both of its fsync settings on)"),
    "s3s-fs": (s3s_fs, "nothing"),
}


def installed(names):
    """The peers that `benches/peers.sh` has installed."""
    return [name for name in names if os.access(TOOLS / "bin" / name, os.X_OK)]


class Server:
    """A running server; use it in a `with`."""

    def __init__(self, name, load, binary=None):
        self.name, self.load = name, load
        self.start = PEERS[name][0] if name in PEERS else amphora
        self.binary = str(binary or TOOLS / "bin" / name)

    def __enter__(self):
        # Beside the sources, not in /tmp: that is memory on many machines.
        scratch = TOOLS / "data"
        scratch.mkdir(parents=True, exist_ok=True)
        self.data = tempfile.mkdtemp(prefix=f"{self.name}-", dir=scratch)
        store = os.path.join(self.data, "d")
        os.mkdir(store)
        self.port = free_port()
        command, env = self.start(store, self.port, self.binary)
        self.log = open(os.path.join(self.data, "log"), "wb")
        self.process = subprocess.Popen(
            [str(word) for word in command], env={**os.environ, "HOME": self.data, **env}, cwd=self.data,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        until = time.monotonic() + 60
        while self.run("make-bucket")["errors"]:
            if self.process.poll() is not None or time.monotonic() > until:
                log = pathlib.Path(self.data, "log").read_text(errors="replace")[-1000:]
                self.__exit__()
                raise RuntimeError(f"{self.name} does not start: {log}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.data, ignore_errors=True)

    def run(self, operation, **options):
        """Runs the load generator; returns its result."""
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        base = ["--endpoint", f"127.0.0.1:{self.port}", "--key", KEY, "--secret", SECRET, "--pid", self.process.pid]
        command = [self.load, operation, *base, *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"operation": operation, "requests": 0, "errors": 1, "error": done.stderr[-500:]}
