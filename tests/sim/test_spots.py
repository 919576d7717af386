"""Searched sweet spots on drawn curves: fixed seeds, so that each figure is the same every time."""

from __future__ import annotations

from functools import cache
from statistics import fmean, median

import pytest

from benchmarks import spots
from dq_server.core.settings import configured
from experiments.changing_spots import (
    FOUND_WITHIN,
    RULES,
    SIZES,
    Life,
    Ran,
    drawn,
    lived,
    measured,
    spot_of,
)

SEEDS = range(16)


@cache
def ran(load: str, rule: str) -> list[Ran]:
    usual = configured(keep_decisions=0, confirm_vacated=False)
    config = configured(usual, **RULES[rule])
    lives = [(seed, drawn(load, seed)) for seed in SEEDS]
    told = "told" in rule
    return [measured(load, k, rule, lived(life, config, told=told), life) for k, life in lives]


def test_the_regret_on_steady_noisy_curves_is_small_and_trials_take_little() -> None:
    searched = ran("steady", "search")
    assert fmean(r.later_pct for r in searched) <= 5
    assert fmean(r.tried_pct for r in searched) <= 2
    assert fmean(r.later_pct for r in searched) < fmean(
        r.later_pct for r in ran("steady", "thesis")
    )


def test_a_disturber_is_followed_within_60_turns() -> None:
    searched = ran("disturber", "search")
    found = [turns for r in searched for turns in r.seen]
    assert len(found) >= 8
    in_time = [turns for turns in found if turns is not None and turns <= FOUND_WITHIN]
    assert len(in_time) >= 0.9 * len(found)
    assert not any(turns for r in ran("disturber", "kept") for turns in r.seen)


def test_a_disturber_of_larger_sizes_that_goes_is_heard_of() -> None:
    """Nothing shows it at the size that the job is on."""
    told = [turns for r in ran("disturber", "search, told") for turns in r.unseen]
    assert len(told) >= 6
    in_time = [turns for turns in told if turns is not None and turns <= FOUND_WITHIN]
    assert len(in_time) >= 0.8 * len(told)


def test_where_there_is_no_disturber_nothing_is_heard() -> None:
    assert [r.regret_pct for r in ran("steady", "search, told")] == [
        r.regret_pct for r in ran("steady", "search")
    ]


@pytest.mark.parametrize("load", ["steady", "disturber", "program", "slow"])
def test_a_life_is_the_same_each_time(load: str) -> None:
    assert drawn(load, 3) == drawn(load, 3) != drawn(load, 4)


def test_an_oracle_has_no_regret() -> None:
    """The yardstick itself: a life without changes, resizes and slow starts, on the best size."""
    times = {2: 1.0, 4: 2.0, 8: 3.0, 16: 4.0, 32: 5.0}
    assert spot_of(times) == 2
    assert spot_of({2: 1.0, 4: 0.96, 8: 0.1, 16: 0.1, 32: 0.1}) == 2
    life = Life([times] * 1000, [1.0] * 1000, [1.0] * 1000, 0.0, [], {})
    fixed = configured(resize="none", confirm_vacated=False)
    figures = measured("steady", 0, "none", lived(life, fixed, told=False), life)
    assert (figures.regret_pct, figures.spot_pct, figures.later_pct) == (0.0, 0.0, 0.0)
    assert SIZES[0] == 2


def test_a_search_loses_little_against_the_best_size() -> None:
    """A short version of `python -m benchmarks.spots`, of other seeds."""
    rules = {rule: spots.RULES[rule] for rule in ("kept", "search")}
    found = [ran for number in range(40) for ran in spots.one(18, rules, number)]
    kept, searched = ([r for r in found if r.rule == rule] for rule in rules)
    losses = [r.loss_pct for r in searched]
    assert fmean(losses) <= 25
    assert median(losses) < 0.4 * median(r.loss_pct for r in kept)
    assert sum(r.off_pct > 10 for r in searched) <= 0.15 * len(searched)
