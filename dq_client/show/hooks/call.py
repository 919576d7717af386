"""Calling a command or a URL. Whoever is called learns what happened, and nothing of our keys."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dq_client.base.environment import is_reserved
from dq_client.show.hooks.config import Hook
from dq_client.show.report.text import printable, shortened

SAID_MAX = 300


class CallError(Exception):
    """It has failed; the message says how, in one line."""


class Child:
    """The command of one hook that runs, to be ended when nobody is called any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._over = False

    def began(self, pid: int) -> None:
        """It leads a group of its own."""
        with self._lock:
            self._pid = pid
            if self._over:
                _end(pid)

    def ended(self) -> None:
        """Before its number is free for another process."""
        with self._lock:
            _end(self._pid)
            self._pid = 0

    def end(self) -> None:
        """End it, and whatever follows."""
        with self._lock:
            self._over = True
            if self._pid:
                _end(self._pid)


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def call(hook: Hook, told: Mapping[str, Any], folder: Path, child: Child) -> None:
    """Call once, and wait for the end; CallError if it failed. `folder`: where commands run."""
    body = json.dumps(told, sort_keys=True).encode()
    if hook.url:
        _post(hook, body)
    else:
        _run(hook, told, body, folder, child)


def environment(told: Mapping[str, Any], inherited: Mapping[str, str]) -> dict[str, str]:
    """What a command finds in its environment."""
    kept = {k: v for k, v in inherited.items() if k == "DQ_HOME" or not is_reserved(k)}
    return {
        **kept,
        "DQ_HOOK_ON": told["on"],
        "DQ_HOOK_JOB": str(told["job"]["id"]) if told["job"] else "",
        "DQ_HOOK_STATE": told["job"]["state"] if told["job"] else "",
        "DQ_HOOK_NODE": told["node"] or "",
    }


def _run(hook: Hook, told: Mapping[str, Any], body: bytes, folder: Path, child: Child) -> None:
    try:
        # A group of its own: what it has started is ended with it if it takes too long.
        process = subprocess.Popen(
            hook.command, cwd=folder, env=environment(told, os.environ), start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except (OSError, ValueError) as e:
        raise CallError(f"{hook.command[0]} cannot be started: {e}") from e
    child.began(process.pid)
    try:
        _, said = process.communicate(body, hook.timeout_s)
    except subprocess.TimeoutExpired:
        raise CallError(f"it was ended after {hook.timeout_s:g} s") from None
    finally:
        child.ended()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    if process.returncode:
        words = printable(" ".join(said.decode(errors="replace").split()))
        raise CallError(f"exit code {process.returncode}: {shortened(words, SAID_MAX)}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """What is told is for the address in the file, and for no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None: the answer counts as it is, a failure."""


def _post(hook: Hook, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "dq-hooks"}
    # Only http and https: config.py has seen to it.
    request = urllib.request.Request(hook.url, body, headers, method="POST")  # noqa: S310
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=hook.timeout_s) as answer:
            answer.read(1)
    except urllib.error.HTTPError as e:
        with e:
            raise CallError(f"it answered {e.code} {printable(str(e.reason))}") from None
    except (OSError, http.client.HTTPException) as e:
        raise CallError(shortened(printable(str(e)), SAID_MAX)) from e
