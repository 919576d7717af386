"""What a feature is: a room with its events, its records, its options, and a few hooks.

A feature is one class in one file of features/. It handles the events that are its own
(`@handles`), keeps what it knows in records (model/records.py), declares its options
(model/options.py) and its reasons (model/reasons.py), and joins the work of others by overriding
hooks. It imports the model, planning.py and turn.py, never another feature.

Most features need a few of these hooks:

    claims    which processors it takes from the future (planning.py); asked while `claiming`
    deadline  when time alone makes something due; `tick`, or a scheduling pass, does it
    starts    the beginning of a scheduling pass: grant what waits, say who starts
    verdict   what a job does at its remap point
    ended     a job has ended
    explain   why a job is where it is
    check     whether its records agree with the state

The others are moments at which one of today's features must not come late: before a job is
accepted, when a start of it begins or is over, when a resize is granted or done, when nodes come
and go. Each is one line where it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dq_server.core.model.bounds import Bound
from dq_server.core.model.decisions import Ending, Start, Verdict
from dq_server.core.model.events import Event
from dq_server.core.model.jobs import Job, JobSpec
from dq_server.core.model.reasons import Reason
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction

if TYPE_CHECKING:
    from dq_server.core.turn import Turn

Handler = Callable[["Turn", Any], None]
_F = TypeVar("_F", bound=Callable[..., None])


def handles(kind: type) -> Callable[[_F], _F]:
    """Mark the method of a feature that handles events of this kind: `def made(self, turn, event)`.

    A handler validates first and changes afterwards: one that raises has changed nothing.
    """

    def mark(method: _F) -> _F:
        method.__dict__["handles"] = kind
        return method

    return mark


class Feature:
    """Base of all features: hooks that do nothing. Override those that are needed."""

    claimant = ""  # whose claims these are, in a sentence: "a reservation"

    # --- a job's life ---------------------------------------------------------------------------

    def admit(self, turn: Turn, spec: JobSpec) -> None:
        """A submission: raise a SchedulerError if the job can never run. Change nothing."""

    def admit_many(self, turn: Turn, spec: JobSpec, count: int) -> None:
        """As `admit`, of so many jobs of one description: an array's."""

    def not_now(self, turn: Turn, spec: JobSpec) -> Reason | None:
        """Why a program that runs already may not become a job, whatever is idle; None: it may."""
        return None

    def entered(self, turn: Turn, job: Job) -> bool:
        """A new job has its id. True: it begins on hold."""
        return False

    def holds_back(self, state: State, job: Job) -> bool:
        """Whether a job that would enter the queue has to be WAITING before.

        Who stops holding it back calls `turn.let_in`: a job that nobody holds back does not wait.
        """
        return False

    def keeps_out(self, turn: Turn, job: Job) -> bool:
        """Nobody holds the job back: keep it WAITING all the same, and say so in `holds_back`."""
        return False

    def queued(self, turn: Turn, job: Job) -> None:
        """The job has entered the queue."""

    def withdrawn(self, turn: Turn, job: Job) -> None:
        """The job is no longer to be started or served: it waits, is on hold, killed or over."""

    def started(self, turn: Turn, job: Job) -> None:
        """The job was given processors and is to be started."""

    def stopped(self, turn: Turn, job: Job) -> None:
        """This start of the job is over: it is about to let go of all it holds."""

    def restarts(self, turn: Turn, job: Job, ending: Ending) -> bool:
        """Take the job over, whose start has ended so, because it will start again."""
        return False

    def ended(self, turn: Turn, job: Job) -> None:
        """The job has reached an end state. `turn.doom` ends others with it."""

    def charged(self, turn: Turn, job: Job) -> None:
        """The job is about to run on another number of processors, or on none."""

    # --- resizes --------------------------------------------------------------------------------

    def at_most(self, state: State, job: Job, *, asked: bool) -> Bound | None:
        """How many processors the running job may hold (model/bounds.py); None: any number.

        `asked`: its user or its program wants to grow, not the scheduler.
        """
        return None

    def measured(self, turn: Turn, job: Job) -> None:
        """An iteration of the job was recorded."""

    def first_verdict(self, turn: Turn, job: Job) -> Verdict | None:
        """What a job does at its remap point whatever its user wants; None: go on asking."""
        return None

    def withdrawn_resize(self, turn: Turn, job: Job) -> Reason | None:
        """Why the granted expansion, whose ranks are starting, is not to happen; None: it is."""
        return None

    def verdict(self, turn: Turn, job: Job) -> Verdict | None:
        """What the job does at its remap point; None: that is not for this feature to say."""
        return None

    def leaving(self, turn: Turn, job: Job, count: int) -> tuple[int, ...] | None:
        """Which processors a shrink by `count` gives back, in the job's order; None: the last."""
        return None

    def resize_granted(self, turn: Turn, job: Job) -> None:
        """`job.resize` was granted."""

    def resize_committed(self, turn: Turn, job: Job) -> None:
        """The job runs on its new size."""

    def carried_out(self, turn: Turn, job: Job, resize_id: int) -> None:
        """The application says that this resize is done, which is pending no more."""

    def succeeded(self, turn: Turn, job: Job) -> None:
        """All ranks have ended for others on another size: a new start, with what the job has."""

    def wants(self, turn: Turn) -> Iterable[tuple[Job, int]]:
        """Running jobs that wait for so many more processors, which workers would leave."""
        return ()

    def changes_size(self, state: State, job: Job) -> bool:
        """Whether the running job is about to get another size, as far as this feature knows."""
        return False

    # --- time and plans -------------------------------------------------------------------------

    def starts(self, turn: Turn) -> list[Start]:
        """Begin a scheduling pass: grant what waits, and return who starts, on what is idle."""
        return []

    def passed(self, turn: Turn) -> None:
        """A scheduling pass is over: what is still missing, and what is left over?"""

    def tick(self, turn: Turn) -> None:
        """Time has passed: what is due?"""

    def deadline(self, turn: Turn) -> Iterable[float]:
        """Times (s) at which `tick`, or a scheduling pass, must not come late."""
        return ()

    def where(self, turn: Turn, job: Job, count: int) -> tuple[int, ...] | None:
        """The idle processors on which the job is to start; fewer than `count`: not now.

        None: that is not for this feature to say.
        """
        return None

    def claiming(self, state: State) -> bool:
        """Whether processors that are idle now may be promised to somebody later."""
        return False

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """Add what is promised to somebody to the processors `taken` from `now` on.

        `to_promise`: somebody new is about to be promised something. Asked while `claiming`.
        """

    def beyond(
        self, state: State, job: Job, end_s: float, held: int, now: float, *, to_promise: bool
    ) -> tuple[float, int]:
        """Of what the active job holds, what `claims` does not cover already, and until when."""
        return end_s, held

    def may_take(self, state: State, job: Job) -> int | None:
        """How many more processors the job may have, if that is for this feature to say."""
        return None

    def aside(self, state: State) -> Callable[[Job], bool] | None:
        """Which queued jobs stand outside the queue's order; None: no job does."""
        return None

    def excused(self, state: State) -> Callable[[Job], bool] | None:
        """For which queued jobs nobody has to make room: their start is promised. None: for none.

        They are passed over when the head of the queue is looked for.
        """
        return None

    # --- nodes ----------------------------------------------------------------------------------

    def paused(self, turn: Turn) -> None:
        """Grants were paused, or go on."""

    def losing(self, turn: Turn, node: str, reason: Reason) -> None:
        """A node is about to be given up."""

    def left(self, turn: Turn, node: str) -> None:
        """A node that nothing was left on is no longer part of the cluster."""

    def vacated(self, turn: Turn) -> None:
        """Processors were confirmed to be empty, or are gone."""

    def capacity_changed(self, turn: Turn) -> None:
        """Nodes have come or gone."""

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why the job is where it is, as far as this feature is the cause."""
        return []

    def under_way(self, turn: Turn, job: Job) -> list[Reason]:
        """What is being done for a job that waits in the queue for processors."""
        return []

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """Fields of the job's plain data (`dq job --json`) that are this feature's."""
        return {}

    def check(self, state: State) -> None:
        """Raise InvariantViolation if the feature's records contradict the state."""


HOOKS = frozenset(name for name in vars(Feature) if not name.startswith("_"))


class Features(dict[str, tuple[Feature, ...]]):
    """All features, and by hook those that override it, in order."""

    def __init__(self, all_: Iterable[Feature] = ()) -> None:
        self.all = tuple(all_)
        super().__init__(
            (hook, tuple(f for f in self.all if getattr(type(f), hook) is not vars(Feature)[hook]))
            for hook in HOOKS
        )
        self.handler_of: dict[type, Handler] = dict(self.handlers())

    def handlers(self) -> Iterator[tuple[type[Event], Handler]]:
        """Every kind of event with the method that handles it."""
        for feature in self.all:
            for name in dir(type(feature)):
                kind = getattr(getattr(type(feature), name), "handles", None)
                if kind is not None:
                    yield kind, getattr(feature, name)
