"""What a feature is: its events, its records, its options, and a few hooks.

A feature is one class in one file of features/. It handles the events that are its own
(`@handles`), keeps what it knows in records (model/records.py), declares its options
(model/options.py) and its reasons (model/reasons.py), and joins the work of others by overriding
hooks. It imports the model, planning/, transaction.py and turn.py, never another feature.

Most features need a few of these hooks:

    promises  which processors it takes from the future (planning/)
    deadline  when time alone makes something due; `tick`, or a scheduling pass, does it
    starts    the beginning of a scheduling pass: grant what waits, say who starts
    verdict   what a job does at its remap point
    ended     a job has ended
    explain   why a job is where it is
    check     whether its records agree with the state

A hook answers or acts. One that answers (admit, holds_back, line, promises, usable, deadline,
verdict, restart_of, explain, view, check) changes nothing; what it wants done it returns, and Turn
does it. One that acts is called because something has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

from dq_server.core.model.decisions import Ending, Start, Verdict
from dq_server.core.model.events import Event
from dq_server.core.model.jobs import Job, JobSpec
from dq_server.core.model.reasons import Reason
from dq_server.core.model.state import Answers, PlaceOf, Promises, State

if TYPE_CHECKING:
    from dq_server.core.turn import Turn

Handler = Callable[["Turn", Any], None]
Act = Callable[["Turn"], None]  # what Turn is to do because of an answer
_F = TypeVar("_F", bound=Callable[..., None])


def handles(kind: type) -> Callable[[_F], _F]:
    """Mark the method of a feature that handles events of this kind: `def made(self, turn, event)`.

    A handler validates first and changes afterwards: one that raises has changed nothing.
    """

    def mark(method: _F) -> _F:
        method.__dict__["handles"] = kind
        return method

    return mark


class What(Enum):
    """Changes of the cluster, not of one job."""

    CAPACITY = auto()  # nodes have come, or offer other processors
    LOSING = auto()  # `node` is about to be given up, for `reason`
    LEFT = auto()  # `node`, which nothing was left on, is no longer part of the cluster
    VACATED = auto()  # processors were confirmed to be empty, or are gone
    PAUSED = auto()  # grants were paused, or go on
    PASSED = auto()  # a scheduling pass is over: what is missing, and what is left over?


@dataclass(frozen=True, slots=True)
class Change:
    what: What
    node: str = ""
    reason: Reason | None = None


class Rank(Enum):
    """When a verdict counts."""

    BEFORE_USER = auto()  # whatever the job's user wants
    AFTER_USER = auto()


@dataclass(frozen=True, slots=True)
class Hold:
    """A job is to be WAITING. `then` notes that, if nobody holds it who holds it already."""

    then: Act | None = None


class Feature:
    """Base of all features: hooks that do nothing. Override those that are needed."""

    admits_last = False  # what can never run is a better reason to refuse a job than a limit

    # --- a job's life ---------------------------------------------------------------------------

    def admit(self, turn: Turn, spec: JobSpec, count: int, *, running: bool) -> None:
        """A submission of `count` such jobs: raise a SchedulerError if they are not to be taken.

        `running`: the program runs already, so it cannot wait.
        """

    def entered(self, turn: Turn, job: Job) -> bool:
        """A new job has its id. True: it begins on hold."""
        return False

    def holds_back(self, state: State, job: Job) -> Hold | None:
        """Why a job that would enter the queue has to be WAITING before; None: it need not.

        Who stops holding it back calls `turn.let_in`: a job that nobody holds back does not wait.
        """
        return None

    def queued(self, turn: Turn, job: Job) -> None:
        """The job has entered the queue."""

    def withdrawn(self, turn: Turn, job: Job) -> None:
        """The job is no longer to be started or served: it waits, is on hold, killed or over."""

    def started(self, turn: Turn, job: Job) -> None:
        """The job was given processors and is to be started."""

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """This start of the job is over: it is about to let go of all it holds.

        `goes_on`: not of its processors; all ranks have ended for others, on another size.
        """

    def restart_of(self, turn: Turn, job: Job, ending: Ending) -> Act | None:
        """What to do to start the job again, whose start has ended so; None: it has ended."""
        return None

    def ended(self, turn: Turn, job: Job) -> None:
        """The job has reached an end state. `turn.doom` ends others with it."""

    # --- remap points and resizes ---------------------------------------------------------------

    def measured(self, turn: Turn, job: Job) -> None:
        """An iteration of the job was recorded."""

    def verdict(self, turn: Turn, job: Job, rank: Rank) -> Verdict | None:
        """What the job does at its remap point; None: that is not for this feature to say.

        Every feature is asked at BEFORE_USER first, then the user's wish counts, then AFTER_USER.
        """
        return None

    def resize_granted(self, turn: Turn, job: Job) -> None:
        """`job.resize` was granted."""

    def resize_committed(self, turn: Turn, job: Job) -> None:
        """The job runs on its new size."""

    # --- time and plans -------------------------------------------------------------------------

    def starts(self, turn: Turn) -> list[Start]:
        """Begin a scheduling pass: grant what waits, and return who starts, on what is idle."""
        return []

    def tick(self, turn: Turn) -> None:
        """Time has passed: what is due?"""

    def deadline(self, turn: Turn) -> Iterable[float]:
        """Times (s) at which `tick`, or a scheduling pass, must not come late."""
        return ()

    def promises(self, state: State) -> Promises | None:
        """Processors that it has promised to somebody; None: none at the moment."""
        return None

    def line(self, state: State) -> PlaceOf | None:
        """Where queued jobs stand; None: all of them in order."""
        return None

    def usable(self, turn: Turn, job: Job, idle: Sequence[int]) -> Sequence[int] | None:
        """Which of the `idle` processors the job may start on, those to take first at the front.

        The next feature is asked about these, so answers intersect. None: any of them will do.
        """
        return None

    # --- the cluster ----------------------------------------------------------------------------

    def changed(self, turn: Turn, change: Change) -> None:
        """Nodes have come or gone, processors are empty, a pass is over: see What."""

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why the job is where it is, as far as this feature is the cause."""
        return []

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """Fields of the job's plain data (`dq job --json`) that are this feature's."""
        return {}

    def check(self, state: State) -> None:
        """Raise InvariantViolation if the feature's records contradict the state."""


HOOKS = frozenset(name for name in vars(Feature) if not name.startswith("_"))


class Features(Answers):
    """All features, and by hook those that override it, in order."""

    def __init__(self, all_: Iterable[Feature] = ()) -> None:
        self.all = tuple(all_)
        self._by_hook = {
            vars(Feature)[hook]: tuple(
                f for f in self.all if getattr(type(f), hook) is not vars(Feature)[hook]
            )
            for hook in HOOKS
        }
        admit = vars(Feature)["admit"]
        self._by_hook[admit] = tuple(sorted(self._by_hook[admit], key=lambda f: f.admits_last))
        self.handler_of: dict[type, Handler] = dict(self.handlers())

    def __getitem__(self, hook: Callable[..., Any]) -> tuple[Feature, ...]:
        """Those that override it: `features[Feature.starts]`."""
        return self._by_hook[hook]

    def handlers(self) -> Iterator[tuple[type[Event], Handler]]:
        """Every kind of event with the method that handles it."""
        for feature in self.all:
            for name in dir(type(feature)):
                kind = getattr(getattr(type(feature), name), "handles", None)
                if kind is not None:
                    yield kind, getattr(feature, name)

    # --- answers ------------------------------------------------------------------------------

    def places(self, state: State) -> list[PlaceOf]:
        return [p for f in self[Feature.line] if (p := f.line(state)) is not None]

    def promises(self, state: State) -> list[Promises]:
        return [p for f in self[Feature.promises] if (p := f.promises(state)) is not None]

    def held_back(self, state: State, job: Job) -> bool:
        found = (f.holds_back(state, job) for f in self[Feature.holds_back])
        return any(hold is not None and hold.then is None for hold in found)

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {k: value for f in self[Feature.view] for k, value in f.view(state, job).items()}

    def check(self, state: State) -> None:
        for feature in self[Feature.check]:
            feature.check(state)
