"""`dq demo` has no time limit: what it says when nothing comes for a while."""

from __future__ import annotations

from dq_client.cli.demo import QUIET_S, Pace


def job(remap_points: int, state: str = "running") -> dict[str, object]:
    return {"state": state, "remap_points": remap_points}


def test_a_job_that_goes_on_is_left_alone() -> None:
    pace = Pace(50)
    assert all(pace.words(job(i), i * 0.9 * QUIET_S) is None for i in range(50))


def test_silence_is_told_ever_more_seldom_until_something_comes() -> None:
    pace = Pace(50)
    told = [s for s in range(1000) if pace.words(job(7), float(s)) is not None]
    assert told == [int(QUIET_S * 2**i) for i in range(6)]
    assert pace.words(job(8), 1000.0) is None
    words = pace.words(job(8), 1000.0 + QUIET_S)
    assert words is not None
    assert f"nothing new for {QUIET_S:.0f} s" in words
    assert "8 of 50 iterations" in words
    assert "running" in words
