"""A live job whose evolution is known: the server grows and shrinks it, others wait for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = ["--", "python", "-m", "tests.live.evolving_known"]
SLOW_S = 150  # everything shares few cores


def codes(cluster: Live, job_id: int) -> list[str]:
    story = json.loads(cluster.dq("why", job_id, "--json"))["story"]
    return [line["code"] for line in story if line["what"] != "continue"]


def test_the_server_carries_a_profile_out_and_plans_others_around_it(
    live: Live, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\npolicy = "easy"\nfit = "2X"\n')
    steps = tmp_path / "profile.json"
    steps.write_text("[[6, 1], [8, 3], [6, 1]]")
    live.up(4, "--config", config)
    job = live.submit("--profile", steps, *PROGRAM, 17)
    long = live.submit("-n", 2, "--kind", "rigid", "--estimate", "60s", "--", "sleep", "0.1")
    short = live.submit("-n", 2, "--kind", "rigid", "--estimate", "1s", "--", "sleep", "0.1")
    assert live.wait_end(short)["state"] == "done"
    live.wait(job, lambda j: j["state"] == "running")  # its start is up to a second ahead
    waits = json.loads(live.dq("why", long, "--json"))
    assert [reason["code"] for reason in waits["now"]] == ["waits_for_profiles"]
    view = live.wait(job, lambda j: j["scheduled"] and j["scheduled"]["step"] is not None)
    plan = view["scheduled"]
    assert (view["kind"], plan["steps"]) == ("evolving", [[6, 1], [8, 3], [6, 1]])
    shown = live.dq("job", job)
    assert "SCHEDULED" in shown and " 8 s" in shown
    end = live.wait_end(job, SLOW_S)
    assert end["state"] == "done", live.dq("logs", job, "--err", code=None)
    assert json.loads(live.dq("logs", job)) == {"good": True, "size": 1}
    assert [stay["processors"] for stay in end["sizes"]] == [1, 3, 1]
    moments = [plan["start_s"] + 6, plan["start_s"] + 14]
    assert all(s["since_s"] >= at for s, at in zip(end["sizes"][1:], moments, strict=True))
    found = codes(live, job)
    assert [c for c in found if c.startswith("profile_")][:4] == [
        "profile_promised", "profile_promised", "profile_expand", "profile_shrink",
    ]  # fmt: skip
    later = live.wait_end(long, SLOW_S)
    assert later["start_s"] >= end["sizes"][2]["since_s"], "not into what the profile needed"
    replayed = json.loads(live.dq("sim", "replay", live.home.journal, "--json"))
    assert replayed["same"]


def test_what_makes_no_sense_is_said_in_one_line(shared: Live, tmp_path: Path) -> None:
    torn = tmp_path / "torn.json"
    torn.write_text("[[3, 1], [5")

    def refused(code: int, *words: object) -> str:
        done = shared.run("submit", *words, "--", "true")
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    assert "not JSON" in refused(2, "--profile", torn)
    assert "in whole numbers from 1 on" in refused(2, "--profile", "60:4,0:2")
    assert "No such file" in refused(2, "--profile", "60-4")
    assert "asks for 5 processors, the cluster has 4" in refused(4, "--profile", "9:1,9:5")
    assert "a profile sets the sizes" in refused(4, "--profile", "9:1", "-n", 1)
    assert "kind evolving, not rigid" in refused(4, "--profile", "9:1", "--kind", "rigid")
    assert "walltime of 5 s is shorter" in refused(4, "--profile", "9:1", "--walltime", "5s")
    assert json.loads(shared.dq("jobs", "--json"))["jobs"] == []
