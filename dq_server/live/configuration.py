"""The server's configuration file: TOML; core/settings.py says what may stand in it.

One table is not the scheduler's:

    [launch]
    launcher = "dq"     # dq: the agents start the ranks (docs/ranks.md); mpiexec: MPI does
    growth = "join"     # new ranks start beside the application, which takes them in when they are
                        # up; spawn: it waits for them in MPI_Comm_spawn;
                        # restart: all ranks end, the job starts on its new size (docs/mpi.md)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dq_client.base.errors import UsageError
from dq_client.base.text_files import toml_of
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.model.launching import Launching
from dq_server.core.settings import REPLACED, from_tables

# The default first.
LAUNCH = {"launcher": ("dq", "mpiexec"), "growth": ("join", "spawn", "restart")}
LAUNCHING = {
    ("dq", "join"): Launching.JOIN,
    ("dq", "spawn"): Launching.SPAWN,
    ("mpiexec", "join"): Launching.MPIEXEC,
    ("mpiexec", "spawn"): Launching.MPIEXEC_SPAWN,
    ("dq", "restart"): Launching.RESTART,
    ("mpiexec", "restart"): Launching.MPIEXEC_RESTART,
}

# What a server sets unless the file says otherwise. The core's own defaults stay as they were: a
# recorded configuration holds what differs from them, and old journals must mean what they meant.
USUAL: dict[str, Any] = {"farewells": True, "sweet_spot": "search"}


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a cluster file says of its pool. `where`: the file."""

    pool: dict[str, Any]
    where: str


def read_config(
    path: Path,
    required: bool,
    launcher: str | None = None,
    engine: EngineSettings | None = None,
) -> SchedulerConfig:
    """Read and check; UsageError with one line saying what is wrong where.

    `launcher`: overrides the file's. `engine`: None if there is none that nodes could be asked of.
    """
    if not path.exists():
        if required:
            raise UsageError(f"{path}: no such configuration file")
        return parse_config({}, str(path), launcher, engine)
    data = toml_of(path)
    _note_replaced(data, str(path))
    return parse_config(data, str(path), launcher, engine)


def parse_config(
    data: dict[str, Any],
    where: str,
    launcher: str | None = None,
    engine: EngineSettings | None = None,
) -> SchedulerConfig:
    """A configuration from parsed TOML. The jobs of a server have sessions, so `farewells`."""
    launch = _launch(data.get("launch", {}), where)
    if "pool" in data:
        raise UsageError(
            f"{where}: [pool] belongs into the cluster file, beside the engine that nodes are asked"
            " of (docs/pool.md); to try it without one: dq sim run --config"
        )
    if launcher is not None:
        launch["launcher"] = _word("launcher", launcher, f"--launcher {launcher}")
    try:
        tables = {name: table for name, table in data.items() if name != "launch"}
        config = from_tables(tables, **USUAL)
    except ConfigError as e:
        raise UsageError(f"{where}: {e}") from e
    if engine is not None:
        try:
            config = from_tables({**tables, "pool": engine.pool}, **USUAL)
        except ConfigError as e:
            raise UsageError(f"{engine.where}: {e}") from e
    return replace(config, launching=LAUNCHING[launch["launcher"], launch["growth"]])


def _note_replaced(data: dict[str, Any], where: str) -> None:
    """Print a note for each value of an older version that is read as another one."""
    given = data.get("scheduler", {})
    for (name, value), now in REPLACED.items():
        if isinstance(given, dict) and given.get(name) == value:
            words = f'{where}: [scheduler] {name} = "{value}" is read as "{now}", which replaced it'
            print(f"dq server: {words}", file=sys.stderr)  # noqa: T201


def launching_words(launching: Launching) -> dict[str, str]:
    """A way of starting ranks in the words of [launch]."""
    (words,) = (words for words, found in LAUNCHING.items() if found is launching)
    return dict(zip(LAUNCH, words, strict=True))


def _launch(given: Any, where: str) -> dict[str, str]:
    """The table [launch], complete."""
    if not isinstance(given, dict):
        raise UsageError(f"{where}: launch is a table: [launch]")
    for name in given:
        if name not in LAUNCH:
            known = known_words(name, LAUNCH)
            raise UsageError(f"{where}: unknown setting {name!r} in [launch]; {known}")
    return {
        name: _word(name, given.get(name, words[0]), f"{where}: [launch] {name}")
        for name, words in LAUNCH.items()
    }


def _word(name: str, word: Any, where: str) -> str:
    if word not in LAUNCH[name]:
        raise UsageError(f"{where}: {word!r} is none of {', '.join(LAUNCH[name])}")
    return str(word)
