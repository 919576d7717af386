"""The server's configuration file: TOML, a [scheduler] table with the fields of SchedulerConfig.

Its field `dfs` is a table of its own, [dfs] (dfs_settings.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from dq_client.errors import UsageError
from dq_server.core.config import SchedulerConfig
from dq_server.core.errors import ConfigError
from dq_server.core.policies.sets import named_config
from dq_server.core.scheduler import Scheduler
from dq_server.live.dfs_settings import parse_dfs


def read_config(path: Path, required: bool) -> SchedulerConfig:
    """Read and check; UsageError with one line saying what is wrong where."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        if required:
            raise UsageError(f"{path}: no such configuration file") from None
        return SchedulerConfig(farewells=True)
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from e
    import tomllib  # most servers have no such file, and start sooner without it

    try:
        data: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path}: not TOML: {e}") from e
    return parse_config(data, str(path))


def _scheduler(values: dict[str, Any]) -> SchedulerConfig:
    """`policy` names a complete set, as for `dq sim run`; every other setting overrides it."""
    values = {"farewells": True, **values}  # the jobs of a server have sessions
    name = values.pop("policy", None)
    own = msgspec.convert(values, SchedulerConfig)
    if name is None:
        return own
    return replace(named_config(str(name)), **{key: getattr(own, key) for key in values})


def parse_config(data: dict[str, Any], where: str) -> SchedulerConfig:
    """A configuration from parsed TOML."""
    for table in data:
        if table not in ("scheduler", "dfs"):
            raise UsageError(f"{where}: unknown table [{table}]; known: [scheduler], [dfs]")
    values = data.get("scheduler", {})
    known = {*SchedulerConfig.__dataclass_fields__, "policy"} - {"dfs"}
    for name in values:
        if name not in known:
            names = ", ".join(sorted(known))
            raise UsageError(f"{where}: unknown setting {name!r} in [scheduler]; known: {names}")
    try:
        config = _scheduler(dict(values))
        if "dfs" in data:
            config = replace(config, dfs=parse_dfs(data["dfs"]))
        Scheduler(config)  # also looks the policies up
    except msgspec.ValidationError as e:
        raise UsageError(f"{where}: [scheduler] {e}") from e
    except ConfigError as e:
        raise UsageError(f"{where}: {e}") from e
    return config
