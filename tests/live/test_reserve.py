"""`dq reserve`: processors are kept, a member runs inside, others wait until it is over."""

from __future__ import annotations

import json

import pytest

from harness.live import Live

pytestmark = pytest.mark.live


def test_a_reservation_from_beginning_to_end(cluster: Live) -> None:
    made = json.loads(
        cluster.dq(
            "reserve", "-n", 3, "--start", "+10s", "--duration", "4s", "--name", "r", "--json"
        )
    )
    assert made == {"schema": 1, "reservation": {"name": "r"}}
    member = cluster.submit("-n", 3, "--kind", "rigid", "--reservation", "r", "--", "sleep", 60)
    other = cluster.submit("-n", 2, "--kind", "rigid", "--", "true")
    (listed,) = json.loads(cluster.dq("reservations", "--json"))["reservations"]
    assert (listed["name"], listed["processors"], listed["waiting"]) == ("r", 3, [member])
    assert "begins in" in cluster.dq("why", member)
    started = cluster.wait(member, lambda j: j["start_s"] is not None)
    assert listed["start_s"] <= started["start_s"] < listed["end_s"]
    ended = cluster.wait_end(member)
    assert (ended["state"], ended["reason"]) == ("failed", "reservation r is over")
    assert cluster.wait_end(other)["start_s"] >= listed["end_s"]
    assert json.loads(cluster.dq("reservations", "--json"))["reservations"] == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("reserve", "-n", 9, "--start", "now", "--duration", "1m"), 4, "the cluster has 4"),
        (("reserve", "-n", 1, "--start", "soon", "--duration", "1m"), 2, "--start soon: give now"),
        (("reserve", "-n", 1, "--start", "2001-01-01", "--duration", "1m"), 2, "in the past"),
        (("reserve", "-n", 1, "--start", "now", "--duration", "x"), 2, "--duration x"),
        (("reserve", "-n", 1, "--start", "now"), 2, "--duration is missing"),
        (("reserve", "--cancel", "r", "-n", 1), 2, "goes with no other"),
        (("reserve", "--cancel", "r"), 5, "no reservation r"),
        (("submit", "--reservation", "r", "--", "true"), 5, "no reservation r"),
    ],
)
def test_bad_reservations_get_one_line(
    shared: Live, words: tuple[object, ...], code: int, text: str
) -> None:
    done = shared.run(*words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert text in line
