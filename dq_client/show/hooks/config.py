"""The file of `dq hooks`: TOML, a table [[hook]] for each.

[[hook]]
name = "mail"                      # name in the log, and of its position in the journal
on = ["job_end", "node_lost"]      # both if it is left out
command = ["./tell.sh", "admin"]   # or url = "https://..."
states = ["failed", "killed"]      # of jobs: done, failed, killed; all if it is left out
users = ["anna"]                   # of jobs; all if it is left out
timeout_s = 10
tries = 5
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dq_client.base.errors import UsageError, known_words
from dq_client.base.text_files import toml_of

EVENTS = ("job_end", "node_lost")
STATES = ("done", "failed", "killed")
HOOKS_MAX = 32


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook.

    name       name in the log, and of its position in the journal
    command    command with the event on standard input; or
    url        that gets the event by POST
    on         which events
    states     of ended jobs
    users      of jobs; all if it is left out
    timeout_s  for one try
    tries      before it is given up
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    on: tuple[str, ...] = EVENTS
    states: tuple[str, ...] = STATES
    users: tuple[str, ...] = ()
    timeout_s: float = 10.0
    tries: int = 5


def read(path: Path) -> list[Hook]:
    """The hooks of a file; UsageError with one line saying what is wrong where."""
    try:
        # Its commands run as whoever runs the cluster: nobody else may write it.
        mode = path.stat()
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from e
    if mode.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or mode.st_uid not in (0, os.getuid()):
        raise UsageError(f"{path}: others can write it: chmod go-w {path}")
    return parse(toml_of(path), str(path))


def parse(data: dict[str, Any], where: str) -> list[Hook]:
    tables = data.get("hook")
    if set(data) - {"hook"} or not isinstance(tables, list) or not tables:
        raise UsageError(f"{where}: it has tables [[hook]], at least one, and nothing else")
    if len(tables) > HOOKS_MAX:
        raise UsageError(f"{where}: {len(tables)} hooks; at most {HOOKS_MAX}")
    found: list[Hook] = []
    for number, table in enumerate(tables, 1):
        hook = _hook(table, f"{where}: hook {number}", Path(where).parent)
        if hook.name in {other.name for other in found}:
            raise UsageError(f"{where}: two hooks are named {hook.name!r}")
        found.append(hook)
    return found


def _hook(table: Any, where: str, folder: Path) -> Hook:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table: write [[hook]]")
    known = [field.name for field in fields(Hook)]
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}; {known_words(key, known)}")
    name = table.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,64}", name):
        raise UsageError(f"{where}: name must be a word of at most 64 letters, digits, . _ -")
    where = f"{where} ({name})"
    command, url = _words(table, "command", where), table.get("url", "")
    if not isinstance(url, str) or bool(command) is bool(url):
        raise UsageError(f'{where}: give either command = ["program", ...] or url = "https://..."')
    if url:
        _check_url(url, where)
    elif "/" in command[0]:
        command = (str((folder / command[0]).absolute()), *command[1:])
    return Hook(
        name=name,
        command=command,
        url=url,
        on=_some(table, "on", EVENTS, where),
        states=_some(table, "states", STATES, where),
        users=_words(table, "users", where),
        timeout_s=_number(table, "timeout_s", 10.0, 0.1, 3600.0, where),
        tries=int(_number(table, "tries", 5, 1, 100, where)),
    )


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{where}: not an address of http or https: {url!r}")


def _words(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    words = table.get(key, [])
    if not isinstance(words, list) or not all(
        isinstance(w, str) and w and "\0" not in w for w in words
    ):
        raise UsageError(f'{where}: {key} must be a list of texts, as in {key} = ["..."]')
    return tuple(words)


def _some(table: dict[str, Any], key: str, of: tuple[str, ...], where: str) -> tuple[str, ...]:
    chosen = _words(table, key, where)
    for one in chosen:
        if one not in of:
            raise UsageError(f"{where}: {key} has {one!r}; {known_words(one, of)}")
    return chosen or of


def _number(
    table: dict[str, Any], key: str, usual: float, least: float, most: float, where: str
) -> float:
    value = table.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"{where}: {key} must be a number from {least:g} to {most:g}")
    return float(value)
