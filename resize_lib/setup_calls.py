"""Collectives before the loop: recorded on the ranks of a job, repeated in ranks that join.

A rank that joins runs the set-up of the program alone, while the others are in their loop. A
broadcast there has nobody to talk to; but its result is the same on every rank, so each rank keeps
it, and the joining rank, which merges with the job at its first such call, gets it instead of a
communication. Both must make the same calls in the same order.

Calls are kept by the depth of loops around them: those before and between outermost loops for the
life of the job, those in an iteration, before an inner loop begins, until the next iteration of
that loop. A loop whose iterations have begun no inner loop so far records nothing after its first
one. What is kept is bounded (DQ_SETUP_BYTES).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.mistakes import Mistake, caller

BYTES_VARIABLE = "DQ_SETUP_BYTES"
BYTES_MAX = 64 << 20
CALL_BYTES = 256  # of a call beside its result
ADVICE = "read or compute it on every rank, declare it (rs.value), or do it in @rs.setup"

# The arguments of mpi4py's methods, in order.
ARGUMENTS = {
    "bcast": ("obj", "root"),
    "allreduce": ("sendobj", "op"),
    "allgather": ("sendobj",),
    "barrier": (),
    "Bcast": ("buf", "root"),
    "Allreduce": ("sendbuf", "recvbuf", "op"),
    "Allgather": ("sendbuf", "recvbuf"),
    "Barrier": (),
}


class NotRepeatable(Exception):
    """Why the result of a call is not the same on a rank that joins."""


@dataclass(frozen=True, slots=True)
class SetupCall:
    """One that has been made. what: root, type and size, the same on every rank."""

    name: str
    what: str
    where: str  # in the program
    result: bytes
    why_not: str = ""  # repeated


@dataclass(slots=True)
class Level:
    """The calls at one depth of loops. closed: why none is recorded any more."""

    calls: list[SetupCall] = field(default_factory=list)
    closed: str = ""
    nbytes: int = 0  # kept
    repeated: int = 0  # in a rank that joins: so many of them


NOT_NESTED = "no inner loop had begun there before, so the calls of this iteration are not kept"


class SetupCalls:
    """Of one process.

    recording: whether calls that are made now are kept; `on_change` is called when that changes.
    """

    def __init__(self) -> None:
        self.active = False
        self.on_change: Callable[[], object] = bool
        self._levels: list[Level] = []
        self._depth = 0
        self._pauses = 0
        self._was = False  # recording, when that changed last
        self._meet: Callable[[], object] | None = None  # in a rank that joins, until it arrives
        self._known = False  # there: what the job has called

    # --- on the ranks of the job ----------------------------------------------------------------

    def start(self) -> None:
        """Keep what is called from now on. Repeatable."""
        if not self.active and self._meet is None:
            self.active, self._levels = True, [Level()]
            self._changed()

    def stop(self) -> None:
        """Keep nothing: nobody will join this job."""
        self.active, self._levels = False, []
        self._changed()

    @property
    def recording(self) -> bool:
        """Whether the calls of this place are kept."""
        return (
            self.active
            and not self._pauses
            and self._meet is None
            and not self._levels[self._depth].closed
        )

    def _changed(self) -> None:
        if self._was != self.recording:
            self._was = self.recording
            self.on_change()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, nothing is kept: ranks that join do the same together with the others."""
        self._pauses += 1
        self._changed()
        try:
            yield
        finally:
            self._pauses -= 1
            self._changed()

    def loop_begins(self, depth: int) -> None:
        """So many loops run now."""
        self._at(depth, Level(closed=NOT_NESTED))

    def iteration_begins(self, depth: int, *, nests: bool) -> None:
        """Of the innermost of so many loops. nests: a loop may begin in it."""
        self._at(depth, Level(closed="" if nests else NOT_NESTED))

    def loop_ends(self, depth: int) -> None:
        """So many loops run yet."""
        if self.active:
            del self._levels[depth + 1 :]
        self._depth = depth
        self._changed()

    def _at(self, depth: int, level: Level) -> None:
        self._depth = depth
        if self.active:
            self._levels[depth:] = [level]
            self._changed()

    def made(self, name: str, arguments: Mapping[str, Any], result: Any, size: int) -> None:
        """A call has returned this on a communicator of `size` ranks."""
        level = self._levels[self._depth]
        what, kept, why_not = described(name, arguments), b"", ""
        try:
            kept = _kept(name, arguments, result, size)
        except NotRepeatable as e:
            why_not = str(e)
        nbytes, limit = CALL_BYTES + len(kept), int(os.environ.get(BYTES_VARIABLE) or BYTES_MAX)
        if sum(each.nbytes for each in self._levels) + nbytes > limit:
            level.closed = (
                f"its result, of {len(kept)} bytes, and those before it exceed the"
                f" {BYTES_VARIABLE}={limit} that are kept"
            )
            self._changed()
            return
        level.nbytes += nbytes
        level.calls.append(SetupCall(name, what, caller(sys._getframe(1)), kept, why_not))

    def result_of(self, name: str, compute: Callable[[], Any]) -> Any:
        """What `compute` returns, the same on every rank; kept, or repeated, as other calls are."""
        if self._meet is not None:
            return self.repeat(name, 0)
        result = compute()
        if self.recording:
            self.made(name, {}, result, 0)
        return result

    def before(self, depth: int) -> list[Level]:
        """What ranks have to repeat that join in the innermost of so many loops."""
        return self._levels[:depth] if self.active else []

    # --- in a rank that joins ---------------------------------------------------------------------

    def joins(self, meet: Callable[[], object]) -> None:
        """This rank joins a job. meet: merges with it, which calls `learn`."""
        self.active, self._meet, self._levels = False, meet, []

    def learn(self, levels: list[Level]) -> None:
        """What the job has called."""
        self._levels, self._known = levels, True
        for level in levels:
            level.repeated = 0

    def repeat(self, name: str, size: int, *arguments: Any, **options: Any) -> Any:
        """What this call has returned on the ranks of the job; `size`: of the job to come.

        Raises:
            Mistake: they have made no such call here, or it cannot be repeated. Names the line.
        """
        where = caller(sys._getframe(1))
        if not self._known and self._meet is not None:
            self._meet()
        given = _named(name, arguments, options)
        call = self._next(where, name, described(name, given))
        try:
            return _given(call, given, size)
        except NotRepeatable as e:
            raise Mistake(
                f"{where}: communication ({name}) before the loop, where ranks that join later run"
                f" alone: {e}: {ADVICE}"
            ) from None

    def _next(self, where: str, name: str, what: str) -> SetupCall:
        level = self._levels[self._depth] if self._depth < len(self._levels) else Level()
        if level.repeated == len(level.calls):
            why = level.closed or "the ranks of the job have called nothing there"
            raise Mistake(
                f"{where}: communication ({name}) before the loop, where ranks that join later run"
                f" alone, and it cannot be repeated: {why}: {ADVICE}"
            )
        call = level.calls[level.repeated]
        if (call.name, call.what) != (name, what):
            raise Mistake(
                f"{where}: a rank that joins calls {name} ({what or 'no arguments'}) before the"
                f" loop, where the job has called {call.name} ({call.what or 'no arguments'},"
                f" {call.where}); all ranks must make the same calls"
            )
        level.repeated += 1
        return call

    def arrive(self) -> None:
        """This rank is where the job is. Mistake if it has left out a call."""
        for level in self._levels:
            if level.repeated < len(level.calls):
                call = level.calls[level.repeated]
                raise Mistake(
                    f"{call.where}: {call.name} before the loop, but ranks that join do not come to"
                    " this call; all ranks must make the same calls"
                )

    def has_arrived(self) -> None:
        """Its data are here: from now on it is a rank of the job as the others are."""
        self._meet, self.active = None, bool(self._levels)
        self._changed()


CALLS = SetupCalls()


class CallRecorder:
    """Mixed into a communicator of the job while its calls are kept."""

    __slots__ = ()


def _recording(name: str) -> Callable[..., Any]:
    def record(self: Any, *arguments: Any, **options: Any) -> Any:
        # A program may have taken the method while calls were kept.
        if not issubclass(type(self), CallRecorder):
            return getattr(self, name)(*arguments, **options)
        result = getattr(super(CallRecorder, self), name)(*arguments, **options)
        CALLS.made(name, _named(name, arguments, options), result, self.size)
        return result

    record.__name__ = name
    return record


for _name in ARGUMENTS:
    setattr(CallRecorder, _name, _recording(_name))


def _named(name: str, given: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict(zip(ARGUMENTS.get(name, ()), given, strict=False)), **options}


def described(name: str, arguments: Mapping[str, Any]) -> str:
    """What must be alike on all ranks, in words."""
    said = [f"root {arguments.get('root', 0)}"] if name.lower() == "bcast" else []
    buffer = arguments.get("recvbuf" if name.startswith("All") else "buf")
    if buffer is not None:
        memory = _memory(buffer)
        size = f"{memory.nbytes} bytes" if memory is not None else "a buffer"
        # Of an Allgather it depends on the number of ranks.
        said += [size] if name != "Allgather" else []
    return ", ".join(said)


def _kept(name: str, arguments: Mapping[str, Any], result: Any, size: int) -> bytes:
    """The result of a call, as bytes."""
    if name.lower() == "barrier":
        return b""
    if name == "allgather":
        return _alike([_pickled(each) for each in result])
    if name[0].islower():
        return _pickled(result)
    memory = _memory(arguments["buf" if name == "Bcast" else "recvbuf"])
    if memory is None:
        raise NotRepeatable("its buffer has counts, or is not in this process's memory")
    if name != "Allgather":
        return memory.tobytes()
    return _alike([part.tobytes() for part in np.split(memory, size)])


def _given(call: SetupCall, arguments: Mapping[str, Any], size: int) -> Any:
    """Give the result of a call to a rank that has made it with these arguments."""
    if call.why_not:
        raise NotRepeatable(call.why_not)
    if call.name.lower() == "barrier":
        return None
    if call.name == "allgather":
        _check_own(call.result, _pickled(arguments["sendobj"]))
        return [MPI.pickle.loads(call.result) for _ in range(size)]
    if call.name[0].islower():
        return MPI.pickle.loads(call.result)
    memory = _memory(arguments["buf" if call.name == "Bcast" else "recvbuf"])
    if memory is None:
        raise NotRepeatable("its buffer has counts, or is not in this process's memory")
    result = np.frombuffer(call.result, np.uint8)
    if call.name == "Allgather":
        sent = arguments["sendbuf"]
        own = None if sent is MPI.IN_PLACE else _memory(sent)
        if own is None or memory.nbytes != size * len(result):
            raise NotRepeatable("its buffers are others in a rank that joins")
        _check_own(call.result, own.tobytes())
        result = np.tile(result, size)
    memory[:] = result
    return None


def _alike(entries: list[bytes]) -> bytes:
    if any(entry != entries[0] for entry in entries):
        raise NotRepeatable("its result has an entry of each rank, and these differ")
    return entries[0]


def _check_own(of_job: bytes, mine: bytes) -> None:
    if of_job != mine:
        raise NotRepeatable("its result has an entry of each rank, and this rank's is another")


def _pickled(value: Any) -> bytes:
    try:
        return bytes(MPI.pickle.dumps(value))
    except Exception as e:  # whatever the program's object raises
        raise NotRepeatable(f"its result cannot be pickled ({e})") from None


def _memory(buffer: Any) -> NDArray[np.uint8] | None:
    """The bytes of a buffer as mpi4py takes it; None if it is not a whole one in memory."""
    if isinstance(buffer, (list, tuple)):
        if len(buffer) != 2 or not isinstance(buffer[1], (MPI.Datatype, str)):
            return None
        buffer = buffer[0]
    try:
        found = np.asarray(buffer if isinstance(buffer, np.ndarray) else memoryview(buffer))
    except (TypeError, ValueError):
        return None
    if not found.flags.c_contiguous:
        found = found.T
    if not found.flags.c_contiguous or found.dtype.hasobject:
        return None
    return found.reshape(-1).view(np.uint8)
