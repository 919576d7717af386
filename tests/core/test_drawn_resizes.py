"""Resizes drawn from a seed: the same ones for the same remap points, and within the options."""

from __future__ import annotations

import pytest

from dq_server.core.model.errors import ConfigError
from dq_server.core.policies.resize_drawn import DrawnOptions
from dq_server.core.settings import configured
from tests.core.cluster import MakeCluster


def drawn(make: MakeCluster, points: int = 60, **options: object) -> list[tuple[int, str]]:
    """The story of a job on 1, 2, 3 or 4 of eight processors."""
    c = make(8, resize="drawn", options={"drawn": options})
    job = c.submit(1, 2, 3, 4)
    return c.run(job, dict.fromkeys((1, 2, 3, 4), 1.0), points)


def resizes(story: list[tuple[int, str]]) -> list[int]:
    return [point for point, (_, what) in enumerate(story) if what != "continue"]


def test_a_seed_draws_the_same_resizes_again_and_another_one_others(cluster: MakeCluster) -> None:
    stories = [drawn(cluster, seed=seed) for seed in (1, 1, 2)]
    assert stories[0] == stories[1] != stories[2]


def test_each_stretch_of_remap_points_has_one(cluster: MakeCluster) -> None:
    story = drawn(cluster, every=5)
    assert [point // 5 for point in resizes(story)] == list(range(12))
    assert len({point % 5 for point in resizes(story)}) > 1, "at no fixed distance"


def test_it_both_grows_and_shrinks_and_comes_to_all_sizes(cluster: MakeCluster) -> None:
    story = drawn(cluster, every=1)
    assert {size for size, _ in story} == {1, 2, 3, 4}
    assert {what for _, what in story} == {"expand", "shrink"}


def test_no_more_than_wanted(cluster: MakeCluster) -> None:
    assert len(resizes(drawn(cluster, most=4))) == 4


def test_only_sizes_that_are_wanted(cluster: MakeCluster) -> None:
    assert {size for size, _ in drawn(cluster, sizes=(1, 3))} == {1, 3}


def test_an_order_that_was_not_carried_out_counts_as_none(cluster: MakeCluster) -> None:
    c = cluster(8, resize="drawn", options={"drawn": {"every": 1, "most": 2}})
    job = c.submit(1, 2)
    answers = [c.point(job, 1.0, carry_out=point > 5).what for point in range(10)]
    assert answers == ["expand"] * 7 + ["shrink"] + ["continue"] * 2


def test_an_order_without_room_is_left_out(cluster: MakeCluster) -> None:
    c = cluster(2, resize="drawn", options={"drawn": {"every": 1}})
    job = c.submit(1, 2)
    c.submit(1)
    answer = c.point(job, 1.0)
    assert (answer.what, answer.reason.code) == ("continue", "drawn_no_room")
    assert "2 was drawn at remap point 1: 1 more are needed, 0 are idle" in answer.reason.text


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"most": -1}, {"sizes": [0]}, {"seed": "x"}, {"often": 1}]
)
def test_options_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="drawn"):
        configured(resize="drawn", options={"drawn": options}).of(DrawnOptions)
