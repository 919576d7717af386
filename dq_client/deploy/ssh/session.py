"""One host: its ssh connection, and what is asked of it there (remote_bootstrap.py).

ssh is the user's own, with their configuration and keys, and asks no questions (BatchMode).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import subprocess
import tempfile
import time
from typing import TypeVar

import msgspec

from dq_client.base.errors import DQError
from dq_client.deploy.cluster import Host
from dq_client.deploy.ssh.remote_bootstrap import MARK, Answered, Asked, Failed

CONNECT_S = 10
ENDS_WITHIN_S = 10.0  # the far side, with what it has begun
LOOK_S = 0.25
ANSWER_WITHIN_S = 90.0  # imports from a slow file system, a trial of MPI
SSH = (
    "ssh", "-T", "-x",
    "-o", "BatchMode=yes",
    "-o", f"ConnectTimeout={CONNECT_S}",
    # A line that breaks meanwhile is noticed within 15 s.
    "-o", "ServerAliveInterval=5",
    "-o", "ServerAliveCountMax=3",
)  # fmt: skip
SSH_FAILED = 255
_decoder = msgspec.json.Decoder(Answered)
A = TypeVar("A", bound=Answered)


class HostProblem(DQError):
    """A host cannot be used, or cannot be reached; one line that names it."""


class HostSession:
    """A connection to one host. `close` ends what was begun there and not kept."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._buffer = b""
        self._hung_up = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the session
        far_side = f"exec {shlex.quote(host.python)} -m dq_client.hosts.far_side"
        # The machine itself need not let its user in by ssh.
        here = host.name == os.uname().nodename
        try:
            self._process = subprocess.Popen(
                ["sh", "-c", far_side] if here else [*SSH, host.name, far_side],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C is for `dq up`, which then closes the sessions
            )
        except OSError as e:
            self._errors.close()
            raise HostProblem(f"{host.name}: ssh cannot be run: {e.strerror}") from e

    def ask(self, asked: Asked, kind: type[A], within_s: float = ANSWER_WITHIN_S) -> A:
        """Send and wait for an answer of this kind; HostProblem if another or none comes."""
        self.tell(asked)
        answer = self.next(within_s)
        if answer is None:
            raise self.problem(f"no answer within {within_s:g} s")
        if not isinstance(answer, kind):
            raise self.problem(answer.why if isinstance(answer, Failed) else "it says nonsense")
        return answer

    def tell(self, asked: Asked) -> None:
        """Send without an answer."""
        assert self._process.stdin is not None
        # What is amiss is known when an answer is waited for. ValueError: another thread hung up.
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(msgspec.json.encode(asked) + b"\n")
            self._process.stdin.flush()

    def next(self, within_s: float) -> Answered | None:
        """The next answer, None when the time is up; HostProblem if the connection has ended."""
        assert self._process.stdout is not None
        until_s = time.monotonic() + within_s
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if line.startswith(MARK.encode()):
                    return self._decoded(line.removeprefix(MARK.encode()))
                continue  # from a login shell
            left_s = max(0.0, until_s - time.monotonic())
            if not select.select([self._process.stdout], [], [], min(LOOK_S, left_s))[0]:
                if self._hung_up:
                    raise self.problem("interrupted")
                if left_s <= LOOK_S:
                    return None
                continue
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._ended()
            self._buffer += chunk

    def _decoded(self, line: bytes) -> Answered:
        try:
            answer: Answered = _decoder.decode(line)
        except msgspec.MsgspecError as e:
            raise self.problem(f"another version of DQ answers there ({e})") from e
        return answer

    def problem(self, why: str) -> HostProblem:
        """What is wrong with this host, in one line that names it."""
        return HostProblem(f"{self.host.name}: {why}")

    def _ended(self) -> HostProblem:
        """Why the far side is gone: ssh failed, there is no such Python, or no DQ in it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()
        last = words.splitlines()[-1].strip() if words else ""
        code, python = self._process.returncode, self.host.python
        if code == SSH_FAILED:
            return self.problem(
                _key_problem(words, self.host.name)
                or f"ssh fails: {last or 'no reason given'} (try ssh {self.host.name})"
            )
        if code in (126, 127):
            return self.problem(f"no Python at {python}: name one by `python` in [[nodes]]")
        if "No module named" in last or "Error while finding module" in last:
            return self.problem(
                f"{python} has no DQ, or another version of it ({last.rpartition(': ')[2]}):"
                " install the same one there, or name another `python` in [[nodes]]"
            )
        return self.problem(f"{python} failed there with exit code {code}: {last}")

    def hang_up(self) -> None:
        """From another thread: the far side sees the end of its input, who waits here goes on."""
        self._hung_up = True
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """The far side ends by itself, and the agent with it unless it was kept."""
        self.hang_up()
        process = self._process
        assert process.stdout is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDS_WITHIN_S)
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        self._errors.close()


def _key_problem(words: str, name: str) -> str:
    """What is wrong with the host key, with the remedy; empty if ssh complains of something else.

    `words`: all that ssh has printed. Its last line is the same for a changed and an unknown key.
    """
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in words:
        where = re.search(r"^Offending (.+ key in .+?)\s*$", words, re.MULTILINE)
        known = f" (known: {where[1]})" if where else ""
        return (
            f"its ssh host key has changed{known}: another machine may answer in its place; ask its"
            f" administrator why. If the new key is right: ssh-keygen -R {name}, then ssh {name}"
            " once to accept it"
        )
    unknown = "Host key verification failed." in words or "host key is known for" in words
    if not unknown or "REVOKED HOST KEY" in words:
        return ""
    return f"its ssh host key is not known here: ssh {name} once, compare the key, and accept it"
