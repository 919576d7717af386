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
import stat
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from dq_client.base.errors import UsageError
from dq_client.base.text_files import tables_as, toml_of

On = Literal["job_end", "node_lost"]
State = Literal["done", "failed", "killed"]
EVENTS: tuple[On, ...] = ("job_end", "node_lost")
STATES: tuple[State, ...] = ("done", "failed", "killed")
HOOKS_MAX = 32
Word = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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

    name: Annotated[str, Meta(pattern=r"\A[\w.-]{1,64}\Z")]
    command: tuple[Word, ...] = ()
    url: str = ""
    on: tuple[On, ...] = EVENTS
    states: tuple[State, ...] = STATES
    users: tuple[Word, ...] = ()
    timeout_s: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    tries: Annotated[int, Meta(ge=1, le=100)] = 5


class HookFile(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    hook: Annotated[list[Hook], Meta(min_length=1, max_length=HOOKS_MAX)]


def read(path: Path) -> list[Hook]:
    """The hooks of a file; UsageError with one line saying what is wrong where."""
    try:
        # Its commands run as whoever runs the cluster: nobody else may write it.
        mode = path.stat()
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from e
    if mode.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or mode.st_uid not in (0, os.getuid()):
        raise UsageError(f"{path}: others can write it: chmod go-w {path}")
    found = tables_as(toml_of(path), HookFile, str(path)).hook
    names = [hook.name for hook in found]
    for hook in found:
        if names.count(hook.name) > 1:
            raise UsageError(f"{path}: two hooks are named {hook.name!r}")
    return [_checked(hook, f"{path}: hook {hook.name}", path.parent) for hook in found]


def _checked(hook: Hook, where: str, folder: Path) -> Hook:
    """What the types do not say. A command with a folder is found from the file's."""
    command = hook.command
    if bool(command) is bool(hook.url):
        raise UsageError(f'{where}: give either command = ["program", ...] or url = "https://..."')
    if hook.url:
        _check_url(hook.url, where)
    elif "/" in command[0]:
        command = (str((folder / command[0]).absolute()), *command[1:])
    on, states = hook.on or EVENTS, hook.states or STATES
    return msgspec.structs.replace(hook, command=command, on=on, states=states)


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{where}: not an address of http or https: {url!r}")
