"""The fork server: has an interpreter's packages loaded, and forks keepers, which fork ranks.

One per agent and environment (node/agent/starters.py). It never initializes MPI and has no
thread: what is forked of a process with either does not work. It ends when its agent does.

    agent → starter   {"folder": ..., "nodes": [...], "env": {...}, "borrowed": false} with a socket
                                                                       fork a keeper
    starter → agent   {"ready": true, "rss_bytes": N} or {"refused": WHY}, once
                      {"pid": N}                                       for each keeper
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
from typing import Any

from ...base import opened, process
from . import preload
from .keeper import Become, Keeper

REQUEST_BYTES_MAX = 1 << 20


def serve(agent: socket.socket) -> None:
    """Until the agent is gone. In what is forked it raises Become, or ends the process."""
    process.ignore_site_signals()
    process.rename(["dq-starter", sys.executable])
    tops = preload.load()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        why = f"its packages have started threads ({threads - 1}): OMP_NUM_THREADS=1 prevents that"
        agent.send(json.dumps({"refused": why}).encode())
        return
    preload.hide()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers tell their agent themselves
    gc.collect()
    gc.freeze()  # what is there now is never looked at again: its pages stay shared
    agent.send(json.dumps({"ready": True, "rss_bytes": process.resident_bytes()}).encode())
    while True:
        data, fds, _, _ = socket.recv_fds(agent, REQUEST_BYTES_MAX, 1)
        if not data:
            return
        request = json.loads(data)
        pid = os.fork()
        if not pid:
            agent.close()  # else the agent would not see that the starter is gone
            os.setsid()
            os.set_inheritable(fds[0], False)
            keep(request, socket.socket(fileno=fds[0]), tops)
        os.close(fds[0])
        agent.send(json.dumps({"pid": pid}).encode())


def keep(request: dict[str, Any], control: socket.socket, tops: dict[str, str] | None) -> None:
    """Be a keeper; ends the process, but for ranks, which leave by Become."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        process.ignore_site_signals(ranks=request.get("borrowed", False))
        process.become_subreaper()
        title = ["dq-keeper", request["folder"]]
        if tops is None:
            process.rename(title)
        else:
            process.show(title, request["env"])
        if _claim(request["folder"]):
            Keeper(request["folder"], request["nodes"], control, tops).run()
    except Become:
        preload.reseed()
        raise
    except BaseException:
        import traceback

        with os.fdopen(opened.open_log(os.path.join(request["folder"], "keeper.err")), "a") as f:
            traceback.print_exc(file=f)
        os._exit(1)
    os._exit(0)


def _claim(folder: str) -> bool:
    """Claim the folder; on a full disk once there is room, or the agent has removed the folder."""
    while True:
        try:
            return process.claim(folder)
        except OSError:
            time.sleep(0.5)
