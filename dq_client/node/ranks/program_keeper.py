"""The keeper of one program, MPI's launcher or one of its proxies, with all its descendants.

    python -I -S boot.py program FOLDER CWD OUT ERR PROGRAM ARGS...

For `launcher = "mpiexec"` (DQ's own ranks have keeper.py). It declares itself a subreaper, so
descendants that call setsid or lose their parent become its children instead of init's. When
PROGRAM has ended it writes the exit code to FOLDER/exit and kills whatever is left of the tree.
SIGTERM to the keeper ends the tree: SIGTERM to every descendant, then SIGKILL after GRACE_S.

At most one program is ever run per folder (process.claim). So an agent killed in the middle of a
launch leads to one run, or to none and a launch by its successor, never to two.
"""

from __future__ import annotations

import os
import signal
import time

from ...base import process
from ...base.opened import open_output
from ...base.process import reap_all, signal_all
from .keeper import GRACE_S, KILL_AGAIN_S, WRITE_FOR_S


def start(cwd: str, out: str, err: str, argv: list[str]) -> int:
    """Start the program; returns its pid. Exits 127 in the child if it cannot be run."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(open_output(out, flags), 1)
        os.dup2(open_output(err, flags), 2)
        os.chdir(cwd)
        os.execvp(argv[0], argv)  # noqa: S606 - an argv list, no shell
    except OSError as e:
        os.write(2, f"dq: {argv[0]} cannot be run: {e.strerror}\n".encode())
    finally:
        os._exit(127)


class ProgramKeeper:
    """Waits for the tree; `terminating`: SIGTERM has come, SIGKILL follows."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.terminating = False

    def terminate(self, *_: object) -> None:
        """SIGTERM arrived: end the tree, and kill by an alarm what is left after GRACE_S."""
        if not self.terminating:
            self.terminating = True
            # An alarm, because Python's waitpid goes on waiting after a signal: a program that
            # ignores SIGTERM would never be killed.
            signal.setitimer(signal.ITIMER_REAL, GRACE_S, KILL_AGAIN_S)
            signal_all(signal.SIGTERM)

    def kill_all(self, *_: object) -> None:
        """The grace is over."""
        signal_all(signal.SIGKILL)

    def wait_for(self, main: int) -> int:
        """Reap until the main process has ended; returns its exit code (128 + signal)."""
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == main:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def report(self, code: int) -> None:
        """Leave the exit code where the agent finds it, also if the disk is full for a while."""
        until = time.monotonic() + WRITE_FOR_S
        while not self.terminating or time.monotonic() < until:
            try:
                process.write(f"{self.folder}/exit", str(code))
            except FileNotFoundError:
                return  # the folder is gone: the agent has forgotten this tree
            except OSError:
                time.sleep(0.5)
            else:
                return

    def clear(self) -> None:
        """Kill and reap what is left of the tree."""
        # Again and again: a process may fork between the listing and the signal.
        while signal_all(signal.SIGKILL):
            reap_all()
            time.sleep(0.005)


def main(words: list[str]) -> int:
    folder, cwd, out, err, *argv = words
    process.become_subreaper()
    # One that came before there is a program would reach nothing, and the program run for GRACE_S.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    keeper = ProgramKeeper(folder)
    signal.signal(signal.SIGALRM, keeper.kill_all)
    signal.signal(signal.SIGTERM, keeper.terminate)
    if not process.claim(folder):
        return 0
    program = start(cwd, out, err, argv)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    code = keeper.wait_for(program)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    keeper.clear()
    keeper.report(code)
    return 0
