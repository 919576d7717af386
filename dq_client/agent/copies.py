"""Copies of protected jobs' data that this agent's nodes hold in memory: saved, and removed.

A job protected by `partner` keeps its copies in files in memory, below MEMORY/HOST/JOB, where they
outlive its processes (docs/protection.md). The job may start again on other nodes, so when it is
interrupted each agent writes what its nodes hold to disk, before it reports that the nodes are
clear, and removes it from memory. The files' names say which part of which copy they are, so two
nodes that hold the same part write the same file.

Copies may be large, so a thread writes them while the agent goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from dq_client import private
from dq_client.home import Home
from dq_client.messages import CopyPlaces

COPY_BYTES = 1 << 22  # at a time

log = logging.getLogger("dq.agent")


class CopyKeeper:
    """What one agent does about copies. `hosts`: what MPI calls its nodes."""

    def __init__(self, home: Home, hosts: Iterable[str]) -> None:
        self._home, self._hosts = home, sorted(set(hosts))
        self._saving: dict[tuple[int, int], threading.Thread] = {}  # by job and instance

    def save(self, job: int, instance: int, places: CopyPlaces) -> bool:
        """Start to save what the ended instance left, or look how far that is; whether it is done.

        To be called again until it is: the caller (vacancies.py) polls anyway.
        """
        thread = self._saving.get((job, instance))
        if thread is None:
            work = (job, places, self._on_disk(job, places))
            thread = threading.Thread(target=self._save, args=work)
            self._saving[job, instance] = thread
            thread.start()
        return not thread.is_alive()

    def finish(self) -> None:
        """Wait until all that was to be saved is on disk."""
        for thread in self._saving.values():
            thread.join()

    def forget(self, job: int, places: CopyPlaces) -> None:
        """Remove all copies of a job that has ended."""
        saving = [key for key in self._saving if key[0] == job]
        before = [self._saving.pop(key) for key in saving]

        def remove() -> None:
            for thread in before:  # else it would write again what is removed here
                thread.join()
            for held in self._held(job, places):
                remove_held(held)
            shutil.rmtree(self._on_disk(job, places), ignore_errors=True)

        threading.Thread(target=remove).start()

    def _held(self, job: int, places: CopyPlaces) -> list[Path]:
        if not places.memory:
            return []
        return [Path(places.memory, host, str(job)) for host in self._hosts]

    def _on_disk(self, job: int, places: CopyPlaces) -> Path:
        return Path(places.folder) if places.folder else self._home.job(job) / "copies"

    def _save(self, job: int, places: CopyPlaces, disk: Path) -> None:
        for held in self._held(job, places):
            try:
                if not held.exists():
                    continue
                # What somebody else has put there must not become the owner's.
                private.check_private(held, below=Path(places.memory).parent)
                for file in sorted(held.glob("*/*")):
                    if not file.name.startswith("."):  # else a draft: its writer was killed
                        save_file(file, disk / file.parent.name / file.name)
            except OSError as e:
                log.warning("job %d: its copies in %s cannot be saved: %s", job, held, e)
            remove_held(held)


def remove_held(held: Path) -> None:
    """Remove a node's copies of a job, MEMORY/HOST/JOB, and the levels above that get empty.

    What is not ours alone stays as it is: the path may lead anywhere.
    """
    with contextlib.suppress(OSError):  # also: other nodes of this machine have theirs there
        private.check_private(held, below=held.parents[2])
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
            os.fdopen(os.open(draft, flags, 0o600), "wb") as written,
        ):
            shutil.copyfileobj(read, written, COPY_BYTES)
            written.flush()
            os.fsync(written.fileno())
        draft.replace(target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
