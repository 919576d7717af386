"""The port of batch systems: each node of the pool is a job there, a *holder*.

A holder is found by its name in the batch system, which has the cluster and the ticket: so nothing
about it can get lost between this side and that, whichever of the two is killed when.

Commands run with a time limit, because a batch system may be away for long. Each error is a
`Refusal` (it has said no) or `Unclear` (it has not answered), and begins with the system's name.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from dq_client.base.errors import DQError

KILLED_AFTER_S = 2  # a command that does not end on SIGTERM
TIMED_OUT = (124, 137)  # what timeout(1) ends with


class Refusal(DQError):
    """It will not come, for the reason given."""


class Unclear(DQError):
    """No answer: what was asked may have been done, or be done later."""


class TicketPhase(StrEnum):
    """How far a node is."""

    PENDING = "pending"  # asked for, not granted
    RUNNING = "running"  # granted: its agent starts, or has started
    REVOKED = "revoked"  # granted and taken back: what is left there is ended after `left_s`
    FAILED = "failed"  # it will not come, but the engine keeps it until it is given back
    ENDED = "ended"  # the engine has it no more


@dataclass(frozen=True, slots=True)
class Has:
    """What an engine has under a ticket. More than one with the same ticket is a mistake of ours.

    key     by which it is given back
    why     in the engine's words
    place   where it is, in the engine's words; empty: not known
    left_s  of its time; None: it may stay for as long as it is wanted. If REVOKED: until the
            engine ends what is left there; None: not known
    """

    ticket: int
    key: str
    phase: TicketPhase
    why: str
    place: str = ""
    left_s: float | None = None


@dataclass(frozen=True, slots=True)
class HolderRequest:
    """Nodes to ask a batch system for.

    tickets  consecutive numbers
    folder   that all nodes see
    home     DQ_HOME of the server
    grace_s, kill_wait_s  as in Site; 0: there is no grace
    """

    cluster: str
    tickets: Sequence[int]
    processors: int
    folder: str
    python: str
    home: str
    grace_s: float
    kill_wait_s: float

    def agent(self, notices: Mapping[str, float]) -> list[str]:
        """The command of a holder's agent; the script adds `--holder`, its ticket.

        `notices`: how long after which signal the system kills what is left, as in `TERM`: 30 s.
        """
        return [
            "env",
            f"DQ_HOME={self.home}",
            self.python,
            *("-P", "-m", "dq_client.cli.main", "agent", "run"),
            f"--processors={self.processors}",
            f"--credentials={self.folder}/credentials",
            *(f"--notice={name}={_notice_s(s):g}s" for name, s in notices.items()),
        ]


def _notice_s(left_s: float) -> float:
    """A little before the system's own end: what is left then is ended by the agent."""
    return left_s - min(1.0, left_s / 8)


# Of the script of every holder: around the command of its agent, which gets the system's signals.
BEGINS = """\
trap '' HUP INT USR1 XCPU
trap 'kill -TERM $agent 2>/dev/null' TERM
trap 'kill -USR2 $agent 2>/dev/null' USR2"""
# A trap ends `wait`, but not the agent.
WAITS = """\
wait $agent
code=$?
while kill -0 $agent 2>/dev/null; do wait $agent; code=$?; done"""


def output(folder: str, ticket: int | str) -> str:
    """The file with what a holder says."""
    return f"{folder}/holder-{ticket}.out"


@dataclass(frozen=True, slots=True)
class BatchSite:
    """What `dq up` asks a batch system about itself.

    nodes        addresses or names of those that holders may be on
    kill_wait_s  between the notice to a holder that it ends, and its end
    grace_s      what it is left if it is preempted; None: kill_wait_s
    lasts_s      the time of a holder for which none is asked; None: no limit
    """

    nodes: Sequence[str]
    kill_wait_s: float
    grace_s: float | None = None
    lasts_s: float | None = None


class System(Protocol):
    """See the module's docstring. Each call: Refusal; Unclear.

    name     in messages
    at_once  how many nodes one request may be for
    noise    what the system itself writes into a holder's output, but for a group: the cause
    """

    name: str
    at_once: int
    noise: re.Pattern[str]

    def site(self, processors: int) -> BatchSite:
        """About itself; UsageError if nodes of so many processors cannot be asked for."""

    def submit(self, request: HolderRequest) -> None:
        """Ask for a holder for each ticket of the request."""

    def holders(self, cluster: str) -> list[Has]:
        """All holders of the cluster, the oldest first; for a while also those that have ended."""

    def cancel(self, keys: Sequence[str]) -> None:
        """End these holders; those that have ended already are no error."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """How the commands of a batch system are run.

    away    what is said by a command that has not reached its system
    noise   lines of an error that say nothing
    hidden  variables by which a command would become part of the job that this process runs in
    kept    of these: where the system is
    """

    system: str
    away: re.Pattern[str]
    noise: re.Pattern[str]
    hidden: tuple[str, ...]
    kept: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """For commands, and for what they start."""
        hidden = (*self.hidden, "DQ_")
        inherited = os.environ.items()
        return {
            **{k: v for k, v in inherited if k in self.kept or not k.startswith(hidden)},
            **self.variables,
        }

    def run(self, words: Sequence[str], within_s: float, given: str = "") -> str:
        """Standard output of a command. Refusal with its last line; Unclear if it takes too long.

        `given`: its standard input.
        """
        silent = f"{self.system}: {words[0]} has not answered for {within_s:g} s"
        # By timeout(1), so that the command ends in time even if this process is killed meanwhile.
        limited = ["timeout", "-k", str(KILLED_AFTER_S), f"{within_s:g}", *words]
        try:
            done = subprocess.run(
                limited,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                env=self.environment(),
                timeout=within_s + 2 * KILLED_AFTER_S,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise Unclear(silent) from None
        except OSError as e:
            raise Refusal(f"{self.system}: {words[0]} cannot be run: {e.strerror}") from e
        if done.returncode in TIMED_OUT:
            raise Unclear(silent)
        if done.returncode == 127 and "No such file" in done.stderr:
            raise Refusal(f"there is no {words[0]} here: is {self.system} installed?")
        if done.returncode != 0:
            raise self._failed(words[0], done.stderr + done.stdout, done.returncode)
        return done.stdout

    def _failed(self, command: str, said: str, code: int) -> DQError:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        lines = [line for line in lines if not self.noise.search(line)]
        last = lines[-1].removeprefix(f"{command}: error: ") if lines else f"exit code {code}"
        kind = Unclear if self.away.search(said) else Refusal
        return kind(f"{self.system}: {command}: {last}")
