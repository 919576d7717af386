"""CPU time and memory of the jobs' processes, by rank: measured for heartbeats, from /proc.

The kernel counts a process's CPU time and that of the children it has waited for. A job's keeper
waits for every rank, so the sum over a keeper's tree is all that the job has used here, however
short its processes lived and however often the agent was started again. Memory is resident memory:
pages that several processes share count for each of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dq_client.base import messages as m
from dq_client.base import opened, process_tree
from dq_client.node.agent.holdings import Tree
from dq_client.node.ranks.adoption import adopted

EVERY_S = 4.0
SHARE = 1 / 500  # of one processor, at most: a look at 300 processes takes 5 ms
TICKS_PER_S, PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
RANK_VARIABLES = ("DQ_RANK", "PMI_RANK")  # of DQ's own ranks, of mpiexec's

Instance = tuple[int, int]  # job and the number of its start
Rank = tuple[str, int, int]  # node, world, number in it


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc. `waited_s`: CPU time of children that it has waited for."""

    parent: int
    start: int
    cpu_s: float
    waited_s: float
    memory: int  # bytes


Table = Mapping[int, Process]


def process(pid: int) -> Process | None:
    """One process; None if it has ended."""
    try:
        words = opened.kernel(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return None
    user, system, user_waited, system_waited = map(int, words[11:15])
    return Process(
        int(words[1]),
        int(words[19]),
        (user + system) / TICKS_PER_S,
        (user_waited + system_waited) / TICKS_PER_S,
        int(words[21]) * PAGE_BYTES,
    )


def processes() -> Table:
    """All processes that can be seen, by pid."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - pathlib is slow
    return {pid: found for pid in pids if (found := process(pid)) is not None}


def below(table: Table, roots: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(pid, parent) of each process of these trees, parents first; a root is its own parent."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    todo = [(root, root) for root in dict.fromkeys(roots) if root in table]
    while todo:
        pid, parent = todo.pop()
        yield pid, parent
        todo += [(child, pid) for child in children.pop(pid, ())]


def rank_of(pid: int) -> Rank | None:
    """The rank that a process says it belongs to, by its environment."""
    found = process_tree.environment(pid)
    number = next((found[name] for name in RANK_VARIABLES if name in found), "")
    world = found.get("DQ_WORLD", "0")
    known = number.isdigit() and world.isdigit()
    return (found.get("DQ_NODE", ""), int(world), int(number)) if known else None


@dataclass(slots=True)
class UsageMeter:
    """`look` with each heartbeat. `node`: of processes that name none."""

    node: str
    table: Callable[[], Table] = processes
    one: Callable[[int], Process | None] = process
    rank: Callable[[int], Rank | None] = rank_of
    _next_s: float = float("-inf")
    _ranks: dict[tuple[int, int], Rank] = field(default_factory=dict)  # by pid and start
    # CPU time by tree: a proxy of mpiexec may end before its job.
    _trees: dict[Instance, dict[str, float]] = field(default_factory=dict)

    def look(self, now: float, trees: Mapping[str, Tree]) -> list[m.JobUsage]:
        """The usage of all jobs here, if it is time to measure it; `now`: seconds of any clock."""
        if now < self._next_s or not trees:
            return []
        began_s, table = time.thread_time(), self.table()
        found: dict[Instance, dict[Rank | None, list[float]]] = {}
        before, self._ranks = self._ranks, {}
        for key, tree in trees.items():
            uses = found.setdefault((tree.record.job, tree.record.instance), {None: [0.0, 0]})
            self._note(key, tree, self._add(uses, table, tree, before))
        self._trees = {of: known for of, known in self._trees.items() if of in found}
        rows = [
            m.JobUsage(
                *of,
                at_s=now,
                cpu_s=self._total(of),
                memory=int(uses.pop(None)[1]),
                ranks=[
                    m.RankSample(rank[0] or self.node, rank[1], rank[2], cpu_s, int(memory))
                    for rank, (cpu_s, memory) in uses.items()
                    if rank is not None
                ][: m.USAGE_RANKS_MAX],
            )
            for of, uses in found.items()
        ]
        self._next_s = now + max(EVERY_S, (time.thread_time() - began_s) / SHARE)
        return rows[: m.USAGE_JOBS_MAX]

    def ended(self, tree: Tree) -> float:
        """CPU time of a job here, in seconds, once all ranks of a tree have ended."""
        keeper = self.one(tree.record.pid)
        self._note(tree.folder.name, tree, keeper.waited_s if keeper else 0.0)
        return self._total((tree.record.job, tree.record.instance))

    def _note(self, key: str, tree: Tree, cpu_s: float) -> None:
        known = self._trees.setdefault((tree.record.job, tree.record.instance), {})
        known[key] = max(cpu_s, known.get(key, 0.0))

    def _total(self, of: Instance) -> float:
        return sum(self._trees[of].values())

    def _add(
        self,
        uses: dict[Rank | None, list[float]],
        table: Table,
        tree: Tree,
        before: Mapping[tuple[int, int], Rank],
    ) -> float:
        """Add the processes of a tree to its job's, None, and to their ranks'; its CPU time."""
        keeper, of_pid, total = tree.record.pid, dict[int, Rank](), 0.0
        strangers = adopted(str(tree.folder)) if tree.record.ranks else []
        for pid, parent in below(table, (keeper, *strangers)):
            process = table[pid]
            total += process.waited_s
            if pid == keeper:
                continue
            total += process.cpu_s
            uses[None][1] += process.memory
            born = pid, process.start
            rank = before.get(born) or self.rank(pid) or of_pid.get(parent)
            if rank is not None:
                self._ranks[born] = of_pid[pid] = rank
                use = uses.setdefault(rank, [0.0, 0])
                use[0] += process.cpu_s + process.waited_s
                use[1] += process.memory
        return total
