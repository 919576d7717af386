"""The supervisor of one process tree of a job: it outlives the agent and keeps the exit code.

    python -I -S keeper.py FOLDER CWD OUT ERR PROGRAM ARGS...

It declares itself a subreaper, so descendants that call setsid or lose their parent become its
children instead of init's. When PROGRAM has ended it writes the exit code to FOLDER/exit and kills
whatever is left of the tree. SIGTERM to the keeper ends the tree: SIGTERM to every descendant, then
SIGKILL after GRACE_S. It imports next to nothing because every start of a job waits for it.

At most one program is ever run per folder. Before it starts PROGRAM the keeper claims the folder:
it makes the file FOLDER/claim, with its pid and start time, which can be made only once. An agent
that starts and finds a folder without a claim makes the claim itself, and a keeper that comes
second exits. So an agent killed in the middle of a launch leads to one run, or to none and a launch
by its successor, never to two.
"""

import ctypes
import os
import signal
import sys
import time

GRACE_S = 2.0
KILL_AGAIN_S = 0.1
WRITE_FOR_S = 60.0  # how long a full disk may keep the exit code from being written
PR_SET_CHILD_SUBREAPER = 36


def descendants(root: int) -> list[int]:
    """All processes below `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is slow to import
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as f:
                    parent = int(f.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def signal_all(number: int) -> int:
    """Send a signal to every descendant; returns how many there were."""
    # Not killpg: it misses descendants that called setsid.
    victims = descendants(os.getpid())
    for pid in victims:
        try:
            os.kill(pid, number)
        except OSError:
            continue
    return len(victims)


def write(path: str, text: str) -> None:
    """Write a file atomically: a reader never sees half of it."""
    with open(path + ".draft", "w") as f:
        f.write(text)
    os.replace(path + ".draft", path)  # noqa: PTH105


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot: with the pid it names the process."""
    with open(f"/proc/{pid}/stat", "rb") as f:
        return int(f.read().rpartition(b")")[2].split()[19])


def claim(folder: str) -> bool:
    """Make FOLDER/claim; False if somebody has, or the folder is gone: then nothing may run."""
    me = os.getpid()
    draft = f"{folder}/claim.{me}"
    try:
        with open(draft, "w") as f:
            f.write(f"{me} {start_ticks(me)}")
        os.link(draft, f"{folder}/claim")  # fails if it exists: the file is whole, and made once
    except (FileExistsError, FileNotFoundError):
        return False
    finally:
        try:  # noqa: SIM105 - contextlib is slow to import
            os.unlink(draft)  # noqa: PTH108
        except OSError:
            pass
    return True


def start(cwd: str, out: str, err: str, argv: list[str]) -> int:
    """Start the program; returns its pid. Exits 127 in the child if it cannot be run."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(os.open(out, flags, 0o600), 1)
        os.dup2(os.open(err, flags, 0o600), 2)
        os.chdir(cwd)
        os.execvp(argv[0], argv)  # noqa: S606 - an argv list, no shell
    except OSError as e:
        os.write(2, f"dq: {argv[0]} cannot be run: {e.strerror}\n".encode())
    finally:
        os._exit(127)


class Keeper:
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
        while time.monotonic() < until:
            try:
                write(f"{self.folder}/exit", str(code))
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
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.005)


def main() -> int:
    """See the module's docstring."""
    folder, cwd, out, err, *argv = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Keeper(folder)
    signal.signal(signal.SIGALRM, keeper.kill_all)
    signal.signal(signal.SIGTERM, keeper.terminate)
    if not claim(folder):
        return 0
    code = keeper.wait_for(start(cwd, out, err, argv))
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    keeper.clear()
    keeper.report(code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
