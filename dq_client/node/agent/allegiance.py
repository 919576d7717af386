"""Which server an agent obeys, if there may be two: the one it knows, and its standby.

The agent is one of those who decide between them (live/standby/leader.py, docs/standby.md). What
it has agreed to is on its disk before it says so:

    promised  it obeys no server of an earlier epoch
    term      the copy of the journal that it knows to be the newest

While it hears its server, nothing else happens. When it has not for a while it asks the other
address what to do, twice a second, until one of them is the server that it obeys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dq_client.base import messages as m
from dq_client.base import opened
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.base.home import write_private
from dq_client.base.text_files import struct_of

log = logging.getLogger("dq.agent")

ASKED_AGAIN_S = 0.5
ASKS_S = 0.05  # between looks for an answer
SILENT_BEATS = 1.75  # a server that answers so many heartbeats not is lost; asking costs nothing


class AllegianceRecord(msgspec.Struct):
    """What is on the disk.

    server  the address of the server
    other   of its standby, if there is one
    given   of the server that the agent was started for
    """

    server: str
    other: str = ""
    promised: int = 0
    term: int = 0
    given: str = ""


@dataclass(slots=True)
class Allegiance:
    """See the module's docstring.

    connect  a connection to another address, with the agent's key
    keep     keeps the text of `kept`; OSError if it cannot
    """

    kept: AllegianceRecord
    connect: Callable[[str], Connection]
    keep: Callable[[str], None]
    limit_s: float
    heard_s: float = 0.0
    moves_to: Connection | None = None  # there is the server now
    _side: Connection | None = None
    _asked: str = ""
    _asked_s: float = float("-inf")

    def obeys(self, epoch: int) -> bool:
        """Whether a server of this epoch is obeyed."""
        return epoch >= self.kept.promised

    def promised_to(self, epoch: int) -> int:
        """What a server of this epoch, which has taken us in, is told."""
        return max(self.kept.promised, epoch)

    def welcomed(self, epoch: int) -> bool:
        """A server of this epoch takes us in; whether we take it."""
        if not self.obeys(epoch):
            return False
        # Without a standby there is nobody to choose from, and nothing to keep.
        return not self.kept.other or self._agree(promised=epoch)

    def expect(self, period_s: float) -> None:
        """The server answers a heartbeat each period (s)."""
        self.limit_s = SILENT_BEATS * period_s

    def heard(self, now: float) -> None:
        """From the server that we obey."""
        self.heard_s = now
        self._drop()

    def recognize(self, order: m.Recognize, epoch: int) -> None:
        """The server of `epoch` tells of its standby, and of its term."""
        kept = self.kept
        if self.obeys(epoch) and order.term >= kept.term:
            self._agree(promised=max(epoch, kept.promised), term=order.term, other=order.address)

    def _agree(self, **changes: object) -> bool:
        after = msgspec.structs.replace(self.kept, **changes)
        if after != self.kept:
            try:
                self.keep(msgspec.json.encode(after).decode())
            except OSError as e:
                log.warning("nothing can be agreed to: %s", e)
                return False
            self.kept = after
        return True

    def patience_s(self, now: float) -> float:
        """How long nothing is to be done here unless a message comes."""
        if not self.kept.other:
            return float("inf")
        return max(ASKS_S if self._side is not None else 0.0, self.heard_s + self.limit_s - now)

    # --- without a server ---------------------------------------------------------------------

    def look(self, now: float, agent: str, nodes: list[str]) -> None:
        """Ask the other address, if the server is silent."""
        if not self.kept.other or not nodes or now - self.heard_s < self.limit_s:
            return
        if self._side is None:
            log.warning("the server %s is silent: asking %s", self.kept.server, self.kept.other)
            self._side = self.connect(self.kept.other)
        try:
            self._side.check_refused()
            while (message := self._side.receive()) is not None:
                if isinstance(message, m.Reply) and message.id == self._asked:
                    self._told(message.body)
                    if self.moves_to is not None:
                        self.heard_s = now
                        return
        except DQError as e:
            log.warning("%s", e)
        if now - self._asked_s >= ASKED_AGAIN_S:
            self._asked_s, kept = now, self.kept
            ballot = m.Ballot(agent=agent, nodes=nodes, promised=kept.promised, term=kept.term)
            try:
                self._asked = self._side.send(ballot)
            except DQError as e:  # nobody reads
                log.debug("%s", e)

    def _told(self, body: m.ReplyBody) -> None:
        if not isinstance(body, m.Standing):
            return
        kept, at_once = self.kept, False
        match body.stage:
            case "promise" if body.epoch > kept.promised and body.term >= kept.term:
                at_once = self._agree(promised=body.epoch)
            case "install" if body.epoch >= kept.promised and body.term > kept.term:
                at_once = self._agree(promised=body.epoch, term=body.term)
            case "serves" if self._follows(body) and not body.address:
                self._move(body.epoch)
        if at_once:  # the others wait for it
            self._asked_s = float("-inf")

    def _follows(self, told: m.Standing) -> bool:
        return self.obeys(told.epoch) and told.term >= self.kept.term

    def redirected(self, told: m.Standing) -> None:
        """At our server's address there is a standby, which knows where the server is."""
        if told.stage == "serves" and told.address and self._follows(told):
            kept = self.kept
            self._drop()
            if self._agree(promised=told.epoch, server=told.address, other=kept.server):
                self.moves_to = self.connect(told.address)

    def _move(self, epoch: int) -> None:
        """The server of this epoch is at the other address."""
        kept = self.kept
        if self._agree(promised=epoch, server=kept.other, other=kept.server):
            log.warning("the server is at %s now, epoch %d", self.kept.server, epoch)
            self.moves_to, self._side = self._side, None

    def _drop(self) -> None:
        if self._side is not None:
            self._side.close()
            self._side = None

    def close(self) -> None:
        """Close what is open."""
        self._drop()


def allegiance_of(
    folder: Path, address: str, connect: Callable[[str], Connection], heartbeat_s: float
) -> Allegiance:
    """What an agent has kept in its folder; `address`: of the server that it was started for."""
    path = folder / "allegiance"

    def keep(text: str) -> None:
        write_private(path, text)
        # What was promised holds, also if the power fails now.
        for place in (path, folder):
            opened.sync(place)
        publish(folder, msgspec.json.decode(text, type=AllegianceRecord).server)

    kept = AllegianceRecord(address, given=address)
    with suppress(FileNotFoundError):
        kept = struct_of(path, AllegianceRecord, "which server does this agent obey?")
    if kept.given != address:  # another start of the cluster; what was promised holds
        kept = AllegianceRecord(address, promised=kept.promised, term=kept.term, given=address)
    publish(folder, kept.server)
    return Allegiance(kept, connect, keep, SILENT_BEATS * heartbeat_s)


def publish(folder: Path, address: str) -> None:
    """Where ranks find the server when theirs is silent (resize_lib/server_link.py)."""
    write_private(folder / "server", address)
