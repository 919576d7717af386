"""The files of a home that whoever takes the server's place needs: keys, configuration, notes.

Not server.json and the like: they are of a process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dq_client.base import opened
from dq_client.base.home import Home

CONFIG = "config.toml"
NOTED = (CONFIG, "identity", "address", "network.json", "cluster.json", "hosts.json",
         "batch.json")  # fmt: skip


def noted(home: Home) -> dict[str, Path]:
    """By name, those that there are."""
    found = {f"keys/{path.name}": path for path in sorted(home.keys.glob("*.key"))}
    found["keys/cluster"] = home.cluster_file
    found |= {name: home.root / name for name in NOTED}
    return {name: path for name, path in found.items() if path.is_file()}


def contents(path: Path) -> bytes:
    """What is in one of them. OSError. The configuration is the user's, who may have linked it."""
    if path.name != CONFIG:
        return opened.read(path)
    with os.fdopen(opened.open_input(path), "rb") as f:
        return f.read(opened.READ_BYTES_MAX)


class HomeFiles:
    """Called: a digest of all of them, and what is in them; read again when one has changed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._seen: list[tuple[str, int, int]] = []
        self._found: tuple[str, dict[str, bytes]] = "", {}

    def __call__(self) -> tuple[str, Mapping[str, bytes]]:
        """The digest is empty if they cannot be read at present."""
        with suppress(OSError):
            paths = noted(self._home)
            stats = [(name, path.stat()) for name, path in paths.items()]
            seen = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
            if seen != self._seen:
                files = {name: contents(path) for name, path in paths.items()}
                self._found = digest(files), files
                self._seen = seen
        return self._found


def digest(files: Mapping[str, bytes]) -> str:
    """What tells these files from others."""
    whole = hashlib.sha256()
    for name, content in sorted(files.items()):
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()
