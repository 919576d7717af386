"""What an iteration leaves for the next in a plain variable travels to ranks that join."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.commands import ROOT
from harness.live import Live
from tests.live.carrying import CASES

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = Path(__file__).with_name("carrying.py")
TOLD = {"kept": "chunk is computed from the number of ranks before the loop"}
# Two ranks grow to three: what differs from rank to rank is their own affair.
SIZES = {"of_each_rank": "2,3"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, dict[str, int]]]:
    """One of each case, all at once."""
    live = Live(tmp_path_factory.mktemp("dq") / "home")
    live.env["DQ_WAIT_FOR_RANKS"] = "1"  # the loops do not end before ranks have come up
    live.up(32)
    words = {case: (sys.executable, PROGRAM, case) for case in CASES}
    yield (
        live,
        {
            case: live.submit("--sizes", SIZES.get(case, "1,2"), "--", *argv)
            for case, argv in words.items()
        },
    )
    live.clear()


def line(case: str) -> str:
    for number, text in enumerate(PROGRAM.read_text().splitlines(), 1):
        if text.endswith(f"HERE: {case}"):
            return f"{PROGRAM.name}:{number}:"
    raise AssertionError(case)


@pytest.mark.parametrize("case", CASES)
def test_it_is_right_or_the_resize_is_refused(jobs: tuple[Live, dict[str, int]], case: str) -> None:
    live, ids = jobs
    job = live.wait(ids[case], lambda job: job["state"] in ("done", "failed"), 120.0)
    assert job["state"] == "done", job["reason"]
    story = [entry["text"] for entry in json.loads(live.dq("why", ids[case], "--json"))["story"]]
    refused = [text for text in story if "did not happen" in text and "last iteration" not in text]
    total, _, of, *_ = live.dq("logs", ids[case]).split()[1:]
    if case in TOLD:
        assert refused and len(job["sizes"]) == 1
        assert line(case) in refused[0] and TOLD[case] in refused[0]
    else:
        assert not refused, refused
        assert any(row["processors"] == int(SIZES.get(case, "1,2")[-1]) for row in job["sizes"])
    if case == "counts":
        assert any("variables that travelled" in text and "count" in text for text in story), story
    assert total == of


ITEMS = """\
import time, resize_lib
with resize_lib.session() as rs:
    total, items = rs.value("total", 0), rs.value("items", [])
    for _ in rs.iterations(2):
        items.value = list(range(120))
    for item in rs.iterations(items.value):
        total.value += item
        time.sleep(0.08)
    if rs.rank == 0:
        print("total", total.value, flush=True)
"""


def test_a_rank_that_joins_gets_a_sequence_that_it_does_not_have(
    jobs: tuple[Live, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, _ = jobs
    monkeypatch.delitem(live.env, "DQ_WAIT_FOR_RANKS")  # one would join in the first loop
    program = tmp_path / "items.py"
    program.write_text(ITEMS)
    number = live.submit("--sizes", "1,2", "--", sys.executable, program)
    job = live.wait(number, lambda job: job["state"] in ("done", "failed"), 120.0)
    assert job["state"] == "done" and len(job["sizes"]) > 1, job["reason"]
    assert live.dq("logs", number).split()[-2:] == ["total", str(sum(range(120)))]


def test_who_wants_a_warning_only_gets_one(jobs: tuple[Live, dict[str, int]]) -> None:
    live, _ = jobs
    argv = (sys.executable, PROGRAM, "kept")
    job = live.submit("--sizes", "1,2", "--watch", "warn", "--", *argv)
    ended = live.wait(job, lambda job: job["state"] in ("done", "failed"), 120.0)
    assert ended["state"] == "done" and len(ended["sizes"]) > 1
    assert "chunk is computed from the number of ranks" in live.dq("logs", job, "--err")


INSTALLED = """\
import time, resize_lib
class Solver:
    def __init__(self):
        self.total = 0
    def run(self):
        with resize_lib.session() as rs:
            for iteration in rs.iterations(60):
                self.total += iteration
                time.sleep(0.02)
            if rs.rank == 0:
                print("sum", self.total, "expected", 1770, flush=True)
"""


def test_an_installed_package_that_opens_the_session_is_the_program(
    jobs: tuple[Live, dict[str, int]], tmp_path: Path
) -> None:
    live, _ = jobs
    package = tmp_path / "site-packages" / "solving"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INSTALLED)
    (package / "__main__.py").write_text("from solving import Solver\nSolver().run()\n")
    env = f"PYTHONPATH={package.parent}:{ROOT}"
    job = live.submit("--sizes", "1,2", "--env", env, "--", sys.executable, "-m", "solving")
    view = live.wait_end(job, 120.0)
    assert view["state"] == "done", view["reason"]
    assert len(view["sizes"]) > 1
    _, found, _, expected = live.dq("logs", job).split()
    assert found == expected
