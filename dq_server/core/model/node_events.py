"""Events of nodes that come and go; a part of events.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node offers processors. Joining again under the same name brings it back.

    One that is up has what it says from now on; what ran on processors that are gone is lost.
    """

    node: str
    processors: int
    speed: float = 1.0  # relative to the others
    memory: int = 0  # bytes; 0: not known
    gpus: int = 0
    features: tuple[str, ...] = ()
    until_s: float | None = None  # its time ends then; None: not known, or an engine says so


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node no longer answers: its processors are gone, jobs on it must end everywhere."""

    node: str
    why: str = "no heartbeat"


@dataclass(frozen=True, slots=True)
class BackgroundLoad:
    """Processes outside DQ keep so many processors of a machine busy, others than before.

    nodes  of the machine
    """

    nodes: tuple[str, ...]
    processors: float
