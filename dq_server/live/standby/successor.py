"""Whether the standby of this server has taken its place: asked while this one may not act."""

from __future__ import annotations

import logging
import time

from dq_client.base import messages as m
from dq_client.base.connection import Connection, Question
from dq_client.base.errors import DQError
from dq_server.live.access import Access
from dq_server.live.standby.leader import Pairing

log = logging.getLogger("dq.server")

AGAIN_S = 0.5


class OtherServer:
    """At the standby's address. Nothing here waits."""

    def __init__(self, pairing: Pairing, access: Access) -> None:
        self._pairing, self._access = pairing, access
        self._connection: Connection | None = None
        self._question: Question | None = None
        self._next_s = 0.0

    def serves(self) -> bool:
        """A server with a newer copy is there: this one is none any more."""
        record, now = self._pairing.record, time.monotonic()
        if self._pairing.way != "seeks" or record is None:
            self.close()
            return False
        if now < self._next_s:
            return False
        self._next_s = now + AGAIN_S
        try:
            if self._connection is None:
                keys = self._access.pair_of_user
                self._connection = Connection(record.address, self._access.server.public, keys)
            if self._question is None:
                self._question = self._connection.begin(m.Hello(m.PROTOCOL, "server"))
            reply = self._question.poll(0.0)
        except DQError as e:
            log.info("%s", e)
            self.close()
            return False
        if reply is not None:
            self._question = None
        if isinstance(reply, m.Welcome) and reply.term > record.term:
            log.error("%s is the server now, epoch %d: this one ends", record.address, reply.epoch)
            self._pairing.replaced_by = record.address
            return True
        return False

    def close(self) -> None:
        """Close what is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._question = None
