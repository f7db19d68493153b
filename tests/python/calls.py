"""System calls on a mount, each with what Linux answers: arguments are a directory of it and "full" for what takes long.

Prints each call that answered something else, and how many answered as they should; ends with status 1 or 0.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import stat
import struct
import sys
import threading
import time

DIR, FULL = sys.argv[1], "full" in sys.argv[2:]
LIBC = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20
AT_FDCWD, O_TMPFILE = -100, 0o20200000
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
KEEP, PUNCH, COLLAPSE, ZERO, INSERT, UNSHARE = 1, 2, 8, 16, 32, 64
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
LINKS_MAX = 65_000
# Error numbers with two names on Linux.
NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP", errno.EDEADLK: "EDEADLK", errno.EAGAIN: "EAGAIN"}
CALLS = []


def call(expected):
    """Makes a call and compares its result: a value, or the name of an error."""
    return lambda function: CALLS.append((function, expected))


def result_of(function, *args, **named):
    """The result of a call, or the name of its error."""
    try:
        return function(*args, **named)
    except OSError as error:
        return NAMES.get(error.errno) or errno.errorcode[error.errno]


def libc(name, *args):
    ctypes.set_errno(0)
    wide = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    answer = getattr(LIBC, name)(*wide)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer


def new(name, content=b"x"):
    with open(name, "wb") as file:
        file.write(content)
    return name


def opened(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(name, flags, 0o644)


def rename(old, to, flags):
    return result_of(libc, "renameat2", AT_FDCWD, old.encode(), AT_FDCWD, to.encode(), flags)


def fallocate(fd, mode, offset, length):
    return result_of(libc, "fallocate64", fd, mode, offset, length)


def lock(fd, command, kind, start=0, length=1):
    return result_of(fcntl.fcntl, fd, command, struct.pack("hhqqi4x", kind, 0, start, length, 0))


@call((0, 1, b"abc"))
def an_unnamed_file_can_get_a_name():
    fd = os.open(".", O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"abc")
    before = os.fstat(fd).st_nlink
    libc("linkat", AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, b"named", 0x400)
    return before, os.fstat(fd).st_nlink, open("named", "rb").read()


@call("ENOENT")
def an_exclusive_unnamed_file_cannot_get_a_name():
    fd = os.open(".", O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
    return result_of(libc, "linkat", AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, b"named-2", 0x400)


@call((0, True, True, "ENOENT", "EINVAL", "EINVAL"))
def names_are_exchanged():
    new("file"), os.makedirs("folder/below")
    done = rename("file", "folder", EXCHANGE)
    return (done, os.path.isdir("file/below"), os.path.isfile("folder"), rename("file", "absent", EXCHANGE),
            rename("file", "file/below", EXCHANGE), rename("file", "folder", EXCHANGE | NOREPLACE))


@call(("EEXIST", 0, 0, "0o20000", 0))
def names_are_not_replaced_and_leave_a_whiteout():
    new("one"), new("two")
    kept = rename("one", "two", NOREPLACE), rename("one", "three", NOREPLACE)
    done = rename("two", "four", WHITEOUT)
    left = os.lstat("two")
    return *kept, done, oct(left.st_mode), left.st_rdev


@call((0, 2 * MIB, 0, MIB, 0, MIB, "EOPNOTSUPP", "EOPNOTSUPP", "EOPNOTSUPP", "EINVAL", "EBADF"))
def ranges_are_reserved_punched_and_zeroed():
    fd = opened(new("ranges", b"a" * MIB))
    answers = [fallocate(fd, 0, 0, 2 * MIB), os.fstat(fd).st_size]
    os.ftruncate(fd, MIB)
    for mode, keeps in ((PUNCH | KEEP, 8192), (ZERO | KEEP, 4096)):
        answers += [fallocate(fd, mode, 16384, keeps), os.fstat(fd).st_size]
        assert os.pread(fd, keeps, 16384) == bytes(keeps) and os.pread(fd, 1, 16383) == b"a"
    answers += [fallocate(fd, mode, 4096, 4096) for mode in (COLLAPSE, INSERT, UNSHARE)]
    return *answers, fallocate(fd, 0, 0, 0), fallocate(os.open("ranges", os.O_RDONLY), 0, 0, 9)


@call((65536, MIB, MIB + 65536, "ENXIO", "ENXIO", 2 * MIB - 1))
def holes_are_found():
    fd = opened("holes")
    for at in (0, MIB):
        os.pwrite(fd, b"a" * 65536, at)
    os.ftruncate(fd, 2 * MIB)
    looks = ((0, os.SEEK_HOLE), (70_000, os.SEEK_DATA), (MIB, os.SEEK_HOLE), (MIB + 65536, os.SEEK_DATA),
             (2 * MIB, os.SEEK_HOLE), (2 * MIB - 1, os.SEEK_HOLE))
    return tuple(result_of(os.lseek, fd, at, what) for at, what in looks)


@call((3 * MIB, True, "EINVAL", "EBADF", 0))
def ranges_are_copied():
    content = os.urandom(3 * MIB)
    source, to = opened(new("source", content), os.O_RDONLY), opened("copied")
    copied = 0
    while done := os.copy_file_range(source, to, 4 * MIB):
        copied += done
    same, end = opened("source"), opened("appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return (copied, open("copied", "rb").read() == content, result_of(os.copy_file_range, same, same, 1000, 0, 500),
            result_of(os.copy_file_range, source, end, 1000, 0), os.copy_file_range(source, to, 1000, 4 * MIB, 0))


@call(("EAGAIN", True, (fcntl.F_WRLCK, 0, 0, 50, -1), True, "EINTR"))
def locks_of_open_files_exclude_others_and_a_signal_ends_the_wait():
    one, two = opened(new("locked")), opened("locked")
    lock(one, OFD_SETLK, fcntl.F_WRLCK, 0, 50)
    refused, beside = lock(two, OFD_SETLK, fcntl.F_WRLCK, 10), lock(two, OFD_SETLK, fcntl.F_WRLCK, 60)
    holder = struct.unpack("hhqqi4x", lock(two, OFD_GETLK, fcntl.F_WRLCK, 0, 50))
    threading.Timer(0.2, lambda: lock(one, OFD_SETLK, fcntl.F_UNLCK, 0, 50)).start()
    waited = lock(two, OFD_SETLKW, fcntl.F_WRLCK, 0, 50)

    def interrupt(*_):
        raise InterruptedError(errno.EINTR, "a signal")

    def wait():
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        return lock(one, OFD_SETLKW, fcntl.F_WRLCK)

    signal.signal(signal.SIGALRM, interrupt)
    return refused, isinstance(beside, bytes), holder, isinstance(waited, bytes), result_of(wait)


@call(1)
def a_deadlock_of_locks_is_reported():
    fd = opened(new("deadly", b"12"))
    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        mine = opened("deadly")
        fcntl.lockf(mine, fcntl.LOCK_EX, 1, 1)
        os.write(tell, b"1")
        os._exit(result_of(fcntl.lockf, mine, fcntl.LOCK_EX, 1, 0) == "EDEADLK")
    os.read(ready, 1)
    time.sleep(0.2)
    answer = result_of(fcntl.lockf, fd, fcntl.LOCK_EX, 1, 1)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    return (answer == "EDEADLK") + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@call((1, b"BaZ", b"BC", b"Q", bytes(7), signal.SIGBUS))
def mappings_show_and_change_the_file():
    fd = opened(new("mapped", b"a" * 8192))
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    lease = fcntl.fcntl(fd, fcntl.F_GETLEASE)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    shared, private = mmap.mmap(fd, 8192), mmap.mmap(fd, 8192, flags=mmap.MAP_PRIVATE)
    shared[0], private[1] = ord("B"), ord("C")
    os.pwrite(fd, b"Z", 2)
    seen = open("mapped", "rb").read(3)
    shared[20] = ord("Q")
    kept, stored = private[:2], os.pread(fd, 1, 20)
    tail = opened(new("tail", b"abc"))
    mmap.mmap(tail, 3)
    os.ftruncate(tail, 10)
    child = os.fork()
    if child == 0:
        os.ftruncate(fd, 0)
        os._exit(shared[5000])
    ended = os.waitpid(child, 0)[1]
    return lease, seen, kept, stored, os.pread(tail, 7, 3), ended


@call(("ELOOP", True, "ELOOP", True, "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG"))
def paths_have_limits():
    new("link-0")
    for at in range(41):
        os.symlink(f"link-{at}", f"link-{at + 1}")
    return (result_of(os.open, "link-1", os.O_RDONLY | os.O_NOFOLLOW), isinstance(result_of(os.stat, "link-40"), os.stat_result),
            result_of(os.stat, "link-41"), isinstance(result_of(opened, "n" * 255), int), result_of(opened, "n" * 256),
            result_of(os.stat, "./" * 2048), result_of(os.symlink, "x" * 4096, "long"))


@call((None, None, None, "EOPNOTSUPP", "EOPNOTSUPP", "EEXIST", "ENODATA", "ERANGE", "EPERM", None, ["trusted.a"]))
def attributes_have_namespaces():
    new("attributes"), os.symlink("a", "symbolic")
    done = [result_of(os.setxattr, "attributes", name, b"value")
            for name in ("user.a", "trusted.a", "security.a", "system.a", "other.a")]
    done += [result_of(os.setxattr, "attributes", "user.a", b"", os.XATTR_CREATE),
             result_of(os.setxattr, "attributes", "user.b", b"", os.XATTR_REPLACE)]
    done.append(result_of(libc, "getxattr", b"attributes", b"user.a", ctypes.create_string_buffer(2), 2))
    done += [result_of(os.setxattr, "symbolic", name, b"v", follow_symlinks=False) for name in ("user.a", "trusted.a")]
    return *done, os.listxattr("symbolic", follow_symlinks=False)


@call((["FIFO", "LNK", "REG", "SOCK"], b"hi", b"q", "EACCES"))
def special_files_keep_their_type():
    os.mkdir("special")
    os.mkfifo("special/fifo"), os.symlink("a", "special/link"), new("special/regular")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("special/socket")
    listening.listen()
    sender = socket.socket(socket.AF_UNIX)
    sender.connect("special/socket")
    sender.send(b"hi")
    reader = os.open("special/fifo", os.O_RDONLY | os.O_NONBLOCK)
    os.write(os.open("special/fifo", os.O_WRONLY), b"q")
    kinds = {stat.S_IFIFO: "FIFO", stat.S_IFLNK: "LNK", stat.S_IFREG: "REG", stat.S_IFSOCK: "SOCK"}
    found = [kinds[stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)] for entry in os.scandir("special")]
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return sorted(found), listening.accept()[0].recv(2), os.read(reader, 1), result_of(os.open, "null", os.O_RDWR)


@call((0, 0, ([], 0, "ENOENT")))
def a_directory_is_read_while_it_changes():
    os.mkdir("changing")
    for at in range(3000):
        os.close(opened(f"changing/{at:04}"))
    seen = []
    with os.scandir("changing") as entries:
        for entry in entries:
            seen.append(entry.name)
            if len(seen) == 100:
                for at in range(0, 3000, 3):
                    os.unlink(f"changing/{at:04}")
                    os.close(opened(f"changing/new-{at:04}"))
    stay = {f"{at:04}" for at in range(3000) if at % 3}
    os.mkdir("removed")
    gone = os.open("removed", os.O_RDONLY)
    os.rmdir("removed")
    return (len(seen) - len(set(seen)), len(stay - set(seen)),
            (os.listdir(gone), os.fstat(gone).st_nlink, result_of(os.open, "f", os.O_CREAT | os.O_RDWR, dir_fd=gone)))


@call((0, b"zz345", "EISDIR", b"12345X", 3))
def flags_of_descriptors_take_effect():
    fd = opened(new("data", b"12345"))
    written = [os.pwritev(fd, [b"zz"], 0, flags) for flags in (os.RWF_DSYNC, os.RWF_SYNC)]
    end = opened(new("end", b"12345"), os.O_RDWR | os.O_APPEND)
    os.pwrite(end, b"X", 0)
    direct = opened(new("direct", b"d" * 8192), os.O_RDWR | os.O_DIRECT)
    return (libc("syncfs", fd) + sum(written) - 4, os.pread(fd, 9, 0), result_of(os.read, os.open(".", os.O_RDONLY), 1),
            os.pread(end, 9, 0), os.pwrite(direct, b"odd", 5))


@call(("EMLINK", LINKS_MAX) if FULL else None)
def a_file_has_a_maximum_of_names():
    if not FULL:
        return None
    new("named-often"), os.mkdir("names")
    for at in range(LINKS_MAX - 1):
        os.link("named-often", f"names/{at}")
    return result_of(os.link, "named-often", "names/more"), os.stat("named-often").st_nlink


def main():
    os.chdir(DIR)
    wrong = 0
    for function, expected in CALLS:
        answered = function()
        if answered != expected:
            wrong += 1
            print(f"{function.__name__}: {answered!r} in place of {expected!r}")
    print(f"{len(CALLS) - wrong} of {len(CALLS)} as on Linux")
    sys.exit(1 if wrong else 0)


main()
