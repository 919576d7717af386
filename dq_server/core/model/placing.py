"""Which idle processors a job can use that asks for more of a node than a processor (needs.py).

What such jobs use of a node's memory and GPUs is counted, and never given twice: from the moment at
which a processor is granted until its node confirms that no process of the job is left there. Jobs
that ask for nothing are not counted; nobody knows what they use.

A waiting job that finds enough idle processors, but not where it needs them, is hidden from the
policies for a pass, and if it is the first in line processors are kept for it. A pass gives them
back at its beginning, because those to whom processors were promised come first.

How large a running job may grow, whatever is idle, is a question of quotas: `growth`, `within`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from dq_server.core.model.decisions import Verdict
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.jobs import AT_WORK, Job, smallest_start
from dq_server.core.model.needs import Needs, amount
from dq_server.core.model.processors import Node
from dq_server.core.model.quota_use import bound
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.state import State
from dq_server.core.model.tracking import Found

declare(
    no_fitting_nodes="it stays on {size}: {next_size} needs {more} more processors on nodes with"
    " {needs}, {room} are idle there",
    cannot_grow="no rank can join: {why}; not tried again before an order (dq resize)",
)


@dataclass(frozen=True, slots=True)
class Taking:
    """What a job uses beside a processor: memory in bytes, and which GPUs of the node."""

    job: int
    memory: int
    gpus: tuple[int, ...]


@dataclass(slots=True)
class Placed(Record, key="Placed"):
    """Of the state.

    taken    by processor; an entry counts while its job holds the processor, or vacates it
    waiting  queued jobs that ask for something
    hidden   those of them that would find enough idle processors, but not where they need them
    kept_for, kept_on   the first of those in line, and the nodes where idle processors are kept for
                        it (Processors.kept), with what so many of its ranks need; 0: nobody
    """

    taken: dict[int, Taking] = field(default_factory=dict)
    waiting: dict[int, bool] = field(default_factory=dict)
    hidden: list[int] = field(default_factory=list)
    kept_for: int = 0
    kept_on: dict[str, int] = field(default_factory=dict)


def hide_and_keep(state: State, now: float, *, moldable: bool) -> None:
    """Who is hidden from the policies in this pass? Keep what has to be kept for the first."""
    if Placed.known(state) is None:
        return
    placed = Placed.of(state)
    last, on = placed.kept_for, placed.kept_on
    placed.hidden, placed.kept_for, placed.kept_on = [], 0, {}
    found: dict[Needs, int] = {}
    hidden = list[int]()
    for job_id in placed.waiting:
        job = state.jobs[job_id]
        needs = job.spec.needs
        assert needs is not None, "`waiting` lists jobs that have needs"
        if needs not in found:
            found[needs] = len(spots(state, job, needs))
        if found[needs] < smallest_start(job, moldable) <= state.idle:
            hidden.append(job_id)
    first = state.head(now) if hidden else None  # of all that wait: none is hidden yet
    placed.hidden = hidden
    if first is None or first.id not in hidden or first.spec.needs is None:
        return
    size = smallest_start(first, moldable)
    ranks_on = _chosen(state, first, first.spec.needs, size, on if last == first.id else ())
    if not ranks_on:
        return  # nodes are lost: it holds up nobody
    placed.kept_for, placed.kept_on = first.id, ranks_on
    idle, keep = set(state.processors.idle), list[int]()
    for name, ranks in ranks_on.items():
        keep += [p for p in state.processors.nodes[name].processors if p in idle][:ranks]
    state.processors.keep(keep)


def _chosen(
    state: State, job: Job, needs: Needs, size: int, before: Container[str]
) -> dict[str, int]:
    """Nodes that will have room for the job, each with how many ranks.

    First those where it was kept before, then where most is free. Empty: those that are up, and do
    not drain, will not have enough.
    """
    pool, now = state.processors, dict[str, int]()
    for p in spots(state, job, needs):
        now[pool.node_of[p]] = now.get(pool.node_of[p], 0) + 1
    nodes = [n for n in pool.nodes.values() if n.up and pool.withheld.isdisjoint(n.processors)]
    nodes.sort(key=lambda node: (node.name not in before, -now.get(node.name, 0)))
    found, missing = dict[str, int](), size
    for node in nodes:
        ranks = min(missing, capable(node, needs))
        if ranks:
            found[node.name] = ranks
            missing -= ranks
    return {} if missing else found


def room(state: State, job: Job) -> int:
    """How many of the idle processors the job could use together."""
    if job.spec.needs is None:
        return state.idle
    return len(spots(state, job, job.spec.needs))


def placeable(state: State, job: Job, verdict: Verdict) -> Verdict:
    """The verdict, unless it is to grow on processors that the job cannot use."""
    target = verdict.target
    if job.spec.needs is None or target is None or verdict.processors:
        return verdict
    more, there = target.size - job.size, room(state, job)
    if more <= there:
        return verdict
    figures = {"size": job.size, "next_size": target.size, "more": more, "room": there}
    reason = because("no_fitting_nodes", needs=job.spec.needs.words, **figures)
    return Verdict(None, reason, judged=verdict.judged, kept=verdict.kept)


def find(state: State, job: Job, count: int, *, one_node: bool = False) -> tuple[int, ...] | None:
    """The lowest `count` idle processors that the job can use; None: there are too few."""
    if job.spec.needs is None:
        return state.processors.find(count, one_node=one_node)
    usable = spots(state, job, job.spec.needs)
    if one_node:
        on: dict[str, list[int]] = {}
        for p in usable:
            on.setdefault(state.processors.node_of[p], []).append(p)
        usable = next((there for there in on.values() if len(there) >= count), [])
    return tuple(usable[:count]) if len(usable) >= count else None


def take(state: State, job: Job, count: int) -> tuple[int, ...]:
    """Take what `find` finds; the caller has checked that there is enough."""
    if job.spec.needs is None:
        return state.processors.take(count)
    found = find(state, job, count)
    if found is None:
        raise InvariantViolation(f"{count} processors for job {job.id} are not where it needs them")
    claim(state, job, found)
    return found


def claim(state: State, job: Job, processors: tuple[int, ...]) -> None:
    """The job gets these idle processors, with what it needs of their nodes."""
    state.processors.claim(processors)
    needs = job.spec.needs
    if needs is None:
        return
    pool, taken = state.processors, Placed.of(state).taken
    live = dict(_live(state))
    for p in list(taken.keys() - live.keys()):
        del taken[p]
    for p in processors:
        node = pool.nodes[pool.node_of[p]]
        used = {gpu for q in _all_of(node) if q in taken for gpu in taken[q].gpus}
        free = [gpu for gpu in range(node.gpus) if gpu not in used]
        if len(free) < needs.gpus:
            raise InvariantViolation(f"node {node.name} has {len(free)} free GPUs for job {job.id}")
        taken[p] = Taking(job.id, needs.memory, tuple(free[: needs.gpus]))


def spots(state: State, job: Job, needs: Needs) -> list[int]:
    """Idle processors, ascending, that the job could use all together."""
    pool, placed, left = state.processors, Placed.of(state), dict[str, int]()
    live = dict(_live(state)) if placed.taken else {}
    kept_for = state.jobs[placed.kept_for].spec.needs if placed.kept_for else None
    kept_on = placed.kept_on if placed.kept_for != job.id else {}
    found = []
    for p in pool.idle:
        name = pool.node_of[p]
        if name not in left:
            kept = (kept_on[name], kept_for) if kept_for and name in kept_on else None
            left[name] = _room_on(pool.nodes[name], needs, live, kept)
        if left[name] > 0:
            left[name] -= 1
            found.append(p)
    return found


def _room_on(
    node: Node, needs: Needs, live: dict[int, Taking], kept: tuple[int, Needs] | None
) -> int:
    """For how many ranks the node has what they need beside a processor, and beside what is kept.

    `kept`: for so many ranks that need this.
    """
    here = [live[p] for p in _all_of(node) if p in live] if live else []
    memory = (node.memory or 0) - sum(taking.memory for taking in here)
    gpus = node.gpus - len({gpu for taking in here for gpu in taking.gpus if gpu < node.gpus})
    if kept is not None:
        memory -= kept[0] * kept[1].memory
        gpus -= kept[0] * kept[1].gpus
    return _ranks(node, needs, memory, gpus)


def capable(node: Node, needs: Needs) -> int:
    """How many ranks the node has room for if nothing else runs there."""
    return _ranks(node, needs, node.memory or 0, node.gpus)


def _ranks(node: Node, needs: Needs, memory: int, gpus: int) -> int:
    if not needs.met_by(node.features):
        return 0
    counts = [len(node.processors)]
    if needs.memory:
        counts.append(memory // needs.memory)
    if needs.gpus:
        counts.append(gpus // needs.gpus)
    return max(0, min(counts))


def _all_of(node: Node) -> tuple[int, ...]:
    return (*node.processors, *node.former)


def _live(state: State) -> Iterable[tuple[int, Taking]]:
    """What is in use: held by its job, or not confirmed to be empty yet."""
    taken, vacating = Placed.of(state).taken, state.processors.vacating
    held: dict[int, set[int]] = {}
    for p, taking in taken.items():
        if taking.job not in held:
            job = state.active.get(taking.job)
            held[taking.job] = set(job.holds()) if job is not None else set()
        if p in held[taking.job] or vacating.get(p) == taking.job:
            yield p, taking


def gpus_of(state: State, processors: Iterable[int]) -> list[list[int]]:
    """The GPUs of its node that each processor's rank was given; empty: none of them has any."""
    taken = Placed.of(state).taken
    found = [list(taken[p].gpus) if p in taken else [] for p in processors]
    return found if any(found) else []


def in_use(state: State) -> dict[str, tuple[int, int]]:
    """Memory (bytes) and GPUs that jobs were granted, by the nodes where they were."""
    found: dict[str, tuple[int, int]] = {}
    for p, taking in _live(state):
        name = state.processors.node_of[p]
        memory, gpus = found.get(name, (0, 0))
        found[name] = memory + taking.memory, gpus + len(taking.gpus)
    return found


def described(node: Node) -> str:
    """The node in words, for a refusal."""
    words = [f"{len(node.processors)} processor{'s' if len(node.processors) != 1 else ''}"]
    words.append(f"{amount(node.memory)} of memory" if node.memory else "memory that nobody knows")
    words.append(f"{node.gpus} GPU{'s' if node.gpus != 1 else ''}")
    words.append(f"features {', '.join(node.features)}" if node.features else "no features")
    return f"{node.name} with {', '.join(words)}"


def check(state: State) -> None:
    """Raise InvariantViolation if a running job's GPU was given twice, or nobody's is kept.

    Memory is not looked at: a node may say that it has less than before while jobs run there.
    """
    given: set[tuple[str, int]] = set()
    for p, taking in _live(state):
        job, name = state.active.get(taking.job), state.processors.node_of[p]
        if job is None or job.state not in AT_WORK:
            continue
        for gpu in taking.gpus:
            if (name, gpu) in given:
                raise InvariantViolation(f"GPU {gpu} of node {name} was given twice")
            given.add((name, gpu))
    if state.processors.kept and not Placed.of(state).kept_for:
        raise InvariantViolation("processors are kept without a job to keep them for")


def growth(state: State, job: Job, idle: int) -> int:
    """By how many of the idle processors the job may grow."""
    found = bound(state, job)
    return idle if found is None else max(0, min(idle, found.most - len(job.holds())))


def within(state: State, job: Job, verdict: Verdict, *, asked: bool) -> Verdict:
    """The verdict, or the largest size up to its target that the job may grow to."""
    target = verdict.target
    if target is None or verdict.processors or target.size <= job.size:
        return verdict
    found = bound(state, job, asked=asked)
    if found is None or target.size + len(job.spawned) <= found.most:
        return verdict
    smaller = largest_at_most(job.chain, found.most - len(job.spawned))
    if smaller is not None and smaller.size <= job.size:
        smaller = None
    told = Verdict(smaller, found.reason, judged=verdict.judged, kept=verdict.kept)
    # The verdict on the target's size says nothing about the smaller one.
    return told if smaller is None else replace(told, judged=False)


def without_growth(job: Job, verdict: Verdict) -> Verdict:
    """What a job does that no rank can join; where it would grow, or settle, it says why not."""
    reason = because("cannot_grow", why=job.cannot_grow)
    if verdict.target is not None:
        return Verdict(None, reason) if verdict.target.size > job.size else verdict
    settles = verdict.finding is not None and verdict.finding.what is Found.SETTLED
    return replace(verdict, reason=reason) if settles else verdict
