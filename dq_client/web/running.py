"""Which page of a home runs. The file `web.json` has its address with the token: private."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import psutil

from dq_client.errors import Timeout
from dq_client.home import Home, is_alive, machine

END_WITHIN_S = 10.0


def file_of(home: Home) -> Any:
    """Where a running page says what it is."""
    return home.root / "web.json"


def running(home: Home) -> dict[str, Any] | None:
    """The page of this home that runs on this machine: its pid, create_time, port and url."""
    try:
        info: dict[str, Any] = json.loads(file_of(home).read_text())
    except (OSError, ValueError):
        return None
    here = info.get("machine") == machine()
    return info if here and is_alive(info.get("pid", 0), info.get("create_time")) else None


def stop(home: Home) -> bool:
    """End the page of this home; False if none runs. Timeout if it does not end."""
    info = running(home)
    if info is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(info["pid"])
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except psutil.TimeoutExpired:
            raise Timeout(f"dq web (pid {info['pid']}) does not end") from None
    return True
