"""`dq acct`, with a server and after `dq down`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dq_client.show.report.accounting import FIELDS
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = """
import time
import resize_lib
with resize_lib.session(report_interval_s=0) as rs:
    for turn in rs.iterations(40):
        time.sleep(0.01)
"""


def test_accounts_are_the_same_before_and_after_down(live: Live, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    live.up(2)
    first = live.submit("-n", 1, "--sizes", 1, "--", "python", tmp_path / "program.py")
    second = live.submit("-n", 2, "--kind", "rigid", "--name", "other", "--", "false")
    live.wait_end(first)
    live.wait_end(second)
    rows = json.loads(live.dq("acct", "--json"))["jobs"]
    assert [(row["id"], row["state"]) for row in rows] == [(first, "done"), (second, "failed")]
    one, two = rows
    view = live.job(first)
    assert one["processor_s"] == pytest.approx(view["end_s"] - view["start_s"])
    assert one["iterations"] == sum(size["iterations"] for size in view["sizes"]) > 0
    assert one["efficiency"] == 1.0
    assert two["processor_s"] == pytest.approx(2 * two["run_s"])
    assert (two["efficiency"], two["exit_code"]) == (None, 1)
    lines = list(csv.DictReader(io.StringIO(live.dq("acct", "--csv"))))
    assert tuple(lines[0]) == FIELDS
    assert [float(line["processor_s"]) for line in lines] == [r["processor_s"] for r in rows]
    (sums,) = json.loads(live.dq("acct", "--by", "kind", "--state", "failed", "--json"))["sums"]
    assert (sums["kind"], sums["jobs"], sums["failed"]) == ("rigid", 1, 1)
    table = live.dq("acct")
    assert "PROC-HOURS" in table
    live.dq("down")
    assert live.dq("acct") == table
    assert live.run("acct", "--csv", "--json").returncode == 2
