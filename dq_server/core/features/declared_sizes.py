"""Sizes that a program declares itself (`legal=` of its session): what its algorithm can run on.

They are told when the program has started, and narrow the sizes that the job was submitted with. A
program on a size that it cannot run on does not come so far: its session ends it.
"""

from __future__ import annotations

from dataclasses import replace

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.spec import JobSpec
from dq_server.core.turn import Turn

declare(sizes_declared="its program can run on {declared} processors: its sizes are {sizes} now")


class DeclaredSizes(Feature):
    """See the module's docstring."""

    @handles(ev.SizesDeclared)
    def declared(self, turn: Turn, event: ev.SizesDeclared) -> None:
        """The program has started; what it says again changes nothing."""
        job = turn.state.job(event.job)
        if job.instance != event.instance or job.configuration is None:
            raise InvalidTransition(f"job {job.id} is {job.state}: this start of it is over")
        if event.sizes == job.spec.declared:
            return
        job.spec = _narrowed(job, event.sizes)
        turn.state.touch(job)
        if job.wanted is not None and not job.spec.runs_on(job.wanted.size):
            job.wanted = None
        known = ", ".join(str(c.size) for c in job.spec.configurations)
        reason = because("sizes_declared", declared=_shown(event.sizes), sizes=known)
        job.note(turn.now, "sizes", reason)


def _narrowed(job: Job, sizes: tuple[int, ...]) -> JobSpec:
    """The specification without the sizes that the program cannot run on."""
    now, old = job.configuration, job.spec
    assert now is not None
    if now.size not in sizes:
        raise InfeasibleRequest(
            f"job {job.id} runs on {now.size} processors, its program can run on {_shown(sizes)}"
        )
    allowed = set(sizes)
    kept = tuple(c for c in old.configurations if c.size in allowed)
    if not any(c.size == now.size for c in kept):  # it was started on a size of its own
        kept = tuple(sorted((*kept, now), key=lambda c: c.size))
    first = old.initial if old.initial in kept else next(c for c in kept if c.size == now.size)
    others = tuple(c for c in old.other_grids if c.size in allowed)
    return replace(old, configurations=kept, initial=first, other_grids=others, declared=sizes)


def _shown(sizes: tuple[int, ...]) -> str:
    """For people: the first of them."""
    first = ", ".join(map(str, sizes[:12]))
    return f"{first}, ..." if len(sizes) > 12 else first
