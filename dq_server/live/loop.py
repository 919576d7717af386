"""The server's socket loop: one socket, one loop, the only clock.

A turn of the loop hands all messages that have arrived to the server's logic (server.py), which
decides what leaves.
"""

from __future__ import annotations

import logging
import os
import pwd
import time
from collections.abc import Callable, Sequence

import zmq

from dq_client.base.home import Home
from dq_server.core.model.config import SchedulerConfig
from dq_server.live import access, allocation
from dq_server.live.audit import Audit, Origin
from dq_server.live.clock import clock_of
from dq_server.live.connection_limits import Guard
from dq_server.live.engines.link import EngineLink
from dq_server.live.rate_limited_log import RateLimitedLog
from dq_server.live.server import Server
from dq_server.live.standby.successor import OtherServer
from dq_server.live.store import identity
from dq_server.live.store.journal import Journal
from dq_server.live.store.read_only import Stalled
from dq_server.live.supervised import Supervised

log = logging.getLogger("dq.server")
complaints = RateLimitedLog(log)

BATCH_MAX = 100  # messages a turn: all of them wait for its commit
TURN_BYTES_MAX = 8 << 20  # of answers
IO_THREADS = 2  # a flood keeps one of them busy
TICK_S = 0.25
LAST_WORDS_S = 1.0


class Front:
    """See the module's docstring. `run` blocks until the server is told to stop."""

    def __init__(
        self,
        home: Home,
        address: str = "tcp://127.0.0.1:*",
        config: SchedulerConfig | None = None,
        *,
        heartbeat_s: float = 2.0,
        lost_after_s: float | None = None,
        expected: Sequence[str] = (),
        clock: Callable[[], float] | None = None,
        engine: EngineLink | None = None,
        reads: bool = False,
        least_epoch: int = 0,
        options: tuple[str, ...] = (),
    ) -> None:
        """clock: another time than the cluster's own (clock.py); the others as for the server."""
        admitted = access.Access(home.keys)
        self.clock = clock_of(home.root / "clock.json") if clock is None else None
        self._supervised = Supervised(home)
        self._allocation = None if reads else allocation.watch(home)
        self._goes_down = False
        self.tick_s = min(TICK_S, heartbeat_s / 8)
        self.journal = Journal(home.journal)
        try:
            self.cluster = "" if reads else identity.settle(self.journal, home)
        except BaseException:
            self.journal.close()
            raise
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=IO_THREADS)
        user = pwd.getpwuid(os.getuid()).pw_name
        now = clock or self.clock or time.time
        self._audit = audit = Audit(home.audit, user, now)
        self._authenticator = access.secure(self._context, admitted, audit.stranger)
        try:
            # First the state, then the door: a running job whose key is not known yet would be
            # turned away, and libzmq does not knock twice.
            self.server = Server(
                self.journal,
                admitted,
                self._send,
                config,
                user=user,
                heartbeat_s=heartbeat_s,
                lost_after_s=lost_after_s,
                home=home,
                expected=expected,
                clock=now,
                off_s=self._off_s,
                engine=engine,
                reads=reads,
                audit=None if reads else audit,
                least_epoch=least_epoch,
                options=options,
            )
            self.router = access.bind_router(self._context, self._authenticator, admitted, address)
            self.guard = Guard(self._context, self.router)
        except BaseException:
            self._authenticator.stop()
            self._context.destroy(linger=0)
            self.journal.close()
            raise
        self.address = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.server.desk.address = self.address
        audit.started(admitted.of_roles)

    def _off_s(self) -> float:
        return 0.0 if self.clock is None else self.clock.off_s

    def run(self) -> None:
        """Serve until stopped."""
        server = self.server
        poller = zmq.Poller()
        poller.register(self.router, zmq.POLLIN)
        poller.register(self.guard.monitor, zmq.POLLIN)
        next_tick = 0.0
        other = OtherServer(server.pairing, server.access)
        while not (server.stopping or other.serves()):
            wait_s = server.wait_s(self.tick_s)
            # Rounded up: a wait of less than a millisecond would otherwise be a busy loop.
            poller.poll(int(1000 * wait_s) + (wait_s > 0))
            self.guard.watch()
            self.read_messages()
            ticks = time.monotonic() >= next_tick or wait_s == 0
            if ticks:
                next_tick = time.monotonic() + self.tick_s
                server.tick()
                if not server.desk.draining and self._supervised.look(now := time.monotonic()):
                    server.agents.forgive(self.tick_s, until_s=now)
                self.guard.check()
                self._end_with_allocation()
            if self._goes_down:
                self._goes_down = False
                self._go_down()
            server.finish_turn()
            # After the commit: a job may run again if its end could not be saved.
            if ticks and self.clock is not None and self.clock.look(idle=server.idle):
                server.catch_up()
                server.finish_turn()
        self._say_last(poller)
        other.close()
        self.close()

    def _say_last(self, poller: zmq.Poller) -> None:
        """Tell a standby that this server stops, and say what has waited for it."""
        pairing, until_s = self.server.pairing, time.monotonic() + LAST_WORDS_S
        if not self.server.begin_again:
            pairing.rest("down" if self.server.desk.draining else "stopped")
        while pairing.way == "paired" and pairing.tells and time.monotonic() < until_s:
            poller.poll(20)
            self.guard.watch()
            self.read_messages()
            self.server.finish_turn()

    def read_messages(self) -> None:
        """Hand on what has arrived, as much as a turn may have."""
        for _ in range(BATCH_MAX):
            if self.server.outbox_bytes > TURN_BYTES_MAX:
                return
            try:
                identity = self.router.recv(zmq.NOBLOCK)
            except zmq.Again:
                self.guard.all_read()
                return
            # Uncopied: only such a frame tells who sent it (the ZAP User-Id) and by which socket.
            last = frame = self.router.recv(copy=False)
            extra = 0
            while last.more:
                last = self.router.recv(copy=False)
                extra += 1
            self._read_message(identity, frame, extra)

    def _read_message(self, identity: bytes, frame: zmq.Frame, extra: int) -> None:
        try:
            connection, public = int(frame.get(zmq.SRCFD)), str(frame.get("User-Id"))
        except zmq.ZMQError:
            return
        self.guard.heard(connection, identity)
        principal = self.server.access.who(public)
        if principal is None:
            return  # its key counts no more (the job has ended), but its connection outlives that
        if extra:
            complaints.warning("a message of %d frames from %s", extra + 1, principal.role)
            self.guard.cut(connection)
            return
        origin = Origin(self.guard.address(connection), public)
        self.server.receive(identity, principal, frame.bytes, origin)

    def _send(self, identity: bytes, frame: bytes) -> None:
        self.guard.watch()  # a turn may be long: who it is for may have left since it began
        if not self.guard.may_send(identity, len(frame)):
            return
        try:
            self.router.send_multipart([identity, frame], zmq.NOBLOCK)
        except zmq.ZMQError as e:  # gone, or its queue is full: it will ask again
            log.debug("a message could not be sent: %s", e)

    def go_down(self) -> None:
        """End all jobs, dismiss the agents and leave, from the next turn on."""
        self._goes_down = True

    def _end_with_allocation(self) -> None:
        watch, now = self._allocation, time.monotonic()
        if watch is not None and watch.is_over(now, has_nodes=bool(self.server.agents.by_node)):
            log.warning("allocation %s of Slurm has ended: so does its cluster", watch.job)
            self._allocation = None
            self._end_all()

    def _go_down(self) -> None:
        log.warning("told by a signal to go down with all jobs")
        self._audit.signalled("stop", "force=True")
        self._end_all()

    def _end_all(self) -> None:
        try:
            self.server.stop(force=True)
        except Stalled as e:  # the end of the jobs cannot be noted; who sent the signal ends them
            log.warning("%s", e)
            self.server.stopping = True

    def stop(self) -> None:
        """Leave at once; jobs go on and the next server finds them."""
        self.server.stopping = True

    def close(self) -> None:
        """Give everything back."""
        self.server.finish_turn()
        self.server.take_snapshot()
        if self.server.engine is not None:
            self.server.engine.stop()
        self.guard.close()
        self.router.close()
        self._authenticator.stop()
        self._context.term()
        self.journal.close()
