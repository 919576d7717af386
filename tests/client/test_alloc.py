"""`dq alloc`: what becomes of its shell."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

import pytest

from dq_client.cli import alloc
from dq_client.cli.run import Interrupted, signals


def test_a_signal_that_comes_while_the_shell_starts_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the shell has printed something before its start returns."""
    start, started = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def slow(*words: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(start(*words, **more))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", slow)
    connection: Any = None
    with signals(), pytest.raises(Interrupted):
        alloc._run(connection, 1, ("sleep", "100"), dict(os.environ))
    assert started[0].poll() is not None
