"""Connections of the live page that ask nothing, or do not read, must not keep others out.

uvicorn counts connections, and refuses requests once there are too many; it never closes one that
has sent no whole request. Here such a connection has a time limit; when many are idle the oldest
of the address with the most of them is closed; and one whose reader is stuck is dropped.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_WITHIN_S = 10.0  # from the connection, or the request's first byte, to its last
IDLE_MAX = 64  # connections without a request; a browser has six
READ_WITHIN_S = 30.0  # that the kernel's buffer stays full


class LimitedProtocol(H11Protocol):
    """One connection."""

    _request_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None
    _since_s = 0.0

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def address(self) -> str:
        """Of the other side."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, if many are idle, and wait for a request."""
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._await_request()
        idle = [c for c in self.connections if isinstance(c, LimitedProtocol) and c.idle]
        if len(idle) > IDLE_MAX:
            most = Counter(c.address for c in idle).most_common(1)[0][0]
            oldest = min((c for c in idle if c.address == most), key=lambda c: c._since_s)
            oldest.transport.close()
            # Not when it is lost, which is a turn of the loop later: many may come in this one.
            self.connections.discard(oldest)

    def _await_request(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_WITHIN_S, self._too_late)

    def _stop_waiting(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _stop_watching(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _too_late(self) -> None:
        self._request_timer = None
        if self.idle:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """A piece of a request has a whole one as its end, within the limit."""
        super().data_received(data)
        if self.idle:
            self._await_request()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """The connection is idle from now on."""
        super().on_response_complete()
        self._since_s = self.loop.time()

    def pause_writing(self) -> None:
        """The other side does not read."""
        super().pause_writing()
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(READ_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        """No timer stays behind."""
        self._stop_waiting()
        super().connection_lost(exc)
        self._stop_watching()
