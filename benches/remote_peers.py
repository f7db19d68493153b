"""Mounts of other systems whose stores are on another machine: JuiceFS on PostgreSQL and MinIO, and SeaweedFS.

Each of their connections passes through a proxy that delays (`delay.rs`), as those of Amphora do. Servers start with their
defaults on empty folders; programs come from `benches/peers.sh`.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from mounts import scratch
from servers import KEY, SECRET, TOOLS, free_port


def program(name):
    found = TOOLS / "bin" / name
    if not found.exists():
        raise SystemExit(f"{name} is not installed: benches/peers.sh {name}")
    return str(found)


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(str(word) for word in words[:3])} failed: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


class Peer:
    """A mount with its servers; use it in a `with`."""

    def __init__(self, proxy, round_trip_ms):
        self.proxy, self.delay = str(proxy), round(round_trip_ms * 500)

    def __enter__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="peer-", dir=scratch()))
        os.chmod(self.home, 0o755)
        self.path = self.home / "m"
        self.path.mkdir()
        self.ending = contextlib.ExitStack()
        try:
            self.start()
            until = time.monotonic() + 60
            while not os.path.ismount(self.path):
                if time.monotonic() > until:
                    raise RuntimeError(f"{type(self).__name__} does not mount: {self.home} has its logs")
                time.sleep(0.1)
            os.chmod(self.path, 0o777)
        except BaseException:
            self.__exit__()
            raise
        return self

    def spawn(self, name, *words, env=None, **options):
        """Starts a process; it ends with the mount, the last one first."""
        with open(self.home / f"{name}.log", "ab") as log:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env={**os.environ, **(env or {})}, start_new_session=True, **options)
        self.ending.callback(self.end, process)

    @staticmethod
    def end(process):
        for sent in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, sent)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)

    def delayed(self, port):
        """The port of a proxy before a port of this machine."""
        words = [self.proxy, f"127.0.0.1:{port}", str(self.delay)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.ending.callback(self.end_alone, process)
        return int(process.stdout.readline().rsplit(":", 1)[1])

    @staticmethod
    def end_alone(process):
        process.kill()
        process.wait()

    def answers(self, port):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        raise RuntimeError(f"port {port} does not answer: {self.home} has the logs")

    def __exit__(self, *_):
        subprocess.run(["umount", str(self.path)], stderr=subprocess.DEVNULL, check=False)
        self.ending.close()
        subprocess.run(["umount", "--lazy", str(self.path)], stderr=subprocess.DEVNULL, check=False)
        if not os.path.ismount(self.path):
            shutil.rmtree(self.home, ignore_errors=True)


class JuiceFs(Peer):
    """Metadata in PostgreSQL, content in MinIO; a cache on this machine's disk, as by default."""

    def start(self):
        metadata, objects = self.postgres(), free_port()
        env = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off", "MINIO_UPDATE": "off"}
        self.spawn("minio", program("minio"), "server", "--quiet", "--address", f"127.0.0.1:{objects}",
                   "--console-address", f"127.0.0.1:{free_port()}", self.home / "objects", env=env)
        self.answers(objects)
        url = f"postgres://postgres@127.0.0.1:{self.delayed(metadata)}/postgres?sslmode=disable"
        bucket = f"http://127.0.0.1:{self.delayed(objects)}/content"
        run(program("juicefs"), "format", "--storage", "minio", "--bucket", bucket, "--access-key", KEY,
            "--secret-key", SECRET, url, "bench")
        self.spawn("juicefs", program("juicefs"), "mount", "--no-usage-report", "--metrics", f"127.0.0.1:{free_port()}",
                   "--cache-dir", self.home / "cache", url, self.path)

    def postgres(self):
        """The port of a new PostgreSQL with its default settings."""
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        user, data, port = pwd.getpwnam("postgres"), self.home / "pg", free_port()
        data.mkdir()
        os.chown(data, user.pw_uid, user.pw_gid)
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}
        run(programs / "initdb", "-A", "trust", "-D", data, **who)
        self.spawn("postgres", programs / "postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
                   "-c", f"unix_socket_directories={data}", **who)
        self.answers(port)
        return port


class SeaweedFs(Peer):
    """Master, volume server and filer in one process; a cache on this machine's disk, as by default."""

    def start(self):
        master, volume, filer = free_port(), free_port(), free_port()
        grpc = {"master": free_port(), "volume": free_port(), "filer": free_port()}
        folders = [self.home / name for name in ("objects", "cache")]
        for folder in folders:
            folder.mkdir()
        self.spawn("weed", program("weed"), "server", f"-dir={folders[0]}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                   f"-master.port={master}", f"-master.port.grpc={grpc['master']}", f"-volume.port={volume}",
                   f"-volume.port.grpc={grpc['volume']}", f"-volume.publicUrl=127.0.0.1:{self.delayed(volume)}",
                   "-filer", f"-filer.port={filer}", f"-filer.port.grpc={grpc['filer']}", "-volume.max=40",
                   "-master.volumeSizeLimitMB=1024", cwd=self.home)
        for port in (volume, filer, grpc["filer"]):
            self.answers(port)
        time.sleep(3)
        address = f"127.0.0.1:{self.delayed(filer)}.{self.delayed(grpc['filer'])}"
        self.spawn("weed-mount", program("weed"), "mount", f"-filer={address}", f"-dir={self.path}",
                   f"-cacheDir={folders[1]}", "-volumeServerAccess=publicUrl")


PEERS = {"juicefs": JuiceFs, "seaweedfs": SeaweedFs}
