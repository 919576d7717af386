"""Access control: principals are recognised by their authenticated CURVE key, nothing else.

The authenticator (ZAP) lets in the keys of the cluster's principals and of running job instances,
and no one else: it fails closed. Every message is then checked again by the key it came with (the
ZeroMQ User-Id), because a connection outlives the right to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import DOMAIN, authenticated_router, prepare
from dq_client.base.errors import UsageError

# What each role may send, as the messages themselves declare it (messages/base.py). The server's
# own key may send nothing: agents and clients recognise the server by it.
MAY: dict[str, frozenset[type[m.RequestBody]]] = {
    role: frozenset(request for request, roles in m.REQUESTS.items() if role in roles)
    for role in (*m.ROLES, "server")
}


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody with a key. Jobs have the id and instance that the key was made for."""

    role: str
    job: int = 0
    instance: int = 0


class Access:
    """The table of keys that are let in."""

    def __init__(self, folder: Path) -> None:
        self.server = keys.load(folder, "server")
        self.pair_of_user = keys.load(folder, "user")
        self._principals = {
            keys.load(folder, name).public: Principal(name) for name in m.ROLES if name != m.JOB
        }
        self._of_job: dict[int, str] = {}

    def admit_job(self, job: int, instance: int) -> keys.KeyPair:
        """Let a job instance in; returns its key pair for the application."""
        pair = keys.job_keys(self.server.secret, job, instance)
        if self._of_job.get(job) != pair.public:
            self.dismiss_job(job)  # an earlier instance
        self._principals[pair.public] = Principal("job", job, instance)
        self._of_job[job] = pair.public
        return pair

    def dismiss_job(self, job: int) -> None:
        """The job has ended: its key counts for nothing any more."""
        self._principals.pop(self._of_job.pop(job, ""), None)

    @property
    def of_roles(self) -> dict[str, str]:
        """The public keys (Z85) of the cluster's principals, the server's among them, by role."""
        known = {p.role: key for key, p in self._principals.items() if not p.job}
        return {**known, "server": self.server.public}

    def who(self, public: str) -> Principal | None:
        """The principal with this public key (Z85)."""
        return self._principals.get(public)

    def callback(self, domain: str, key: bytes) -> bool:
        """For the authenticator: may this key (Z85) connect?"""
        return domain == DOMAIN and key.decode() in self._principals


class _Authenticator(ThreadAuthenticator):
    """One that tells of the keys that are not let in, and from where they came."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        access: Access,
        refused: Callable[[str, str], None],
    ) -> None:
        super().__init__(context)
        self._access, self._refused = access, refused
        self._address = ""  # of whom is asked about now; they are asked about one by one

    async def handle_zap_message(self, msg: list[bytes]) -> None:
        """As of every authenticator: frames version, request, domain, address, ..."""
        self._address = msg[3].decode(errors="replace") if len(msg) > 3 else ""
        await super().handle_zap_message(msg)

    def callback(self, domain: str, key: bytes) -> bool:
        """May this key (Z85) connect?"""
        permitted = self._access.callback(domain, key)
        if not permitted:
            self._refused(self._address, key.decode())
        return permitted


def secure(
    context: zmq.Context[zmq.Socket[bytes]],
    access: Access,
    refused: Callable[[str, str], None] = lambda _address, _key: None,
) -> ThreadAuthenticator:
    """Start the authenticator. Must be running before any socket is bound.

    `refused` is told, in another thread, the address and the key (Z85) of who is not let in.
    """
    authenticator = _Authenticator(context, access, refused)
    authenticator.start()
    # For our domain by name: `configure_curve(domain="*")` does not cover a named one.
    authenticator.configure_curve_callback(domain=DOMAIN, credentials_provider=authenticator)
    return authenticator


def bind_router(
    context: zmq.Context[zmq.Socket[bytes]],
    authenticator: ThreadAuthenticator,
    access: Access,
    address: str,
) -> zmq.Socket[bytes]:
    """A ROUTER that only admitted keys reach, with bounded frames and queues.

    UsageError without an authenticator at work: there is no socket that asks nobody.
    """
    if not authenticator.is_alive():
        raise UsageError(f"{address}: no authenticator is running, so the socket is not opened")
    router = authenticated_router(context, access.server)
    # Per frame, so it bounds no message of many frames: connection_limits.py does.
    router.setsockopt(zmq.MAXMSGSIZE, 2 * m.FRAME_BYTES_MAX)
    router.setsockopt(zmq.SNDHWM, 2000)
    router.setsockopt(zmq.RCVHWM, 200)
    router.setsockopt(zmq.LINGER, 500)
    prepare(router, address)
    router.bind(address)
    return router
