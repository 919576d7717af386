"""Files of a user and of DQ_HOME that are damaged: one line that names the file, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.base.text_files import object_of, toml_of
from dq_client.cli.main import main
from dq_client.deploy import batch_settings, sidecars, standby
from dq_client.deploy.cluster import read_cluster
from dq_client.deploy.ssh import bringup as hosts
from dq_client.deploy.ssh import kept_alive, remote_bootstrap
from dq_client.node import fleet, local_agents, supervision
from dq_client.show.hooks import config as hooks
from dq_server.live.clock import clock_of
from dq_server.live.configuration import read_config

NOT_TOML = [b"\xff\xfe\0", b"[[", b"\0", b"a = " + b"[" * 5000, b"a = " + b"9" * 5000]
NOT_JSON = [
    b"", b"[]", b"null", b"7", b'"word"', b"{", b"\xff\xfe", b"[" * 100_000, b"{}", b'{"pid": 7}',
    b'{"pid": "x", "create_time": [], "machine": {}, "address": 7}',
    b'{"pid": 1e300, "create_time": "x"}',
]  # fmt: skip
READERS: dict[str, Callable[[Path], Any]] = {
    "hooks": hooks.read,
    "cluster": read_cluster,
    "configuration": lambda path: read_config(path, required=True),
    "any": toml_of,
}


@pytest.mark.parametrize("content", NOT_TOML, ids=lambda content: repr(content[:8]))
@pytest.mark.parametrize("reader", READERS)
def test_a_toml_file_that_is_none_is_one_line(tmp_path: Path, reader: str, content: bytes) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(DQError, match=r"x\.toml: ") as e:
        READERS[reader](path)
    assert e.value.exit_code == 2
    assert "\n" not in str(e.value)


def an_agent(home: Home) -> Path:
    return home.agent("a") / "agent.json"


# A note of the home, and who reads it.
NEEDED: dict[str, Callable[[Home], Any]] = {
    "server.json": Home.server,
    "standby.json": standby.kept,
    "batch.json": batch_settings.noted,
    supervision.RECORD: fleet.noted,
}
NOT_NEEDED: dict[str, Callable[[Home], Any]] = {
    "agents/a/agent.json": lambda home: (
        local_agents.running_agents(home),
        remote_bootstrap.running(home, "a"),
        hosts._ran_here(home, "a"),
    ),
    f"agents/a/{kept_alive.FILE}": lambda home: kept_alive.end(home, "a"),
    "unconfirmed.json": hosts.unconfirmed,
    "hosts.json": hosts.noted_hosts,
    supervision.FILE: supervision.pid_of,
    "standby-runs.json": standby.runs,
    "web.json": lambda home: sidecars.running(home, "web"),
    "clock.json": lambda home: clock_of(home.root / "clock.json"),
    "identity": Home.identity,
}  # fmt: skip


def written(tmp_path: Path, name: str, content: bytes) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    path = home.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return home


@pytest.mark.parametrize("content", NOT_JSON, ids=lambda content: repr(content[:40]))
@pytest.mark.parametrize("name", NEEDED)
def test_a_note_that_is_needed_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    home = written(tmp_path, name, content)
    with pytest.raises(DQError, match=name.replace(".", r"\.")) as e:
        NEEDED[name](home)
    assert e.value.exit_code in (2, 3)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("content", NOT_JSON, ids=lambda content: repr(content[:40]))
@pytest.mark.parametrize("name", NOT_NEEDED)
def test_a_note_that_may_be_lost_is_as_none(tmp_path: Path, name: str, content: bytes) -> None:
    NOT_NEEDED[name](written(tmp_path, name, content))


@pytest.mark.parametrize("words", [["jobs"], ["server", "status"], ["submit", "--", "true"]])
def test_the_commands_say_it_in_one_line(
    tmp_path: Path,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = written(tmp_path, "server.json", b"[]")
    monkeypatch.setenv("DQ_HOME", str(home.root))
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 3
    said = capsys.readouterr().err.strip()
    assert f"{home.server_file} cannot be read" in said
    assert "remove it" in said
    assert "\n" not in said


def test_an_object_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": 1}')
    assert object_of(tmp_path / "x") == {"a": 1}
