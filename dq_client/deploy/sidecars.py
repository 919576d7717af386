"""Processes beside a cluster, one of a kind: the live page (`web`), the hooks (`hooks`).

Each says in a private file of the home what it is. They only look: a cluster does not need them.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import psutil

from dq_client.base.errors import DQError, Timeout
from dq_client.base.home import Home, created_s, is_alive, machine, write_private
from dq_client.base.text_files import object_of
from dq_client.deploy import local

KINDS = ("web", "hooks")
END_WITHIN_S = 10.0


def file_of(home: Home, kind: str) -> Path:
    """Where one that runs says what it is."""
    return home.root / f"{kind}.json"


def announce(home: Home, kind: str, **more: Any) -> None:
    """This process is it."""
    me = psutil.Process()
    info = {"pid": me.pid, "create_time": created_s(me.pid), "machine": machine(), **more}
    write_private(file_of(home, kind), json.dumps(info))


def running(home: Home, kind: str) -> dict[str, Any] | None:
    """The one of this home that runs on this machine: pid, create_time and what it announced."""
    try:
        info = object_of(file_of(home, kind))
    except (OSError, ValueError):
        return None
    here = info.get("machine") == machine()
    return info if here and is_alive(info.get("pid", 0), info.get("create_time")) else None


def start_page(home: Home, port: int) -> dict[str, Any]:
    """Start the live page in the background; returns its file once it takes requests."""
    return _start_beside(home, "web", ["-m", "dq_client.show.web.process", "--port", str(port)])


def start_hooks(home: Home, file: Path) -> dict[str, Any]:
    """Start the hooks of a file in the background; returns their file once they follow."""
    return _start_beside(home, "hooks", ["-m", "dq_client.show.hooks.process", str(file)])


def _start_beside(home: Home, kind: str, words: list[str]) -> dict[str, Any]:
    process = local.start(home, kind, words)

    def ready() -> bool:
        if process.poll() is not None:
            raise local.last_words(home, kind, process.returncode)
        info = running(home, kind)
        return info is not None and info["pid"] == process.pid

    try:
        local.wait_until(
            ready, local.PATIENCE_S, f"dq {kind} did not start in {local.PATIENCE_S:g} s"
        )
    except BaseException:
        process.terminate()
        raise
    info = running(home, kind)
    if info is None:
        raise DQError(f"dq {kind} has ended at once: see log/{kind}.err")
    return info


def stop(home: Home, kind: str, *, force: bool = False) -> bool:
    """End the one of this home; False if none runs. Timeout if it does not end, without `force`."""
    info = running(home, kind)
    if info is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(info["pid"])
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except psutil.TimeoutExpired:
            if force:
                process.kill()
                return True
            raise Timeout(f"dq {kind} (pid {info['pid']}) does not end") from None
    return True


def stop_all(home: Home, *, force: bool = False) -> None:
    """End all of this home."""
    for kind in KINDS:
        stop(home, kind, force=force)
