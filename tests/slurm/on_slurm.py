"""A cluster whose nodes Slurm is asked for, as a test drives it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.live import Live
from tests.slurm.minislurm import MiniSlurm

Json = dict[str, Any]


class OnSlurm(Live):
    """A cluster whose nodes Slurm is asked for."""

    def __init__(self, root: Path, slurm: MiniSlurm) -> None:
        super().__init__(root)
        self.slurm = slurm
        self.env["SLURM_CONF"] = str(slurm.conf)

    def up_with(self, pool: str = "", slurm: str = 'time = "30"', *options: str) -> None:
        """`dq up` with this pool of at most four nodes."""
        file = self.home.root.parent / "cluster.toml"
        file.write_text(
            f'engine = "slurm"\n[pool]\nmax = 4\n{pool}\n[slurm]\npartition = "all"\n{slurm}\n'
        )
        self.dq("up", "--cluster", file, "--detach", *options)

    def nodes(self) -> dict[str, str]:
        """Names and states."""
        found = json.loads(self.dq("nodes", "--json"))["nodes"]
        return {n["name"]: n["state"] for n in found}

    def pool(self) -> Json:
        """`dq pool --json`."""
        found: Json = json.loads(self.dq("pool", "--json"))["pool"]
        return found

    def ticket_of(self, node: str) -> int:
        """The ticket that a node of now was asked for with."""
        (found,) = {t["ticket"] for t in self.pool()["tickets"] if t["node"] == node}
        return int(found)

    def holders(self) -> dict[int, int]:
        """Tickets of Slurm's jobs, by their numbers."""
        mine = {j: name for j, name in self.slurm.jobs().items() if name.startswith("dq-")}
        return {job: int(name.rsplit("-", 1)[1]) for job, name in mine.items()}

    def until(self, what: Callable[[], object], timeout_s: float = 60.0) -> None:
        """Wait."""
        until_s = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < until_s, f"nodes {self.nodes()}, pool {self.pool()}"
            time.sleep(0.1)

    def slurm_ended(self, *jobs: int, timeout_s: float = 180.0) -> None:
        """Wait until Slurm has these no more."""
        until_s = time.monotonic() + timeout_s
        while self.slurm.jobs().keys() & set(jobs) and time.monotonic() < until_s:
            time.sleep(0.2)

    def journal(self) -> list[tuple[float, str, Json]]:
        """Events so far: time, type, body."""
        with sqlite3.connect(f"file:{self.home.journal}?mode=ro", uri=True) as connection:
            rows = connection.execute("SELECT time, type, body FROM events ORDER BY seq").fetchall()
        return [(t, kind, json.loads(body)) for t, kind, body in rows]
