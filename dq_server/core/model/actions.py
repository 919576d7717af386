"""What the scheduler wants done. A shell (live or sim) carries actions out, in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dq_server.core.model.jobs import Answer, JobState, Remap
from dq_server.core.model.pool import Shape
from dq_server.core.model.reasons import Reason
from dq_server.core.model.sizes import Configuration


class Outcome(StrEnum):
    """How a dynamic request stands; a release is always accepted."""

    GRANTED = "granted"
    REJECTED = "rejected"
    WAITING = "waiting"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The answer to a dynamic request or release.

    more         processors asked for; negative: to be released
    available_s  when they are expected to be there without delaying a planned job; None: not in
                 sight while the job runs
    """

    request: int
    what: Outcome
    more: int
    available_s: float | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class StartAction:
    """Base of what is to be done with one start of a job."""

    job: int
    instance: int


@dataclass(frozen=True, slots=True)
class JobAccepted:
    """The submission is in the scheduler's state (the shell answers once it is safe)."""

    job: int


@dataclass(frozen=True, slots=True)
class ArrayAccepted:
    """As JobAccepted, of an array: these are its jobs, by index ascending as they were given."""

    array: int
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartJob(StartAction):
    """Start the application: rank r on processors[r]."""

    processors: tuple[int, ...]
    configuration: Configuration
    reason: Reason


@dataclass(frozen=True, slots=True)
class KillJob(StartAction):
    """End every process of the job on every node, then report JobEnded."""

    processors: tuple[int, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class AnswerRemap(StartAction):
    """Answer the application's remap point."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class AnswerRequest(StartAction):
    """Answer a dynamic request or release. One that waited is answered again when it is decided.

    What was granted or accepted is carried out at the job's next remap point.
    """

    answer: RequestAnswer


@dataclass(frozen=True, slots=True)
class AnswerSpawn(StartAction):
    """Tell the agent on what the ranks of `world` run that the job's program spawns.

    world  its id; 0: refused
    """

    agent: str
    ticket: int
    world: int
    processors: tuple[int, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class CallRemap(StartAction):
    """The scheduler would resize the job: it is wanted at a remap point, the sooner the better.

    Live, every iteration of a job ends with a remap point, at which the scheduler decides afresh:
    there is nothing to carry out. A simulated job need not report remap points in between
    (sim/applications.py): for it this is how it learns of the one that matters.
    """


@dataclass(frozen=True, slots=True)
class VacateProcessors(StartAction):
    """Make sure that no process of the job is left there, then report ProcessorsVacated."""

    processors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeEmptied:
    """Nothing is left on a node that is to leave: let its agent go, then report NodeLeft."""

    node: str


@dataclass(frozen=True, slots=True)
class AskNodes:
    """Ask the engine for a node of this shape for each ticket."""

    shape: Shape
    tickets: tuple[int, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class GiveNode:
    """Let the engine have the ticket's node back, or withdraw the request for it.

    Nothing of any job is on it. Then report TicketEnded.
    node  its name; empty: it has none yet
    """

    ticket: int
    node: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class JobFinished:
    """The job reached an end state."""

    job: int
    state: JobState
    reason: Reason


@dataclass(frozen=True, slots=True)
class JobRestarts(StartAction):
    """The job is in the queue again; of its start `instance` nothing is left."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class WarnJob:
    """Something the job's owner should know before it happens."""

    job: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class ResizeWorkers(StartAction):
    """A worker job has another size at once: workers start (`expand`) or end there (`shrink`)."""

    what: Remap
    size: int  # that it has now
    processors: tuple[int, ...]  # that came, or left
    reason: Reason


Action = (
    JobAccepted
    | ArrayAccepted
    | StartJob
    | KillJob
    | AnswerRemap
    | AnswerRequest
    | AnswerSpawn
    | CallRemap
    | VacateProcessors
    | NodeEmptied
    | AskNodes
    | GiveNode
    | JobFinished
    | JobRestarts
    | WarnJob
    | ResizeWorkers
)
