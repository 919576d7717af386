"""Which remap points a job that rests reports, and what it says of those it has passed."""

from __future__ import annotations

import pytest

from dq_client.base import messages as m
from resize_lib.silence import KEPT, LAST, Silence

USUAL_S = 0.2
HERE = (3, "loop")


def resting(points: int) -> Silence:
    silence = Silence()
    silence.begin(m.RemapAnswer("continue", rest=points, usual_s=USUAL_S), HERE)
    return silence


def test_it_lasts_as_many_remap_points_as_the_server_said() -> None:
    silence = resting(20)
    assert [silence.passes(USUAL_S, HERE) for _ in range(22)] == [True] * 20 + [False] * 2
    assert silence.end(HERE) == (20, [USUAL_S] * KEPT)
    assert silence.end(HERE) == (0, []), "each is told once"


@pytest.mark.parametrize("factor", [0.7, 1.3, 4.0])
def test_a_change_ends_it_at_the_second_time(factor: float) -> None:
    silence = resting(100)
    assert all(silence.passes(USUAL_S, HERE) for _ in range(30))
    assert silence.passes(factor * USUAL_S, HERE), "one alone may be an outlier"
    assert not silence.passes(factor * USUAL_S, HERE)
    points, times_s = silence.end(HERE)
    assert (points, times_s[-2:]) == (31, [USUAL_S, factor * USUAL_S])


def test_outliers_and_noise_wake_nobody() -> None:
    silence = resting(100)
    for k in range(60):
        assert silence.passes(USUAL_S * (5 if k % LAST == 0 else 1 + 0.08 * (-1) ** k), HERE)


@pytest.mark.parametrize("other", [(4, "loop"), (3, "another")])
def test_times_of_another_size_or_loop_are_left_out(other: tuple[int, str]) -> None:
    silence = resting(100)
    assert silence.passes(USUAL_S, HERE)
    assert not silence.passes(USUAL_S, other)
    assert silence.end(other) == (0, [])


def test_an_answer_without_a_rest_ends_it() -> None:
    silence = resting(100)
    assert silence.passes(USUAL_S, HERE)
    silence.begin(m.RemapAnswer("continue"), HERE)
    assert not silence.lasts
    assert silence.end(HERE) == (1, [USUAL_S]), "what was passed before is still told"
