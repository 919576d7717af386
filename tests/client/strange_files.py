"""What a stranger, or an accident, may put in the place of a file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

VICTIM = "of somebody's own"


def socket_at(path: Path) -> None:
    """A socket that somebody has bound."""
    with socket.socket(socket.AF_UNIX) as found:
        # Through the folder: an address has 107 bytes at most.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            found.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def link_at(path: Path) -> None:
    """A link to a file that is not to be written."""
    victim = path.with_name("victim")
    victim.write_text(VICTIM)
    path.symlink_to(victim)


REPLACED: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "link": link_at,
    "socket": socket_at,
    "folder": Path.mkdir,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}


def unharmed(folder: Path) -> bool:
    """Whether nothing was written to the victims of links below a folder."""
    return all(victim.read_text() == VICTIM for victim in folder.rglob("victim"))
