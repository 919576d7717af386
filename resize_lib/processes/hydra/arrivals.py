"""New ranks between their start and the merge with the job's ranks.

The job goes on computing while its new ranks start and import. When all of them have reached
`join`, the first of them reports to rank 0 of the job, and they sleep until it answers. The report
is one line on a TCP connection, which rank 0 looks at without blocking.

    new → job   TOKEN\n               all new ranks are ready
                TOKEN REASON\n        they are not where they should be: the expansion fails
    job → new   {"port": "..."}\n     connect to this MPI port now
                {"leave": true}\n     the expansion was cancelled: end

If the connection closes without an answer the new ranks end by themselves. The address and the
token travel in the new ranks' environment (DQ_JOIN=ADDRESS:PORT:TOKEN); a connection that does not
begin with the token is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import select
import shlex
import socket
import struct
import time
from collections.abc import Sequence

from dq_client.base.launch import INTERFACE_VARIABLE, PORTS_VARIABLE
from resize_lib.processes.hydra import pmi
from resize_lib.processes.interface import SpawnError

JOIN_VARIABLE = "DQ_JOIN"
ARRIVAL_LIMIT_S = 120.0
ANSWER_BYTES_MAX = 1 << 16
REASON_BYTES_MAX = 1000
SIOCGIFADDR = 0x8915  # <linux/sockios.h>: the address of a network interface


class Arrivals:
    """Rank 0's side of one expansion, from the request until the merge."""

    def __init__(self, hosts: list[str]) -> None:
        self.hosts = hosts
        self._token = secrets.token_hex(16)
        self._began_s = time.monotonic()
        self._started = False
        self._callers: dict[int, tuple[socket.socket, bytes]] = {}
        self._ready: socket.socket | None = None
        self._listener = listener()

    def environment(self) -> str:
        """The NAME=VALUE that tells a new rank whom to report to."""
        address, port = self._listener.getsockname()[:2]
        return f"{JOIN_VARIABLE}={address}:{port}:{self._token}"

    def ready(self) -> bool:
        """Whether all new ranks wait for the merge; never blocks. SpawnError if they failed."""
        return self._look(0.0)

    def wait(self) -> None:
        """Sleep until they are ready; SpawnError if they cannot be started or take too long."""
        while not self._look(max(0.0, self._left_s())):
            pass

    def take_in(self, port: str) -> None:
        """Tell the new ranks, which must be ready, the MPI port to connect to."""
        self._answer({"port": port})

    def cancel(self) -> None:
        """Tell them to leave, whether they have arrived or not."""
        self._answer({"leave": True})

    def _answer(self, answer: dict[str, object]) -> None:
        if self._ready is not None:
            with contextlib.suppress(OSError):
                self._ready.sendall(json.dumps(answer).encode() + b"\n")
            self._ready.close()
            self._ready = None
        for caller, _ in self._callers.values():
            caller.close()
        self._callers.clear()
        self._listener.close()

    def _left_s(self) -> float:
        return ARRIVAL_LIMIT_S - (time.monotonic() - self._began_s)

    def _look(self, patience_s: float) -> bool:
        """Wait up to `patience_s` for an event and handle it; returns whether all are ready."""
        if self._ready is not None:
            return True
        watched = [self._listener.fileno(), *self._callers]
        if not self._started:
            watched.append(pmi.descriptor())
        for descriptor in select.select(watched, [], [], patience_s)[0]:
            if descriptor == self._listener.fileno():
                caller, _ = self._listener.accept()
                self._callers[caller.fileno()] = (caller, b"")
            elif descriptor in self._callers:
                self._read(descriptor)
            else:
                self._note_spawn_answer()
        if self._ready is None and self._left_s() <= 0:
            self.cancel()
            raise SpawnError(
                f"{len(self.hosts)} new ranks are not ready after {ARRIVAL_LIMIT_S:g} s"
            )
        return self._ready is not None

    def _note_spawn_answer(self) -> None:
        answer = pmi.spawn_answer()
        if answer:
            self.cancel()
            raise SpawnError(answer)
        self._started = answer == ""

    def _read(self, descriptor: int) -> None:
        caller, got = self._callers.pop(descriptor)
        token = self._token.encode()
        limit = len(token) + 1 + REASON_BYTES_MAX + 1
        with contextlib.suppress(OSError):
            got += caller.recv(limit - len(got), socket.MSG_DONTWAIT) or b"\n"
        given, complete = got[: len(token)], got.endswith(b"\n")
        if complete and hmac.compare_digest(given, token):
            self._heard(caller, got[len(token) :].decode(errors="replace").strip())
        elif complete or len(got) >= limit or not token.startswith(given):
            caller.close()
        else:
            self._callers[descriptor] = (caller, got)

    def _heard(self, caller: socket.socket, reason: str) -> None:
        self._ready = caller
        if reason:
            self.cancel()
            raise SpawnError(reason)


def report(address: str, reason: str = "") -> str | None:
    """In the first new rank: say that all are ready, sleep until the job answers.

    `address` is the value of DQ_JOIN; a `reason` says that they cannot join. Returns the MPI port
    to connect to, or None to leave.
    """
    host, port, token = address.split(":")
    try:
        with socket.create_connection((host, int(port))) as job:
            words = f"{token} {reason}" if reason else token
            job.sendall(words.encode()[: len(token) + REASON_BYTES_MAX] + b"\n")
            job.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            line = job.makefile("rb").readline(ANSWER_BYTES_MAX)
        answer = json.loads(line) if line else {}
    except (OSError, ValueError):
        return None
    found = answer.get("port")
    return found if isinstance(found, str) else None


def command_with(setting: str, command: Sequence[str]) -> list[str]:
    """`command` as a job of its own that has heard of no parent, plus one NAME=VALUE.

    PMI_SPAWNED would make MPI_Init look for the parent that MPI_Comm_spawn tells of. An empty word
    in a spawn request ends mpiexec ("unable to parse PMI command"): a shell has to put it back.
    """
    words = list(command)
    if "" in words:
        words = ["/bin/sh", "-c", f"exec {shlex.join(words)}"]
    return ["/usr/bin/env", "-u", "PMI_SPAWNED", setting, *words]


def listener() -> socket.socket:
    """Where new ranks report: on a port of the cluster's range, if it has one."""
    low, _, high = os.environ.get(PORTS_VARIABLE, "0-0").partition("-")
    address, last = own_address(), int(high)
    for port in range(int(low), last + 1):
        try:
            return socket.create_server((address, port))
        except OSError as e:
            if port == last:
                raise SpawnError(f"no free port of {low} to {high} for new ranks: {e}") from e
    raise SpawnError(f"{PORTS_VARIABLE}: no range of ports: {low}-{high}")


def own_address() -> str:
    """This node's address on the network that the job's nodes share (DQ_INTERFACE names it)."""
    interface = os.environ.get(INTERFACE_VARIABLE, "lo")
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
        except OSError:
            raise SpawnError(f"no address on network interface {interface}") from None
    return socket.inet_ntoa(answer[20:24])
