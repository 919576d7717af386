"""What ssh runs on a host: `python -m dq_client.hosts.far_side`. It looks, starts an agent, leaves.

    → check        ← facts            the machine is looked at
    → begin        ← begun, failed    the agent is started, with its keys
    → keep                            the server knows it: this program ends, the agent stays, and
                                      something that keeps it alive (kept_alive.py)
    → end          ← ended            an agent that the server does not reach any more is ended

One JSON object a line on standard input and, after a mark, on standard output, because login shells
print, too. The agent is a session of its own: it outlives this program, the ssh connection and the
`dq up` that began it. Until `keep` it does not: a `dq up` that is interrupted, or a line that
breaks, leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import msgspec

from dq_client.base import credentials, process_tree
from dq_client.base.credentials import Credentials, encode
from dq_client.base.errors import DQError
from dq_client.base.home import Home, is_alive, machine
from dq_client.base.text_files import object_of
from dq_client.deploy.ssh import kept_alive
from dq_client.deploy.ssh.machine import Check, MachineFacts, examine

MARK = "dq: "
LINE_BYTES_MAX = 1 << 20
KEPT_WITHIN_S = 120.0  # from the agent's start; the server's machine gives up long before
ENDS_WITHIN_S = 5.0


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Start the agent of this node; `home` as in the facts."""

    name: str
    home: str
    processors: int
    speed: float
    credentials: Credentials
    memory: int = 0  # bytes; 0: what is found
    gpus: int | None = None  # None: what is found
    features: list[str] = []


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """The agent has reported: leave it alone."""


class End(msgspec.Struct, frozen=True, tag="end"):
    """End the agent of this node, with the processes of its jobs."""

    name: str
    home: str


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """The agent's process runs."""

    pid: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """It does not, or not any more; `why` in one line."""

    why: str


class HostEnded(msgspec.Struct, frozen=True, tag="ended"):
    """`left`: pids that could not be ended; `found`: whether there was anything to end."""

    left: list[int]
    found: bool


Asked = Check | Begin | Keep | End
Answered = MachineFacts | Begun | Failed | HostEnded


def main() -> int:
    """Serve one caller; always 0, what went wrong is said in answers."""
    agent: subprocess.Popen[bytes] | None = None
    until_s, begun = float("inf"), Begin("", "", 0, 0.0, Credentials("", "", ""))
    lines = Lines()
    # The line breaks: what is begun is still to end. Not SIG_IGN, which the agent would inherit,
    # and all ranks from it.
    signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        while True:
            asked = lines.next(min(1.0, until_s - time.monotonic()))
            if agent is not None and agent.poll() is not None:
                say(Failed(_last_words(begun)))
                return 0
            match asked:
                case None if lines.closed or time.monotonic() > until_s:
                    return 0
                case Check():
                    say(examine(asked))
                case Begin():
                    begun = asked
                    if (there := outlived(asked)) is not None:
                        say(Begun(there))
                        continue
                    agent = start(asked)
                    until_s = time.monotonic() + KEPT_WITHIN_S
                    say(Begun(agent.pid))
                case Keep():
                    if agent is not None:
                        agent = None
                        kept_alive.begin(Home(Path(begun.home)), begun.name, described(begun))
                    return 0
                case End():
                    say(end(Home(Path(asked.home)), asked.name))
    except (DQError, OSError, msgspec.MsgspecError) as e:
        say(Failed(str(e)))
        return 0
    finally:
        if agent is not None:
            # Itself first: one that is only starting has not said yet that it runs.
            process_tree.end(agent.pid, signal.SIGQUIT, ENDS_WITHIN_S)
            end(Home(Path(begun.home)), begun.name)


class Lines:
    """Standard input, line by line, with a limit of time."""

    def __init__(self) -> None:
        self.closed = False
        self._buffer = b""
        self._decoder = msgspec.json.Decoder(Asked)

    def next(self, wait_s: float) -> Asked | None:
        """The next message; None when the time is up or nobody is there any more."""
        if b"\n" not in self._buffer and select.select([0], [], [], max(0.0, wait_s))[0]:
            chunk = os.read(0, 1 << 16)
            self.closed = not chunk
            self._buffer += chunk
            if len(self._buffer) > LINE_BYTES_MAX:
                raise OSError("a line without an end")
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return None
        self._buffer = rest
        asked: Asked = self._decoder.decode(line)
        return asked


def say(answer: Answered, to: TextIO | None = None) -> None:
    """One line to the other side; nobody may be there any more."""
    out = sys.stdout if to is None else to
    with contextlib.suppress(OSError):
        out.write(f"{MARK}{msgspec.json.encode(answer).decode()}\n")
        out.flush()


def outlived(begin: Begin) -> int | None:
    """Pid of the agent that has outlived this cluster's server and connects to this one."""
    home = Home(Path(begin.home))
    agent = running(home, begin.name)
    if agent is None:
        return None
    with contextlib.suppress(DQError):
        had, has = credentials.of_agent(home, begin.name), begin.credentials
        if (had.address, had.server_public) == (has.address, has.server_public):
            return agent
    return None


def start(begin: Begin) -> subprocess.Popen[bytes]:
    """The agent: `dq agent run`, which reads its keys from a pipe."""
    home = Home(Path(begin.home))
    home.create()
    home.log.mkdir(mode=0o700, exist_ok=True)
    if running(home, begin.name):
        raise DQError(
            f"agent {begin.name} is running already: dq agent stop {begin.name} there ends it"
        )
    words = [*described(begin), "--credentials", "-"]
    with _errors(begin).open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "dq_client.cli.main", *words],
            env={**os.environ, "DQ_HOME": begin.home},
            stdin=subprocess.PIPE,
            stdout=err,
            stderr=err,
            cwd="/",  # it must not keep a file system from being unmounted
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(encode(begin.credentials).encode() + b"\n")
    process.stdin.close()
    return process


def described(begin: Begin) -> list[str]:
    """The command for the agent of this node, less where it has its keys from."""
    words = ["agent", "run", "--node", begin.name, "--processors", str(begin.processors)]
    words += ["--speed", repr(begin.speed)]
    if begin.memory:
        words += ["--memory", str(begin.memory)]
    if begin.gpus is not None:
        words += ["--gpus", str(begin.gpus)]
    if begin.features:
        words += ["--features", ",".join(begin.features)]
    return words


def _errors(begin: Begin) -> Path:
    return Home(Path(begin.home)).log / f"agent-{begin.name}.err"


def _last_words(begin: Begin) -> str:
    try:
        lines = _errors(begin).read_text().strip().splitlines()
    except OSError:
        lines = []
    return lines[-1].removeprefix("dq: ") if lines else "the agent ended without a word"


def running(home: Home, name: str) -> int | None:
    """Pid of the agent of this name that runs on this machine."""
    try:
        info = object_of(home.agent(name) / "agent.json")
        here = info.get("machine") == machine() and is_alive(info["pid"], info["create_time"])
        return int(info["pid"]) if here else None
    except (OSError, ValueError, KeyError):
        return None


def end(home: Home, name: str) -> HostEnded:
    """End an agent of this machine and all that it started."""
    kept_alive.end(home, name)
    agent, owner = running(home, name), process_tree.Owner(home.root, name)
    found = agent is not None or bool(process_tree.of_agent(owner))
    if agent is not None:
        process_tree.end(agent, signal.SIGQUIT, ENDS_WITHIN_S)  # SIGTERM would let jobs leave first
    until_s = time.monotonic() + ENDS_WITHIN_S
    while (left := process_tree.of_agent(owner)) and time.monotonic() < until_s:
        process_tree.kill(left)
        time.sleep(0.02)
    # Whoever keeps the agent alive, and is only starting, goes by this file.
    (home.agent(name) / "agent.json").unlink(missing_ok=True)
    return HostEnded(left=left, found=found)


if __name__ == "__main__":
    sys.exit(main())
