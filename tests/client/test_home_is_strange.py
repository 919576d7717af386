"""Each file of DQ_HOME as a FIFO, a link, a socket, a folder, a device: nothing waits for it, and
nothing is written elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dq_client.base import audit, credentials, keys, opened, process, storage
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.base.home import Home, write_private
from dq_client.base.process_tree import Owner
from dq_client.deploy import batch_settings, local, shutdown, sidecars, standby
from dq_client.deploy.ssh import bringup as hosts
from dq_client.deploy.ssh import kept_alive, remote_bootstrap
from dq_client.node import fleet, local_agents, supervision
from dq_client.node.agent import allegiance, copies, holdings
from dq_client.node.ranks import ends, marks
from dq_server.core.model.errors import SchedulerError
from dq_server.live import offline
from dq_server.live.__main__ import _last_address, _lock, _network_of
from dq_server.live.agents.kept_output import KeptOutput
from dq_server.live.audit import Audit
from dq_server.live.clock import clock_of
from dq_server.live.configuration import read_config
from dq_server.live.store import backup, home_files, identity, maintenance
from dq_server.live.store.journal import Journal, JournalError
from tests.client.strange_files import REPLACED, unharmed

REFUSALS = (DQError, JournalError, OSError, SchedulerError, ValueError)
WAITS_S = 30  # a limit against hanging


def start_part(home: Home) -> None:
    local.start(home, "part", ["-c", ""]).wait()


def say_in_audit(home: Home) -> None:
    log = Audit(home.audit, "me", lambda: 1.0)
    log.signalled("stop", "")
    log.write()


def copy_of_reader(home: Home) -> None:
    folder = home.root / "copy"
    folder.mkdir()
    offline._copy(home, folder)


def take_up_ranks(home: Home) -> None:
    folder = home.agent("a") / "holdings"
    if not os.path.lexists(folder / "1.1/record.json"):
        record = holdings.HoldingRecord(1, 1, ranks=True)
        write_private(folder / "1.1/record.json", msgspec.json.encode(record).decode())
    for held in holdings.Holdings(folder, Owner(home.root, "a")).trees.values():
        held.find(), held.exit_code(), held.last_state(), held.sweep()


HOLDING = ("record.json", "claim", "exit", ends.NAME, ends.FORMER_NAME)
HOME_FILES = (
    *(f"keys/{name}.key" for name in keys.PRINCIPALS),
    *("keys/cluster", "identity", "address", "network.json", "cluster.json", "hosts.json"),
    *("batch.json", "config.toml"),
)
USES: dict[str, list[Callable[[Home], Any]]] = {
    "server.json": [
        Home.server, Connection.to, credentials.of_home, shutdown.parts, shutdown._is_elsewhere
    ],
    "standby.json": [standby.kept],
    "standby-runs.json": [standby.runs],
    "batch.json": [batch_settings.noted],
    "cluster.json": [fleet.noted],
    "hosts.json": [hosts.noted_hosts],
    "unconfirmed.json": [hosts.unconfirmed],
    "supervisor.json": [supervision.pid_of, supervision.was_killed],
    "supervisor.lock": [supervision.lock],
    "server.lock": [_lock, copy_of_reader],
    "web.json": [lambda home: sidecars.running(home, "web"), sidecars.stop_all],
    "hooks.json": [lambda home: sidecars.running(home, "hooks")],
    "clock.json": [lambda home: clock_of(home.root / "clock.json")],
    "network.json": [lambda home: _network_of(home, {}), lambda home: _network_of(home, {"a": ""})],
    "address": [_last_address],
    "identity": [Home.identity],
    "config.toml": [lambda home: read_config(home.root / "config.toml", required=False)],
    "keys/server.key": [lambda home: keys.load(home.keys, "server"), lambda h: keys.ensure(h.keys)],
    "keys/cluster": [Home.cluster, identity.require_journal],
    "journal.sqlite": [
        lambda home: Journal(home.journal).close(), maintenance._check, identity.require_journal
    ],
    "journal.sqlite-wal": [lambda home: Journal(home.journal).close(), maintenance._check],
    "journal.sqlite-last": [lambda home: Journal(home.journal).close(), maintenance._check],
    "log/part.err": [start_part, lambda home: local.last_words(home, "part", 1)],
    "log/server.log": [lambda home: opened.open_log(home.log / "server.log")],
    "audit/audit.jsonl": [say_in_audit, lambda home: list(audit.lines(home.audit))],
    "agents/a/agent.json": [
        local_agents.running_agents, lambda home: remote_bootstrap.running(home, "a"),
        lambda home: hosts._ran_here(home, "a"),
    ],
    "agents/a/kept-alive.json": [lambda home: kept_alive.end(home, "a")],
    "agents/a/credentials": [lambda home: credentials.of_agent(home, "a")],
    "agents/a/allegiance": [
        lambda home: allegiance.allegiance_of(home.agent("a"), "tcp://x:1", None, 1.0)  # type: ignore[arg-type]
    ],
    "agents/a/copies/7": [
        lambda home: copies.CopyKeeper(home, ["n1"], home.agent("a") / copies.NOTES), copies.clear
    ],
    **{f"agents/a/holdings/1.1/{name}": [take_up_ranks] for name in HOLDING},
    "agents/a/lock": [lambda home: opened.lock(home.agent("a") / "lock")],
    "agents/a/claim": [lambda home: process.claim(str(home.agent("a")))],
    "jobs/1/out.ranks": [
        lambda home: marks.Marks(str(home.job(1) / "out.ranks")).note(0, 1, (0, 0)),
        lambda home: KeptOutput(home).read(1, "local", "out.ranks", 0),
    ],
    "jobs/1/nodes/n1/out.part": [lambda home: KeptOutput(home).read(1, "n1", "out", 0)],
}  # fmt: skip
CASES = [(name, n) for name, uses in USES.items() for n in range(len(uses))]


def strange_home(root: Path, name: str, what: str) -> Home:
    home = Home(root / "home")
    home.create()
    path = home.root / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    REPLACED[what](path)
    return home


@pytest.mark.timeout(WAITS_S)
@pytest.mark.parametrize("what", REPLACED)
@pytest.mark.parametrize(("name", "use"), CASES)
def test_nothing_waits_for_it_and_nothing_is_written_elsewhere(
    tmp_path: Path, name: str, use: int, what: str
) -> None:
    home = strange_home(tmp_path, name, what)
    with suppress(*REFUSALS):
        USES[name][use](home)
    assert unharmed(home.root)


@pytest.mark.timeout(WAITS_S)
@pytest.mark.parametrize("what", REPLACED)
@pytest.mark.parametrize("name", HOME_FILES)
def test_a_backup_and_a_standby_do_not_wait_either(tmp_path: Path, name: str, what: str) -> None:
    home = strange_home(tmp_path, name, what)
    with suppress(FileExistsError, *REFUSALS):
        keys.ensure(home.keys)
    home_files.HomeFiles(home)()
    with suppress(*REFUSALS):
        Journal(home.journal).close()
        backup.write(home, tmp_path / "backup.dq")
    assert unharmed(home.root)


@pytest.mark.timeout(WAITS_S)
@pytest.mark.parametrize("what", REPLACED)
def test_a_file_that_is_written_whole_takes_its_place(tmp_path: Path, what: str) -> None:
    home = strange_home(tmp_path, "server.json", what)
    with suppress(OSError):  # a folder stays
        write_private(home.server_file, "{}")
        assert home.server_file.read_text() == "{}"
    assert home.server_file.is_dir() == (what == "folder")
    assert unharmed(home.root)
    assert not list(home.root.glob(".*")), "no draft stays"


@pytest.mark.timeout(WAITS_S)
def test_a_trial_of_the_disk_writes_nowhere_else(tmp_path: Path) -> None:
    for what in REPLACED:
        folder = tmp_path / what
        folder.mkdir()
        REPLACED[what](folder / f".trial.{os.getpid()}")
        assert what == "folder" or storage.fault(folder) != ""
        assert unharmed(folder)
