"""In which order queued jobs stand: priority weights, waiting time, fairshare with decay."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model.errors import ConfigError
from dq_server.core.policies.orders import PriorityConfig
from tests.core.cluster import Cluster, MakeCluster


def queue(c: Cluster) -> list[int]:
    return [job.id for job in c.scheduler.policies.order.ordered(c.scheduler.state, c.now)]


def weights(**figures: Any) -> dict[str, Any]:
    return {"order": "priority", "resize": "none", "priority": PriorityConfig(**figures)}


def test_the_weights_of_user_group_account_class_and_qos_add_up(cluster: MakeCluster) -> None:
    c = cluster(1, **weights(users={"ada": 3}, groups={"g": 1}, accounts={"a": 1},
                             classes={"debug": 1.5}, qos={"gold": 1}))  # fmt: skip
    c.submit(1)
    plain = c.submit(1, user="bob")
    ada = c.submit(1, user="ada")
    rich = c.submit(1, group="g", account="a", job_class="debug", qos="gold")
    own = c.submit(1, priority=10)
    assert queue(c) == [own.id, rich.id, ada.id, plain.id]


def test_waiting_makes_up_for_priority(cluster: MakeCluster) -> None:
    c = cluster(1, **weights(wait_per_hour=1.0, users={"ada": 3}))
    c.submit(1)
    patient = c.submit(1)
    c.now = 2.9 * 3600
    late = c.submit(1, user="ada")
    assert queue(c) == [late.id, patient.id]
    early = c.submit(1)
    c.now = 3.1 * 3600
    assert queue(c) == [late.id, patient.id, early.id]
    other = c.submit(1, user="ada")
    c.now += 1
    assert queue(c) == [late.id, patient.id, other.id, early.id]


def test_size_counts(cluster: MakeCluster) -> None:
    c = cluster(4, **weights(size_per_processor=1.0))
    c.submit(4)
    small, large = c.submit(1), c.submit(3)
    assert queue(c) == [large.id, small.id]


def test_easy_protects_the_first_by_priority_not_by_submission(cluster: MakeCluster) -> None:
    c = cluster(4, start="easy", **weights(users={"ada": 5}))
    running = c.submit(3, estimate_s=100)
    older = c.submit(4, estimate_s=100)
    first = c.submit(2, user="ada", estimate_s=100)
    c.submit(1, estimate_s=500)  # fits, and leaves the two that ada's job needs
    c.end(running)
    assert first.start_s is not None
    assert older.start_s is None


def test_fairshare_who_used_less_goes_first_and_usage_fades(cluster: MakeCluster) -> None:
    c = cluster(4, order="fairshare", resize="none", priority=PriorityConfig(half_life_s=100.0))
    greedy = c.submit(4, user="greedy")
    c.now = 100.0
    again, modest = c.submit(4, user="greedy"), c.submit(4, user="modest")
    assert queue(c) == [modest.id, again.id]
    c.end(greedy)
    assert c.started[-1] == modest.id
    assert c.scheduler.state.usage.by_user == {"greedy": pytest.approx(400.0)}
    c.now = 200.0  # modest has used 400 by now, of greedy's 400 half is left
    third = c.submit(4, user="modest")
    assert queue(c) == [again.id, third.id]


def test_shares_say_who_is_entitled_to_what(cluster: MakeCluster) -> None:
    figures = PriorityConfig(shares={"big": 10.0, "small": 1.0})
    c = cluster(4, order="fairshare", resize="none", priority=figures)
    jobs = [c.submit(2, user="big"), c.submit(2, user="small")]
    c.now = 50.0
    small, big = c.submit(2, user="small"), c.submit(2, user="big")
    assert queue(c) == [big.id, small.id]
    for job in jobs:
        c.end(job)


def test_who_has_no_entry_has_a_share_of_one(cluster: MakeCluster) -> None:
    figures = PriorityConfig(shares={"more": 1.5, "less": 0.5})
    c = cluster(3, order="fairshare", resize="none", priority=figures)
    users = ("less", "usual", "more")
    for user in users:
        c.submit(1, user=user)
    c.now = 50.0  # all have used the same
    waiting = [c.submit(3, user=user) for user in users]
    assert queue(c) == [job.id for job in reversed(waiting)]


def test_as_long_as_nobody_has_used_anything_shares_make_no_difference(
    cluster: MakeCluster,
) -> None:
    figures = PriorityConfig(shares={"more": 1.5, "less": 0.5})
    c = cluster(3, order="fairshare", resize="none", priority=figures)
    c.submit(3)
    waiting = [c.submit(3, user=user) for user in ("less", "usual", "more")]
    assert queue(c) == [job.id for job in waiting]


def test_what_was_used_before_a_resize_counts_at_the_size_it_was_used_on(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, order="fairshare", resize="reshape", samples=1, discard=0)
    job = c.submit(1, 4, user="ada")
    assert c.point(job, 100.0).what == "expand"
    c.now += 50.0
    c.end(job)
    assert c.scheduler.state.usage.by_user == {"ada": pytest.approx(100.0 + 4 * 50.0, rel=1e-3)}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"order": "age"}, "unknown order policy 'age'; known: fairshare, fcfs, priority"),
        ({"start": "soon"}, "unknown start policy"),
        ({"order": "fairshare", "priority": PriorityConfig(users={"a": 1})}, "usage alone"),
        ({"priority": PriorityConfig(half_life_s=0)}, "half_life_s = 0"),
        ({"priority": PriorityConfig(shares={"ada": -1})}, "share of ada"),
        ({"start": "conservative", "resize": "spare"}, "needs start = \"easy\""),
        ({"resize": "none", "mebf_also": "expand"}, "mebf_also"),
        ({"resize": "spare", "start": "easy", "mebf_share": 1.5}, "shares"),
        ({"resize": "spare", "start": "easy", "mebf_gamma": 0.5}, "mebf_gamma"),
    ],
)  # fmt: skip
def test_senseless_combinations_are_refused(
    cluster: MakeCluster, config: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        cluster(1, **config)
