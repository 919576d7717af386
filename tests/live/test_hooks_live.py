"""`dq hooks` on a real cluster: jobs end, nodes are lost, servers die, receivers fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client.base import process_tree
from dq_client.deploy import sidecars
from harness.bench import until
from harness.live import Live

pytestmark = pytest.mark.live
NOTE = """
import json, sys, time
told = json.load(sys.stdin)
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(told) + "\\n")
"""


class Hooked:
    """A cluster with a hook that notes what it is told, and more of them."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live, self.folder = live, folder
        self.told_file, self.file = folder / "told", folder / "hooks.toml"
        (folder / "note.py").write_text(NOTE)

    def run(self, more: str = "") -> None:
        command = json.dumps([sys.executable, str(self.folder / "note.py"), str(self.told_file)])
        self.file.write_text(f'[[hook]]\nname = "note"\ncommand = {command}\n{more}')
        self.live.dq("hooks", "run", self.file, "--detach")

    def told(self) -> list[dict[str, Any]]:
        if not self.told_file.exists():
            return []
        return [json.loads(line) for line in self.told_file.read_text().splitlines()]

    def until(self, count: int) -> list[dict[str, Any]]:
        until(lambda: len(self.told()) >= count, self.said())
        return self.told()

    def said(self) -> str:
        return (self.live.home.root / "log" / "hooks.err").read_text()


@pytest.fixture
def hooked(live: Live, tmp_path: Path) -> Iterator[Hooked]:
    live.up(2)
    yield Hooked(live, tmp_path)
    sidecars.stop(live.home, "hooks")


def test_ends_of_jobs_are_told_once_with_the_whole_job(hooked: Hooked) -> None:
    live = hooked.live
    live.wait_end(live.submit("--", "true"))  # before: not told
    hooked.run()
    good = live.submit("--name", "good", "--", "true")
    live.wait_end(good)
    bad = live.submit("--name", "bad", "--", "false")
    live.wait_end(bad)
    told = hooked.until(2)
    assert [(t["on"], t["job"]["id"], t["job"]["state"]) for t in told] == [
        ("job_end", good, "done"),
        ("job_end", bad, "failed"),
    ]
    assert told[1]["job"] == json.loads(live.dq("job", bad, "--json"))["job"]
    assert "exit code 1" in told[1]["text"] and told[1]["node"] is None
    (status,) = json.loads(live.dq("hooks", "status", "--json"))["hooks"]
    assert status["name"] == "note" and status["given_up"] == 0


def test_nothing_is_lost_while_nobody_calls_or_the_server_is_dead(hooked: Hooked) -> None:
    live = hooked.live
    hooked.run()
    first = live.submit("--", "true")
    live.wait_end(first)
    hooked.until(1)
    live.dq("hooks", "stop")
    second = live.submit("--", "true")
    live.wait_end(second)
    live.kill_server()
    live.dq("up", "--local", 2, "--detach")
    hooked.run()
    third = live.submit("--", "true")
    live.wait_end(third)
    live.kill_server()
    live.dq("up", "--local", 2, "--detach")
    fourth = live.submit("--", "true")
    live.wait_end(fourth)
    assert [t["job"]["id"] for t in hooked.until(4)] == [first, second, third, fourth]


def test_a_hook_that_hangs_holds_up_nobody(hooked: Hooked) -> None:
    live = hooked.live
    hooked.run('[[hook]]\nname = "hangs"\ncommand = ["sleep", "1000"]\ntimeout_s = 3000\n')
    for _ in range(3):
        live.wait_end(live.submit("--", "true"))
    assert len(hooked.until(3)) == 3
    hooks = psutil.Process(json.loads(live.dq("hooks", "status", "--json"))["pid"])
    until(lambda: [child.pid for child in hooks.children()] == sleeping(hooks), "others hang, too")
    (hanging,) = sleeping(hooks)
    live.dq("hooks", "stop")
    until(lambda: not process_tree.exists(hanging), "it is not ended")


def sleeping(hooks: psutil.Process) -> list[int]:
    """Pids of the hooks that hang."""
    found = []
    for child in hooks.children():
        with suppress(psutil.Error):  # one that has ended just now
            found += [child.pid] * (child.name() == "sleep")
    return found


def test_a_lost_node_is_told(hooked: Hooked) -> None:
    live = hooked.live
    live.dq("agent", "start", "--node", "other", "--processors", 1)
    hooked.run()
    agent = json.loads((live.home.root / "agents" / "other" / "agent.json").read_text())
    process = psutil.Process(agent["pid"])
    process.suspend()
    try:
        told = hooked.until(1)
    finally:
        process.resume()
    assert (told[0]["on"], told[0]["node"], told[0]["job"]) == ("node_lost", "other", None)


def test_they_end_with_the_cluster_and_a_wrong_file_starts_nothing(hooked: Hooked) -> None:
    live = hooked.live
    done = live.run("hooks", "run", hooked.folder / "none.toml", "--detach")
    assert done.returncode == 2 and "No such file" in done.stderr
    assert live.run("hooks", "status").returncode == 5
    hooked.run()
    again = live.run("hooks", "run", hooked.file)
    assert again.returncode == 2 and "run already" in again.stderr
    live.dq("down")
    assert sidecars.running(live.home, "hooks") is None
