#!/usr/bin/env python3
"""What is measured of one directory: each group does its steps in order and prints one JSON line a step.

Run by `benches/mount.py` as a process of its own for each group, so that a directory that hangs ends with it.
"""

import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
PAGE = 4096


class Wrong(Exception):
    """A step with a wrong result."""


def run(*words, limit=120, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=limit, **options)
    if done.returncode:
        raise Wrong(f"{words[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def cool():
    """Empties the kernel's caches. What a server keeps in its own memory stays."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    time.sleep(0.1)


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rate(items, work, most):
    """Items per second of `work`, for all items or for those that are done within `most` seconds."""
    begin = time.perf_counter()
    for done, item in enumerate(items, 1):
        work(item)
        if time.perf_counter() - begin > most:
            break
    return done / (time.perf_counter() - begin), done


# ------------------------------------------------------------------------------------------------ one large file

FIO = [
    # Step, cold before, options of fio, counted in.
    ("seq write 1 MiB, fsync at end", False, dict(rw="write", bs="1M", end_fsync=1), "MB/s"),
    ("seq read 1 MiB, cold", True, dict(rw="read", bs="1M"), "MB/s"),
    ("seq read 1 MiB, warm", False, dict(rw="read", bs="1M"), "MB/s"),
    ("4k randread, warm file", False, dict(rw="randread", bs="4k", io_size="64M"), "IOPS"),
    ("4k randread, cold", True, dict(rw="randread", bs="4k", randseed=11), "IOPS"),
    ("4k randwrite buffered, fsync at end", False, dict(rw="randwrite", bs="4k", end_fsync=1, io_size="written"), "IOPS"),
    ("4k randwrite, fsync each", False, dict(rw="randwrite", bs="4k", fsync=1), "IOPS"),
    ("8 jobs randrw 70/30 16k", False,
     dict(rw="randrw", rwmixread=70, bs="16k", numjobs=8, size="16M", time_based=1, filename=None), "IOPS"),
]


def large_file(where, size):
    for step, cold, given, unit in FIO:
        options = dict(name="job", filename=where / "large", size=f"{size['file_mib']}M", runtime=size["seconds"], thread=1,
                       ioengine="psync", group_reporting=1, fallocate="none", invalidate=0, norandommap=1,
                       refill_buffers=1, buffer_compress_percentage=30)
        options.update(given)
        if options.get("io_size") == "written":
            options["io_size"] = f"{size['random_mib']}M"
        words = [f"--{name}={value}" for name, value in options.items() if value is not None]
        if given.get("filename", "") is None:
            words.append(f"--directory={where}")
        if cold:
            cool()
        told = run("fio", "--output-format=json", *words, cwd=where)
        job = json.loads(told[told.index("{"):])["jobs"][0]
        if job["error"]:
            raise Wrong(os.strerror(job["error"]))
        took = max(job["job_runtime"], 1) / 1000
        parts = [job[kind] for kind in ("read", "write")]
        total = sum(part["io_bytes"] for part in parts) / 1e6 if unit == "MB/s" else sum(part["total_ios"] for part in parts)
        yield step, total / took


# ---------------------------------------------------------------------------------------------------- small files

CONTENT = random.Random(5).randbytes(PAGE)


def write_new(path, sync=False):
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    os.write(descriptor, CONTENT)
    if sync:
        os.fsync(descriptor)
    os.close(descriptor)


def small_files(where, size):
    folder = where / "small"
    folder.mkdir()
    paths = [f"{folder}/file-{number:06}" for number in range(size["files"])]
    begin = time.perf_counter()
    speed, count = rate(paths, write_new, size["seconds"] * 2)
    yield "create+write 4 KiB+close", speed
    os.sync()
    yield "the same, plus a sync of all", count / (time.perf_counter() - begin)
    paths = paths[:count]

    def check_size(path):
        if os.stat(path).st_size != PAGE:
            raise Wrong(f"{path} has another size")

    def read(path):
        descriptor = os.open(path, os.O_RDONLY)
        seen = os.read(descriptor, 2 * PAGE)
        os.close(descriptor)
        if seen != CONTENT:
            raise Wrong(f"{path} has another content")

    def listing():
        lines = run("ls", "-l", folder).count("\n")
        if lines != count + 1:
            raise Wrong(f"{lines - 1} of {count} entries listed")

    def overwrite(path):
        descriptor = os.open(path, os.O_TRUNC | os.O_WRONLY)
        os.write(descriptor, CONTENT)
        os.close(descriptor)

    def open_only(path):
        os.close(os.open(path, os.O_RDONLY))

    for name, work in (("stat all", check_size), ("open+read+close all", read)):
        cool()
        yield f"{name}, cold", rate(paths, work, size["seconds"])[0]
        yield f"{name}, warm", rate(paths, work, size["seconds"])[0]
    yield "open+close all, warm", rate(paths, open_only, size["seconds"])[0]
    cool()
    yield "ls -l, cold", count / seconds(listing)
    yield "ls -l, warm", count / seconds(listing)
    yield "open O_TRUNC+write 4 KiB+close", rate(paths, overwrite, size["seconds"])[0]
    yield "rename all", rate(paths, lambda path: os.rename(path, path.replace("/file-", "/name-")), size["seconds"])[0]
    yield "rm -rf", count / seconds(lambda: run("rm", "-rf", folder))


def synced_files(where, size):
    folder = where / "synced"
    folder.mkdir()
    paths = [f"{folder}/file-{number:06}" for number in range(size["files"] // 4)]
    yield "create+write 4 KiB+fsync+close", rate(paths, lambda path: write_new(path, True), size["seconds"])[0]

    def replace(path):
        write_new(f"{folder}/new", True)
        os.rename(f"{folder}/new", path)

    yield "write tmp+fsync+rename over", rate(paths[:16] * (len(paths) // 16), replace, size["seconds"])[0]
    begin = time.perf_counter()
    counts = [child(lambda number=number: one_of_eight(folder / f"p{number}", size)) for number in range(8)]
    total = sum(answer() for answer in counts)
    yield "the same by 8 processes", total / (time.perf_counter() - begin)


def one_of_eight(folder, size):
    folder.mkdir()
    paths = (f"{folder}/file-{number:06}" for number in range(size["files"] // 8))
    return rate(paths, lambda path: write_new(path, True), size["seconds"])[1]


def child(work):
    """Runs `work` in a process; returns a function that waits for its result, a number."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.write(writer, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)

    def answer():
        with os.fdopen(reader) as pipe:
            told = pipe.read()
        os.waitpid(process, 0)
        if not told:
            raise Wrong("a process ended early")
        return int(told)
    return answer


# ------------------------------------------------------------------------------------------------ trees of sources

def trees(where, size):
    data = pathlib.Path(size["input"])
    tree = where / "tree"
    count = sum(len(files) for _, _, files in os.walk(data / "tree"))
    yield "untar the tree", seconds(lambda: run("tar", "xf", data / "tree.tar", "-C", where, "--no-same-owner"))

    def find():
        found = run("find", tree, "-type", "f").count("\n")
        if found != count:
            raise Wrong(f"{found} of {count} files found")

    cool()
    yield "find -type f, cold", seconds(find)
    cool()
    yield "du -s, cold", seconds(lambda: run("du", "-s", tree))
    cool()
    yield "grep -r (reads all), cold", seconds(lambda: run("grep", "-rc", "needle", tree))
    yield "cp -r within the mount", seconds(lambda: run("cp", "-r", tree, where / "copy"))
    yield "rm -rf of one tree", seconds(lambda: run("rm", "-rf", tree))


def git(*words, cwd=None):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "2",
                   "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "GIT_CONFIG_KEY_1": "gc.auto",
                   "GIT_CONFIG_VALUE_1": "0"}
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@example.org"}
    return run("git", *words, cwd=cwd, env=environment)


def repository(where, size):
    clone = where / "clone"
    source = pathlib.Path(size["input"], "tree.git")
    yield "git clone, local, no hardlinks", seconds(lambda: git("clone", "-q", "--no-hardlinks", source, clone))
    cool()

    def status():
        if git("status", "--porcelain", cwd=clone):
            raise Wrong("a fresh clone shows changes")

    yield "git status, cold", seconds(status)

    def commit():
        files = git("ls-files", cwd=clone).splitlines()
        for name in files[::max(1, len(files) // 50)][:50]:
            with open(clone / name, "a", encoding="ascii") as file:
                file.write("another line\n")
        git("commit", "-q", "-a", "-m", "fifty", cwd=clone)

    yield "edit 50 files, git commit -a", seconds(commit)
    yield "git gc", seconds(lambda: git("gc", "-q", cwd=clone))
    git("fsck", "--no-progress", cwd=clone)


# ------------------------------------------------------------------------------------------------------- databases

def sqlite(where, size):
    for mode in ("DELETE", "WAL"):
        database = sqlite3.connect(where / f"{mode}.db", isolation_level=None, timeout=10)
        told = database.execute(f"pragma journal_mode={mode}").fetchone()[0]
        if told.upper() != mode:
            raise Wrong(f"the journal stays {told}")
        database.execute("pragma synchronous=full")
        database.execute("create table entry(number integer primary key, body blob)")

        def insert(number, database=database):
            database.execute("begin immediate")
            database.execute("insert into entry values(?, ?)", (number, CONTENT[:100]))
            database.execute("commit")

        speed, done = rate(range(size["transactions"]), insert, size["seconds"])
        if database.execute("select count(*) from entry").fetchone()[0] != done:
            raise Wrong("rows are missing")
        database.close()
        yield f"sqlite, journal={mode}, sync=FULL", speed


def postgres(where, size):
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))[-1].parent
    owner = pwd.getpwnam("postgres")
    sockets = tempfile.mkdtemp(prefix="bench-pg-")
    data = where / "pgdata"
    for folder in (data, pathlib.Path(sockets)):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def call(program, *words, limit=120):
        user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        environment = {"PATH": os.environ["PATH"], "PGHOST": sockets, "PGUSER": "postgres", "LC_ALL": "C", "HOME": sockets}
        return run(*user, programs / program, *words, limit=limit, cwd="/", env=environment)

    try:
        yield "initdb", seconds(lambda: call("initdb", "-A", "trust", "-D", data))
        settings = f"-c listen_addresses='' -k {sockets}"
        # The server has its own log, since it would keep the pipe of pg_ctl's output open.
        call("pg_ctl", "-D", data, "-w", "-s", "-l", f"{sockets}/log", "-o", settings, "start")
        yield "pgbench -i -s 5", seconds(lambda: call("pgbench", "-i", "-q", "-s", "5", "postgres"))
        told = call("pgbench", "-c", "2", "-j", "2", "-T", int(size["pgbench_seconds"]), "postgres")
        yield "pgbench, 2 clients", float(re.search(r"^tps = ([0-9.]+)", told, re.MULTILINE)[1])
    finally:
        try:
            call("pg_ctl", "-D", data, "-s", "-m", "immediate", "stop")
        except (Wrong, subprocess.TimeoutExpired):
            stop_by_pid(data / "postmaster.pid")
        shutil.rmtree(sockets, ignore_errors=True)


def stop_by_pid(file):
    try:
        os.kill(int(file.read_text().splitlines()[0]), signal.SIGQUIT)
    except (OSError, ValueError, IndexError):
        pass


# ---------------------------------------------------------------------------------------------------------- input

def make_input(where, files):
    """A tree of sources, as an archive and as a repository, the same on every machine."""
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 11))) for _ in range(2000)] + ["needle"]

    def text(length):
        lines = []
        while length > 0:
            lines.append("  " * dice.randint(0, 4) + " ".join(dice.choices(words, k=dice.randint(1, 12))))
            length -= len(lines[-1]) + 1
        return "\n".join(lines) + "\n"

    folders = [where / "tree"]
    folders[0].mkdir(parents=True)
    for number in range(max(4, files // 15)):
        parent = dice.choice([folder for folder in folders if len(folder.relative_to(where).parts) < 7])
        folders.append(parent / f"{dice.choice(words)}{number}")
        folders[-1].mkdir()
    for number in range(files):
        # Median 4 KiB, mean 9 KiB, like source files.
        length = min(400_000, max(20, int(dice.lognormvariate(8.3, 1.25))))
        (dice.choice(folders) / f"{dice.choice(words)}{number}.{dice.choice(['c', 'h', 'md', 'rs'])}").write_text(text(length))
    run("tar", "cf", where / "tree.tar", "-C", where, "tree")
    work = where / "work"
    shutil.copytree(where / "tree", work)
    git("init", "-q", work)
    paths = sorted(path for path in work.rglob("*") if path.is_file() and ".git" not in path.parts)
    for number in range(5):
        for path in dice.sample(paths, len(paths) // 10):
            with open(path, "a", encoding="ascii") as file:
                file.write(text(200))
        git("add", "-A", cwd=work)
        git("commit", "-q", "-m", f"change {number}", cwd=work)
    git("clone", "-q", "--bare", work, where / "tree.git")
    git("gc", "-q", cwd=where / "tree.git")
    shutil.rmtree(work)


GROUPS = {"large": large_file, "small": small_files, "synced": synced_files, "trees": trees, "git": repository,
          "sqlite": sqlite, "postgres": postgres}


def main():
    group, where, size = sys.argv[1:]
    try:
        for step, figure in GROUPS[group](pathlib.Path(where), json.loads(size)):
            print(json.dumps({"step": step, "figure": figure}), flush=True)
    except (Wrong, OSError, subprocess.TimeoutExpired, sqlite3.Error) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
