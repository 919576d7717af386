"""The real journal, on a disk that is played: what some worlds have in place of the store.

What was committed is remembered beside it, so that each start can be judged: what the journal has
then is what was committed, and all of it that had to be there, or it refuses to start.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_server.core.scheduler import Scheduler
from dq_server.live.store import backup, checksums, journal, journal_file, maintenance, snapshot
from dq_server.live.store.journal import Entry, Journal, JournalError
from dq_server.live.store.journal_file import ANY
from dq_server.live.store.recovery import replay, restored
from tests.dst.played_files import ENDS, Files, Image
from tests.dst.stand_ins import PowerCut, Store
from tests.dst.verdict import Wrong, order_sets

if TYPE_CHECKING:
    from tests.dst.world import World

SHARE = 0.12  # of the worlds
EVENTS_KEPT = 60  # so that old events are dropped in a life of seconds
UNNOTICED_S = (
    checksums.FLUSH_S + 1.0
)  # the note may be so old (docs/years.md), and a turn takes long
SAID = re.compile(r"journal\.sqlite.*(dq restore FILE|dq server check --mend)", re.DOTALL)


def is_played(seed: int) -> bool:
    """Whether this world has a journal on a disk."""
    return random.Random(f"storage of {seed}").random() < SHARE


class NothingLeft(Exception):
    """No journal and no backup is there to go on from, and that was said; or what agents hold is
    unknown, and nobody can know that it is."""


class PlayedJournal(Store):
    """See the module's docstring."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.rng = random.Random(f"sectors of {world.seed}")
        self.files = Files(self.rng)
        self.home = Home(self.files.folder)
        self.p_damage = self.rng.choice([0.0, 0.3, 0.7])
        self.p_lie = self.rng.choice([0.0, 0.0, 0.1])
        self.p_cut = self.rng.choice([0.0, 0.01])
        self.real: Journal | None = None
        self.known: Image | None = None  # on the disk when not all is: the last that was, whole
        self.note_there: bytes = b""  # of the note, on the disk
        self.late = b""  # what it says, if that was not written any more
        self.note_flushed_s = 0.0
        self.older: Image = {}  # some image of before
        self.times: list[float] = []  # when each entry was committed
        self.records: dict[int, bytes] = {}  # archived
        self.drafts: dict[int, bytes] = {}
        self.must = 0  # so many entries have to be there at the next start
        self.cut_s: float | None = None  # the power went
        self.damage = ""  # of the files that are there
        self.lost = False  # something was, and it was said
        self.backups: dict[str, list[Entry]] = {}
        clock = SimpleNamespace(monotonic=lambda: world.now, time=lambda: 2e9 + 10_000 * world.now)
        self._patches: list[Any] = [
            mock.patch.object(checksums, "time", clock),
            mock.patch.object(checksums, "boot", lambda: f"boot-{world.clocks.boots}"),
            mock.patch.object(journal, "EVENTS_KEPT", EVENTS_KEPT),
            mock.patch.object(journal, "WAL_PAGES", 1 << 30),  # _checkpoint below
        ]

    def __enter__(self) -> None:
        for patch in self._patches:
            patch.start()

    def __exit__(self, *_: object) -> None:
        self._drop()
        self.files.close()
        for patch in self._patches:
            patch.stop()

    # --- what the server calls ----------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        """The one that is open."""
        assert self.real is not None
        return self.real

    @property
    def first(self) -> int:  # type: ignore[override]
        return self.journal.first

    @property
    def patched(self) -> bool:  # type: ignore[override]
        return self.journal.patched

    def clear(self) -> None:
        self._before_a_write()
        self.journal.clear()

    def next_epoch(self, least: int = 0) -> int:
        epoch = self.journal.next_epoch(least)
        if epoch <= self.epoch:
            raise Wrong(f"epoch {epoch} comes after {self.epoch}: agents will not obey it")
        self.epoch = epoch
        self._all_is_there()
        self.note_there = self.journal._note.known.line()  # flushed
        return epoch

    def note(self, key: str, value: str) -> None:
        self._before_a_write()
        self.journal.note(key, value)

    def noted(self, key: str) -> str:
        return self.journal.noted(key)

    def chain_of(self, seq: int) -> bytes | None:
        return self.journal.chain_of(seq)

    def append(self, time: float, event: Any, body: str, actions: list[Any]) -> None:
        super().append(time, event, body, actions)
        self.journal.append(time, event, body, actions)

    def archive(self, job: int, body: bytes) -> None:
        self.journal.archive(job, body)
        self.drafts[job] = body

    def archived(self, job: int) -> bytes | None:
        return self.journal.archived(job)

    def commit(self) -> None:
        flush, count, flushed = self.relied_on, len(self.batch), self.flushed
        if count:
            self._before_a_write()
        super().commit()  # raises if the disk is full
        self.records |= self.drafts
        self.drafts = {}
        self.times += [self.world.now] * count
        note = self.journal._note.known.line()
        self.journal.commit()
        if count and flush:
            if self._dies(self.p_cut):
                self.late = note  # it comes after the flush
                self.flushed = flushed  # nothing of it was acknowledged
                raise PowerCut
            if not self.world.faults or self.rng.random() >= self.p_lie:
                self._all_is_there()
            else:
                self.damage = "the disk lies"
        self._look_at_the_note()
        if count and self.rng.random() < 0.02:
            self._checkpoint()

    def rollback(self) -> None:
        super().rollback()
        self.drafts = {}
        if self.real is not None:
            self.real.rollback()

    def fault(self) -> str:
        self._before_a_write()
        return super().fault() or self.journal.fault()

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return self.journal.entries(after)

    def load_snapshot(self, before: int = ANY) -> tuple[int, bytes] | None:
        return self.journal.load_snapshot(before)

    def save_snapshot(self, seq: int, body: bytes) -> None:
        self._before_a_write()
        self.journal.save_snapshot(seq, body)

    # --- what is on the disk ------------------------------------------------------------------

    def _before_a_write(self) -> None:
        """What is written from now on need not arrive."""
        if self.known is None:
            self.known = self.files.image()
            if self.rng.random() < 0.1:
                self.older = self.known

    def _all_is_there(self) -> None:
        self.known = None

    def _look_at_the_note(self) -> None:
        note = self.journal._note
        if note._flushed_s != self.note_flushed_s:
            self.note_flushed_s, self.note_there = note._flushed_s, note.known.line()

    def _dies(self, p: float) -> bool:
        # Not while a server is being made: the world would not have one that could die.
        world = self.world
        return world.faults and world.server is not None and self.rng.random() < p

    def _checkpoint(self) -> None:
        """SQLite moves what is in the log to the file; it flushes the log first, the file last."""
        before = self.files.image()
        self.journal._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if self._dies(0.1):
            self.known = {**before, "": before[""]}
            self.flushed = len(self.safe)
            raise PowerCut
        self._all_is_there()
        self.flushed = len(self.safe)

    # --- the end of a server, and the next one ------------------------------------------------

    def die(self, power: bool) -> None:
        """The server's process ends, perhaps with the power, and something may be damaged."""
        super().rollback()
        self.drafts = {}
        if self.real is None:  # it died before: the files are as they are
            return
        now = self._drop()
        self.must, self.cut_s = len(self.safe), None
        if power:
            self.must, self.cut_s = self.flushed, self.world.now
            last = [self.note_there, self.late or now["-last"]]
            now = self.files.after_a_power_cut(self.known or now, now)
            now["-last"] = self.rng.choice(last)
        self.late = b""
        before = ""
        for _ in range(2):
            if self.world.faults and self.rng.random() < self.p_damage:
                # An older note knows nothing of what else is damaged: it is all that is lost then.
                ends = ("", "-wal") if before else ENDS
                way = self.rng.random() < 0.6
                done = self.files.rot(now) if way else self.files.lose(now, self.older, ends)
                if done:
                    self.damage = before = done
                    self.world.trace.append(f"{self.world.now:.3f} {done}")
                if done.startswith("write lost") and done.endswith("-last"):
                    break
        self.files.put(now)

    def stop(self) -> None:
        """The server ends in order."""
        self.journal.close()
        self.real, self.must, self.cut_s = None, len(self.safe), None
        self.flushed = len(self.safe)

    def _drop(self) -> Image:
        """The process that had the journal open is gone; the files as it left them."""
        now = self.files.image()
        if self.real is not None:
            self.real.close()
            self.real = None
            self.files.put(now)
        return now

    def open(self) -> None:
        """For a server that starts; JournalError if it may not."""
        super().rollback()
        self.real = Journal(self.files.journal)
        self._all_is_there()
        self.note_flushed_s = -1.0
        self._look_at_the_note()
        self._judge()
        self.cut_s = None

    def _judge(self) -> None:
        """Whether the journal has what was committed, and all that had to be there."""
        there = self._readable() if self.damage else list(self.journal.entries(0))
        last = self.journal._last.seq
        if last > len(self.safe):
            raise Wrong(f"the journal ends with event {last}, {len(self.safe)} were committed")
        for entry in there:
            if entry != self.safe[entry.seq - 1]:
                raise Wrong(f"event {entry.seq} is another one, after: {self.damage}")
        if last < self.must:
            age_s = self.world.now if self.cut_s is None else self.cut_s - self.times[last]
            if not (self.damage and self.cut_s is not None and age_s <= UNNOTICED_S):
                raise Wrong(
                    f"events {last + 1} to {self.must} are lost, and nothing is said"
                    f" ({self.damage}; {age_s:.1f} s old)"
                )
            raise NothingLeft  # that goes unnoticed, as docs/years.md says
        self._forget(last, said=False)
        if self.damage:
            self._judge_state(last)

    def _readable(self) -> list[Entry]:
        """The events that can be read; what precedes a sound snapshot nobody needs."""
        _, _, after = restored(self.journal)
        return list(self.journal.entries(after))

    def _judge_state(self, last: int) -> None:
        """Proof that damage nobody noticed is harmless: the state is that of the events."""
        right = Scheduler()
        for entry in self.safe[:last]:
            replay(right, entry)
        found, _, after = restored(self.journal)
        for entry in self.journal.entries(after):
            replay(found, entry)
        for one in (found, right):
            order_sets(one.state.processors)
        if snapshot.encode(found, 0.0) != snapshot.encode(right, 0.0):
            raise Wrong(f"the state is another one, after: {self.damage}")

    def _forget(self, last: int, *, said: bool = True) -> None:
        self.lost = self.lost or said
        del self.safe[last:], self.times[last:]
        self.flushed = last

    # --- whoever looks after it ---------------------------------------------------------------

    def arrive(self) -> None:
        """From now on somebody takes backups, and stops the server and starts it again."""
        self.world.later(self.rng.uniform(0.5, 4.0), self.look_after)

    def look_after(self) -> None:
        """One thing that an operator does."""
        world = self.world
        if not world.faults:
            return
        if world.server is not None and not self.batch:
            if self.rng.random() < 0.6:
                self.back_up()
            else:
                world.trace.append(f"{world.now:.3f} server stops")
                world.server.take_snapshot()
                world.server = None
                self.stop()
                world.later(self.rng.uniform(0.1, 1.0), world.start_again)
        world.later(self.rng.uniform(1.0, 10.0), self.look_after)

    def back_up(self) -> None:
        """`dq backup`, while the server runs."""
        name = f"backup-{len(self.backups)}"
        try:
            backup.write(self.home, self.files.folder / name)
        except backup.Damaged as e:
            if not self.damage:
                raise Wrong(f"nothing is damaged, and no backup is made: {e}") from e
        else:
            self.backups[name] = list(self.safe)

    def refused(self, error: JournalError) -> bool:
        """A server would not start: do as it says. Whether another one has something to start."""
        self.world.trace.append(f"{self.world.now:.3f} refused: {error}")
        if not self.damage:
            raise Wrong(f"nothing is damaged, and no server starts: {error}")
        if not SAID.search(str(error)) or "\n" in str(error):
            raise Wrong(f"it does not say which file is damaged, and what to do: {error}")
        if self.real is not None:
            self._drop()
        replaced = self._mend() or self._restore()
        self.damage, self.lost = "", True
        return replaced

    def _mend(self) -> bool:
        if self.backups and self.rng.random() < 0.3:
            return False
        try:
            done = maintenance._mend(self.home)
        except (DQError, JournalError) as e:
            self.world.trace.append(f"{self.world.now:.3f} cannot be mended: {e}")
            return False
        self.world.trace.append(f"{self.world.now:.3f} mended to {done['sound_to']}")
        self._forget(done["sound_to"])
        self._take_in_what_was_added()
        return True

    def _take_in_what_was_added(self) -> None:
        """An event that stands for those before a snapshot, if they are gone."""
        with closing(journal_file.opened_to_read(self.files.journal)) as db:
            last = len(self.safe)
            self.safe += journal.read_entries(db, self.files.journal, last)
        self.times += [self.world.now] * (len(self.safe) - last)
        self.must = self.flushed = len(self.safe)

    def _restore(self) -> bool:
        if not self.backups:
            return False
        name = self.rng.choice(sorted(self.backups))
        maintenance._restore(self.home, self.files.folder / name)
        self.world.trace.append(f"{self.world.now:.3f} restored {name}")
        self.safe = list(self.backups[name])
        self.times = [0.0] * len(self.safe)
        self.must = self.flushed = len(self.safe)
        self.lost = True
        return True
