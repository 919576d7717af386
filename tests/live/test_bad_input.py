"""Bad input gets one clear line and changes nothing; a broken job harms nobody else."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from dq_client.deploy import local
from harness.bench import until
from harness.live import Live

pytestmark = pytest.mark.live

SLEEP = ("--", "sleep", 60)
HUGE = "9" * 30


@pytest.fixture
def cluster(borrowed: Live) -> Live:
    return borrowed


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("-n", 3, "--sizes", "2,4", *SLEEP), 4, "size 3 is not among the legal sizes 2, 4"),
        (("--sizes", "2,x", *SLEEP), 2, "--sizes 2,x"),
        (("--sizes", "0,2", *SLEEP), 2, "a size is at least 1"),
        (("--sizes", "2x0,2", *SLEEP), 2, "a size is at least 1"),
        (("--sizes", "2x", *SLEEP), 2, "or grids, as 2x2,1x4"),
        (("--kind", "moldable", "--sizes", "2x2,1x4", *SLEEP), 4, "a second grid of its size"),
        (("-n", 0, *SLEEP), 2, "at least one processor"),
        (("-n", -1, *SLEEP), 2, "at least one processor"),
        (("-n", 5, *SLEEP), 4, "asks for 5 processors, the cluster has 4"),
        (("--sizes", "8,16", *SLEEP), 4, "asks for 8 processors, the cluster has 4"),
        (("--min", 4, "--max", 2, *SLEEP), 4, "sizes from 4 to 2"),
        (("--sizes", "2", "--min", 2, *SLEEP), 4, "either a list of sizes or"),
        (("--kind", "rigid", "--sizes", "1,2", *SLEEP), 4, "a rigid job has exactly one size"),
        (("-n", HUGE, *SLEEP), 2, "are at most 10000000"),
        (("--sizes", HUGE, *SLEEP), 2, "a size is at most 10000000"),
        (("--priority", HUGE, *SLEEP), 2, "--priority"),
        (("--protect", "disk", "--restarts", HUGE, *SLEEP), 2, "--restarts 9999"),
        (("--protect", "disk", "--protect-every", HUGE, *SLEEP), 2, "--protect-every 9999"),
        (("--multiple", 2, *SLEEP), 2, "give --chain multiple with it"),
        (("--chain", "multiple", "--multiple", 0, *SLEEP), 2, "--multiple"),
        (("--sizes", "1,2", "--chain", "powers", *SLEEP), 2, "leave --chain out"),
        (("--walltime", "soon", *SLEEP), 2, "--walltime soon"),
        (("--walltime", "0:00", *SLEEP), 2, "--walltime 0:00: give more than 0, as 90"),
        (("--walltime", HUGE, *SLEEP), 2, "--walltime 9999"),
        (("--estimate", "soon", *SLEEP), 2, "--estimate soon"),
        (("--env", "NOVALUE", *SLEEP), 2, "give --env NOVALUE=value"),
        (("--env", "=value", *SLEEP), 2, "give NAME=value, or NAME"),
        (("--env", "A B=1", *SLEEP), 2, "a name has no spaces"),
        (("--array", "3-1", *SLEEP), 2, "--array 3-1: 3-1 names no index"),
        (("--array", "0-99999999", *SLEEP), 2, "an index is at most 10000000"),
        (("--input", "/", *SLEEP), 2, "--input /: it is a folder"),
        (("--output", "%x", *SLEEP), 4, "--output %x: %x is none of %j"),
        (("--env", "DQ_JOB_ID=7", *SLEEP), 4, "belongs to DQ"),
        (("--kind", "elastic", *SLEEP), 2, "elastic"),
        (("--after", 99, *SLEEP), 5, "no job 99 to wait for"),
        (("--after", "1;2", *SLEEP), 2, "--after 1;2: give job ids"),
        ((), 2, "PROGRAM"),
    ],
)
def test_a_senseless_submission_is_refused_and_leaves_no_job(
    shared: Live, words: tuple[object, ...], code: int, text: str
) -> None:
    before = shared.dq("jobs", "--all", "--json") if code == 4 else ""  # 2: nobody was asked
    line = one_line(shared.run("submit", *words), code)
    assert text in line
    assert not before or shared.dq("jobs", "--all", "--json") == before


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("job", 99), 5, "no job 99"),
        (("kill", 99), 5, "no job 99"),
        (("why", "x"), 2, "no job id"),
        (("resize", 99, 2), 5, "no job 99"),
        (("resize", 99, "2x"), 2, "'2x': give a size from 1"),
        (("resize", 99, "2,4"), 2, "'2,4': give a size"),
        (("resize", 99, "0x4"), 2, "or a grid, as 2x4"),
        (("resize", 99, "9999x9999"), 2, "from 1 to 10000000"),
        (("agent", "start", "--node", ".."), 2, "not a node name: '..'"),
        (("agent", "start", "--node", "a/b"), 2, "not a node name: 'a/b'"),
        (("agent", "start", "--node", "z", "--processors", 0), 2, "--processors"),
        (
            ("agent", "start", "--node", "z", "--speed", "nan"),
            2,
            "--speed nan: give a number above",
        ),
        (("agent", "start", "--node", "z", "--interface", "no0"), 2, "no0 here; this machine has"),
        (("agent", "stop", "nosuch"), 5, "no agent nosuch runs here"),
        (("up", "--detach", "--heartbeat", -1), 2, "--heartbeat -1: give a number above 0"),
        (("server", "start", "--heartbeat", "nan"), 2, "--heartbeat nan"),
        (("frobnicate",), 2, "frobnicate"),
        (("server", "start", "--detach"), 2, "a server is running in"),
        (("up", "--detach", "--local", 0), 2, "1 to 10000 processors, not 0"),
        (("up", "--cluster", "/nonexistent.toml"), 2, "no such cluster file"),
    ],
)
def test_other_commands_say_what_is_wrong(
    shared: Live, words: tuple[object, ...], code: int, text: str
) -> None:
    assert text in one_line(shared.run(*words), code)


def test_no_server(live: Live) -> None:
    for command in ("jobs", "nodes", "down"):
        assert "dq up" in one_line(live.run(command), 3)
    live.up(1)
    assert "no job has been submitted yet" in one_line(live.run("job", "last"), 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine = ", "not TOML"),
        ("engine = 'cloud'", "unknown engine 'cloud'"),
        ("engine = 'emulated'", "no [[nodes]]"),
        ("engine = 'emulated'\n[[nodes]]\nnames = 'n[3-1]'", "not a range of node names"),
        ("engine = 'emulated'\n[[nodes]]\nnames = 'a b'", "not a node name"),
        ("engine = 'emulated'\n[[nodes]]\nnames = ['a', 'a']", "named twice"),
        ("engine = 'emulated'\n[[nodes]]\nnames = 'a'\nprocessors = 0", "need at least 1"),
        ("engine = 'emulated'\n[[nodes]]\nnames = 'a'\ncolour = 1", "colour"),
        ("processors = 'many'", "a whole number is needed, not a text"),
    ],
)
def test_a_malformed_cluster_file_starts_nothing(
    live: Live, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    line = one_line(live.run("up", "--detach", "--cluster", path), 2)
    assert str(path) in line
    assert message in line
    assert not live.home.server_file.exists()


@pytest.mark.parametrize("text", ["[scheduler]\nstart = 'psychic'", "[scheduler]\nsamples = 0",
                                  "[scheduler]\ncolour = 1", "[other]", "x ="])  # fmt: skip
def test_a_malformed_configuration_starts_nothing(live: Live, tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    done = live.run("up", "--local", 1, "--detach", "--config", path)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert not live.home.server_file.exists()


def test_a_second_server_on_the_same_address_is_refused(cluster: Live, tmp_path: Path) -> None:
    address = cluster.home.server()["address"]
    other = Live(tmp_path / "other")
    done = other.run("server", "start", "--detach", "--address", address)
    assert done.returncode == 2
    assert address in done.stderr
    assert "another server" in done.stderr
    cluster.dq("jobs")


@pytest.mark.mpi
def test_a_missing_program_takes_nobody_down(cluster: Live) -> None:
    healthy = cluster.submit("-n", 1, "--", "sleep", 4)
    refused = cluster.run("submit", "-n", 2, "--", "/nonexistent/program")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr == "dq: /nonexistent/program: no such program\n"
    # It might have been made before its start, or have gone since.
    broken = cluster.submit("-n", 2, "--hold", "--", "/nonexistent/program")
    cluster.dq("release", broken)
    end = cluster.wait(broken, lambda j: j["state"] == "failed")
    assert "no such program: /nonexistent/program" in end["reason"]
    assert "no such program" in cluster.dq("why", broken)
    assert cluster.wait_end(healthy)["state"] == "done"


@pytest.mark.mpi
@pytest.mark.parametrize("group", ["server", "sim"])
def test_a_group_without_a_command_shows_its_help(live: Live, group: str) -> None:
    done = live.run(group)
    assert done.returncode in (0, 2), "it depends on the version of click"
    assert (done.stdout + done.stderr).startswith(f"Usage: dq {group} [OPTIONS] COMMAND")


def test_a_script_that_is_not_executable_is_called_that(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("print(1)\n")
    done = cluster.run("submit", "--wait", "--", script)
    assert done.returncode == 4
    assert f"{script} is not executable: chmod +x" in done.stderr


def test_data_that_cannot_be_written_is_one_line(cluster: Live) -> None:
    words = [sys.executable, "-m", "dq_client.cli.main", "jobs", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            words, env=cluster.env, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "dq: the output: No space left on device\n"


@pytest.mark.mpi
def test_a_job_without_remap_points_is_explained(cluster: Live) -> None:
    job = cluster.submit("--sizes", "1,2", "--", "sleep", 600)
    cluster.wait(job, lambda j: j["state"] == "running")
    assert "has not reached a remap point" in cluster.dq("why", job)
    codes = [r["code"] for r in json.loads(cluster.dq("why", job, "--json"))["now"]]
    assert "no_remap_point" in codes
    cluster.dq("kill", job)
    cluster.wait_end(job)
    assert "malleable, but it came to no remap point" in cluster.dq("job", job)


@pytest.mark.mpi
def test_kill_ends_the_whole_tree(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "runaway.py"
    script.write_text(
        "import subprocess, time\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    job = cluster.submit("-n", 2, "--sizes", "2", "--", "python", script)
    cluster.wait(job, lambda j: j["state"] == "running")
    time.sleep(0.5)
    cluster.dq("kill", job)
    assert cluster.wait(job, lambda j: j["state"] == "killed")
    # all four processors are free again: the next job starts on them
    assert cluster.wait_end(cluster.submit("-n", 4, "--", "true"))["state"] == "done"
    until(lambda: "sleep" not in names(cluster), "what it has started is left")


def names(cluster: Live) -> set[str]:
    """Of the cluster's processes."""
    found = set()
    for pid in local.leftovers(cluster.home):
        with suppress(psutil.Error):  # it ends just now
            found.add(psutil.Process(pid).name())
    return found


@pytest.mark.mpi
def test_wait_tells_the_outcome_by_its_exit_code(cluster: Live) -> None:
    assert cluster.run("submit", "--wait", "--", "true").returncode == 0
    done = cluster.run("submit", "--wait", "--", "false")
    assert done.returncode == 1
    assert "exit code" in done.stderr


@pytest.mark.mpi
def test_walltime_is_enforced(cluster: Live) -> None:
    job = cluster.submit("--walltime", "2s", "--", "sleep", 60)
    end = cluster.wait(job, lambda j: j["state"] == "failed")
    assert "walltime of 2 s" in end["reason"]


@pytest.mark.mpi
def test_down_is_refused_while_a_job_runs(cluster: Live) -> None:
    job = cluster.submit("--", "sleep", 60)
    cluster.wait(job, lambda j: j["state"] == "running")
    assert "1 job is running" in one_line(cluster.run("down"), 4)


@pytest.mark.mpi
def test_nodes_of_a_cluster_that_was_taken_down_are_not_waited_for(live: Live) -> None:
    cluster = live
    cluster.up(4)
    cluster.dq("down")
    cluster.up(1)
    nodes = json.loads(cluster.dq("nodes", "--json"))["nodes"]
    states = sorted(node["state"] for node in nodes)
    assert states == ["left", "left", "left", "up"]
    listed = cluster.dq("nodes").splitlines()
    assert len(listed) == 2 and len(cluster.dq("nodes", "--all").splitlines()) == 5
    assert "the cluster has 1" in one_line(cluster.run("submit", "-n", 2, *SLEEP), 4)
    cluster.dq("submit", "-n", 1, "--wait", "--", "true")
    events = sqlite3.connect(cluster.home.root / "journal.sqlite").execute(
        "SELECT type, body FROM events ORDER BY seq"
    )
    lost = [body for kind, body in events if kind == "NodeLost"]
    assert len(lost) == 4
    assert all("stopped with the cluster" in body for body in lost)


def test_down_with_force_starts_no_queued_job_and_keeps_the_queue(live: Live) -> None:
    cluster = live
    cluster.up(4)
    running = [cluster.submit("-n", 4, "--", "sleep", 60)]
    queued = [cluster.submit("-n", 4, "--", "true") for _ in range(3)]
    cluster.wait(running[0], lambda j: j["state"] == "running")
    cluster.dq("down", "--force")
    cluster.up(4)
    assert cluster.job(running[0])["state"] == "killed"
    for job in queued:
        assert cluster.wait_end(job)["state"] == "done"


@pytest.mark.mpi
def test_logs_are_data_too(cluster: Live) -> None:
    job = cluster.submit("--", "echo", "hello")
    cluster.wait_end(job)
    assert cluster.dq("logs", job) == "hello\n"
    found = json.loads(cluster.dq("logs", "last", "--json"))
    assert found == {"schema": 1, "job": {"id": job}, "stream": "out", "text": "hello\n"}
    assert cluster.dq("logs", job, "--err") == ""
