"""A stranger who attacks every port of a cluster from the moment it listens, beside a test."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.commands import HANG_S

PROGRAM = Path(__file__).with_name("stranger.py")
PYTHON = next(p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists())
LISTENS = "0A"
LOOK_S = 0.01
AGAIN_EVERY = 100  # looks
GREETING = b"\xff"  # of ZeroMQ

Socket = tuple[str, int]


def address_of(words: str) -> str:
    """As the kernel shows it: words of four bytes, each in the machine's order."""
    data = b"".join(struct.pack("=I", int(words[i : i + 8], 16)) for i in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def listeners(process: int | str = "self") -> set[Socket]:
    """Who listens in the network of a process: address and port."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS:
                address, _, port = fields[1].partition(":")
                found.add((address_of(address), int(port, 16)))
    return found


class Stranger:
    """Attacks what `look` finds, again and again, until the end of the block.

    words, env  the command that runs PROGRAM with PYTHON as somebody else, or elsewhere
    """

    def __init__(
        self,
        words: Sequence[str],
        look: Callable[[], set[Socket]],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._words, self._env, self._look = list(words), env, look
        self._over = threading.Event()
        self.found: dict[str, Any] = {}
        self.places: set[Socket] = set()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words, env=self._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._thread = threading.Thread(target=self._tell)
        self._thread.start()
        return self

    def _tell(self) -> None:
        looks = 0
        while not self._over.wait(LOOK_S):
            looks += 1
            seen = self._look()
            fresh = seen if looks % AGAIN_EVERY == 0 else seen - self.places
            self.places |= seen
            assert self._process.stdin is not None
            for address, port in sorted(fresh):
                self._process.stdin.write(f"{address} {port}\n")
            self._process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        said, _ = self._process.communicate(timeout=HANG_S)
        if kind is None:
            self.found = json.loads(said)

    def learned(self) -> list[bytes]:
        """What it was told that is no greeting of ZeroMQ."""
        heard = (bytes.fromhex(text) for text in self.found["heard"])
        return [answer for answer in heard if answer and not answer.startswith(GREETING)]
