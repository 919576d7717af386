"""Backups of a home: everything that a server needs to go on elsewhere, in one file.

A backup is a tar file: `manifest.json` (what it is, and a SHA-256 of every file), `manifest.sum` (a
SHA-256 of that), then the files: the journal as of one moment, keys, configuration, what `dq up`
noted. It is taken while a server runs: SQLite copies a state between two commits, and the copy is
looked through before it counts. Jobs' output and logs are not in it.
It holds the keys of the cluster: whoever has it can be its user.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from dq_client import __version__
from dq_client.base.errors import DQError, NotFound, UsageError
from dq_client.base.home import Home
from dq_server.live.store import checksums, home_files, journal_file, verify_all
from dq_server.live.store.checksums import Known

FORM = 1
MANIFEST, SUM = "manifest.json", "manifest.sum"
JOURNAL, NOTE = "journal.sqlite", "journal.sqlite-last"


class Damaged(DQError):
    """A backup, or the journal that is to be backed up, is not as it was written."""


def write(home: Home, target: Path) -> dict[str, Any]:
    """Write a backup; what is in it. Nothing is written if the journal is damaged."""
    if not home.journal.exists():
        raise NotFound(f"{home.root} has no journal to back up")
    if target.exists():
        raise UsageError(f"{target} is there already: give another name")
    try:
        with tempfile.TemporaryDirectory(prefix=".dq-backup-", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            manifest = _write(home, draft, Path(folder))
            os.link(draft, target)  # unlike a rename it replaces nothing that came meanwhile
            _flush(target.parent)
    except FileExistsError:
        raise UsageError(f"{target} is there already: give another name") from None
    except OSError as e:
        raise DQError(f"{target}: cannot be written ({e.strerror or e})") from e
    return {"file": str(target), "bytes": target.stat().st_size, **manifest}


def _write(home: Home, draft: Path, folder: Path) -> dict[str, Any]:
    mark = _copy_journal(home.journal, folder)
    files = {JOURNAL: (folder / JOURNAL).read_bytes(), NOTE: (folder / NOTE).read_bytes()}
    for name, path in home_files.noted(home).items():
        files[name] = home_files.contents(path)
    manifest = {
        "form": FORM,
        "version": __version__,
        "time": time.time(),
        "events": mark.seq,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    first = json.dumps(manifest, indent=1).encode()
    checksum = hashlib.sha256(first).hexdigest().encode()
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in {MANIFEST: first, SUM: checksum, **files}.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(content), 0o600, int(time.time())
            tar.addfile(info, io.BytesIO(content))
        out.flush()
        os.fsync(out.fileno())
    return {"events": mark.seq, "version": __version__}


def _copy_journal(journal: Path, folder: Path) -> checksums.JournalPosition:
    """A copy between two commits, and its note; Damaged if it is not sound."""
    try:
        known = checksums.read(checksums.note_of(journal))
        expected = known.expected(checksums.boot()) if known else checksums.JournalPosition()
        with closing(journal_file.opened_to_read(journal)) as db:
            if journal_file.schema_of(db) != journal_file.SCHEMA:
                raise UsageError(f"{journal} was written by an older version: start a server first")
            with closing(sqlite3.connect(folder / JOURNAL)) as copy:
                db.backup(copy)
        with closing(journal_file.opened_to_read(folder / JOURNAL)) as copy:
            mark = journal_file.last_event(copy)
    except (sqlite3.Error, OSError, ValueError) as e:
        raise Damaged(f"{journal}: not backed up, because it cannot be read ({e})") from e
    epoch = known.epoch if known else 0
    (folder / NOTE).write_bytes(Known(mark, mark, epoch).line())
    problems = verify_all.examine(folder / JOURNAL)["problems"]
    if mark.seq < expected.seq:
        problems.append(f"it ends with event {mark.seq}, {expected.seq} were written")
    if problems:
        raise Damaged(f"{journal}: not backed up, because it is damaged: {problems[0]}")
    return mark


# --- back again ---------------------------------------------------------------------------------


def restore(home: Home, source: Path) -> dict[str, Any]:
    """Put a backup into a home without a server, which the caller holds the lock of.

    All of it is looked through first; if anything is wrong nothing is changed. What was there is
    kept in a folder beside it, `replaced-N`.
    """
    manifest, files = _read(source)
    with tempfile.TemporaryDirectory(prefix=".restored-", dir=home.root) as folder:
        place = Path(folder)
        for name, content in files.items():
            (place / name).parent.mkdir(mode=0o700, exist_ok=True)
            _write_private(place / name, content)
        problems = verify_all.examine(place / JOURNAL)["problems"]
        if problems:
            raise Damaged(f"{source}: not restored, because its journal is damaged: {problems[0]}")
        with closing(sqlite3.connect(place / JOURNAL, isolation_level=None)) as db:
            journal_file.mark_as_patched(db)
        _raise_epoch(place / NOTE, checksums.note_of(home.journal))
        aside = replaced(home, [*files, f"{JOURNAL}-wal", f"{JOURNAL}-shm"])
        # The journal last: without it a home that is half restored is refused.
        for name in [*(n for n in files if n != JOURNAL), JOURNAL]:
            (home.root / name).parent.mkdir(mode=0o700, exist_ok=True)
            (place / name).replace(home.root / name)
        _flush(home.root)
    events, version = manifest["events"], manifest["version"]
    return {"events": events, "version": version, "time": manifest["time"],
            "replaced": str(aside) if aside else None}  # fmt: skip


def _read(source: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the files of a backup, all as they were written."""
    try:
        with tarfile.open(source, "r:") as tar:
            found = {m.name: _content(tar, m) for m in tar.getmembers()}
    except FileNotFoundError:
        raise NotFound(f"{source}: there is no such file") from None
    except (OSError, tarfile.TarError) as e:
        raise Damaged(f"{source}: not restored, because it is no backup ({e})") from e
    first, checksum = found.pop(MANIFEST, b""), found.pop(SUM, b"")
    if hashlib.sha256(first).hexdigest().encode() != checksum:
        raise Damaged(f"{source}: not restored, because its {MANIFEST} is damaged or missing")
    manifest: dict[str, Any] = json.loads(first)
    if manifest["form"] != FORM:
        raise UsageError(
            f"{source}: of DQ {manifest['version']}, in a form that this one cannot read"
        )
    wrong = [
        name
        for name, sum_ in manifest["files"].items()
        if hashlib.sha256(found.get(name, b"")).hexdigest() != sum_
    ]
    if wrong or found.keys() != manifest["files"].keys():
        what = wrong[0] if wrong else sorted(found.keys() ^ manifest["files"].keys())[0]
        raise Damaged(f"{source}: not restored, because {what} in it is damaged")
    strange = [name for name in found if not _is_ours(name)]
    if strange:
        raise Damaged(
            f"{source}: not restored, because it has a file that is not DQ's, {strange[0]}"
        )
    return manifest, found


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member) if member.isfile() else None
    return b"" if file is None else file.read()


def _is_ours(name: str) -> bool:
    """Whether a backup may have such a file: none leads out of the home."""
    folder, _, last = name.rpartition("/")
    known = name in {JOURNAL, NOTE, *home_files.NOTED}
    return known or (folder == "keys" and last not in ("", ".", "..") and "\0" not in last)


def _raise_epoch(note: Path, present: Path) -> None:
    """Whatever servers have served from this home, the next one is newer."""
    known = checksums.read(note)
    assert known is not None, "its journal was examined with it"
    try:
        before = checksums.read(present)
    except (OSError, ValueError):
        before = None
    epoch = checksums.raised(max(known.epoch, before.epoch if before else 0))
    note.write_bytes(Known(known.written, known.flushed, epoch).line())


def replaced(home: Home, names: list[str]) -> Path | None:
    """Move what is there of these files into a new folder of the home; None: nothing is."""
    there = [name for name in names if (home.root / name).exists()]
    if not there:
        return None
    number = 1
    while (aside := home.root / f"replaced-{number}").exists():
        number += 1
    for name in there:
        (aside / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home.root / name).rename(aside / name)
    return aside


def _write_private(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())


def _flush(folder: Path) -> None:
    """What was made, renamed or removed in a folder reaches the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
