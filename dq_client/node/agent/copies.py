"""Copies of protected jobs' data that this agent's nodes hold in memory: saved, and removed.

A job protected by `partner` keeps its copies in files in memory, below MEMORY/HOST/JOB, where they
outlive its processes (docs/protection.md). Before its ranks start here, a note says so on disk
(NOTES/JOB): it goes when the copies have. So no copy is forgotten, whoever was killed when: each
heartbeat lists the notes, and the server has the copies saved of a job that starts again, and
those of a job that has ended removed (live/orders/reconciliation.py). When the cluster is down,
`clear` saves what is still in memory.

The job may start again on other nodes, so when it is interrupted each agent writes what its nodes
hold to disk, before it reports that the nodes are clear, and removes it from memory. The files'
names say which part of which copy they are, so two nodes that hold the same part write the same
file. A disk that fails is tried again: until then the copies stay in memory.

Copies may be large, so a thread writes them while the agent goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dq_client.base import messages as m
from dq_client.base import opened, private
from dq_client.base.home import Home, machine, write_private
from dq_client.base.messages import CopyPlaces
from dq_client.node.ranks.output import PASSING

COPY_BYTES = 1 << 22  # at a time
AGAIN_S = 1.0  # until a disk that failed is tried again
NOTES = "copies"  # in the agent's folder

log = logging.getLogger("dq.agent")


class CopyNote(msgspec.Struct, frozen=True):
    """Where a job's copies are. `hosts`: what MPI calls the nodes that hold them."""

    places: CopyPlaces
    hosts: list[str]
    machine: str

    def held(self, job: int) -> list[Path]:
        """Their folders in memory."""
        return held_by(job, self.places, self.hosts)


@dataclass(slots=True)
class Saving:
    """Copies on their way to disk; `error`: why they are not there when the thread has ended."""

    thread: threading.Thread
    error: str = ""
    ended_s: float = field(default=0.0)


class CopyKeeper:
    """What one agent does about copies.

    hosts   what MPI calls its nodes
    notes   the folder of its notes
    tell    what goes wrong with a job's copies; an empty text: nothing does any more
    """

    def __init__(
        self,
        home: Home,
        hosts: Iterable[str],
        notes: Path,
        tell: Callable[[int, str], None] = lambda _job, _text: None,
    ) -> None:
        self._home, self._hosts = home, sorted(set(hosts))
        self._folder, self._tell = notes, tell
        self._notes = read_notes(notes)
        self._saving: dict[tuple[int, int], Saving] = {}  # by job and instance
        self._unwritten = set[int]()  # jobs whose note is not on disk yet
        self._over = set[int]()  # jobs whose copies shall go once nothing of them runs here

    def expect(self, job: int, env: Mapping[str, str]) -> None:
        """Ranks with this environment are about to start; a full disk is tried again."""
        if job in self._notes or not env.get("DQ_PROTECT_MEMORY"):
            return
        places = CopyPlaces(env["DQ_PROTECT_MEMORY"], env.get("DQ_PROTECT_DIR", ""))
        self._notes[job] = CopyNote(places, self._hosts, machine())
        self._unwritten.add(job)
        self._write_notes()

    def _write_notes(self) -> None:
        with contextlib.suppress(OSError):
            for job in list(self._unwritten):
                text = msgspec.json.encode(self._notes[job]).decode()
                write_private(self._folder / str(job), text)
                self._unwritten.discard(job)

    def held(self) -> list[m.CopiesHeld]:
        """What a heartbeat says."""
        self._write_notes()
        return [
            m.CopiesHeld(job, any(map(is_there, note.held(job))))
            for job, note in self._notes.items()
        ]

    def save(self, job: int, instance: int, places: CopyPlaces) -> bool:
        """Start to save what the ended instance left, or look how far that is; whether it is done.

        To be called again until it is: the caller (vacancies.py) polls anyway.
        """
        saving = self._saving.get((job, instance))
        if saving is not None and saving.thread.is_alive():
            return False
        if saving is not None and not saving.error:
            self._tell(job, "")
            return True
        if saving is not None and time.monotonic() - saving.ended_s < AGAIN_S:
            return False
        if saving is not None:
            self._tell(job, f"its copies in memory cannot be saved: {saving.error}")
        work = (job, instance, held_by(job, places, self._hosts), self._on_disk(job, places))
        thread = threading.Thread(target=self._save, args=work)
        self._saving[job, instance] = Saving(thread)
        thread.start()
        return False

    def finish(self) -> None:
        """Wait until all that was to be saved is on disk."""
        for saving in self._saving.values():
            saving.thread.join()

    def leave(self) -> None:
        """The cluster goes down, and nobody will say again what is to be removed."""
        for job in sorted(self._over):
            self.forget(job, self._notes[job].places)

    def forget(self, job: int, places: CopyPlaces, *, here: bool = False) -> None:
        """Remove all copies of a job that has ended.

        here: processes of it may still make copies on these nodes. Then nothing is done: the server
        says it again, for the note stays.
        """
        if here and job in self._notes:
            self._over.add(job)
            return
        self._over.discard(job)
        note = self._notes.pop(job, None)
        self._unwritten.discard(job)
        if note is not None:
            places = note.places
        before = [self._saving.pop(key) for key in list(self._saving) if key[0] == job]

        def remove() -> None:
            for saving in before:  # else it would write again what is removed here
                saving.thread.join()
            for held in held_by(job, places, self._hosts):
                remove_held(held)
            shutil.rmtree(self._on_disk(job, places), ignore_errors=True)
            with contextlib.suppress(OSError):  # last: it says that there may be something
                (self._folder / str(job)).unlink()

        threading.Thread(target=remove).start()

    def _on_disk(self, job: int, places: CopyPlaces) -> Path:
        return on_disk(self._home, job, places)

    def _save(self, job: int, instance: int, held: list[Path], disk: Path) -> None:
        saving = self._saving[job, instance]
        try:
            for folder in held:
                save_held(folder, disk)
        except OSError as e:
            log.warning("job %d: its copies in memory cannot be saved: %s", job, e)
            saving.error = str(e)
        saving.ended_s = time.monotonic()


def read_notes(folder: Path) -> dict[int, CopyNote]:
    """Of an agent, by job; none that cannot be read."""
    found = dict[int, CopyNote]()
    for path in sorted(folder.glob("[0-9]*")):
        with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
            found[int(path.name)] = msgspec.json.decode(opened.read(path), type=CopyNote)
    return found


def held_by(job: int, places: CopyPlaces, hosts: Iterable[str]) -> list[Path]:
    """The folders in memory that these nodes have for a job."""
    return [Path(places.memory, host, str(job)) for host in hosts] if places.memory else []


def on_disk(home: Home, job: int, places: CopyPlaces) -> Path:
    """Where the copies of a job are saved."""
    return Path(places.folder) if places.folder else home.job(job) / "copies"


def clear(home: Home) -> list[str]:
    """Save what memory of this machine has of a home's copies; nothing of it runs any more here.

    Returns what could not be saved, and stays in memory. The notes stay: the server decides what
    becomes of the copies on disk, when the cluster is up again.
    """
    errors = []
    for folder in sorted((home.root / "agents").glob(f"*/{NOTES}")):
        for job, note in read_notes(folder).items():
            if note.machine == machine():
                try:
                    for held in note.held(job):
                        save_held(held, on_disk(home, job, note.places))
                except OSError as e:
                    errors.append(f"copies of job {job} stay in {note.places.memory}: {e}")
    return errors


def save_held(held: Path, disk: Path) -> None:
    """Save a node's copies of a job, MEMORY/HOST/JOB, and remove them from memory.

    Raises:
        OSError: the disk does not take them at present. All of them are still in memory.
    """
    if not is_there(held):
        return
    for file in sorted(held.glob("*/*")):
        if file.name.startswith("."):
            continue  # a draft: its writer was killed
        try:
            save_file(file, disk / file.parent.name / file.name)
        except OSError as e:
            if e.errno in PASSING:
                raise
            log.warning("%s is not saved: %s", file, e)
    remove_held(held)


def is_there(held: Path) -> bool:
    """Whether a node has copies there; what somebody else has put there must not become ours."""
    try:
        private.check_private(held, below=held.parents[2])
    except OSError:
        return False
    return True


def remove_held(held: Path) -> None:
    """Remove a node's copies of a job, MEMORY/HOST/JOB, and the levels above that get empty.

    What is not ours alone stays as it is: the path may lead anywhere.
    """
    if not is_there(held):
        return
    with contextlib.suppress(OSError):  # other nodes of this machine have theirs there
        shutil.rmtree(held, ignore_errors=True)
        held.parent.rmdir()
        held.parent.parent.rmdir()


def save_file(source: Path, target: Path) -> None:
    """Copy a file so that it is there whole, and safe, or not at all."""
    if target.is_file() and target.stat().st_size == source.stat().st_size:
        return  # another node held the same part (drafts are renamed when whole: same size, same)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not by the pid alone: agents of several machines write here, and may have the same.
    draft = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with (
            os.fdopen(private.open_own(source), "rb") as read,
            os.fdopen(opened.open_own(draft, flags), "wb") as written,
        ):
            shutil.copyfileobj(read, written, COPY_BYTES)
            written.flush()
            os.fsync(written.fileno())
        draft.replace(target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
