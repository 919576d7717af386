"""Agents that are killed come back, and their jobs go on with the same ranks; nothing is left."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.deploy import local, shutdown
from dq_client.node import local_agents, supervision
from harness.bench import kill_at_once, until
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

EMULATED = """
engine = "emulated"
[[nodes]]
names = "n[1-5]"
speed = 1.0
"""
RIGID, MALLEABLE = 2, 2  # processors; of five, so that one is always idle
WHOLE_WITHIN_S = 60.0  # a limit against hanging; the figure that counts is printed
KILLS = "kills, node whole again after s: "


class Endurance:
    """A cluster with two jobs that check their data in each turn: one stays, one is resized."""

    def __init__(self, live: Live, folder: Path, words: list[object]) -> None:
        self.live, self.stop, self.requests = live, folder / "stop", 0
        self.stop.unlink(missing_ok=True)
        live.dq("up", *words, "--detach")
        program = ["python", Path(__file__).with_name("staying.py"), self.stop]
        self.rigid = live.submit("-n", RIGID, "--kind", "rigid", "--", *program)
        sizes = ["--sizes", "1,2", "--kind", "malleable"]
        self.resized = live.submit("-n", MALLEABLE, *sizes, "--", *program)
        for job, size in ((self.rigid, RIGID), (self.resized, MALLEABLE)):
            until(partial(self._begun, job, size), "it does not begin")
        self.ranks_before = self.ranks(self.rigid)
        self.first = self.ranks(self.resized)[0]

    def _begun(self, job: int, size: int) -> bool:
        return len(self.ranks(job)) >= size  # more, if it has been resized meanwhile

    def ranks(self, job: int) -> list[int]:
        """Pids of all ranks that ever entered the job's loop, the first world's by rank."""
        lines = [w.split() for w in self.live.dq("logs", job).splitlines() if "here" in w]
        found = [(int(w[2]), int(w[1])) for w in lines]
        return [pid for _, pid in sorted(found)]

    def resize(self, size: int) -> None:
        """Ask for a size; the job goes there at some remap point."""
        with suppress(DQError):  # a resize is under way: it ends first
            self.ask(m.Resize(self.resized, size))

    def ask(self, body: m.RequestBody) -> Any:
        """Ask the server, on a connection for this alone: it is killed time and again."""
        line = Connection.to(self.live.home)
        try:
            reply = line.call(body, 20.0)
            return reply.data if isinstance(reply, m.Data) else reply
        finally:
            line.close()

    def agents(self) -> dict[str, int]:
        return {n: int(i["pid"]) for n, i in local_agents.running_agents(self.live.home).items()}

    def welcomes(self, name: str) -> int:
        """How often an agent of this name was let in by the server."""
        log = self.live.home.log / f"agent-{name}.log"
        return log.read_text().count("welcomed by the server")

    def whole_after_s(self, since_s: float) -> float:
        """Until a job that needs an agent starts and ends on the idle processor."""
        self.requests += 1
        env = {"PATH": os.environ["PATH"]}
        tiny = m.Submit(f"tiny-{self.requests}", "tiny", ["true"], "/", initial=1, inherited=env)
        end = self.live.wait_end(int(self.ask(tiny).job), WHOLE_WITHIN_S)
        assert end["state"] == "done", end["reason"]
        return time.monotonic() - since_s

    def same_ranks(self) -> None:
        """The jobs are the ones that were there before."""
        assert all(process_tree.exists(pid) for pid in self.ranks_before)
        for job in (self.rigid, self.resized):
            view = self.ask(m.JobQuery(job))
            assert view["state"] == "running", view["reason"]
        assert process_tree.exists(self.first), "rank 0 of the job that is resized"

    def resizes_still(self) -> None:
        """A resize that is asked for now is made, whatever became of those under way."""
        for size in (1, 2):

            def there(size: int = size) -> bool:
                self.resize(size)
                return bool(self.ask(m.JobQuery(self.resized))["processors"] == size)

            until(there, f"it does not go to {size}")

    def end_well(self) -> None:
        """Both end, and their data were right in every turn."""
        assert self.ranks(self.rigid) == self.ranks_before, "others entered the loop"
        self.stop.touch()
        for job in (self.rigid, self.resized):
            end = self.live.wait_end(job)
            assert end["state"] == "done", end["reason"]
            assert end["restarts"] == 0

    def down(self) -> None:
        """The cluster ends, and nothing of it is left as the command returns."""
        self.live.dq("down", "--force")
        assert local.leftovers(self.live.home) == []


def cluster_words(kind: str, folder: Path) -> list[object]:
    if kind == "local":
        return ["--local", 5]
    file = folder / "five.toml"
    file.write_text(EMULATED)
    return ["--cluster", file]


def one_agent(at: Endurance, chance: random.Random) -> float:
    """Kill one of the agents while a resize is under way, or not quite."""
    at.resize(chance.choice((1, 2)))
    time.sleep(chance.uniform(0.0, 0.4))
    name = chance.choice(sorted(at.agents()))
    begin, before = time.monotonic(), at.welcomes(name)
    kill_at_once(at.agents()[name])
    until(lambda: at.welcomes(name) > before, "no new agent reports", WHOLE_WITHIN_S)
    return at.whole_after_s(begin)


def supervisor_and_agent(at: Endurance, chance: random.Random) -> float:
    """Kill an agent and the supervisor that would start it again, at one moment."""
    at.resize(chance.choice((1, 2)))
    time.sleep(chance.uniform(0.0, 0.4))
    supervisor, agents = supervision.pid_of(at.live.home), at.agents()
    assert supervisor is not None
    name = chance.choice(sorted(agents))
    begin, before = time.monotonic(), at.welcomes(name)
    kill_at_once(supervisor, agents[name])
    until(lambda: at.welcomes(name) > before, "no new agent reports", WHOLE_WITHIN_S)
    return at.whole_after_s(begin)


def everything(at: Endurance, chance: random.Random) -> float:
    """Kill the server, all agents and what would start them again; then `dq up`."""
    at.resize(chance.choice((1, 2)))
    time.sleep(chance.uniform(0.0, 0.4))
    supervisor = supervision.pid_of(at.live.home)
    assert supervisor is not None
    names = at.agents()
    begin = time.monotonic()
    kill_at_once(at.live.home.server()["pid"], supervisor, *names.values())
    done = json.loads(at.live.dq("up", "--detach", "--json"))
    assert done["started"] == {"server": True, "agents": sorted(names)}
    return at.whole_after_s(begin)


def rounds(
    live: Live,
    folder: Path,
    kind: str,
    lose: Callable[[Endurance, random.Random], float],
    counts: tuple[int, int],
) -> list[float]:
    """Clusters one after the other, with losses in each; how long each took to be whole again."""
    chance, found = random.Random(f"{kind} {lose.__name__}"), []
    clusters, losses = counts
    for _ in range(clusters):
        at = Endurance(live, folder, cluster_words(kind, folder))
        for _ in range(losses):
            found.append(lose(at, chance))
            at.same_ranks()
        at.resizes_still()
        at.end_well()
        at.down()
    middle, most = sorted(found)[len(found) // 2], max(found)
    print(f"{kind}, {lose.__name__}: {len(found)} {KILLS}median {middle:.2f}, most {most:.2f}")
    return found


@pytest.mark.parametrize(
    ("kind", "lose"),
    [("emulated", one_agent), ("local", supervisor_and_agent), ("emulated", everything)],
)
def test_jobs_go_on_when_agents_are_killed(
    live: Live, tmp_path: Path, kind: str, lose: Callable[[Endurance, random.Random], float]
) -> None:
    rounds(live, tmp_path, kind, lose, (1, 2))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["local", "emulated"])
@pytest.mark.parametrize("lose", [one_agent, supervisor_and_agent, everything])
def test_100_times(
    live: Live, tmp_path: Path, kind: str, lose: Callable[[Endurance, random.Random], float]
) -> None:
    found = rounds(live, tmp_path, kind, lose, (10, 5))
    assert len(found) == 50


# --- down ----------------------------------------------------------------------------------------


def test_down_right_after_a_kill_leaves_nothing(live: Live, tmp_path: Path) -> None:
    at = Endurance(live, tmp_path, ["--local", 5])
    kill_at_once(*at.agents().values())
    at.down()
    assert live.run("down").returncode == 3, "nothing is there any more"


def test_down_right_after_the_servers_end_waits_for_the_next_one(live: Live) -> None:
    live.up(2)
    kill_at_once(int(live.home.server()["pid"]))
    live.dq("down")
    assert shutdown.parts(live.home) == {}
    live.up(2)
    job = live.submit("-n", 1, "--", "sleep", "600")
    live.wait(job, lambda view: view["state"] == "running")
    kill_at_once(int(live.home.server()["pid"]))
    refused = live.run("down")
    assert (refused.returncode, "1 job is running" in refused.stderr) == (4, True)
    assert live.wait(job, lambda view: view["state"] == "running")["restarts"] == 0


@pytest.mark.parametrize("how", ["stopped", "no keys", "damaged note"])
def test_down_with_force_asks_no_server(live: Live, tmp_path: Path, how: str) -> None:
    at = Endurance(live, tmp_path, ["--local", 5])
    parts = shutdown.parts(live.home)
    assert {"dq-server", "dq-agent", "dq-supervisor"} <= set(parts.values())
    if how == "stopped":  # all of them, so that nobody helps
        for pid in sorted(parts, key=lambda pid: parts[pid] == "dq-supervisor"):
            os.kill(pid, signal.SIGSTOP)
    elif how == "no keys":
        for key in live.home.keys.iterdir():
            key.unlink()
    else:
        live.home.server_file.write_text("[]")
    at.down()


def test_processes_have_names_of_their_own(live: Live) -> None:
    live.up(1)
    job = live.submit("--", "python", "-c", "import time; time.sleep(600)")
    live.wait(job, lambda view: view["state"] == "running")
    shown = {}
    for pid in local.leftovers(live.home):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            shown[process.name()] = " ".join(process.cmdline())
    assert shown["dq-agent"] == "dq-agent local"
    assert shown["dq-supervisor"] == "dq-supervisor"
    assert shown["dq-server"].startswith("dq-server")
    assert not any("xxx" in line for line in shown.values())


def test_down_ends_what_was_left_when_all_else_was_killed(live: Live, tmp_path: Path) -> None:
    at = Endurance(live, tmp_path, ["--local", 5])
    supervisor = supervision.pid_of(live.home)
    assert supervisor is not None
    kill_at_once(supervisor, live.home.server()["pid"], *at.agents().values())
    assert all(process_tree.exists(pid) for pid in at.ranks_before)
    refused = live.run("down")
    assert refused.returncode == 4
    assert "processes of jobs" in refused.stderr
    assert all(process_tree.exists(pid) for pid in at.ranks_before), "nothing changed"
    at.down()


def test_down_with_force_ends_what_does_not_answer(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.up(2)
    (agent,) = local_agents.running_agents(live.home).values()
    server = int(live.home.server()["pid"])
    os.kill(int(agent["pid"]), signal.SIGSTOP)
    monkeypatch.setattr(local, "PATIENCE_S", 4.0)
    shutdown.bring_down(live.home, force=True)
    assert not process_tree.exists(server)
    assert local.leftovers(live.home) == []


def test_down_names_what_it_cannot_end(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process that the kernel does not end (it waits for a dead file server) cannot be made here.
    live.up(1)
    job = live.submit("-n", 1, "--", "sleep", "600")
    live.wait(job, lambda view: view["state"] == "running")
    until(lambda: bool(process_tree.of_home(live.home.root)), "nothing runs")
    monkeypatch.setattr(process_tree, "of_home", lambda home: [os.getpid()])
    kills = process_tree.kill

    def kill_others(pids: list[int], number: int = signal.SIGKILL) -> None:
        kills([pid for pid in pids if pid != os.getpid()], number)

    monkeypatch.setattr(process_tree, "kill", kill_others)
    monkeypatch.setattr(local, "PATIENCE_S", 3.0)
    me = re.escape(f"process {os.getpid()} ({psutil.Process().name()}, running")
    with pytest.raises(DQError, match=f"cannot be ended: {me}"):
        shutdown.bring_down(live.home, force=True)


# --- up ------------------------------------------------------------------------------------------


def test_up_mends_what_is_missing_and_says_so(live: Live) -> None:
    live.up(3)
    again = live.run("up", "--detach")
    assert (again.returncode, "nothing was missing" in again.stderr) == (0, True)
    again = live.run("up")  # in the foreground: what another command has started it does not end
    assert (again.returncode, "it goes on: dq down stops it" in again.stderr) == (0, True)
    live.dq("agent", "stop", "--now")  # in order: nobody starts it again by himself
    time.sleep(0.5)
    assert local_agents.running_agents(live.home) == {}
    mended = live.run("up", "--local", 3, "--detach")
    assert (mended.returncode, "started what was missing: agent local" in mended.stderr) == (
        0,
        True,
    )
    assert live.wait_end(live.submit("-n", 3, "--", "true"))["state"] == "done"


def test_up_refuses_another_cluster(live: Live) -> None:
    live.up(2)
    before = local_agents.running_agents(live.home)
    other = live.run("up", "--local", 3, "--detach")
    assert other.returncode == 4
    assert "has the cluster local of 2 processors, not local of 3" in other.stderr
    assert local_agents.running_agents(live.home) == before


def test_a_killed_server_comes_back_with_up(live: Live) -> None:
    live.up(2)
    agents = local_agents.running_agents(live.home)
    live.kill_server()
    until(lambda: live.run("server", "status").returncode == 3, "the server is not missed")
    assert "started what was missing: the server" in live.run("up", "--detach").stderr
    assert local_agents.running_agents(live.home) == agents


def serves_again(live: Live, killed: int) -> bool:
    with suppress(DQError):
        return bool(live.home.server()["pid"] != killed)
    return False


def test_a_killed_server_is_started_again_with_its_options(live: Live, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text("[scheduler]\npolicy = 'fcfs'\n")
    live.up(2)
    live.dq("server", "stop")
    time.sleep(1.5)
    assert not live.home.server_file.exists(), "one that was stopped stays away"
    live.dq("server", "start", "--detach", "--config", config)
    job = live.submit("-n", 1, "--", "sleep", "600")
    ran = live.wait(job, lambda view: view["state"] == "running")
    for _ in range(2):
        before = live.home.server()
        until(lambda: supervision.pid_of(live.home) is not None, "no supervisor")
        time.sleep(1.2)  # it looks for a server that somebody has started once a second
        kill_at_once(int(before["pid"]))
        until(partial(serves_again, live, int(before["pid"])), "no server")
        assert live.home.server()["options"] == before["options"]
        assert str(config) in before["options"]
    now = live.wait(job, lambda view: view["state"] == "running")
    assert (now["start_s"], now["restarts"]) == (ran["start_s"], 0)


def test_a_server_that_cannot_start_is_tried_later_and_later(live: Live) -> None:
    live.up(1)
    bad = live.home.root / "config.toml"
    bad.write_text("no TOML [")
    kill_at_once(int(live.home.server()["pid"]))
    said = live.home.log / "supervisor.err"
    until(lambda: said.read_text().count("the server (pid") > 1, "it was not tried again")
    time.sleep(3.0)
    bad.unlink()
    until(lambda: supervision.pid_of(live.home) is not None, "the supervisor has ended")
    until(partial(serves_again, live, 0), "no server")
    assert said.read_text().count("the server (pid") <= 8


def test_an_agent_that_fails_at_once_is_not_started_without_end(live: Live) -> None:
    live.up(1)
    log = live.home.log / "supervisor.err"
    for _ in range(4):
        before = local_agents.running_agents(live.home)["local"]["pid"]
        kill_at_once(int(before))

        def another(before: Any = before) -> bool:
            found = local_agents.running_agents(live.home)
            return "local" in found and found["local"]["pid"] != before

        until(another, "no new agent")
    assert log.read_text().count("started again") == 4
