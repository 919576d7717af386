"""What ranks have written on a node that has left is still there for `dq logs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node.agent import handover
from dq_client.node.agent.handover import Handover, pieces
from dq_server.live.agents.kept_output import KeptOutput
from harness.bench import until
from harness.live import Live
from tests.live.test_hosts_here import SSH

SAYS = "import os; print(os.environ['DQ_NODE'], 'says', os.environ['PMI_RANK'], flush=True)"


@pytest.fixture
def by_ssh(live: Live, tmp_path: Path) -> Live:
    """Commands whose `ssh` runs its command here."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    live.env["PATH"] = f"{tmp_path}:{live.env['PATH']}"
    return live


def states(live: Live) -> dict[str, str]:
    return {n["name"]: n["state"] for n in json.loads(live.dq("nodes", "--json"))["nodes"]}


@pytest.mark.live
def test_nodes_without_a_shared_home_hand_over_what_was_written_there(
    by_ssh: Live, tmp_path: Path
) -> None:
    groups = "".join(
        f'[[nodes]]\nnames = "{name}"\nprocessors = 1\nhome = "{tmp_path / name}-home"\n'
        f'memory = "2G"\nfeatures = ["{name}-only"]\n'
        for name in ("alpha", "beta", "gamma")
    )
    file = tmp_path / "hosts.toml"
    file.write_text(f'engine = "hosts"\n{groups}[network]\ninterface = "lo"\n')
    by_ssh.dq("up", "--cluster", file, "--detach")
    said = json.loads(by_ssh.dq("nodes", "--json"))["nodes"][1]
    assert (said["memory"], said["features"]) == (2 << 30, ["beta-only"])
    words = ("--wait", "--", sys.executable, "-c", SAYS)
    by_ssh.dq("submit", "-n", 3, "--kind", "rigid", *words)
    by_ssh.dq("submit", "-n", 1, "--constraint", "beta-only", *words)
    assert by_ssh.dq("logs", 1).splitlines() == ["alpha says 0", "beta says 1", "gamma says 2"]

    # A server that has started again knows where output is.
    by_ssh.dq("server", "stop")
    by_ssh.dq("server", "start", "--detach")
    whole = ["alpha says 0", "beta says 1", "gamma says 2"]
    until(lambda: by_ssh.run("logs", 1).stdout.splitlines() == whole, "they do not come back")
    assert set(states(by_ssh).values()) == {"up"}

    by_ssh.dq("node", "remove", "alpha", "beta")
    until(lambda: states(by_ssh) == {"alpha": "left", "beta": "left", "gamma": "up"}, "they stay")
    kept = by_ssh.home.job(1) / "nodes" / "alpha" / "out"
    until(kept.exists, "it is not handed over")
    until((by_ssh.home.job(2) / "nodes" / "beta" / "out").exists, "it is not handed over")
    marked = ["[0] alpha says 0", "[1] beta says 1", "[2] gamma says 2"]
    for _ in range(2):
        # Gamma's agent comes back a little after the server.
        until(lambda: by_ssh.run("logs", 1).stdout.splitlines() == whole, "it is not shown whole")
        assert by_ssh.dq("logs", "-l", 1).splitlines() == marked
        assert by_ssh.dq("logs", 2).splitlines() == ["beta says 0"]
        assert by_ssh.dq("logs", 2, "--err") == ""
        by_ssh.dq("server", "stop")
        by_ssh.dq("server", "start", "--detach")

    # Of a node that is lost nothing was handed over: what others wrote is shown, and that is said.
    while left := local.leftovers(Home(tmp_path / "gamma-home")):
        process_tree.kill(left)  # one of them may just have forked another
    until(lambda: states(by_ssh)["gamma"] == "lost", "it is not missed")
    done = by_ssh.run("logs", 1)
    assert done.stdout.splitlines() == ["alpha says 0", "beta says 1"]
    assert "gamma: away" in done.stderr


# --- what is handed over --------------------------------------------------------------------------


def written(home: Home, job: int, text: bytes, stream: str = "out") -> None:
    folder = home.job(job)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / stream).write_bytes(text)


def handed_over(agent: Home, server: KeptOutput) -> list[str]:
    """All of it, each piece twice; the refusals."""
    refusals = [server.keep(piece) for piece in pieces(agent, "beta") for _ in range(2)]
    return [refusal for refusal in refusals if refusal]


def read(server: KeptOutput, job: int, stream: str = "out") -> bytes:
    found, offset = b"", 0
    while True:
        piece = server.read(job, "beta", stream, offset)
        assert piece is not None
        found, offset = found + piece.data, piece.offset
        if piece.end:
            return found


@pytest.fixture
def agent(tmp_path: Path) -> Home:
    return Home(tmp_path / "agent")


@pytest.fixture
def server(tmp_path: Path) -> KeptOutput:
    return KeptOutput(Home(tmp_path / "server"))


def test_output_of_any_length_arrives_as_it_was(agent: Home, server: KeptOutput) -> None:
    texts = {1: b"x" * 1_000_000, 2: b"y" * (1 << 18), 3: b"short\n"}
    for job, text in texts.items():
        written(agent, job, text)
    written(agent, 3, b"wrong\n", "err")
    assert handed_over(agent, server) == []
    assert {job: read(server, job) for job in texts} == texts
    assert read(server, 3, "err") == b"wrong\n"
    assert read(server, 1, "err") == b""
    assert server.read(4, "beta", "out", 0) is None
    written(agent, 3, b"short\nand more\n")  # the node was back, and leaves again
    assert handed_over(agent, server) == []
    assert read(server, 3) == b"short\nand more\n"


def test_what_is_left_out_is_said(
    agent: Home, server: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "FILE_BYTES", 1000)
    monkeypatch.setattr(handover, "TOTAL_BYTES", 1500)
    written(agent, 1, b"a" * 700)
    written(agent, 2, b"b" * 5000)
    assert handed_over(agent, server) == []
    first = b"[dq: the first 4000 of 5000 bytes were not kept: node beta has left]\n"
    assert read(server, 2) == first + b"b" * 1000, "the newest job's, its end"
    assert read(server, 1) == b"[dq: 700 bytes were not kept: node beta left with too many]\n"


def test_who_wrote_it_is_handed_over_with_what_is_whole(
    agent: Home, server: KeptOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "FILE_BYTES", 1000)
    for job, text in ((1, b"short\n"), (2, b"x" * 5000)):
        written(agent, job, text)
        written(agent, job, b"of that", "out.ranks")
    assert handed_over(agent, server) == []
    assert read(server, 1, "out.ranks") == b"of that"
    assert read(server, 2, "out.ranks") == b"", "its offsets are of the whole file"


def test_a_part_that_is_missing_is_said(agent: Home, server: KeptOutput) -> None:
    written(agent, 1, b"x" * 600_000)
    first, second, _ = pieces(agent, "beta")
    assert server.keep(first) == ""
    assert server.keep(second) == ""
    text = read(server, 1)
    assert text.startswith(b"x" * (512 << 10))
    assert text.endswith(b"the node was gone before it was all handed over]\n")


@pytest.mark.parametrize(
    ("node", "stream", "offset"),
    [("..", "out", 0), ("a/b", "out", 0), ("beta", "../out", 0), ("beta", "out", 1 << 40),
     ("beta", "out", 5)],
)  # fmt: skip
def test_what_makes_no_sense_is_not_kept(
    server: KeptOutput, tmp_path: Path, node: str, stream: str, offset: int
) -> None:
    piece = m.KeepLog(job=1, node=node, stream=stream, offset=offset, data=b"x", last=True)
    assert server.keep(piece)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_agent_does_not_wait_for_ever(agent: Home) -> None:
    written(agent, 1, b"text")
    now, sent = [0.0], list[m.RequestBody]()

    def send(body: m.RequestBody) -> str:
        sent.append(body)
        return str(len(sent))

    ends = Handover(agent, "beta", send, lambda: now[0])
    ends.begin()
    while ends.under_way:
        now[0] += 0.5
        assert now[0] < 60
        ends.look()
    assert 5 < len(sent) < 20, "said again every two seconds"


def test_where_the_server_reads_the_same_folder_nothing_is_handed_over(agent: Home) -> None:
    written(agent, 1, b"text")
    agent.server_file.write_text("{}")
    ends = Handover(agent, "beta", lambda _: "1", lambda: 0.0)
    ends.begin()
    assert ends.begun and not ends.under_way
