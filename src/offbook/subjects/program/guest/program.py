"""Runs a program as Python itself would: as `__main__`, with its arguments, path, traceback and exit code."""

from __future__ import annotations

import atexit
import builtins
import gc
import io
import os
import sys
import threading
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

FLUSH_FAILED = 120
_exit_now = os._exit


class Program:
    """A program: a `file`, a `module` or a `code`, which is `target`, and its arguments.

    `command` is the whole command line, as the system has it.
    """

    def __init__(self, *, kind: str, target: str, arguments: list[str], command: list[str]) -> None:
        self._kind, self._target, self._arguments, self._command = kind, target, arguments, command

    @property
    def folders(self) -> list[str]:
        """The folders of the program's own modules: its file's, and the working directory."""
        beside = [os.path.dirname(os.path.realpath(self._target))] if self._kind == "file" else []
        return [*beside, os.getcwd()]

    def prepare(self) -> None:
        """Set `sys` and `__main__` as before the first line of the program."""
        first = {"file": self._target, "module": "-m", "code": "-c"}[self._kind]
        sys.argv[:] = [first, *self._arguments]
        sys.orig_argv[:] = self._command
        if not sys.flags.safe_path:
            sys.path[0] = {"file": self.folders[0], "module": os.getcwd(), "code": ""}[self._kind]
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__dict__.update(__builtins__=builtins, __annotations__={})
        if self._kind == "file":
            file = os.path.abspath(self._target)
            main.__dict__.update(__file__=file, __cached__=None, __loader__=SourceFileLoader("__main__", file))

    def run(self) -> int:
        """Run it to its end and return its exit code."""
        try:
            code = self._run_main()
            vars(threading)["_shutdown"]()
            atexit._run_exitfuncs()
        except SystemExit as error:
            code = _exit_code(error)
        except BaseException as error:
            code = _report(error)
        return _flush(code)

    def _run_main(self) -> int:
        try:
            self._execute()
        except SystemExit as error:
            return _exit_code(error)
        except BaseException as error:
            return _report(error)
        return 0

    def _execute(self) -> None:
        names = sys.modules["__main__"].__dict__
        if self._kind == "module":
            import runpy

            vars(runpy)["_run_module_as_main"](self._target)
            return
        if self._kind == "code":
            code = _compile(self._target, "<string>")
            _show_lines_of(code, self._target)
        else:
            with open(self._target, "rb") as file:
                code = _compile(file.read(), os.path.abspath(self._target))
        exec(code, names)  # noqa: S102 - this is what Python does


def _compile(source: str | bytes, name: str) -> CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def _show_lines_of(code: CodeType, source: str) -> None:
    """Let tracebacks show the lines of `-c` code, as in Python 3.13 and later."""
    if sys.version_info < (3, 13):
        return
    import linecache

    key = code if "_interactive_cache" in vars(linecache) else "<string>"  # 3.13.0 knows it by its name
    vars(linecache)["_register_code"](key, source, "<string>")


def join_threads_at_exit() -> None:
    """Join non-daemon threads on the run's clock, after the hooks of pools that end them.

    Python calls these hooks in reverse, so this must be called before any pool is loaded.
    """
    vars(threading)["_register_atexit"](_join_threads)


def _join_threads() -> None:
    own = threading.current_thread()
    while others := [each for each in threading.enumerate() if each is not own and not each.daemon]:
        for each in others:
            each.join()


def _exit_code(error: SystemExit) -> int:
    """Return the exit code, and print it if it is not one."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        print(code, file=sys.stderr)
    return 1


def _report(error: BaseException) -> int:
    """Print the traceback as Python does, without the frames of this file, and return the exit code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit as exiting:
        return _exit_code(exiting)
    except BaseException:
        sys.__excepthook__(type(error), error, trace)
    if isinstance(error, KeyboardInterrupt):
        _die_of_interrupt()
    return 1


def _die_of_interrupt() -> None:
    import signal

    _flush(0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _flush_files() -> None:
    """Flush open files, which Python closes when it ends."""
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for each in gc.get_objects():
        if type(each) in kinds:
            with suppress(Exception):
                each.flush()


def _flush(code: int) -> int:
    for stream, is_checked in ((sys.stdout, True), (sys.stderr, False)):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            if is_checked:
                code = FLUSH_FAILED
    _flush_files()
    return code
