"""A cluster whose nodes Grid Engine is asked for, as a test drives it."""

from __future__ import annotations

from pathlib import Path

from tests.gridengine.minige import QUEUE, MiniGridEngine
from tests.on_batch_system import OnBatchSystem


class OnGridEngine(OnBatchSystem):
    """A cluster whose nodes Grid Engine is asked for."""

    def __init__(self, root: Path, grid_engine: MiniGridEngine) -> None:
        super().__init__(root)
        self.system = grid_engine
        self.env |= grid_engine.variables()

    def file(self, pool: str = "", table: str = f'queue = "{QUEUE}"\ntime = "0:30:00"') -> Path:
        """A cluster file with this pool of at most four nodes."""
        file = self.home.root.parent / "cluster.toml"
        file.write_text(
            f'engine = "grid_engine"\n[pool]\nmax = 4\n{pool}\n[grid_engine]\n{table}\n'
        )
        return file

    def up_with(self, pool: str = "", *table: str) -> None:
        """`dq up` with this pool and this table."""
        self.dq("up", "--cluster", self.file(pool, *table), "--detach")

    def held(self) -> list[int]:
        """Tickets of what Grid Engine has."""
        return [*self.system.tasks().values()]
