"""The machine: its nodes and processors, and all processes on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.world import World

NODES = ("n1", "n2", "n3")
MACHINE = "the machine"  # all nodes are on it
PROCESSORS = 2  # of each node
FORMER = -1  # minus a processor: one that had its number before a loss of events


@dataclass
class Process:
    """An application: where it runs, and how it will end."""

    job: int
    instance: int
    places: list[int]
    ends_s: float
    code: int
    pid: int
    node: str  # where its launcher runs
    over: bool = False
    torn: bool = False  # ranks ended with their agent: the others wait for them
    left: bool = False  # its ranks end for a resize: the job is not done
    where: dict[int, str] = field(default_factory=dict)  # processor -> node

    def stands_on(self) -> set[str]:
        """The nodes of ranks that are part of the job, or were in the end."""
        return set(self.where.values())

    def ended_well(self) -> bool:
        """Whether it is certain that all of its ranks have ended well, and that this was seen."""
        return False

    def check_done(self) -> None:
        """The server says that the job is done: Wrong if that is not so."""
        if self.left:
            raise Wrong(f"job {self.job} is done, and its ranks have ended for a resize")


class Machine:
    """All processes there are. They know nothing of servers and agents."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on: dict[int, tuple[int, int]] = {}  # processor -> job, instance
        self.starts: set[tuple[int, int]] = set()  # job and instance
        self.pids: dict[int, tuple[int, int]] = {}
        self.processes: dict[tuple[int, int], Process] = {}
        self.orders: dict[tuple[int, int, int], Any] = {}  # of worlds: job, instance, world
        self.copies: dict[int, int] = {}  # job -> resize by restart whose copy is to be used
        self.unwanted: set[str] = set()  # proxies whose launcher has given up

    def occupy(self, process: Process, processors: list[int]) -> None:
        for p in processors:
            if p in self.on:
                if not self.means_another(p, process):
                    raise Wrong(f"job {process.job} and job {self.on[p][0]} both run on {p}")
                self.on[FORMER - p] = self.on[p]
            self.on[p] = (process.job, process.instance)

    def means_another(self, p: int, process: Process) -> bool:
        """Whether who runs on `p` got it before a loss of events, as the number of another one."""
        other = self.processes.get(self.on[p])
        if other is None or p not in other.where:
            return False
        return self.world.store.lost and other.where[p] != process.where[p]

    def leave(self, process: Process, processors: list[int]) -> None:
        for p in (*processors, *(FORMER - p for p in processors)):
            if self.on.get(p) == (process.job, process.instance):
                del self.on[p]

    def end(self, process: Process) -> None:
        process.over = True
        self.leave(process, list(self.on))
