"""A cluster whose nodes Slurm is asked for, as a test drives it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.on_batch_system import OnBatchSystem
from tests.slurm.minislurm import MiniSlurm


class OnSlurm(OnBatchSystem):
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

    def holders(self) -> dict[int, int]:
        """Tickets of Slurm's jobs, by their numbers."""
        mine = {j: name for j, name in self.slurm.jobs().items() if name.startswith("dq-")}
        return {job: int(name.rsplit("-", 1)[1]) for job, name in mine.items()}

    def held(self) -> list[int]:
        """Tickets of what Slurm has."""
        return [*self.holders().values()]

    def slurm_ended(self, *jobs: int, timeout_s: float = 180.0) -> None:
        """Wait until Slurm has these no more."""
        until_s = time.monotonic() + timeout_s
        while self.slurm.jobs().keys() & set(jobs) and time.monotonic() < until_s:
            time.sleep(0.2)
