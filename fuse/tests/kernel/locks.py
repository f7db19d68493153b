"""Calls that its parent asks for, one a line: files, and locks of fcntl(2) and flock(2). Each is answered by one line."""
import errno, fcntl, os, signal, struct, sys

files = {}
TYPES = {'r': fcntl.F_RDLCK, 'w': fcntl.F_WRLCK, 'u': fcntl.F_UNLCK}
FLOCKS = {'r': fcntl.LOCK_SH, 'w': fcntl.LOCK_EX, 'u': fcntl.LOCK_UN}
# F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
COMMANDS = {'posix': {'get': 5, 'try': 6, 'wait': 7}, 'ofd': {'get': 36, 'try': 37, 'wait': 38}}
LAYOUT = 'hhxxxxqqixxxx'

def interrupted(number, frame):
    raise InterruptedError(errno.EINTR, 'a signal')

def call(op, name, *rest):
    if op == 'open':
        files[name] = os.open(rest[0], os.O_RDWR | os.O_CREAT)
    elif op == 'close':
        os.close(files.pop(name))
    elif op == 'dup':
        files[rest[0]] = os.dup(files[name])
    elif op == 'alarm':
        signal.setitimer(signal.ITIMER_REAL, float(name))
    elif op == 'fork':
        if os.fork() == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(3)
            signal.pause()
    elif op == 'later':
        # Another thread opens and closes the file while this one waits.
        import threading
        threading.Timer(float(rest[0]), lambda: os.close(os.open(rest[1], os.O_RDWR))).start()
    elif op == 'write':
        os.pwrite(files[name], rest[0].encode(), 0)
    elif op == 'read':
        return os.pread(files[name], 100, 0).decode() or '-'
    elif op == 'flock':
        how, mode = rest
        fcntl.flock(files[name], FLOCKS[mode] | (0 if how == 'wait' else fcntl.LOCK_NB))
    else:
        how, mode, first, length = rest
        pid = 0
        lock = struct.pack(LAYOUT, TYPES[mode], 0, int(first), int(length), pid)
        lock = fcntl.fcntl(files[name], COMMANDS[op][how], lock)
        if how == 'get':
            kind, _, first, length, pid = struct.unpack(LAYOUT, lock)
            if kind == fcntl.F_UNLCK:
                return 'free'
            return f"{'r' if kind == fcntl.F_RDLCK else 'w'} {first} {length} {pid}"
    return 'ok'

signal.signal(signal.SIGALRM, interrupted)
print(os.getpid(), flush=True)
for line in sys.stdin:
    try:
        print(call(*line.split()), flush=True)
    except OSError as error:
        print('EDEADLK' if error.errno == errno.EDEADLK else errno.errorcode[error.errno], flush=True)
