"""Each name of a policy set does what it says to jobs as they come from `dq submit`.

Such jobs say nothing about how they scale; what a job gets is what a real one gets at its next
remap point (tests/live/test_sharing_live.py has such a story with real ranks).
"""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import ConfigError
from dq_server.core.policies import registry
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import named_config
from tests.core.cluster import Cluster, MakeCluster

RANGE = range(1, 13)
SHARING = [name for name, settings in SETS.items() if settings["start"] == "sharing"]


@pytest.fixture
def under(cluster: MakeCluster) -> MakeCluster:
    def make(name: str, processors: int) -> Cluster:
        c = cluster(processors)
        c.do(ev.Configured(named_config(name)))
        return c

    return make


def grows(c: Cluster) -> int:
    """A job on 4 of all, at its remap points, while nobody waits."""
    job = c.submit(*RANGE, start=4, kind="malleable", estimate_s=1000)
    for _ in range(5):
        c.point(job, 1.0)
    return job.size


@pytest.mark.parametrize(
    ("name", "of_6", "of_7", "of_9"),
    [
        ("fcfs", 4, 4, 4),
        ("easy", 4, 4, 4),
        ("conservative", 4, 4, 4),
        ("dfs", 4, 4, 4),
        ("reshape", 5, 5, 5),  # probes the next size after its samples
        ("reshape-model", 5, 5, 5),  # one size says nothing: the next one, too
        ("mebf-handoff", 4, 4, 9),  # more than it has
        ("mebf-spare", 4, 7, 9),  # more than half of what it has
        ("mebf-intensive", 6, 7, 9),
        ("mebf-expand+", 6, 7, 9),
        ("mebf-shrink+", 6, 7, 9),
        ("keep-preferred", 4, 4, 4),
        *((name, 6, 7, 9) for name in SHARING if name != "keep-preferred"),
    ],
)
def test_who_expands_when_nobody_waits(
    under: MakeCluster, name: str, of_6: int, of_7: int, of_9: int
) -> None:
    assert [grows(under(name, n)) for n in (6, 7, 9)] == [of_6, of_7, of_9]


def test_the_stories_name_every_set() -> None:
    assert len(SETS) == 11 + len(SHARING)


@pytest.mark.parametrize("name", SETS)
def test_who_makes_room_for_whom(under: MakeCluster, name: str) -> None:
    """Ten processors, all held: a job for two of them waits."""
    c = under(name, 10)
    big = c.submit(*RANGE, start=10, kind="malleable", estimate_s=1000)
    small = c.submit(2, estimate_s=100)
    c.point(big, 1.0)
    if name in SHARING:  # as much as is needed, or the job has not even started so large
        assert (big.size, small.size) == (8, 2)
    else:
        assert (big.size, small.size) == ((6, 2) if name.startswith("mebf") else (10, 0))


@pytest.mark.parametrize(
    ("name", "size"), [("mebf-intensive", 8), ("mebf-expand+", 10), ("mebf-shrink+", 5)]
)
def test_idle_processors_that_nobody_who_waits_can_use(
    under: MakeCluster, name: str, size: int
) -> None:
    """Two are idle, the head needs four, nobody can be backfilled."""
    c = under(name, 10)
    job = c.submit(*RANGE, start=8, kind="malleable", estimate_s=1000)
    head = c.submit(4, estimate_s=100)
    c.point(job, 1.0)
    assert (job.size, head.size) == (size, 4 if name == "mebf-shrink+" else 0)


@pytest.mark.parametrize("name", SETS)
def test_who_is_backfilled(under: MakeCluster, name: str) -> None:
    c = under(name, 4)
    c.submit(3, estimate_s=100)
    c.submit(4, estimate_s=100)
    short, long = c.submit(1, estimate_s=50), c.submit(1, estimate_s=500)
    assert short.size == (0 if name in ("fcfs", "reshape", "reshape-model") else 1)
    assert long.size == 0


def test_mebf_leaves_a_job_alone_whose_run_time_nobody_knows(under: MakeCluster) -> None:
    c = under("mebf-intensive", 6)
    job = c.submit(*RANGE, start=4, kind="malleable")
    answer = c.point(job, 1.0)
    assert (answer.what, answer.reason.code) == ("continue", "mebf_no_estimate")


def test_mebf_believes_measurements_more_than_its_assumption(under: MakeCluster) -> None:
    """Every iteration takes 10 s, on three as on six: more processors would gain nothing."""
    c = under("mebf-intensive", 6)
    job = c.submit(*RANGE, start=3, kind="malleable", estimate_s=1000)
    assert c.point(job, 10.0).what == "expand"
    for _ in range(5):
        c.point(job, 10.0)
    head = c.submit(2, estimate_s=10)
    c.point(job, 10.0)
    assert (job.size, head.size) == (6, 0), "it was resized before"
    c.do(ev.KillRequested(head.id))
    job.performance.known[job.spec.configurations[2]] = 10.0
    c.do(ev.NodeJoined("more", 3))
    assert (c.point(job, 10.0).what, job.size) == ("continue", 6)


def test_what_is_unknown_of_a_name_is_said() -> None:
    with pytest.raises(ConfigError, match="unknown policy 'fast'; known: "):
        named_config("fast")
    with pytest.raises(ConfigError, match="unknown part 'fast' of 'easy\\+fast'; known: "):
        named_config("easy+fast")


def test_names_of_our_own_are_found_without_a_look_at_installed_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The look takes longer than all else of it, at each start of a server."""
    looks = 0

    def offered() -> dict[str, object]:
        nonlocal looks
        looks += 1
        return {}

    monkeypatch.setattr(registry, "_offered", offered)
    for name in SETS:
        named_config(name)
    assert not looks
    with pytest.raises(ConfigError):
        named_config("easy+fast")
    assert looks, "another name may be a package's"
