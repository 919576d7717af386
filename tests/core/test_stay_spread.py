"""What a stay keeps of its iterations: enough for a spread, and little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.jobs import TIMES_MAX, Stay
from dq_server.core.model.sizes import Configuration

TIMES = st.lists(st.floats(0.001, 1000), max_size=300)


def stay(times: list[float]) -> Stay:
    made = Stay(Configuration(1, 2), 0.0)
    for time_s in times:
        made.note(time_s)
    return made


@given(TIMES)
def test_the_spread_is_the_middle_half_of_what_is_kept(times: list[float]) -> None:
    found = stay(times)
    assert len(found.sample) <= TIMES_MAX and set(found.sample) <= set(times)
    if len(times) < 4:
        assert found.spread_s == ()
    else:
        low, high = found.spread_s
        assert min(times) <= low <= high <= max(times)
        assert sum(low <= t <= high for t in found.sample) >= len(found.sample) / 2
    before = found.spread_s
    found.close()
    assert (found.spread_s, found.sample) == (before, []), "a stay that is over keeps two numbers"


@pytest.mark.parametrize("count", [16, 17, 40, 1000, 12345])
def test_what_is_kept_comes_from_all_of_the_stay(count: int) -> None:
    found = stay([float(k) for k in range(count)])
    assert len(found.sample) >= TIMES_MAX // 2
    gaps = {b - a for a, b in zip(found.sample, found.sample[1:], strict=False)}
    assert len(gaps) == 1, "evenly"
    low, high = found.spread_s
    assert abs(low - count / 4) < count / 5 and abs(high - 3 * count / 4) < count / 5


def test_one_outlier_is_not_a_spread() -> None:
    assert stay([1.0] * 20 + [50.0] + [1.0] * 20).spread_s == (1.0, 1.0)
