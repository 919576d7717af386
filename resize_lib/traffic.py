"""What a program has begun on a communicator of the job: open receives, and where it sends.

At a resize every communicator of the job is replaced, so a message that nobody has received yet, or
a receive that nothing has completed, would be lost (under_way.py). A message can be seen by its
receiver. An open receive, and the line that has sent a message, only the object knows that they
were called on, so the methods of `GridComm` note them. A send costs 0.2 µs more by that, a
non-blocking receive 0.4, a non-blocking collective 0.6; blocking ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from sys import _getframe
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from mpi4py import MPI

from resize_lib.mistakes import is_program, short_path

C = TypeVar("C", bound=type[MPI.Comm])

# Of sends so many lines are kept, by destination and tag.
LINES_MAX = 1024
# Handles that are noted before those that are done are forgotten.
OPEN_MIN = 64
ANY = -1000  # of a call that has no source or tag

SENDS = ("send", "bsend", "ssend", "isend", "ibsend", "issend")
BUFFER_SENDS = (
    *("Send", "Bsend", "Ssend", "Rsend", "Isend", "Ibsend", "Issend", "Irsend"),
    *("Send_init", "Bsend_init", "Ssend_init", "Rsend_init"),
)
PROBES = ("mprobe", "improbe", "Mprobe", "Improbe")
# Collectives and others that return a request.
BEGUN = (
    *("Ibarrier", "Ibcast", "Igather", "Igatherv", "Iscatter", "Iscatterv", "Iallgather"),
    *("Iallgatherv", "Ialltoall", "Ialltoallv", "Ialltoallw", "Ireduce", "Iallreduce", "Iscan"),
    *("Ireduce_scatter", "Ireduce_scatter_block", "Iexscan", "Isendrecv", "Isendrecv_replace"),
)


class Opened(NamedTuple):
    """A call that has begun something. `handle`: a request, or a message that was probed for."""

    handle: MPI.Request | MPI.Message
    name: str
    source: int
    tag: int
    code: CodeType
    at: int

    @property
    def is_open(self) -> bool:
        """Whether it waits for something still, as far as is known without completing it."""
        if isinstance(self.handle, MPI.Message):
            return bool(self.handle)
        try:
            return bool(self.handle) and not self.handle.Get_status()
        except MPI.Exception:  # the program has completed a copy of the handle
            return False

    @property
    def line(self) -> str:
        """`file:line` of the call; empty if that is not the program's."""
        return line_of(self.code, self.at)


Entry: TypeAlias = tuple[MPI.Request | MPI.Message, str, int, int, CodeType, int]  # of an Opened


class Traffic:
    """Of one communicator in one process."""

    __slots__ = ("_before", "limit", "opened", "sent")

    def __init__(self) -> None:
        # By destination and tag: the first line that has sent so, since `trace`; and before.
        self.sent: dict[tuple[int, int], tuple[CodeType, int]] = {}
        self._before: dict[tuple[int, int], tuple[CodeType, int]] = {}
        # With the requests themselves: one that the program has dropped is open all the same.
        self.opened: list[Entry] = []
        self.limit = OPEN_MIN

    def note(self, dest: int, tag: int, frame: FrameType) -> None:
        """Keep the line of a send."""
        if len(self.sent) >= LINES_MAX:
            self.sent.clear()
        self.sent[dest, tag] = frame.f_code, frame.f_lasti

    def begin(
        self, handle: MPI.Request | MPI.Message, name: str, source: int, tag: int, frame: FrameType
    ) -> None:
        """Keep what a call has begun, and its line."""
        self.opened.append((handle, name, source, tag, frame.f_code, frame.f_lasti))
        if len(self.opened) > self.limit:
            self.prune()

    def trace(self) -> None:
        """A message is under way: from now on the lines that send are asked for anew."""
        self._before = {**dict([*self._before.items()][-LINES_MAX:]), **self.sent}
        self.sent.clear()

    def prune(self) -> None:
        """Forget what is done."""
        self.opened[:] = [each for each in self.opened if each[0]]
        self.limit = max(OPEN_MIN, 2 * len(self.opened))

    def first_open(self) -> Opened | None:
        """The first call whose request or message is open still."""
        return next((each for each in map(Opened._make, self.opened) if each.is_open), None)

    def line_sent(self, dest: int, tag: int) -> str:
        """Where a message was sent, as far as is known; else empty."""
        found = self.sent.get((dest, tag)) or self._before.get((dest, tag))
        return "" if found is None else line_of(*found)


def line_of(code: CodeType, at: int) -> str:
    """`file:line` of an instruction; empty if it is not the program's."""
    if not is_program(code.co_filename):
        return ""
    lines = (line for first, end, line in code.co_lines() if first <= at < end)
    return f"{short_path(code.co_filename)}:{next(lines, None) or code.co_firstlineno}"


# --- methods that note what they do; the frame above is the caller's ------------------------------


def sending(function: Callable[..., Any]) -> Callable[..., Any]:
    """A send of a buffer that notes its line."""

    @wraps(function)
    def send(self: Any, buf: Any, dest: int, tag: int = 0) -> Any:
        if (dest, tag) not in self.traffic.sent:
            self.traffic.note(dest, tag, _getframe(1))
        return function(self, buf, dest, tag)

    return send


def sending_object(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a Python object."""

    @wraps(function)
    def send(self: Any, obj: Any, dest: int, tag: int = 0) -> Any:
        if (dest, tag) not in self.traffic.sent:
            self.traffic.note(dest, tag, _getframe(1))
        return function(self, obj, dest, tag)

    return send


def receiving(function: Callable[..., Any]) -> Callable[..., Any]:
    """A receive that notes its request."""
    name = function.__name__

    @wraps(function)
    def receive(
        self: Any, buf: Any = None, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG
    ) -> Any:
        request = function(self, buf, source, tag)
        self.traffic.begin(request, name, source, tag, _getframe(1))
        return request

    return receive


def probing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A probe that notes the message that it takes out of the queue, if any."""
    name = function.__name__

    @wraps(function)
    def probe(
        self: Any,
        source: int = MPI.ANY_SOURCE,
        tag: int = MPI.ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        message = function(self, source, tag, status)
        if message is not None:
            self.traffic.begin(message, name, source, tag, _getframe(1))
        return message

    return probe


def beginning(function: Callable[..., Any]) -> Callable[..., Any]:
    """Any other call that returns a request: notes it."""
    name = function.__name__

    @wraps(function)
    def begin(self: Any, *args: Any, **more: Any) -> Any:
        request = function(self, *args, **more)
        self.traffic.begin(request, name, ANY, ANY, _getframe(1))
        return request

    return begin


def noted(kind: C) -> C:
    """Give a class of communicators methods that note what they begin, in its `traffic`."""
    for names, note in (
        (SENDS, sending_object),
        (BUFFER_SENDS, sending),
        (("irecv", "Irecv", "Recv_init"), receiving),
        (PROBES, probing),
        (BEGUN, beginning),
    ):
        for name in names:
            if hasattr(kind, name):
                setattr(kind, name, note(getattr(kind, name)))
    return kind
