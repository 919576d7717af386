"""Real clusters for live tests: server, agents, command line; nothing may be left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import walks
from harness.live import LAUNCHERS, Live


@pytest.fixture
def launcher() -> str:
    """Who starts ranks. What holds under either is tested under both:
    `@pytest.mark.parametrize("launcher", LAUNCHERS)`."""
    return LAUNCHERS[0]


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory, launcher: str) -> Iterator[Live]:
    """A home without a cluster; whatever is started in it must be gone in the end."""
    cluster = Live(tmp_path_factory.mktemp("dq") / "home", launcher)
    yield cluster
    cluster.clear()


@pytest.fixture
def cluster(live: Live) -> Live:
    """A local cluster of four processors."""
    live.up(4)
    return live


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A local cluster of four processors for all tests of a module, each of which ends its jobs."""
    live = Live(tmp_path_factory.mktemp("dq") / "home")
    live.up(4)
    yield live
    live.clear()


@pytest.fixture
def borrowed(shared: Live) -> Iterator[Live]:
    """The module's cluster; the jobs that a test has left are killed after it."""
    yield shared
    shared.kill_jobs()


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """As `shared`, but jobs are resized by `dq resize` alone: see `ordered`."""
    folder = tmp_path_factory.mktemp("dq")
    live = Live(folder / "home")
    walks.up(live, 4, folder)
    yield live
    live.clear()


@pytest.fixture
def ordered(commanded: Live) -> Iterator[Live]:
    """The module's cluster that resizes only when ordered; a test's jobs are killed after it."""
    yield commanded
    commanded.kill_jobs()
