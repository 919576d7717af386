"""`dq logs --label`: the rank before each line, of jobs that were not submitted for that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

SAYS = """\
import os, sys, time
import resize_lib

with resize_lib.session() as rs:
    for turn in rs.iterations():
        print(f"rank {rs.rank} turn {turn}\\nrank {rs.rank} again {turn}", flush=True)
        time.sleep(0.02)
        if turn == 119 if len(sys.argv) == 1 else rs.comm.bcast(os.path.exists(sys.argv[1])):
            break
"""
NODES = """\
engine = "emulated"
[[nodes]]
names = ["a", "b"]
processors = 2
"""


@pytest.fixture
def job(live: Live, tmp_path: Path) -> int:
    """On two nodes, each with a keeper of its own; 2 to 4 ranks, ended."""
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "says.py").write_text(SAYS)
    (tmp_path / "manual.toml").write_text('[scheduler]\nresize = "none"\n')
    cluster = ("--cluster", tmp_path / "nodes.toml", "--config", tmp_path / "manual.toml")
    live.dq("up", *cluster, "--detach")
    number = live.submit("-n", 2, "--sizes", "2,4", "--", "python", tmp_path / "says.py",
                         tmp_path / "stop")  # fmt: skip
    live.wait(number, lambda j: j["remap_points"] > 0)
    live.dq("resize", number, 4)
    live.wait(number, lambda j: j["processors"] == 4)
    (tmp_path / "stop").touch()
    found = live.wait_end(number)
    assert [size["processors"] for size in found["sizes"]] == [2, 4]
    return number


def check(lines: list[str]) -> None:
    """Ranks 2 and 3 are the second world's 0 and 1."""
    labels = {"rank 0": "[0]", "rank 1": "[1]", "rank 2": "[1.0]", "rank 3": "[1.1]"}
    for line in lines:
        label, _, rest = line.partition(" ")
        assert labels[rest[:6]] == label, line
    assert {line.partition(" ")[0] for line in lines} == {*labels.values()}


def test_every_line_has_its_rank(live: Live, job: int) -> None:
    plain = live.dq("logs", job).splitlines()
    labelled = live.dq("logs", "-l", job).splitlines()
    assert [line.partition(" ")[2] for line in labelled] == plain, "nothing else has changed"
    check(labelled)
    check(json.loads(live.dq("logs", "--label", job, "--json"))["text"].splitlines())
    assert live.dq("logs", "-l", "--err", job) == ""
    live.dq("down")
    check(live.dq("logs", "-l", job).splitlines())


def test_labels_come_while_the_job_runs(live: Live, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS.replace("0.02", "0.005"))
    live.up(2)
    job = live.submit("-n", 2, "--kind", "rigid", "--", "python", tmp_path / "says.py")
    lines = live.dq("logs", "-l", "--follow", job).splitlines()
    assert len(lines) == 2 * 2 * 120
    assert all(line.startswith(f"[{line.split()[2]}] rank ") for line in lines)


def test_what_is_not_known_is_said(live: Live, tmp_path: Path) -> None:
    live.up(2, "--launcher", "mpiexec")
    # In one piece: `print` to what has no buffer writes the line and its end one after the other.
    says = "import os; os.write(1, b'hello\\n')"
    job = live.submit("-n", 2, "--wait", "--", "python", "-c", says)
    shown = live.run("logs", "-l", job)
    assert shown.stdout == "hello\nhello\n"
    assert "not known" in shown.stderr
