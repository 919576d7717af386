"""What the server needs of a journal: what is in the file (journal.py), or a played one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from dq_client.base import messages as m
from dq_server.core.model.actions import Action
from dq_server.core.model.events import Event
from dq_server.live.store.journal_file import ANY

if TYPE_CHECKING:
    from dq_server.live.store.journal import Entry


class Store(Protocol):
    """See the module's docstring; tests/dst has one that loses power."""

    first: int  # the first event that is kept
    patched: bool  # it was mended or restored: events may be lost, and what came of them is there

    def next_epoch(self, least: int = 0) -> int:
        """Count one more start of the server; the epoch is at least that."""

    def note(self, key: str, value: str) -> None:
        """Keep something beside the events: with the batch, or at once if there is none."""

    def noted(self, key: str) -> str:
        """What was kept; empty: nothing."""

    def chain_of(self, seq: int) -> bytes | None:
        """The checksum of an event; None if it is not kept. This and the next four: for a copy,
        between batches (journal_copy.py)."""

    def newest_snapshot(self) -> int:
        """After which event it was taken; 0: there is none."""

    def base(self) -> m.Base:
        """The newest snapshot; of event 0: there is none."""

    def lines(self, after: int, at_most: int, bytes_max: int) -> list[m.Line]:
        """Events with a larger seq, with what was archived with them."""

    def ended(self, after: int, at_most: int) -> list[tuple[int, bytes]]:
        """What was archived of jobs with a larger number."""

    def append(self, time: float, event: Event, body: str, actions: list[Action]) -> None:
        """Add an event (`body`: its text) to the batch; JournalError if that is impossible."""

    def archive(self, job: int, body: bytes) -> None:
        """Add what shall be known of an ended job to the batch; after the event of its end."""

    def archived(self, job: int) -> bytes | None:
        """What was archived of a job; None if nothing was."""

    def commit(self) -> None:
        """Make the batch safe. On JournalError nothing of it is."""

    def rollback(self) -> None:
        """Forget the batch."""

    def fault(self) -> str:
        """Why nothing can be saved at present, by trial; empty: something was. Between batches."""

    def clear(self) -> None:
        """It does not matter any more that it is patched."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Entries with a larger seq, in order, the current batch included."""

    def load_snapshot(self, before: int = ANY) -> tuple[int, bytes] | None:
        """The newest sound snapshot of an earlier event than this: after which, and what."""

    def save_snapshot(self, seq: int, body: bytes) -> None:
        """Keep a snapshot of the state after event `seq`."""

    def close(self) -> None:
        """Give the store back."""
