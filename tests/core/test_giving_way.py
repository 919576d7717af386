"""Who gives way is a policy of its own, asked with an offer: docs/examples/least_efficient.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_server.core.model.errors import ConfigError
from dq_server.core.policies import registry
from dq_server.core.policies.base import offer_to
from dq_server.core.settings import check, configured, named_config
from tests.core.cluster import Cluster, MakeCluster

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
NAME = "least_efficient:LeastEfficient"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("least_efficient", None)
    registry._imported.cache_clear()


def running(c: Cluster) -> None:
    """Two jobs on 4 of 8 processors each; the first scales badly, the second well."""
    poor, good = c.submit(1, 2, 4), c.submit(1, 2, 4)
    for job, gain in ((poor, 0.9), (good, 0.55)):
        while job.size < 4:
            c.point(job, 10.0 * gain ** (job.size - 1).bit_length())
        for _ in range(2):
            c.point(job, 10.0 * gain**2)


def test_the_least_efficient_job_gives_way_and_the_other_goes_on(cluster: MakeCluster) -> None:
    c = cluster(8, resize="reshape", shrink=NAME, samples=1, discard=0, settle=3)
    running(c)
    poor, good = c.scheduler.state.active.values()
    head = c.submit(2)
    assert c.point(good, 3.0).reason.code == "others_give_way"
    answer = c.point(poor, 8.1)
    assert (answer.what, answer.configuration.size) == ("shrink", 2)
    assert answer.reason.code == "least_efficient"
    assert head.id in c.started, "two processors are enough"
    assert (poor.size, good.size) == (2, 4)
    assert poor.settle == 3, "it does not take back at once what the next job leaves"


def test_nobody_gives_way_in_vain(cluster: MakeCluster) -> None:
    c = cluster(8, resize="reshape", shrink=NAME, samples=1, discard=0)
    running(c)
    poor, good = c.scheduler.state.active.values()
    head = c.submit(8)
    assert c.point(poor, 8.1).reason.code == "nobody_gives_way"
    assert (poor.size, good.size) == (4, 4)
    offer = offer_to(c.scheduler.state, poor, c.scheduler.config, c.now)
    assert offer.waiting is not None
    assert (offer.waiting.job, offer.waiting.needed, offer.missing, offer.more) == (head, 8, 8, 0)
    assert offer.resizable == (poor, good)
    assert offer.limit is None


def test_what_gives_way_already_is_not_missing_again(cluster: MakeCluster) -> None:
    c = cluster(8, resize="reshape", shrink=NAME, samples=1, discard=0)
    running(c)
    poor, good = c.scheduler.state.active.values()
    c.submit(2)
    c.point(poor, 8.1, carry_out=False)
    offer = offer_to(c.scheduler.state, good, c.scheduler.config, c.now)
    assert offer.waiting is not None
    assert (offer.waiting.incoming, offer.missing) == (2, 0)
    assert c.point(good, 3.0).reason.code == "nobody_gives_way"


def test_a_quota_is_in_the_offer_with_its_reason(cluster: MakeCluster) -> None:
    quotas = {"user": {"ada": {"processors": 3}}}
    c = cluster(8, resize="reshape", samples=1, discard=0, quotas=quotas)
    job = c.submit(1, 2, 4, user="ada")
    c.point(job, 10.0, carry_out=False)
    offer = offer_to(c.scheduler.state, job, c.scheduler.config, c.now)
    assert offer.more == 1, "it holds one, and one is reserved for it"
    assert offer.limit is not None and offer.limit.most == 3
    assert offer.limit.reason.code == "quota_growth"


def test_it_is_named_in_a_sum_or_as_a_setting() -> None:
    assert named_config(f"easy+reshape+{NAME}").shrink == NAME
    assert named_config("easy", configured(shrink=NAME)).shrink == "resize", "a set is complete"
    with pytest.raises(ConfigError, match="unknown shrink policy 'most'; known: resize"):
        check(configured(shrink="most"))
    with pytest.raises(ConfigError, match="is not derived from ResizePolicy"):
        check(configured(resize=NAME))
