"""What is computed from the state and kept as it changes, so that no decision looks at every job.

A `Derived` says something of each active job (its walltime's end, the sizes it could go to). Who
changes a job in a way that may matter calls `State.touch`; `State.plan` does so, too. The next
question looks again at the jobs that were touched, and at no others.

Nothing here is part of the state: it is neither stored nor compared, and `of` makes it anew from
the state where it is missing. `check` does so, too, and compares: tests find who forgot to touch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.jobs import Job

if TYPE_CHECKING:
    from dq_server.core.model.state import State

TOUCHED_MAX = 4096  # more than are active: nobody has asked for long, and it is dropped


class Derived:
    """Base of what is derived. `update` is all that most have to say."""

    def __init__(self) -> None:
        self.touched: set[int] = set()  # jobs to look at again

    def everyone(self, state: State) -> Iterable[int]:
        """The jobs that it may say something of."""
        return state.active

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        """The active job may say another thing now; None: it is not active any more."""
        raise NotImplementedError

    def said(self) -> object:
        """All that is kept, in a form that can be compared."""
        raise NotImplementedError

    @classmethod
    def of(cls, state: State) -> Self:
        """The one of this state, with every change taken in."""
        found = state.derived.get(cls.__name__)
        if found is None:
            found = state.derived[cls.__name__] = cls()
            found.touched.update(found.everyone(state))
        touched = found.touched
        if touched:
            active = state.active
            for job_id in touched:
                found.update(state, job_id, active.get(job_id))
            touched.clear()
        assert isinstance(found, cls)
        return found

    def anew(self) -> Self:
        """One that knows no job yet."""
        return type(self)()

    def check(self, state: State) -> None:
        """Raise InvariantViolation if it is not what the state says."""
        fresh = self.anew()
        for job_id in self.everyone(state):
            fresh.update(state, job_id, state.active.get(job_id))
        if type(self).of(state).said() != fresh.said():
            raise InvariantViolation(f"{type(self).__name__} missed a change of a job")
