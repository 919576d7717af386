"""Writes the audit log: one line for each request that would change something, with its answer.

That is what only a user may ask for, and whatever a role asks for that it may not; keys that are
not let in; and the server's start, with its keys, so that others in their place are seen. What
jobs and agents report of themselves is in the journal.

A line is made of named fields of the request only (`_TOLD`): arguments and environments hold
secrets. It is written after the turn's commit and before its answers leave, so what somebody was
told has its line, but for a disk that is full: that is complained of, and ends nothing.

Who is refused can ask without end. To such lines a role, or strangers, have a right once a
second; the next one says how many there were (`times`). So nobody can push others' lines out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dq_client.base import messages as m
from dq_client.base import opened
from dq_client.base.audit import OLDER_MAX, files
from dq_client.base.private import make_private
from dq_server.live.access import Principal
from dq_server.live.rate_limited_log import RateLimitedLog

complaints = RateLimitedLog(logging.getLogger("dq.server"))

FILE_BYTES_MAX = 8 << 20
REFUSED_EVERY_S = 1.0
STRANGERS_MAX = 1000  # keys refused between two turns that are kept; more are not counted
TEXT_MAX = 300  # characters
SECRET_MIN = 4  # shorter words of a submission are found in any text
CHANGES = frozenset(request for request, roles in m.REQUESTS.items() if roles == {m.USER})

# Fields of requests that a line tells. Not argv, env, inherited, cwd, lines.
_TOLD = ("name", "node", "size", "rows", "kind", "initial", "processors", "in_s", "duration_s",
         "walltime_s", "within_s", "priority", "group", "account", "qos", "reservation", "user",
         "hold", "remove", "force", "reason")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from: the peer's address, and the public key (Z85) that it showed."""

    address: str = ""
    public: str = ""


@dataclass(slots=True)
class _Refusals:
    """Lines of one role, or of strangers, about what they may not."""

    next_s: float = 0.0  # no line is written before
    held: dict[str, Any] | None = None  # the last one that was too early
    count: int = 0  # of those


@dataclass(slots=True)
class Audit:
    """See the module's docstring. `user`: in whose name the cluster runs."""

    folder: Path
    user: str
    now: Callable[[], float]
    bytes_max: int = FILE_BYTES_MAX
    _lines: list[dict[str, Any]] = field(default_factory=list)  # of this turn
    _unanswered: dict[tuple[bytes, str], dict[str, Any]] = field(default_factory=dict)
    # From the authenticator's thread: appending and popping are atomic.
    _strangers: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=STRANGERS_MAX))
    _refusals: dict[str, _Refusals] = field(default_factory=dict)

    def started(self, keys: dict[str, str]) -> None:
        """The server has started with these public keys, by role."""
        text = " ".join(f"{role}={fingerprint(public)}" for role, public in sorted(keys.items()))
        self._lines.append(self._line("server", Origin(), "start", text=text, answer="done"))

    def asked(
        self,
        identity: bytes,
        who: Principal,
        origin: Origin,
        request: m.Request,
        jobs: Collection[int],
    ) -> None:
        """A request has come. `jobs`: all that are known; the id 0 means the last of them."""
        body = request.body
        permitted = who.role in m.REQUESTS[type(body)]
        if permitted and type(body) not in CHANGES:
            return
        if (identity, request.id) in self._unanswered:
            return  # the same one again, in the same turn: it has its line
        job = getattr(body, "job", None)
        if job is None:
            job = who.job
        elif not job:
            job = max(jobs, default=0)
        tag = str(type(body).__struct_config__.tag)
        line = self._line(who.role, origin, tag, text=_told(body), job=job)
        if permitted:
            self._lines.append(line)
            self._unanswered[identity, request.id] = {"line": line, "body": body}
        else:
            line["answer"] = "refused"
            self._refused(who.role, line)

    def answered(self, identity: bytes, request_id: str, body: m.ReplyBody) -> None:
        """A reply was made; of several in a turn, the last one leaves."""
        waiting = self._unanswered.get((identity, request_id))
        if waiting is None:
            return
        line = waiting["line"]
        line["answer"], line["why"] = "done", ""
        if isinstance(body, m.Error):
            line["answer"] = body.code
            line["why"] = _without_secrets(body.text, waiting["body"])[:TEXT_MAX]
        elif isinstance(body, m.Submitted | m.Attached):
            line["job"] = body.job

    def signalled(self, request: str, text: str) -> None:
        """A process of the cluster's user has asked by a signal; it is carried out."""
        self._lines.append(self._line("user", Origin(), request, text=text, answer="done"))

    def stranger(self, address: str, public: str) -> None:
        """A key was not let in. Called in another thread."""
        self._strangers.append((address, public))

    def write(self) -> None:
        """The turn is safe: write its lines."""
        while self._strangers:
            address, public = self._strangers.popleft()
            line = self._line("", Origin(address, public), "connect", answer="refused")
            line["why"] = "unknown key"
            self._refused("", line)
        now = self.now()
        for refusals in self._refusals.values():
            if refusals.held is not None and now >= refusals.next_s:
                self._lines.append({**refusals.held, "times": refusals.count})
                refusals.held, refusals.count, refusals.next_s = None, 0, now + REFUSED_EVERY_S
        self._unanswered.clear()
        if not self._lines:
            return
        text = "".join(f"{json.dumps(line)}\n" for line in self._lines)
        self._lines.clear()
        try:
            self._append(text.encode())
        except OSError as e:
            complaints.warning("audit log: %s: lines are missing", e)

    def _refused(self, role: str, line: dict[str, Any]) -> None:
        refusals = self._refusals.setdefault(role, _Refusals())
        if line["time_s"] >= refusals.next_s and refusals.held is None:
            self._lines.append(line)
            refusals.next_s = line["time_s"] + REFUSED_EVERY_S
        else:
            refusals.held, refusals.count = line, refusals.count + 1

    def _line(
        self, role: str, origin: Origin, request: str, *, text: str = "", answer: str = "",
        job: int = 0,
    ) -> dict[str, Any]:  # fmt: skip
        return {
            "time_s": self.now(),
            "user": self.user if role else "",
            "role": role,
            "key": fingerprint(origin.public) if origin.public else "",
            "from": origin.address,
            "request": request,
            "text": text[:TEXT_MAX],
            "answer": answer,
            "why": "",
            "job": job,
            "times": 1,
        }

    def _append(self, data: bytes) -> None:
        make_private(self.folder, below=self.folder.parent)
        names = files(self.folder)
        fd = opened.open_own(names[0], os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            # A server that was killed, or a disk that was full, may have left half a line.
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        if size + len(data) > self.bytes_max:
            for n in range(OLDER_MAX, 0, -1):
                if names[n - 1].exists():
                    names[n - 1].replace(names[n])


def fingerprint(public: str) -> str:
    """A short name of a public key."""
    return hashlib.sha256(public.encode()).hexdigest()[:12]


def _told(body: m.RequestBody) -> str:
    """The fields of a request that are told, where they say something."""
    about: Any = body.submission if isinstance(body, m.Attach) else body
    words = [f"{name}={value}" for name in _TOLD if (value := getattr(about, name, None))]
    array = getattr(about, "array", None)
    return " ".join([*words, *([f"array={len(array.indices)}"] if array is not None else [])])


def _without_secrets(text: str, body: m.RequestBody) -> str:
    """A refusal without the arguments and variables that it may quote, the longest first."""
    about = body.submission if isinstance(body, m.Attach) else body
    if not isinstance(about, m.Submit):
        return text
    array = about.array.lines if about.array is not None else []
    parts = [word for part in about.parts for word in part.argv]
    words = {*about.argv, *parts, *array, *about.env.values(), *about.inherited.values()}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= SECRET_MIN:
            text = text.replace(word, "...").replace(repr(word)[1:-1], "...")
    return text
