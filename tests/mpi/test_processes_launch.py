"""The launch recipe and the program that mpiexec calls instead of ssh; no MPI is started here."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dq_client.base.dq_rsh import spelled_in_letters, spelled_in_numbers
from dq_client.base.launch import LaunchError, raise_open_file_limit
from dq_client.node.mpiexec.command import (
    MpiexecCommand,
    check_placement,
    install_rsh,
    launch_command,
)
from harness.commands import HANG_S

PROXY = ['"/opt/a b/hydra_pmi_proxy"', "--control-port", "127.0.0.1:40123", "--proxy-id", "0"]


class Agent:
    """Takes one connection, keeps the request, gives the answer (None: hangs up)."""

    def __init__(self, folder: Path, answer: bytes | None) -> None:
        self.path = str(folder / "rsh")
        self.answer = answer
        self.request: Any = None
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection:
            self.request = json.loads(connection.makefile("rb").readline())
            if self.answer is not None:
                connection.sendall(self.answer)

    def join(self) -> Any:
        self._thread.join(60)
        self._server.close()
        return self.request


def rsh(
    tmp_path: Path, arguments: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(install_rsh(tmp_path / "bin")), *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        cwd=tmp_path,
        check=False,
    )


def test_rsh_hands_the_command_to_the_agent_and_ends_as_it_did(tmp_path: Path) -> None:
    agent = Agent(tmp_path, b'{"exit": 7}\n')
    environment = {"UCX_TLS": 'odd "ä" \\ value', "SECRET": "kept here"}
    ended = rsh(tmp_path, ["999.110.48.51", *PROXY], DQ_RSH_SOCKET=agent.path, **environment)
    assert (ended.returncode, ended.stderr) == (7, "")
    request = agent.join()
    assert request["host"] == "n03"
    assert request["argv"] == ["/opt/a b/hydra_pmi_proxy", *PROXY[1:]]
    assert request["cwd"] == str(tmp_path)
    assert request["env"] == {"UCX_TLS": 'odd "ä" \\ value', "DQ_RSH_SOCKET": agent.path}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b'{"error": "no such node: n03"}\n', "no such node: n03"),
        (b"[1]\n", "not an answer"),
        (b"{}\n", "no reason given"),
        (b"nonsense\n", "lost a process on n03"),
        (b"half an ans", "hung up"),
        (None, "hung up"),
    ],
)
def test_rsh_fails_with_one_line_when_the_agent_cannot_run_it(
    tmp_path: Path, answer: bytes | None, says: str
) -> None:
    agent = Agent(tmp_path, answer)
    ended = rsh(tmp_path, ["n03", *PROXY], DQ_RSH_SOCKET=agent.path)
    agent.join()
    assert ended.returncode == 255
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["n03"], {"DQ_RSH_SOCKET": "/nowhere"}, "usage"),
        (["n03", "true"], {}, "DQ_RSH_SOCKET is not set"),
        (["n03", "true"], {"DQ_RSH_SOCKET": "/nowhere"}, "cannot start a process on n03"),
    ],
)
def test_rsh_fails_at_once_without_an_agent(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], says: str
) -> None:
    ended = rsh(tmp_path, arguments, **environment)
    assert ended.returncode == 255
    assert says in ended.stderr


def test_rsh_stands_in_for_the_agent_when_a_running_job_would_die_of_it(tmp_path: Path) -> None:
    proxy = tmp_path / "a proxy"
    proxy.write_text('#!/bin/sh\necho "$3 $4: $DQ_REFUSED"\n')
    proxy.chmod(0o700)
    command = ["n03", f'"{proxy}"', "--control-port", "1", "--pgid", "{}", "--proxy-id", "0"]
    for group, code in [("0", 255), ("2", 0)]:
        agent = Agent(tmp_path, b'{"error": "no such node: n03"}\n')
        ended = rsh(tmp_path, [w.format(group) for w in command], DQ_RSH_SOCKET=agent.path)
        agent.join()
        (tmp_path / "rsh").unlink()
        assert ended.returncode == code
        reason = "cannot start a process on n03: no such node: n03"
        assert reason in (ended.stdout if code == 0 else ended.stderr)


def test_rsh_is_installed_once_and_repaired(tmp_path: Path) -> None:
    path = install_rsh(tmp_path / "with space")
    before = path.stat().st_mtime_ns
    assert install_rsh(tmp_path / "with space").stat().st_mtime_ns == before
    path.write_text("#!/bin/sh\nexit 1\n")
    install_rsh(tmp_path / "with space")
    ended = subprocess.run([str(path)], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert "usage" in ended.stderr


def launch(
    tmp_path: Path,
    placement: list[tuple[str, int]],
    program: tuple[str, ...] = ("python", "app.py"),
    **options: str,
) -> MpiexecCommand:
    socket_path = tmp_path / "rsh"
    return launch_command(
        program, placement, rsh=tmp_path / "dq-rsh", rsh_socket=socket_path, **options
    )


def test_launch_names_every_node_once_and_counts_the_ranks(tmp_path: Path) -> None:
    found = launch(tmp_path, [("n02", 2), ("n01", 1)], mpiexec="/opt/mpiexec", interface="eth1")
    assert found.argv[0] == "/opt/mpiexec"
    hosts = "999.110.48.50:2,999.110.48.49:1"
    assert found.argv[-6:] == ["-hosts", hosts, "-n", "3", "python", "app.py"]
    assert found.argv[found.argv.index("-iface") + 1] == "eth1"
    assert found.argv[found.argv.index("-launcher-exec") + 1] == str(tmp_path / "dq-rsh")
    assert found.env["DQ_RSH_SOCKET"] == str(tmp_path / "rsh")
    assert found.env["OPENBLAS_NUM_THREADS"] == "1"
    assert "UCX_TLS" not in found.env
    assert launch(tmp_path, [("n01", 1)], transports="tcp,self").env["UCX_TLS"] == "tcp,self"


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        ([], "no node to start on"),
        ([("n01", 0)], "at least one rank"),
        ([("n01", 1), ("n01", 1)], "named twice"),
        ([("n01:2", 1)], "not a node name"),
        ([("n01,n02", 1)], "not a node name"),
        ([("-n", 1)], "not a node name"),
        ([("n" * 64, 1)], "not a node name"),
    ],
)
def test_placement_that_hydra_would_misread_is_refused(
    placement: list[tuple[str, int]], says: str
) -> None:
    with pytest.raises(LaunchError, match=says):
        check_placement(placement)


@pytest.mark.parametrize("node", ["n03", "localhost", "x", "compute-7.rack_2.example.org"])
def test_node_names_survive_their_spelling_in_numbers_which_is_no_address(node: str) -> None:
    spelled = spelled_in_numbers(node)
    assert spelled_in_letters(spelled) == node
    assert set(spelled) <= set("0123456789.")
    with pytest.raises(OSError, match="illegal IP address"):
        socket.inet_aton(spelled)


def test_launch_without_a_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no program"):
        launch(tmp_path, [("n01", 1)], program=())


def test_open_file_limit_is_raised_never_lowered() -> None:
    code = (
        "import resource; from dq_client.base.launch import raise_open_file_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(7)[1]));"
        "print(raise_open_file_limit(512), raise_open_file_limit(64),"
        "      resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert ended.stdout.split() == ["512", "512", "512"]
    assert raise_open_file_limit(1) >= resource.getrlimit(resource.RLIMIT_NOFILE)[0]
