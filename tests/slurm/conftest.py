"""A Slurm for tests; skipped, loudly, where there is none. Nothing may be left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.minislurm import MiniSlurm, missing
from tests.slurm.on_slurm import OnSlurm


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip if there is no Slurm here; in the summary as a warning, not only as an `s`."""
    why = missing()
    if why:
        warnings.warn(f"tests/slurm is skipped: {why}", stacklevel=1)
        pytest.skip(why)


@contextlib.contextmanager
def the_only_one() -> Iterator[None]:
    """Wait until no other worker has a Slurm with control groups: their names are the nodes'."""
    path = Path(tempfile.gettempdir()) / f"dq-slurm-control-groups-{os.getuid()}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
    with the_only_one() if strict else contextlib.nullcontext():
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
