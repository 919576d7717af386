"""The server's configuration file: TOML; core/settings.py says what may stand in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dq_client.errors import UsageError
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.settings import from_tables


def read_config(path: Path, required: bool) -> SchedulerConfig:
    """Read and check; UsageError with one line saying what is wrong where."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        if required:
            raise UsageError(f"{path}: no such configuration file") from None
        return parse_config({}, str(path))
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from e
    import tomllib  # most servers have no such file, and start sooner without it

    try:
        data: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path}: not TOML: {e}") from e
    return parse_config(data, str(path))


def parse_config(data: dict[str, Any], where: str) -> SchedulerConfig:
    """A configuration from parsed TOML. The jobs of a server have sessions, so `farewells`."""
    try:
        return from_tables(data, farewells=True)
    except ConfigError as e:
        raise UsageError(f"{where}: {e}") from e
