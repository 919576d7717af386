"""Strategies for malleable jobs (policies/sharing.py), told as stories."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import CallRemap
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job
from dq_server.core.policies.registry import named_settings
from dq_server.core.settings import check, configured
from tests.core.cluster import Cluster, MakeCluster


def malleable(c: Cluster, least: int, preferred: int, most: int, **spec: Any) -> Job:
    spec.setdefault("estimate_s", 100.0)
    return c.submit(*range(least, most + 1), start=preferred, kind="malleable", **spec)


def called(c: Cluster) -> list[int]:
    return [a.job for a in c.log if isinstance(a, CallRemap)]


def test_a_running_job_gives_what_a_waiting_one_lacks_and_no_more(cluster: MakeCluster) -> None:
    c = cluster(8, **named_settings("min-steal"))
    wide = malleable(c, 2, 4, 8)
    c.point(wide, 1.0)
    assert wide.size == 8  # nobody waits
    c.log.clear()
    newcomer = c.submit(3, estimate_s=50)
    assert newcomer.size == 0 and called(c) == [wide.id]
    answer = c.point(wide, 1.0)
    assert (answer.what, answer.configuration.size) == ("shrink", 5)
    assert answer.reason.text == f"makes room for job {newcomer.id}: from 8 to 5"
    assert newcomer.size == 3


def test_nobody_shrinks_if_all_together_do_not_suffice(cluster: MakeCluster) -> None:
    c = cluster(8, **named_settings("min-steal"))
    wide = malleable(c, 4, 4, 8)
    c.point(wide, 1.0)
    c.submit(5, estimate_s=50)
    assert c.point(wide, 1.0).what == "continue"


def test_keep_preferred_neither_grows_beyond_it_nor_gives_below_it_without_need(
    cluster: MakeCluster,
) -> None:
    c = cluster(8, **named_settings("keep-preferred"))
    first = malleable(c, 1, 4, 8)
    assert first.size == 4 and c.point(first, 1.0).what == "continue"
    second = malleable(c, 2, 3, 8)
    assert second.size == 3
    third = malleable(c, 1, 4, 8)  # one is idle: it starts there rather than wait
    assert third.size == 1
    c.end(second)
    assert c.point(third, 1.0).configuration.size == 4  # back to its preferred size
    fourth = c.submit(3, estimate_s=50)
    assert c.point(third, 1.0).configuration.size == 1
    assert fourth.size == 3 and first.size == 4


def test_powers_of_two_give_whole_steps(cluster: MakeCluster) -> None:
    c = cluster(8, **named_settings("min-pool"))
    wide = c.submit(1, 2, 4, 8, start=4, kind="malleable", estimate_s=100.0)
    c.point(wide, 1.0)
    c.submit(1, estimate_s=50)
    assert (wide.size, c.point(wide, 1.0).configuration.size) == (8, 4)


def test_a_held_or_failing_job_is_left_alone(cluster: MakeCluster) -> None:
    c = cluster(8, **named_settings("min-pool"))
    wide = malleable(c, 2, 4, 8)
    c.do(ev.ResizeRequested(wide.id, 2, hold=True))
    assert c.point(wide, 1.0).what == "continue"
    c.submit(7, estimate_s=50)
    assert c.point(wide, 1.0).what == "continue"


@pytest.mark.parametrize(("patience_s", "passes"), [(1e6, True), (0.0, False)])
def test_a_job_is_passed_for_as_long_as_it_is_patient(
    cluster: MakeCluster, patience_s: float, passes: bool
) -> None:
    settings = named_settings("shortest-first")
    settings = {**settings, "sharing": {**settings["sharing"], "patience_s": patience_s}}
    c = cluster(4, **settings)
    c.submit(3, estimate_s=100)
    oldest = c.submit(4, estimate_s=100)
    long = c.submit(1, estimate_s=200)  # would delay the oldest
    assert (long.size > 0) is passes and oldest.size == 0
    short = c.submit(1, estimate_s=90)
    assert (short.size > 0) is not passes


def test_start_and_resize_go_together() -> None:
    with pytest.raises(ConfigError, match='both must be "sharing"'):
        check(configured(start="easy", resize="sharing"))
    with pytest.raises(ConfigError, match="balance"):
        configured(start="sharing", resize="sharing", sharing={"balance": "even"})
