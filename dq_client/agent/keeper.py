"""The parent of one process tree of a job: outlives the agent, keeps the exit code, loses nobody.

    python -I -S keeper.py FOLDER CWD OUT ERR PROGRAM ARGS...

It declares itself subreaper, so descendants that call setsid or lose their parent become its
children instead of init's. When PROGRAM has ended its exit code goes to FOLDER/exit and whatever is
left of the tree is killed. SIGTERM to the keeper ends the tree: SIGTERM to everybody, then SIGKILL
after GRACE_S. It imports next to nothing because every start of a job waits for it.
"""

import ctypes
import os
import signal
import sys
import time

GRACE_S = 2.0
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
    victims = descendants(os.getpid())
    for pid in victims:
        try:
            os.kill(pid, number)
        except OSError:
            continue
    return len(victims)


def write(path: str, text: str) -> None:
    """All or nothing: a reader never sees half a file."""
    with open(path + ".draft", "w") as f:
        f.write(text)
    os.replace(path + ".draft", path)  # noqa: PTH105


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
    """Waits for the tree; `dying` is when SIGTERM turns into SIGKILL."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.dying = 0.0

    def terminate(self, *_: object) -> None:
        """SIGTERM arrived: end the tree."""
        if not self.dying:
            self.dying = time.monotonic() + GRACE_S
            signal_all(signal.SIGTERM)

    def wait_for(self, main: int) -> int:
        """Reap until the main process has ended; returns its exit code (128 + signal)."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG if self.dying else 0)
            if pid == main:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if self.dying:
                if time.monotonic() >= self.dying:
                    signal_all(signal.SIGKILL)
                time.sleep(0.02)

    def clear(self) -> None:
        """Kill and reap what is left of the tree."""
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
    signal.signal(signal.SIGTERM, keeper.terminate)
    code = keeper.wait_for(start(cwd, out, err, argv))
    write(f"{folder}/exit", str(code))
    keeper.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
