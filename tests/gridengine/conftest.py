"""A Grid Engine for tests; skipped, loudly, where there is none. Nothing may be left behind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from tests.gridengine.minige import MiniGridEngine, missing
from tests.gridengine.on_grid_engine import OnGridEngine


@pytest.fixture(scope="session")
def grid_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniGridEngine]:
    """One host of four slots for all tests."""
    why = missing()
    if why:
        warnings.warn(f"tests/gridengine is skipped: {why}", stacklevel=1)
        pytest.skip(why)
    made = MiniGridEngine(tmp_path_factory.mktemp("ge"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def on(
    grid_engine: MiniGridEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnGridEngine]:
    """A home without a cluster; what is started and asked for must be gone."""
    cluster = OnGridEngine(tmp_path_factory.mktemp("dq") / "home", grid_engine)
    yield cluster
    cluster.clear()
    left = grid_engine.tasks()
    for task in left:
        grid_engine.run("qdel", "-f", task, check=False)
    assert not left, f"Grid Engine still has {left}"
