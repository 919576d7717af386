"""Disks that fail for a while, real ones: mounted for a test, by root only."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

FILLED_BYTES = 4096
IMAGE_BYTES = 64 << 20


class Disk:
    """A disk that is mounted at `root`; `fail` and `heal` are what a kind of fault is."""

    words: str  # what people are told of the fault
    stalls = True  # the journal cannot be written either
    heals = True

    def __init__(self, root: Path, beside: Path) -> None:
        self.root, self._beside = root, beside
        root.mkdir()

    def mount(self) -> None:
        """Before anything is on it."""
        raise NotImplementedError

    def fail(self) -> None:
        """From now on nothing can be written."""
        raise NotImplementedError

    def heal(self) -> None:
        """Everything is as it was, if the kind heals."""

    def unmount(self) -> None:
        """Nobody uses it any more."""
        call("umount", self.root)


class Full(Disk):
    """No block is left."""

    words = "is full"

    def mount(self) -> None:
        call("mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", self.root)

    def fail(self) -> None:
        with suppress(OSError), (self.root / "ballast").open("ab", buffering=0) as f:
            while f.write(bytes(FILLED_BYTES)):
                pass

    def heal(self) -> None:
        (self.root / "ballast").unlink()


class NoInodes(Disk):
    """No file can be made; those that are there can be written."""

    words, stalls = "has no inodes left", False

    def mount(self) -> None:
        options = "size=64m,nr_inodes=400,mode=700"
        call("mount", "-t", "tmpfs", "-o", options, "tmpfs", self.root)

    def fail(self) -> None:
        (self.root / "ballast").mkdir()
        with suppress(OSError):
            for n in range(1000):
                (self.root / "ballast" / str(n)).touch()

    def heal(self) -> None:
        call("rm", "-r", self.root / "ballast")


class ReadOnly(Disk):
    """As after an error of the file system: what was open for writing cannot be written either.

    It stays so until nobody uses it any more.
    """

    words, heals = "is read-only", False

    def mount(self) -> None:
        image = self._beside / "image"
        with image.open("wb") as f:
            f.truncate(IMAGE_BYTES)
        call("mkfs.ext4", "-q", "-F", "-O", "^has_journal", image)
        call("mount", "-o", "loop,errors=remount-ro", image, self.root)
        self.root.chmod(0o700)

    def fail(self) -> None:
        found = subprocess.run(
            ["findmnt", "-no", "SOURCE", self.root], capture_output=True, text=True, check=True
        )
        trigger = Path("/sys/fs/ext4") / Path(found.stdout.strip()).name / "trigger_fs_error"
        trigger.write_text("1")


KINDS: list[type[Disk]] = [Full, NoInodes, ReadOnly]


def call(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@contextmanager
def mounted(kind: type[Disk], folder: Path) -> Iterator[Disk]:
    """A disk of this kind; the test is skipped, with a warning, where none can be mounted."""
    disk = kind(folder / "disk", folder)
    why = "" if os.geteuid() == 0 else "only root mounts disks"
    if not why:
        try:
            disk.mount()
        except (OSError, subprocess.CalledProcessError) as e:
            why = str(e)
    if why:
        warnings.warn(f"a disk that {kind.words} is not tried: {why}", stacklevel=1)
        pytest.skip(why)
    try:
        yield disk
    finally:
        disk.unmount()
