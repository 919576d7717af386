"""A worker of an executor: `python -m dq_client.executor.worker`, started by DQ.

This process speaks to the executor and hears of the stop signal; an inner one (tasks.py) does the
tasks. So a task in the middle of a long call is handed back at once, and one that kills its process
does not end the job of workers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection as Pipe
from socket import socketpair

import zmq

from dq_client.base.connection import prepare
from dq_client.base.keys import pair_of

VARIABLE = "DQ_EXECUTOR"  # address, the executor's public key, the workers' secret key, Python
SILENCE_S = 60.0  # an executor that sends nothing for so long is no more; it sends once a second
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Worker:
    """The outer process."""

    def __init__(self, address: str, executor_key: str, secret: str) -> None:
        self._socket = zmq.Socket[bytes](zmq.Context.instance(), zmq.DEALER)
        pair = pair_of(secret)
        self._socket.identity = ":".join(
            (os.environ["DQ_JOB_ID"], os.environ["DQ_WORKER"], os.urandom(4).hex())
        ).encode()
        self._socket.curve_serverkey = executor_key.encode()
        self._socket.curve_publickey = pair.public.encode()
        self._socket.curve_secretkey = pair.secret.encode()
        self._socket.linger = 2000
        prepare(self._socket, address)
        self._socket.connect(address)
        self._stop, stopped = socketpair()
        stopped.setblocking(False)
        signal.set_wakeup_fd(stopped.fileno())
        self._stopped = stopped  # keeps the descriptor open
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)
        self._setup = b""
        self._task, self._busy = b"", False  # the latest one, and whether it is being done
        self._answer = [b"answer"]  # to the latest one
        self._begin()

    def _begin(self) -> None:
        """Start the inner process."""
        here, there = socketpair()
        self._inner = subprocess.Popen(
            [sys.executable, "-m", "dq_client.executor.tasks", str(there.fileno())],
            pass_fds=[there.fileno()],
        )
        there.close()
        self._pipe = Pipe(here.detach())
        self._begun = False  # it has not done its setup yet
        if self._setup:
            self._pipe.send_bytes(self._setup)

    def run(self) -> None:
        """Do tasks until the executor or DQ says that it is enough."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._stop, zmq.POLLIN)
        heard_s = time.monotonic()
        self._say(b"hello")
        while time.monotonic() - heard_s < SILENCE_S:
            poller.register(self._pipe.fileno(), zmq.POLLIN)
            found = dict(poller.poll(int(SILENCE_S * 1000)))
            poller.unregister(self._pipe.fileno())
            if self._stop.fileno() in found:
                break
            if self._pipe.fileno() in found:
                self._hear()
            if self._socket in found:
                heard_s = time.monotonic()
                if not self._obey(*self._socket.recv_multipart()):
                    break
        self._inner.kill()  # before another one gets the task
        self._inner.wait()
        self._say(b"left")

    def _obey(self, what: bytes, task: bytes, content: bytes) -> bool:
        """Do what the executor sends; False: there is no more work."""
        if what == b"task" and task != self._task:
            self._task, self._busy = task, True
            self._pipe.send_bytes(content)
        elif what == b"task" and not self._busy:  # the answer was lost with a connection
            self._say(*self._answer)
        elif what == b"setup" and not self._setup:
            self._setup = content
            self._pipe.send_bytes(content)
        elif what == b"ping" and not self._busy:
            self._say(b"ready" if self._begun else b"hello")
        return what != b"end"

    def _hear(self) -> None:
        """The inner process has done its setup, or a task, or has died."""
        try:
            content = self._pipe.recv_bytes()
        except (EOFError, OSError):
            code = self._inner.wait()
            how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            if not self._begun:
                sys.exit(f"the process that does the tasks has not come up: {how}")
            self._pipe.close()
            self._begin()
            if not self._busy:
                return
            self._answer = [b"crash", self._task, how.encode()]
        else:
            if not self._begun:
                self._begun = True
                if not self._busy:
                    self._say(b"ready")
                return
            self._answer = [b"answer", self._task, content]
        self._busy = False
        self._say(*self._answer)

    def _say(self, what: bytes, task: bytes = b"", content: bytes = b"") -> None:
        self._socket.send_multipart([what, task, content])


def main() -> None:
    """Do tasks until there are no more."""
    # Neither the inner process nor what a task starts needs the key.
    address, executor_key, secret, python = os.environ.pop(VARIABLE).split()
    if python != PYTHON:
        sys.exit(f"the executor runs Python {python}, this worker {PYTHON}: pickles may not fit")
    Worker(address, executor_key, secret).run()


if __name__ == "__main__":
    main()
