"""Directories to measure: one of the native file system, and buckets mounted by an Amphora server."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from servers import TOOLS, free_port

BUCKET = "work"


class Native:
    """A folder in the file system that also has the store; use it in a `with`."""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="native-", dir=scratch())
        os.chmod(self.home, 0o755)
        self.path = pathlib.Path(self.home)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)


class Mount:
    """A new server with one mounted bucket; use it in a `with`."""

    def __init__(self, binary, options="", *flags):
        self.binary, self.options, self.flags = str(binary), options, flags

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="mount-", dir=scratch())
        os.chmod(self.home, 0o755)
        self.path = pathlib.Path(self.home, "m")
        self.path.mkdir()
        self.socket = pathlib.Path(tempfile.mkdtemp(prefix="bench-"), "admin.sock")
        ports = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        with open(os.path.join(self.home, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--data-dir", os.path.join(self.home, "d"), "--log-level", "warn", "--no-holder",
                 "--s3-listen", ports[0], "--http-listen", ports[1], "--admin-endpoint", f"unix://{self.socket}", *self.flags],
                cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.wait()
            self.command("bucket", "create", BUCKET)
            options = ["-o", self.options] if self.options else []
            self.command("mount", BUCKET, str(self.path), *options)
            os.chmod(self.path, 0o755)
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        until = time.monotonic() + 60
        while not self.log().startswith("ready") and "\nready" not in self.log():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"amphora does not start: {self.log()[-1000:]}")
            time.sleep(0.05)

    def log(self):
        return pathlib.Path(self.home, "log").read_text(errors="replace")

    def command(self, *words):
        environment = {**os.environ, "AMPHORA_ADMIN_ENDPOINT": f"unix://{self.socket}"}
        done = subprocess.run([self.binary, *words], env=environment, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"amphora {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def __exit__(self, *_):
        # The server has no holder, so its mounts end with it.
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # Detached first, so that nothing is deleted through a remaining mount.
        subprocess.run(["umount", "--lazy", str(self.path)], stderr=subprocess.DEVNULL, check=False)
        if not os.path.ismount(self.path):
            shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.socket.parent, ignore_errors=True)


def scratch():
    """Beside the sources, not in /tmp: that is memory on many machines. Others must be able to pass: databases do."""
    folder = TOOLS / "data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
