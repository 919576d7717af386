"""A Slurm for tests; skipped, loudly, where there is none. Nothing may be left behind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.minislurm import MiniSlurm, missing
from tests.slurm.on_slurm import OnSlurm


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two may run at a time, which mostly wait for Slurm; those with control groups share these."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            tracked = "cgroup" in item.nodeid.partition("[")[2]
            item.add_marker(pytest.mark.xdist_group("cgroup" if tracked else item.path.stem))


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip if there is no Slurm here; in the summary as a warning, not only as an `s`."""
    why = missing()
    if why:
        warnings.warn(f"tests/slurm is skipped: {why}", stacklevel=1)
        pytest.skip(why)


@pytest.fixture(scope="module")
def slurm(
    request: pytest.FixtureRequest, possible: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MiniSlurm]:
    """Four nodes of one processor for all tests of a module.

    Parameter: how Slurm knows the processes of a step, "linuxproc" (the default) or "cgroup"; or a
    pair of that and further arguments of MiniSlurm.
    """
    param = getattr(request, "param", "")
    tracking, more = param if isinstance(param, tuple) else (param, {})
    strict = tracking == "cgroup"
    made = MiniSlurm(tmp_path_factory.mktemp("slurm"), strict=strict, **more)
    try:
        try:
            made.start()
        except RuntimeError as e:
            if not strict:
                raise
            why = f"no proctrack/cgroup here: {str(e)[-300:]}"
            warnings.warn(f"some of tests/slurm are skipped: {why}", stacklevel=1)
            pytest.skip(why)
        yield made
    finally:
        made.stop()


@pytest.fixture
def on_slurm(slurm: MiniSlurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSlurm]:
    """A home without a cluster; whatever is started in it, and asked of Slurm, must be gone."""
    cluster = OnSlurm(tmp_path_factory.mktemp("dq") / "home", slurm)
    yield cluster
    cluster.clear()
    left = slurm.jobs()
    for job in left:
        slurm.run("scancel", job, check=False)
    assert not left, f"Slurm still has {left}"
