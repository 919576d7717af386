"""Quotas on a real cluster: refused, waiting with the figures, growth up to the limit, restarts."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from dq_client.show import views
from harness.bench import until
from harness.live import Live
from tests.live.test_json_live import check

pytestmark = [pytest.mark.live, pytest.mark.mpi]

ME = pwd.getpwuid(os.getuid()).pw_name
CONFIG = f"""
[quotas.user."*"]
processors = 3
queued = 4
hours = 100
window = "7d"

[quotas.group.lab]
members = ["{ME}"]
jobs = 2
"""


def shown(live: Live, job: int) -> str:
    return " ".join(live.dq("why", job).split())


@pytest.mark.timeout(240)
def test_a_quota_is_kept_and_explained(live: Live, tmp_path: Path) -> None:
    config, gate = tmp_path / "config.toml", tmp_path / "gate"
    config.write_text(CONFIG)
    live.up(4, "--config", config)
    bounds = json.loads(live.dq("quotas", "--user", ME, "--json"))["quotas"]
    assert [row["name"] for row in bounds] == ["*", "lab"], "though nobody has used any"
    assert "0 of 3" in live.dq("quotas", "--user", "somebody-else")

    refused = live.run("submit", "--kind", "rigid", "-n", 4, "--", "true")
    assert refused.returncode != 0
    assert (
        f"user {ME} may hold 3 processors at once, the job needs at least 4: ask for fewer, or have"
        ' the quota raised ([quotas.user."*"] processors)' in " ".join(refused.stderr.split())
    )

    words = ("--", "python", "-m", "tests.live.growing", "--n", 64, "--iterations", 5000)
    growing = live.submit("-n", 1, "--sizes", "1,2,4", *words)
    live.wait(growing, lambda j: j["processors"] == 2 and j["sizes"][-1]["iterations"] > 5)
    told = f"user {ME} may hold 3 processors at once: other jobs hold 0 or are about to, so this"
    assert told in shown(live, growing)

    gated = ("sh", "-c", f"until [ -e '{gate}' ]; do sleep 0.1; done")
    small = live.submit("-n", 1, "--", *gated)
    waits = live.submit("-n", 1, "--", "true")
    last = live.submit("-n", 1, "--", "true")
    assert live.job(waits)["state"] == live.job(last)["state"] == "waiting"
    told = shown(live, waits)
    assert f"user {ME} may hold 3 at once: 3 are held, 0 more are for jobs in the queue" in told
    assert "group lab may run 2 jobs at once: 2 run" in told
    assert f"job {waits} of user {ME} was submitted before it" in shown(live, last)
    fifth = live.run("submit", "-n", 1, "--", "true")
    assert f"user {ME} may have 4 jobs in the system: 4 are there" in " ".join(fifth.stderr.split())

    answer = json.loads(live.dq("quotas", "--json"))
    check(answer, views.QuotasAnswer)
    mine, lab = answer["quotas"]
    assert (mine["name"], mine["processors_max"], mine["queued"]) == (ME, 3, 4)
    assert (lab["kind"], lab["members"], lab["jobs"], lab["waiting"]) == ("group", [ME], 2, 2)
    assert "3 of 3" in live.dq("quotas") and "2 of 2" in live.dq("quotas", "--user", ME)

    live.dq("server", "stop")  # who waits, and for what, is in the journal
    live.dq("server", "start", "--detach", "--config", config)
    told = "group lab may run 2 jobs at once"
    until(lambda: told in shown(live, waits), "its agents are there again, and nobody is told more")
    gate.touch()
    live.dq("kill", growing)  # it would go on for minutes, however slow the machine is
    assert live.wait_end(growing)["state"] == "killed"
    assert live.wait(growing, lambda j: j["end_s"] is not None)["state"] == "killed"
    for job in (small, waits, last):
        assert live.wait_end(job)["state"] == "done", live.dq("logs", job, "--err")
    (mine, _) = json.loads(live.dq("quotas", "--json"))["quotas"]
    assert mine["hours"] > 0 and mine["processors"] == 0
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]


def test_without_quotas_there_is_nothing_to_show(live: Live) -> None:
    live.up(1)
    assert json.loads(live.dq("quotas", "--json"))["quotas"] == []
    assert "no quota" in live.run("quotas").stderr
