"""`dq submit` with a real cluster: the environment, arrays, files for the output, retries."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.live import Live

pytestmark = pytest.mark.live

SHOWN = "import json, os; print(json.dumps(dict(os.environ)))"
MINE = {
    "LD_LIBRARY_PATH": "/opt/mine/lib",
    "CONDA_PREFIX": "/opt/conda",
    "CUDA_VISIBLE_DEVICES": "3",
    "OF_MY_OWN": "word with spaces, ünïcode\nand a second line",
    "OMPI_MCA_btl": "tcp",
}
NOT_MINE = {
    "PMI_RANK": "7",
    "PMI_FD": "9",
    "PMIX_RANK": "7",
    "OMPI_COMM_WORLD_RANK": "7",
    "SLURM_PROCID": "7",
    "DQ_JOB_KEY": "stolen",
    "MY_API_TOKEN": "s3cret",
    "db_password": "s3cret",
    "AWS_ACCESS_KEY_ID": "s3cret",
}


def seen(cluster: Live, *options: Any) -> dict[str, str]:
    """What a job has in its environment."""
    job = cluster.submit("-n", 1, *options, "--", sys.executable, "-c", SHOWN)
    assert cluster.wait_end(job)["state"] == "done"
    found: dict[str, str] = json.loads(cluster.dq("logs", job))
    return found


def test_the_environment_travels_but_for_what_is_not_the_jobs(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**MINE, **NOT_MINE}.items():
        monkeypatch.setitem(shared.env, name, value)
    env = seen(shared, "--env", "MY_API_TOKEN", "--env", "OF_MY_OWN=other")
    expected = {**MINE, "OF_MY_OWN": "other", "MY_API_TOKEN": "s3cret"}
    assert {name: env.get(name) for name in expected} == expected
    for name in NOT_MINE.keys() - {"MY_API_TOKEN"}:
        assert env.get(name) != NOT_MINE[name], name
    clean = seen(shared, "--clean-env")
    assert not clean.keys() & (MINE.keys() | {"MY_API_TOKEN"})
    assert clean["PATH"] == shared.env["PATH"]
    # What is secret has not come to the journal either, unless it was named.
    journal = b"".join(p.read_bytes() for p in shared.home.root.glob("journal.sqlite*"))
    assert b"db_password" not in journal and b"AWS_ACCESS_KEY_ID" not in journal


def submissions(cluster: Live) -> int:
    """How many events of the journal are submissions."""
    with closing(sqlite3.connect(f"file:{cluster.home.journal}?mode=ro", uri=True)) as db:
        count = "SELECT count(*) FROM events WHERE type LIKE '%Submitted'"
        return int(db.execute(count).fetchone()[0])


def test_a_thousand_jobs_are_one_request_and_one_event(shared: Live) -> None:
    before = submissions(shared)
    words = ("--array", "0-999%2", "-n", 1, "--hold", "--json", "--", "true")
    said = json.loads(shared.dq("submit", *words))
    array, jobs = said["job"]["id"], said["jobs"]
    assert jobs == list(range(array + 1, array + 1001))
    assert submissions(shared) == before + 1
    assert json.loads(shared.dq("job", "last", "--json"))["left"] == 1000
    shared.dq("kill", array)
    view = json.loads(shared.dq("job", array, "--json"))
    assert (view["state"], view["left"], view["ended"]) == ("killed", 0, {"killed": 1000})
    words = ("--array", "0-9", "-n", 1, "--json", "--wait", "--", "true")
    few = json.loads(shared.dq("submit", *words))
    assert len(few["jobs"]) == 10
    again = shared.run("kill", few["jobs"][0], f"{few['jobs'][1]}-{few['jobs'][2]}", 99999)
    assert again.returncode == 4
    assert again.stderr.count("has ended already (done)") == 3


def test_files_for_the_output_options_in_the_script_and_retries(
    shared: Live, tmp_path: Path
) -> None:
    script = tmp_path / "try.sh"
    script.write_text(
        "#!/bin/sh\n#DQ -n 1 --retry 1 --name tried\n#DQ --output 'out/%n-%A-%a.txt'\n"
        'echo "$DQ_ARRAY_LINE, try $DQ_JOB_INSTANCE"; echo sorry >&2\n'
        '[ "$DQ_JOB_INSTANCE" = 2 ]\n'
    )
    lines = tmp_path / "lines"
    lines.write_text("first one\n\nsecond one\n")
    words = ("--chdir", tmp_path, "--each-line", lines, "--json", "--wait", "--", "try.sh")
    said = json.loads(shared.dq("submit", *words))
    array, (first, second) = said["job"]["id"], said["jobs"]
    assert (tmp_path / f"out/tried-{array}-1.txt").read_text() == (
        "second one, try 1\nsecond one, try 2\n"
    )
    assert shared.dq("logs", first) == "first one, try 1\nfirst one, try 2\n"
    assert shared.dq("logs", "--err", second) == "sorry\nsorry\n"
    assert "retry 1 of 1: the application ended with exit code 1" in shared.dq("why", second)
    # A link is not followed to somewhere else, and nothing of it is written.
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / "link").symlink_to(target)
    refused = shared.submit("-n", 1, "--output", tmp_path / "link", "--", "echo", "gone")
    view = shared.wait_end(refused)
    assert view["state"] == "failed"
    assert "no regular file" in view["reason"]
    assert target.read_text() == "kept"
    failed = shared.submit("-n", 1, "--", "sh", "-c", "echo because >&2; exit 2")
    shared.wait_end(failed)
    shown = shared.run("job", failed)
    assert "exit code:    2" in shown.stdout and "  because" in shown.stdout
    assert f"dq logs --err {failed}" in shown.stderr
    waited = shared.run("submit", "-n", 1, "--wait", "--", "sh", "-c", "echo why >&2; exit 2")
    number = int(waited.stdout)
    assert waited.returncode == 1
    assert f"job {number} failed" in waited.stderr and "  why" in waited.stderr
    assert f"dq why {number}" in waited.stderr


def test_a_job_that_waits_is_edited_and_one_that_runs_is_not(live: Live) -> None:
    live.up(1)
    running = live.submit("-n", 1, "--", "sleep", 1000)
    first, second = (live.submit("-n", 1, "--walltime", "1h", "--", "true") for _ in range(2))
    live.dq("edit", f"{first}-{second}", "--walltime", "2h", "--priority", 7)
    assert live.job(second)["walltime_s"] == 7200
    assert "walltime 7200 s instead of 3600 s, priority 7 instead of 0" in live.dq("why", second)
    live.wait(running, lambda j: j["state"] == "running")
    for words, code in (
        ((running, "--priority", 1), 4),
        ((99, "--priority", 1), 5),
        ((first,), 2),
        ((first, "--walltime", "soon"), 2),
    ):
        refused = live.run("edit", *words)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (code, 1)
