"""A client's connection to the server: encrypted (CURVE), with time-outs and retries.

ZeroMQ reconnects by itself. A request is sent again under the same id until its reply comes or the
time is up; every request is safe to repeat. A server that refuses a key sends nothing at all, so
the socket's monitor is watched for the failed handshake.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec
import zmq

from dq_client.base import codec, keys, versions
from dq_client.base.address import is_ipv6, is_remote
from dq_client.base.errors import BY_CODE, DQError, NoServer, Refused, UsageError
from dq_client.base.home import Home
from dq_client.base.keys import KeyPair
from dq_client.base.messages.base import FROM_SERVER_BYTES_MAX, Error, ReplyBody, RequestBody
from dq_client.base.messages.frames import FromServer, Order, Reply, Request
from dq_client.base.messages.users import Data, JobsQuery, NodesQuery

DOMAIN = "dq"  # of authentication
RESEND_S = 1.0
PAGE_ROWS = 150  # so many jobs take the server 2 ms
RECONNECT_MS_MAX = 400  # a server that was killed is back in less than a second
UNEXPLAINED_MAX = 3  # failed handshakes without a reason: one may be a server that died just then


# Of a line to another machine. TCP's own back-off would keep a connection dead for as long again as
# the line was cut; a new one is tried every CONNECT_MS from the moment on that this one is missed.
ALIVE_EVERY_MS = 1000
ALIVE_WITHIN_MS = 4000
CONNECT_MS = 1000


def prepare(socket: zmq.Socket[bytes], address: str) -> None:
    """Options of both ends that depend on where the address lies."""
    socket.setsockopt(zmq.IPV6, is_ipv6(address))
    if not is_remote(address):
        return  # no line that could break; a process that stands still is no reason to hang up
    socket.setsockopt(zmq.HEARTBEAT_IVL, ALIVE_EVERY_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, ALIVE_WITHIN_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, ALIVE_WITHIN_MS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)


def authenticated_router(
    context: zmq.Context[zmq.Socket[bytes]], pair: KeyPair
) -> zmq.Socket[bytes]:
    """A ROUTER, not bound yet, for keys that the context's authenticator lets in for DOMAIN."""
    router = context.socket(zmq.ROUTER)
    router.curve_server = True
    router.curve_secretkey = pair.secret.encode()
    router.curve_publickey = pair.public.encode()
    # Without an authenticator CURVE lets any stranger's key in; an enforced domain fails closed.
    router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN.encode())
    router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    # Without it a message to a full queue is dropped silently; with it the send raises.
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.HANDSHAKE_IVL, 5000)
    return router


class Connection:
    """One DEALER socket. Not for use by several threads."""

    def __init__(
        self,
        address: str,
        server_public: str,
        keys: KeyPair,
        decode: Callable[[bytes], FromServer] = codec.decode_from_server,
    ) -> None:
        self.address = address
        self._decode = decode
        self.orders: deque[Order] = deque()  # what an agent was told, oldest first
        self._ids = (f"{os.getpid():x}.{os.urandom(4).hex()}.{n}" for n in count(1))
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        s = self.socket
        s.linger = 200
        # Above the limit of the codec, which has an error for it; beyond this one ZeroMQ hangs up.
        s.setsockopt(zmq.MAXMSGSIZE, FROM_SERVER_BYTES_MAX + (1 << 20))
        s.setsockopt(zmq.HANDSHAKE_IVL, 5000)
        s.setsockopt(zmq.RECONNECT_IVL, 50)
        s.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MS_MAX)
        s.curve_serverkey = server_public.encode()
        s.curve_publickey = keys.public.encode()
        s.curve_secretkey = keys.secret.encode()
        self.monitor = s.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_SUCCEEDED
        )
        self.handshakes = 0  # how often a server has let us in
        self._unexplained = 0
        prepare(s, address)
        s.connect(address)

    @classmethod
    def to(cls, home: Home, role: str = "user") -> Connection:
        """Connect to the running server of a home with the key of a user or a viewer.

        Raises:
            NoServer: no server runs there.
            UsageError: a key is missing, or others can read it; the server is of another version
                or cluster.
        """
        info = home.server()
        versions.require_server(info, home.root)
        require_same_cluster(info, home)
        pair = keys.load(home.keys, role)
        server = keys.load(home.keys, "server").public
        return cls(info["address"], server, pair, codec.decode_to_user)

    def send(self, body: RequestBody) -> str:
        """Send without waiting; returns the request's id."""
        return self._new(body).id

    def send_request(self, request: Request) -> None:
        """Send it for the first time or again; NoServer if nobody has read for long."""
        try:
            # Without NOBLOCK a full queue would stop an agent's loop while the server is away.
            self.socket.send(codec.encode(request), zmq.NOBLOCK)
        except zmq.Again:
            raise NoServer(f"the queue to {self.address} is full and is not being read") from None

    def receive(self, timeout_s: float = 0.0) -> Reply | Order | None:
        """The next message, or None when `timeout_s` is over."""
        if not self.socket.poll(max(0, int(timeout_s * 1000))):
            return None
        return self._decode(self.socket.recv())

    def call(
        self,
        body: RequestBody,
        timeout_s: float = 5.0,
        unless: Callable[[], bool] = lambda: False,
    ) -> ReplyBody:
        """Send and wait for the reply; an Error reply is raised as the exception it names.

        Long lists come in pages, so that no answer keeps the server from all else; each page has
        the whole time.

        unless  there is no sense in waiting here any longer: NoServer
        """
        if not isinstance(body, JobsQuery | NodesQuery):
            return self._told(body, timeout_s, unless)
        key = "id" if isinstance(body, JobsQuery) else "name"
        rows: dict[int | str, Any] = {}  # a row that is told twice stands where it was first
        more: int | str | None = body.after
        while more is not None:
            page = msgspec.structs.replace(body, after=more, at_most=PAGE_ROWS)
            reply = self._told(page, timeout_s, unless)
            assert isinstance(reply, Data)
            rows.update((row[key], row) for row in reply.data)
            more = reply.more
        return Data(list(rows.values()))

    def _told(self, body: RequestBody, timeout_s: float, unless: Callable[[], bool]) -> ReplyBody:
        reply = self.ask(body, timeout_s, unless)
        if isinstance(reply, Error):
            raise BY_CODE.get(reply.code, DQError)(reply.text)
        return reply

    def ask(
        self,
        body: RequestBody,
        timeout_s: float = 5.0,
        unless: Callable[[], bool] = lambda: False,
    ) -> ReplyBody:
        """Like `call`, but an Error reply is returned. NoServer when the time is up."""
        deadline = time.monotonic() + timeout_s
        question = self.begin(body)
        while (left := deadline - time.monotonic()) > 0 and not unless():
            reply = question.poll(min(left, 0.25))
            if reply is not None:
                return reply
        raise NoServer(f"the server at {self.address} does not answer ({timeout_s:g} s)")

    def begin(self, body: RequestBody) -> Question:
        """Ask without waiting. Whatever else is asked before its reply is there loses the reply."""
        return Question(self, self._new(body))

    def _new(self, body: RequestBody) -> Request:
        request = Request(next(self._ids), body)
        self.send_request(request)
        return request

    def check_refused(self) -> None:
        """Raise Refused if the server has turned our key away."""
        while self.monitor.poll(0):
            # pyzmq's own helper imports asyncio, which costs every command 40 ms.
            (event,) = struct.unpack_from("=H", self.monitor.recv_multipart()[0])
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.handshakes += 1
                self._unexplained = 0
                continue
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                raise Refused(f"the server at {self.address} refuses this key")
            # A server that cannot make sense of us, its key being another, just hangs up.
            self._unexplained += 1
            protocol = event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            if protocol or self._unexplained >= UNEXPLAINED_MAX:
                raise Refused(
                    f"the process that answers at {self.address} is no DQ server with this key"
                )

    def close(self) -> None:
        """Close the sockets; what was sent gets 0.2 s to leave."""
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.socket.close()
        self._context.term()


class Question:
    """A request that was sent; it is sent again while its reply is awaited."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection, self._request = connection, request
        self._resend_s = time.monotonic() + RESEND_S

    def poll(self, timeout_s: float) -> ReplyBody | None:
        """The reply, or None if it has not come when the time is up, or something else has.

        Raises:
            Refused: the server has turned our key away.
            NoServer: nobody has read for so long that the queue is full.
        """
        connection = self._connection
        if time.monotonic() >= self._resend_s:
            connection.send_request(self._request)
            self._resend_s = time.monotonic() + RESEND_S
        message = connection.receive(timeout_s)
        if isinstance(message, Order):
            connection.orders.append(message)
        # A reply with another id answers an earlier request whose time was up.
        elif message is not None and message.id == self._request.id:
            return message.body
        connection.check_refused()
        return None


def require_same_cluster(info: Mapping[str, Any], home: Home) -> None:
    """UsageError if the server's file is of another cluster than the keys of this home."""
    named, kept = info.get("cluster") or "", home.cluster()
    if named and kept and named != kept:
        raise UsageError(
            f"{home.server_file} names the server of another cluster ({named}) than the keys beside"
            f" it ({kept}): remove it, then dq up"
        )


def ask(connection: Connection, body: RequestBody, timeout_s: float = 5.0) -> Any:
    """The data that the server answers; None if the request has no data for an answer."""
    reply = connection.call(body, timeout_s)
    return reply.data if isinstance(reply, Data) else None
