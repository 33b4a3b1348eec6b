"""Makes this process one that lacks what Windows lacks, with a fake of msvcrt. Run before anything of offbook loads."""

import errno
import fcntl as real_fcntl
import importlib.abc
import os
import signal
import sys
import types

ABSENT = ("fcntl", "resource", "termios", "pwd", "grp", "tty", "pty")


class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ABSENT:
            raise ImportError(f"No module named {name!r}")


def locking(fd, mode, size):
    """Lock a byte as msvcrt does: exclusively, from the position of the file."""
    kinds = {0: real_fcntl.LOCK_UN, 1: real_fcntl.LOCK_EX, 2: real_fcntl.LOCK_EX | real_fcntl.LOCK_NB}
    try:
        real_fcntl.flock(fd, kinds[mode])
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


def hide():
    for name in ABSENT:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    sys.modules["msvcrt"] = types.SimpleNamespace(LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2, locking=locking)
    for name in ("fork", "register_at_fork", "geteuid", "getuid", "mkfifo", "setsid", "killpg"):
        delattr(os, name)
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_NOFOLLOW", "O_DIRECTORY"):
        delattr(os, name)
    for name in ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGQUIT", "SIGTSTP", "SIGCONT", "SIGUSR1", "SIGUSR2"):
        delattr(signal, name)
