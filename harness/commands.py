"""The command line of one DQ_HOME, as a user drives it: a process for each `dq` command."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from dq_client.base.home import Home

ROOT = Path(__file__).resolve().parents[1]
DQ = [sys.executable, "-m", "dq_client.cli.main"]


HANG_S = 300.0  # nothing takes as long, on a busy machine neither: what does is a hang


class ClusterError(RuntimeError):
    """A command, the cluster or a job failed; the message has what `dq` said."""


def default_interrupts() -> None:
    """For `preexec_fn`: a shell starts its background jobs with SIGINT ignored, and children
    inherit that. A program that a test interrupts must see Ctrl-C all the same."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_dq(
    *words: object, env: dict[str, str] | None = None, timeout_s: float = HANG_S
) -> subprocess.CompletedProcess[str]:
    """Run `dq WORDS` to its end, whatever its exit code is."""
    return subprocess.run(
        [*DQ, *map(str, words)],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


# Commands that start nothing and end by themselves, but with an option to wait.
ASKING = frozenset(
    {
        *("jobs", "job", "why", "nodes", "submit", "kill", "hold", "release", "resize", "logs"),
        *("node", "reserve", "reservations", "maintenance", "quotas", "acct", "audit", "down"),
        *("server status", "sim replay"),
    }
)
WAITING = frozenset({"--wait", "-f", "--follow"})
OWN_VARIABLES = frozenset({"DQ_HOME", "PATH"})


def can_run_here(words: list[str], env: dict[str, str]) -> bool:
    """Whether a command does the same in this process as in one of its own."""
    differ = {name for name, _ in env.items() ^ os.environ.items()}
    return (
        not ASKING.isdisjoint((" ".join(words[:1]), " ".join(words[:2])))
        and WAITING.isdisjoint(words)
        and differ <= OWN_VARIABLES
        and Path.cwd() == ROOT
        and threading.current_thread() is threading.main_thread()  # streams are the process's
    )


def run_here(words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `dq WORDS` in this process, as `run_dq` does in another: a start costs 0.1 s of CPU."""
    from dq_client.cli.main import main  # the ranks that import this module need no commands

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with patch.dict(os.environ, env), redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as e:
            code = e.code
    assert isinstance(code, int)
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess([*DQ, *words], code, *said)


class CommandLine:
    """The commands of one DQ_HOME."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.env = {**os.environ, "DQ_HOME": str(root)}
        # A job's `python` must be this one, as it is for a user whose venv is active.
        self.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(self, *words: object, timeout_s: float = HANG_S) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever its exit code is."""
        return run_dq(*words, env=self.env, timeout_s=timeout_s)

    def dq(self, *words: object, code: int | None = 0, timeout_s: float = HANG_S) -> str:
        """Run a command; its stdout. `code` is the exit code it must have (None: any).

        Raises:
            ClusterError: the exit code is another.
        """
        done = self.run(*words, timeout_s=timeout_s)
        if code is not None and done.returncode != code:
            text = " ".join(map(str, words))
            raise ClusterError(f"dq {text}: exit code {done.returncode}\n{done.stderr.strip()}")
        return done.stdout

    def submit(self, *words: object) -> int:
        """`dq submit WORDS`; the job's id."""
        return int(json.loads(self.dq("submit", "--json", *words))["job"]["id"])
