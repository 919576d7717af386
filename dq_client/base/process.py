"""Making the process of a rank: its descriptors, environment and folder; and what `ps` shows of it.

A rank is forked from its keeper. It is then executed (any program), or becomes the program without
exec (program.py) where the keeper itself came from a starter of the same interpreter.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable, Iterator, NoReturn, Optional

from . import opened

PADDING_NAME = "DQ_MARKS"
PADDING_BYTES = 4096
ARG_START, ARG_END, ENV_START, ENV_END = 48, 49, 50, 51  # fields of /proc/PID/stat, from 1
FIRST_FREE_FD = 10  # ranks find their sockets above the numbers that shells and programs like
SPARE_FD = 200
SECRETS = ("DQ_JOB_KEY", "DQ_COPY_KEY")
CANNOT_RUN = 127  # as a shell says of a program that cannot be run
PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36

# Signals that batch systems send to every process of a node that they take back. Keepers and
# starters ignore them, and so do ranks on a borrowed node: the agent gets them, and ranks leave.
SITE_SIGNALS = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU}
)
KEEPER_ENDS = signal.SIGALRM  # none of those, and it leaves no core file
_IGNORED: set[signal.Signals] = set()  # by ranks that are forked here, from their start on


@contextmanager
def site_signals_held() -> Iterator[None]:
    """A program that is executed meanwhile starts with these signals blocked; it unblocks them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SITE_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_site_signals(*, ranks: bool = False) -> None:
    """Ignore these signals; `ranks`: so do ranks that are forked here, and what they execute."""
    for number in SITE_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SITE_SIGNALS)
    _IGNORED.update(SITE_SIGNALS if ranks else ())


@dataclass
class Birth:
    """What a rank is to be: `fds` are its descriptors 0, 1, 2; `sockets` by the variable's name."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    fds: tuple[int, int, int]
    sockets: dict[str, int] = field(default_factory=dict)


def fork(birth: Birth, become: Optional[Callable[[Birth], NoReturn]] = None) -> int:
    """Start a rank; its pid. In the rank `become` (which raises) is called instead of exec."""
    pid = os.fork()
    if pid:
        return pid
    try:
        for number in {*SITE_SIGNALS, signal.SIGCHLD, signal.SIGALRM} - _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _place(birth)
        os.chdir(birth.cwd)
        if become is not None:
            _close_others(birth)
            set_environment(birth.env)
            if signal.SIGINT not in _IGNORED:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            show(birth.argv, birth.env)
        else:
            for fd in birth.sockets.values():
                os.set_inheritable(fd, True)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvpe(birth.argv[0], birth.argv, birth.env)  # noqa: S606 - no shell is wanted
    except BaseException as e:
        why = e.strerror if isinstance(e, OSError) else repr(e)
        os.write(2, f"dq: {birth.argv[0]} cannot be run: {why}\n".encode())
        os._exit(CANNOT_RUN)
    assert become is not None, "exec does not return"
    return become(birth)


def _place(birth: Birth) -> None:
    """Put the descriptors where the program expects them."""
    # Upwards first, out of the way: one of them may lie where another belongs.
    wanted = [*birth.fds, *birth.sockets.values()]
    spare = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, SPARE_FD) for fd in wanted]
    for target, fd in enumerate(spare[:3]):
        os.dup2(fd, target)
    for i, name in enumerate(list(birth.sockets)):
        target = os.dup2(spare[3 + i], FIRST_FREE_FD + i, inheritable=False)
        birth.sockets[name], birth.env[name] = target, str(target)
    for fd in spare:
        os.close(fd)


def _close_others(birth: Birth) -> None:
    """Close what the keeper had open: without exec nothing else does."""
    keep = {0, 1, 2, *birth.sockets.values()}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself


def set_environment(wanted: dict[str, str]) -> None:
    """Make os.environ so; most of it is the same, and each change is a call and a copied page."""
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def become_subreaper() -> None:
    """Descendants that lose their parent become this process's children, not init's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def padding() -> dict[str, str]:
    """What a starter needs in its environment, so that `show` has room in what is forked of it."""
    return {PADDING_NAME: "x" * PADDING_BYTES}


def show(argv: list[str], env: dict[str, str]) -> None:
    """Let /proc/PID/cmdline show `argv`, and /proc/PID/environ the DQ variables of `env`.

    A forked process has those of the starter, but people read the first in `ps`, and agents find a
    job's processes by the second (process_tree.py). Both are memory of this process: what
    the starter was given as padding is overwritten. Without padding nothing happens.
    """
    if PADDING_NAME not in os.environ and not _padded():
        return
    marks = [f"{k}={v}" for k, v in env.items() if k.startswith("DQ_") and k not in SECRETS]
    # Short ones first: those that name the owner are short and must fit.
    text = b""
    for mark in sorted(marks, key=len):
        text += os.fsencode(mark) + b"\0"
        if len(text) > PADDING_BYTES:
            break
    start, end = _area(ENV_START, ENV_END)
    block = ctypes.string_at(start, end - start)
    at = _marks_at(block)
    if at >= 0:
        ctypes.memmove(start + at, text[:PADDING_BYTES].ljust(PADDING_BYTES, b"\0"), PADDING_BYTES)
    rename(argv)


def rename(argv: list[str]) -> None:
    """Let `ps` show `argv` as this process's command line, and argv[0] as its name.

    What was executed gave the memory for it, and a longer text is cut. Not by exec: Python finds
    its environment by argv[0], and a process that was forked has its parent's.
    """
    title = os.fsencode(" ".join(argv))
    ctypes.CDLL(None).prctl(PR_SET_NAME, os.fsencode(os.path.basename(argv[0])), 0, 0, 0)
    start, end = _area(ARG_START, ARG_END)
    room = end - start - 2
    # A last byte that is not zero tells the kernel that a process has overwritten its arguments.
    ctypes.memmove(start, title[:room].ljust(room, b"\0") + b"\0.", room + 2)


_MARKS: list[int] = []  # where the padding lies in the environment's memory, once it was found


def _padded() -> bool:
    return bool(_MARKS)


def _marks_at(block: bytes) -> int:
    """Where the padding begins, also when it has been overwritten before; -1: there is none."""
    if not _MARKS:
        at = block.find(PADDING_NAME.encode() + b"=" + b"x" * 64)
        if at >= 0:
            _MARKS.append(at)
    return _MARKS[0] if _MARKS else -1


def _area(first: int, last: int) -> tuple[int, int]:
    fields = opened.kernel("/proc/self/stat").rpartition(b")")[2].split()
    return int(fields[first - 3]), int(fields[last - 3])


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal; a process that is gone does not matter."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


def signal_all(number: int, *roots: int) -> int:
    """Send a signal to every descendant of this process, and of `roots`; how many there were."""
    # Not killpg: it misses descendants that called setsid.
    victims = descendants(os.getpid(), *roots)
    for pid in victims:
        kill(pid, number)
    return len(victims)


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal that ranks ignore from their start on (`_IGNORED`).

    A program may have a handler of its own instead.
    """
    if number not in _IGNORED:
        return False
    try:
        lines = opened.kernel(f"/proc/{pid}/status").splitlines()
    except OSError:
        return False
    ignored = next((int(line.split()[1], 16) for line in lines if line.startswith(b"SigIgn:")), 0)
    return bool(ignored >> (number - 1) & 1)


def terminate_all(*roots: int) -> None:
    """SIGTERM to all descendants of this process and of `roots`; SIGKILL where it is ignored."""
    for pid in descendants(os.getpid(), *roots):
        kill(pid, signal.SIGKILL if ignores(pid, signal.SIGTERM) else signal.SIGTERM)


def reap_all() -> None:
    """Collect all children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def has_variable(pid: int, mark: bytes) -> bool:
    """Whether a process was executed with this variable, as NAME=value, in its environment."""
    try:
        return mark in opened.kernel(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return False


def descendants(*roots: int) -> list[int]:
    """All processes below `roots`, from /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = opened.kernel(f"/proc/{name}/stat")
                parent = int(stat.rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = list(roots)
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot: with the pid it names the process."""
    return int(opened.kernel(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19])


def resident_bytes() -> int:
    """Memory that this process keeps."""
    return int(opened.kernel("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGESIZE")


def claim(folder: str) -> bool:
    """Make FOLDER/claim; False if somebody has, or the folder is gone: then nothing may run."""
    me = os.getpid()
    draft = f"{folder}/claim.{me}"
    try:
        opened.write(draft, f"{me} {start_ticks(me)}".encode())
        os.link(draft, f"{folder}/claim")  # fails if it exists: the file is whole, and made once
    except (FileExistsError, FileNotFoundError):
        return False
    finally:
        try:
            os.unlink(draft)
        except OSError:
            pass
    return True


def write(path: str, text: str) -> None:
    """Write a file atomically: a reader never sees half of it."""
    opened.write(path, text.encode())


def names(code: int) -> str:
    """How a process ended, in words: `exit code 3`, or `signal 9 (SIGKILL)` for 137 or -9."""
    number = -code if code < 0 else code - 128
    if code < 0 or 128 < code < 128 + 65:
        try:
            return f"signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"signal {number}"
    return f"exit code {code}"


if sys.platform != "linux":  # pragma: no cover
    raise ImportError("DQ starts ranks on Linux only")
