"""What jobs have used, from their sizes over time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.show.report.accounting import FIELDS, SUMS, least, summed, used

WORK = st.lists(
    st.tuples(st.integers(1, 64), st.integers(0, 100), st.floats(1e-3, 1e3)), max_size=6
)


def job(**fields: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "name": "a",
        "user": "u",
        "kind": "malleable",
        "state": "done",
        "submit_s": 10.0,
        "start_s": 15.0,
        "end_s": 45.0,
        "exit_code": 0,
        **fields,
    }


def test_a_job_that_grew_and_shrank() -> None:
    steps = [[15.0, 1], [25.0, 4], [35.0, 2], [45.0, 0]]
    # 1 costs 1 processor-second an iteration, 4 costs 2, 2 costs 1.5.
    work = [[1, 10, 1.0], [4, 20, 0.5], [2, 8, 0.75]]
    row = used(job(), {"steps": steps, "work": work})
    assert tuple(row) == FIELDS
    assert (row["wait_s"], row["run_s"]) == (5.0, 30.0)
    assert row["processor_s"] == 10 * 1 + 10 * 4 + 10 * 2
    assert (row["processors_max"], row["expands"], row["shrinks"]) == (4, 1, 1)
    assert row["iterations"] == 38
    assert row["efficiency"] == pytest.approx(38 / (10 * 1 + 20 * 2 + 8 * 1.5))


def test_a_job_that_was_started_again_waits_in_between() -> None:
    steps = [[15.0, 4], [25.0, 0], [35.0, 2], [40.0, 4], [45.0, 0]]
    row = used(job(start_s=35.0), {"steps": steps})
    assert (row["wait_s"], row["run_s"], row["start_s"]) == (15.0, 20.0, 35.0)
    assert row["processor_s"] == 10 * 4 + 5 * 2 + 5 * 4
    assert (row["processors_max"], row["expands"], row["shrinks"]) == (4, 1, 0)


def test_jobs_that_have_not_started_or_not_ended() -> None:
    waiting = used(job(state="queued", start_s=None, end_s=None), None)
    assert waiting["processor_s"] == waiting["processors_max"] == waiting["iterations"] == 0
    assert waiting["wait_s"] is waiting["run_s"] is waiting["efficiency"] is None
    running = used(job(state="running", end_s=None), {"steps": [[15.0, 2], [100.0, 0]]})
    assert (running["run_s"], running["processor_s"]) == (85.0, 170.0)


@given(work=WORK)
def test_efficiency_is_a_share(work: list[tuple[int, int, float]]) -> None:
    found = least(work)
    if found is None:
        assert not any(count for _, count, _ in work)
    else:
        assert 0 < found[0] <= found[1] * (1 + 1e-12)
    if found is not None and len({size * time_s for size, count, time_s in work if count}) == 1:
        assert found[0] == pytest.approx(found[1])


@given(works=st.lists(st.tuples(st.sampled_from("ab"), WORK), max_size=8))
def test_sums_add_up(works: list[tuple[str, list[tuple[int, int, float]]]]) -> None:
    rows = []
    for user, work in works:
        steps = [[15.0, 2], [45.0, 0]]
        rows.append(used(job(user=user, state="failed"), {"steps": steps, "work": work}))
    sums = summed(rows, "user")
    assert all(tuple(row) == ("user", *SUMS) for row in sums)
    assert sum(row["jobs"] for row in sums) == sum(row["failed"] for row in sums) == len(rows)
    assert sum(row["processor_s"] for row in sums) == pytest.approx(60 * len(rows))
    for row in sums:
        mine = [r["efficiency"] for r in rows if r["user"] == row["user"]]
        known = [share for share in mine if share is not None]
        if known:
            assert min(known) - 1e-9 <= row["efficiency"] <= max(known) + 1e-9
        else:
            assert row["efficiency"] is None
