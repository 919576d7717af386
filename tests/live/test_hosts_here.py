"""Hosts over ssh, without machines: an `ssh` that runs its command here (real ones: tests/lab)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dq_client.base import keys, process_tree
from dq_client.base.home import Home
from dq_client.deploy import local, shutdown
from dq_client.deploy.ssh import kept_alive
from dq_client.node import local_agents
from harness.bench import kill_at_once, until
from harness.live import Live

pytestmark = pytest.mark.live

SSH = """\
#!/bin/sh
# ssh OPTIONS HOST COMMAND
while [ "$#" -gt 2 ]; do shift; done
echo "a word from the login shell of $1"
[ "$1" = away ] && { echo "ssh: connect to host away port 22: No route to host" >&2; exit 255; }
exec sh -c "$2"
"""


@pytest.fixture
def by_ssh(live: Live, tmp_path: Path) -> Live:
    """Commands whose `ssh` is ours."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    live.env["PATH"] = f"{tmp_path}:{live.env['PATH']}"
    return live


def hosts(folder: Path, *groups: str) -> Path:
    path = folder / "hosts.toml"
    tables = "".join(f"[[nodes]]\nprocessors = 1\n{group}\n" for group in groups)
    path.write_text(f'engine = "hosts"\n{tables}[network]\ninterface = "lo"\n')
    return path


def test_hosts_that_can_be_used_come_up_and_the_others_are_named(
    by_ssh: Live, tmp_path: Path
) -> None:
    home = tmp_path / "beta-home"
    file = hosts(tmp_path, 'names = "alpha"', f'names = "beta"\nhome = "{home}"', 'names = "away"')
    found = json.loads(by_ssh.dq("up", "--cluster", file, "--detach", "--json"))
    assert found["hosts"] == ["alpha", "beta"]
    assert found["problems"] == [
        "away: ssh fails: ssh: connect to host away port 22: No route to host (try ssh away)"
    ]
    assert states(by_ssh) == {"alpha": "up", "beta": "up"}

    # The secret halves are in files of mode 0600 only: on no command line, in no environment.
    secret = keys.load(by_ssh.home.keys, "agent").secret
    for process in psutil.process_iter():
        try:
            shown = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        assert not any(secret in text for text in shown), process
    assert (home / "agents" / "beta" / "credentials").stat().st_mode & 0o777 == 0o600
    assert not (home / "keys").exists()

    # A server that is started again knows what kind of cluster it has.
    by_ssh.dq("server", "stop")
    by_ssh.dq("server", "start", "--detach")
    assert json.loads(by_ssh.home.server_file.read_text())["network"]["interface"] == "lo"
    (server,) = [p for p in psutil.process_iter() if p.pid == by_ssh.home.server()["pid"]]
    assert "--lost-after" in server.cmdline()

    # An agent that was killed is started again on its machine, with what it was given; also if what
    # starts it again was killed at the same moment, or before, and by whatever took its place.
    beta = Home(home)
    for dies in ("agent", "both", "supervisor", "agent", "understudy", "both", "agent"):
        before = local_agents.running_agents(beta)
        until(lambda: len(supervisors(beta)) == 2, "nobody stands by")
        leader = json.loads((beta.agent("beta") / kept_alive.FILE).read_text())["pid"]
        (understudy,) = supervisors(beta) - {leader}
        pids = {"supervisor": [leader], "understudy": [understudy]}.get(
            dies, [leader] * (dies == "both") + [int(before["beta"]["pid"])]
        )
        kill_at_once(*pids)
        if dies in ("agent", "both"):
            until(lambda: local_agents.running_agents(beta) not in ({}, before), "no agent")  # noqa: B023
        else:
            until(lambda: bool(supervisors(beta) - {leader, understudy}), "nobody takes its place")  # noqa: B023
    until(lambda: is_known(by_ssh, beta), "the server does not know the last one")

    by_ssh.dq("down")
    until(lambda: not local.leftovers(beta), "processes are left")
    assert not (home / "agents" / "beta" / "credentials").exists()


def test_up_after_the_server_was_killed_ends_no_job(by_ssh: Live, tmp_path: Path) -> None:
    file = hosts(tmp_path, 'names = "alpha"', f'names = "beta"\nhome = "{tmp_path / "there"}"')
    by_ssh.dq("up", "--cluster", file, "--detach")
    by_ssh.dq("submit", "-n", "2", "--", "sleep", "300")
    until(lambda: '"running"' in by_ssh.dq("job", "1", "--json"), "it does not start")
    agents = local_agents.running_agents(Home(tmp_path / "there"))
    other = tmp_path / "other"
    other.mkdir()
    for again in (hosts(other, 'names = "away"'), file):
        process_tree.kill([by_ssh.home.server()["pid"]])
        until(lambda: by_ssh.run("server", "status").returncode == 3, "it is there")
        done = by_ssh.run("up", "--cluster", again, "--detach", "--json")
        if again != file:
            assert done.returncode == 1, done.stderr
            by_ssh.dq("server", "start", "--detach")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hosts"] == ["alpha", "beta"]
    assert json.loads(by_ssh.dq("job", "1", "--json"))["job"]["state"] == "running"
    assert local_agents.running_agents(Home(tmp_path / "there")) == agents
    by_ssh.dq("down", "--force")
    assert not local.leftovers(by_ssh.home)


def test_up_beside_a_living_server_mends_lost_hosts(by_ssh: Live, tmp_path: Path) -> None:
    there = Home(tmp_path / "there")
    file = hosts(tmp_path, 'names = "alpha"', f'names = "beta"\nhome = "{there.root}"')
    by_ssh.dq("up", "--cluster", file, "--detach", "--heartbeat", "0.5", "--lost-after", "4")
    server = by_ssh.home.server()
    by_ssh.dq("submit", "-n", "1", "--", "sleep", "300")
    until(lambda: '"running"' in by_ssh.dq("job", "1", "--json"), "it does not start")
    until(lambda: len(supervisors(there)) == 2, "nobody stands by")

    # Nothing is missing: no host is visited. The default is what the server has.
    done = by_ssh.run("up", "--cluster", file, "--launcher", "dq")
    assert (done.returncode, "nothing was missing" in done.stderr) == (0, True), done.stderr
    assert "dq down stops it" in done.stderr

    # All of one host's processes are killed, so nothing there starts its agent again.
    lost = {"alpha": "up", "beta": "lost"}
    until(lambda: kills_the_last_of(there) and states(by_ssh) == lost, "it is not lost")
    done = by_ssh.run("up", "--cluster", file, "--detach", "--json")
    assert done.returncode == 0, done.stderr
    assert "started what was missing: agent beta" in done.stderr
    found = json.loads(done.stdout)
    assert found["started"] == {"server": False, "agents": ["beta"]}
    assert (found["hosts"], found["processors"], found["problems"]) == (["alpha", "beta"], 2, [])
    assert states(by_ssh) == {"alpha": "up", "beta": "up"}
    assert by_ssh.home.server() == server
    assert json.loads(by_ssh.dq("job", "1", "--json"))["job"]["state"] == "running"

    # Hosts that the file adds join. One that cannot be used ends nothing, also with --all.
    more = hosts(tmp_path, 'names = "alpha"', f'names = "beta"\nhome = "{there.root}"',
                 f'names = "gamma"\nhome = "{tmp_path / "third"}"', 'names = "away"')  # fmt: skip
    done = by_ssh.run("up", "--cluster", more, "--detach", "--all")
    assert (done.returncode, "1 of 4 hosts cannot be used" in done.stderr) == (1, True)
    assert states(by_ssh) == {"alpha": "up", "beta": "up", "gamma": "up"}

    # Another configuration is refused.
    for group, options, differs in (
        ('names = "away"', (), "its hosts"),
        ('names = "alpha"\nspeed = 2.0', (), "[[nodes]] of alpha"),
        ('names = "alpha"', ("--lost-after", "9"), "--lost-after 9.0"),
    ):
        done = by_ssh.run("up", "--cluster", hosts(tmp_path, group), *options, "--detach")
        assert done.returncode == 2, done.stderr
        assert f"already, and differs in {differs}: dq server status" in done.stderr
    by_ssh.dq("down", "--force")
    assert not local.leftovers(by_ssh.home)
    for home in (there, Home(tmp_path / "third")):
        until(lambda: not local.leftovers(home), "processes are left")  # noqa: B023


def states(cluster: Live) -> dict[str, str]:
    """What state each node is in."""
    return {n["name"]: n["state"] for n in json.loads(cluster.dq("nodes", "--json"))["nodes"]}


def is_known(cluster: Live, home: Home) -> bool:
    """Whether the server has heard from the agent that runs there now."""
    now, told = (
        local_agents.running_agents(home),
        json.loads(cluster.dq("server", "status", "--json")),
    )
    return "beta" in now and told["agents"].get("beta", {}).get("pid") == now["beta"]["pid"]


def kills_the_last_of(home: Home) -> bool:
    """Whether the home's agents and supervisors are gone; kill those that are there.

    One that starts while its parent is killed lives on, so ask again.
    """
    agents = {int(info["pid"]) for info in local_agents.running_agents(home).values()}
    alive = sorted(supervisors(home) | agents)
    kill_at_once(*alive)
    return not alive


def supervisors(home: Home) -> set[int]:
    """Pids of what keeps the home's agents alive."""
    return {pid for pid, name in shutdown.parts(home).items() if name == shutdown.SUPERVISOR}


def test_without_any_host_nothing_is_left(by_ssh: Live, tmp_path: Path) -> None:
    file = hosts(tmp_path, 'names = "away"', 'names = "other"\npython = "/nowhere/python"')
    done = by_ssh.run("up", "--cluster", file, "--detach")
    assert done.returncode == 1
    assert "other: no Python at /nowhere/python" in done.stderr
    assert "none of the 2 hosts can be used" in done.stderr
    assert not local.leftovers(by_ssh.home)


def test_doctor_looks_and_starts_nothing(by_ssh: Live, tmp_path: Path) -> None:
    file = hosts(tmp_path, 'names = "alpha"', 'names = "away"')
    done = by_ssh.run("doctor", "--cluster", file)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok  alpha: 1 processors, lo (127.0.0.1), MPICH")
    assert lines[1].startswith("NO  away: ssh fails")
    assert not local.leftovers(by_ssh.home)


def test_an_agent_in_the_foreground(live: Live, tmp_path: Path) -> None:
    live.dq("server", "start", "--detach")
    given = tmp_path / "credentials"
    given.write_text(live.dq("agent", "credentials"))
    given.chmod(0o600)
    words = [sys.executable, "-m", "dq_client.cli.main", "agent", "run", "--node", "alpha"]
    # In a home of its own, as on a machine that shares nothing.
    other = {**live.env, "DQ_HOME": str(tmp_path / "there")}
    process = subprocess.Popen([*words, "--processors", "2", "--credentials", given], env=other)
    try:
        until(lambda: process.poll() is not None or '"up"' in live.dq("nodes", "--json"), "no node")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
