"""A standby becomes the server because somebody says so (docs/standby.md)."""

from __future__ import annotations

from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_server.live.standby.follower import next_epoch
from dq_server.live.standby.leader import TERM_OF_EPOCH
from dq_server.live.standby.program import WAS
from dq_server.live.store.replica import Replica


def begin(home: Home, *, meant: bool) -> None:
    """Before a server starts in a home: UsageError if that is a standby's, unless it is meant."""
    if not home.standby_file.exists():
        return
    if not meant:
        raise UsageError(
            f"{home.root} is a standby's: dq server standby goes on following. If the server is"
            " gone for good: dq server standby --take-over"
        )
    replica = Replica(home.journal)
    position = replica.position
    if position.term < 0:
        raise UsageError(
            f"{home.root}: the copy there has never been whole and cannot become a server's"
        )
    epoch = next_epoch(position)
    replica.note("term", str(epoch << TERM_OF_EPOCH))
    replica.note("epoch", str(epoch - 1))
    replica.close()
    home.standby_file.rename(home.root / WAS)
