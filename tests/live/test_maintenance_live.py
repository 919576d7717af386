"""`dq maintenance`: a node is empty while its window lasts, and is used again afterwards."""

from __future__ import annotations

import json

import pytest

from harness.live import Live

pytestmark = pytest.mark.live


def windows(live: Live) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(live.dq("maintenance", "--json"))["maintenance"]
    return found


def test_a_window_from_beginning_to_end(cluster: Live) -> None:
    words = ("n01", "--start", "now", "--duration", "12s", "--name", "w", "--reason", "disks")
    job = cluster.submit("-n", 4, "--kind", "rigid", "--hold", "--", "true")  # all nodes
    made = json.loads(cluster.dq("maintenance", *words, "--json"))
    assert made == {"schema": 1, "maintenance": {"name": "w"}}
    (window,) = windows(cluster)
    assert (window["nodes"], window["begun"], window["reason"]) == (["n01"], True, "disks")
    assert "disks" in cluster.dq("maintenance")
    cluster.dq("release", job)
    ended = cluster.wait_end(job)
    assert (ended["state"], windows(cluster)) == ("done", [])
    assert ended["start_s"] >= window["end_s"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("n09", "--start", "now", "--duration", "1m"), 5, "no node named n09"),
        (("n01", "--start", "now"), 2, "--duration is missing"),
        (("--start", "now"), 2, "name the nodes"),
        (("--cancel", "w", "n01"), 2, "goes with no other"),
        (("--cancel", "w"), 4, "no maintenance window w"),
    ],
)
def test_bad_windows_get_one_line(
    shared: Live, words: tuple[object, ...], code: int, text: str
) -> None:
    done = shared.run("maintenance", *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert text in line
