"""A standby as a program: `python -m dq_server.live.standby.program`; see `dq server standby`.

It needs nothing but the server's introduction (deploy/standby.py): keys, configuration and notes
come with the first answer. Until it is the server it answers agents at its address, and tells
everybody else where the server is. When it is elected it becomes the server's program, in its home.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import zmq

from dq_client.base import codec, keys, opened, storage
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home, created_s, write_private
from dq_client.base.process import rename
from dq_client.base.text_files import object_of
from dq_client.deploy import standby as kept_standby
from dq_server.core.model.errors import SchedulerError
from dq_server.live import access
from dq_server.live.standby.follower import Standby
from dq_server.live.store.home_files import NOTED
from dq_server.live.store.journal import JournalError
from dq_server.live.store.replica import Replica

log = logging.getLogger("dq.standby")

TURN_MS = 100
BEGINS_WITHIN_S = 20.0  # the first answer
WAS = "was-standby.json"
REQUESTS_MAX = 100  # a turn


def main(argv: list[str] | None = None) -> int:
    """Exit code as for `dq` (docs/commands.md)."""
    parser = argparse.ArgumentParser(prog="python -m dq_server.live.standby.program")
    parser.parse_args(argv)
    rename(["dq-standby"])
    home = Home.default()
    try:
        return StandbyProgram(home).run()
    except DQError as e:
        print(f"dq standby: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    except (SchedulerError, JournalError, OSError, zmq.ZMQError) as e:
        why = storage.fault(home.root) if home.root.is_dir() else ""
        print(f"dq standby: {why or e}", file=sys.stderr)  # noqa: T201
        return 1


class StandbyProgram:
    def __init__(self, home: Home) -> None:
        home.create()
        self.home, self.stopping = home, False
        found = kept_standby.kept(home)
        if found is None:
            raise UsageError(f"{home.root} is no standby's: dq server standby makes it one")
        self.kept = found
        # As a server has it: in one home there is one of them.
        lock = opened.lock(home.lock_file)
        if lock is None:
            raise UsageError(f"a server or a standby runs in {home.root} already")
        self._lock = lock
        home.log.mkdir(mode=0o700, exist_ok=True)
        logging.basicConfig(
            stream=os.fdopen(opened.open_log(home.log / "standby.log"), "a", encoding="utf-8"),
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(message)s",
        )
        told = found.introduction
        pair = keys.pair_of(told.standby_secret)
        self.connection = Connection(told.address, told.server_public, pair)
        self.standby = Standby(
            replica=Replica(home.journal),
            name=found.name,
            address=found.address,
            sync=found.sync,
            send=self.connection.send,
            monotonic=time.monotonic,
        )
        self._options: list[str] = []
        self._whole = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router: zmq.Socket[bytes] | None = None
        if (home.keys / "server.key").exists():
            self._listen()

    def run(self) -> int:
        """Until it is the server, the cluster goes down, or it is told to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "stopping", True))
        begun_s = time.monotonic()
        while not (self.stopping or self.standby.elected):
            try:
                self.connection.check_refused()
            except DQError as e:
                if not self._whole:  # a wrong key stays wrong; a server may die in a handshake
                    raise
                log.warning("%s", e)
            self.standby.look()
            message = self.connection.receive(TURN_MS / 1000 if self._router is None else 0.0)
            if isinstance(message, m.Reply):
                self._take_in(message)
            if self.standby.rests == "down":
                log.info("the cluster went down")
                break
            if self._router is not None:
                self._serve(self._router)
            elif time.monotonic() - begun_s > BEGINS_WITHIN_S:
                raise DQError(f"the server at {self.connection.address} does not answer")
        elected = self.standby.elected
        self.connection.close()
        self.standby.replica.close()
        if self._router is not None:
            self._router.close(0)
            self._authenticator.stop()
        self._context.destroy(linger=0)
        kept_standby.runs_file(self.home).unlink(missing_ok=True)
        if elected:
            self._become_server(elected)
        return 0

    def _take_in(self, message: m.Reply) -> None:
        if isinstance(message.body, m.Error):
            raise DQError(message.body.text)
        news = self.standby.answered(message)
        if news is None:
            return
        self._options = news.options or self._options
        if not self._whole and news.voters is not None:  # the server counts on it
            self._whole = True
            self._say_whole()
        if news.files is not None:
            self._write(news.files)
            self.standby.digest = news.digest
            if self._router is None:
                self._listen()
        if abs(news.off_s - self._off_s()) > 1.0:
            # Another machine's boot: only how far the system clocks are ahead is of use here.
            told = {"boot": "", "offset_s": 0.0, "slept_s": 0.0, "off_s": news.off_s}
            write_private(self.home.root / "clock.json", json.dumps(told))

    def _say_whole(self) -> None:
        me = {"pid": os.getpid(), "create_time": created_s(os.getpid()), "whole": True}
        write_private(kept_standby.runs_file(self.home), json.dumps(me))
        text = f"the copy is whole; {self.kept.address} is where it would serve"
        print(f"dq standby: {text}", file=sys.stderr, flush=True)  # noqa: T201

    def _off_s(self) -> float:
        try:
            return float(object_of(self.home.root / "clock.json")["off_s"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0

    def _write(self, files: dict[str, bytes]) -> None:
        """The files of the server's home, but its address."""
        for name, content in files.items():
            folder, _, last = name.rpartition("/")
            known = name in NOTED or (folder == "keys" and last == Path(last).name)
            if known and name not in ("address", "identity"):
                write_private(self.home.root / name, content.decode())

    def _listen(self) -> None:
        admitted = access.Access(self.home.keys)
        self._authenticator = access.secure(self._context, admitted)
        self._admitted = admitted
        address = self.kept.address
        self._router = access.bind_router(self._context, self._authenticator, admitted, address)

    # --- who asks here ------------------------------------------------------------------------

    def _serve(self, router: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(router, zmq.POLLIN)
        poller.register(self.connection.socket, zmq.POLLIN)
        poller.poll(TURN_MS)
        for _ in range(REQUESTS_MAX):
            try:
                identity, *frames = router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            principal = self._admitted.who(str(frames[-1].get("User-Id")))
            if principal is not None and len(frames) == 1:
                self._answer(router, identity.bytes, principal, frames[0].bytes)
            if self.standby.elected:
                return

    def _answer(
        self, router: zmq.Socket[bytes], to: bytes, principal: access.Principal, frame: bytes
    ) -> None:
        try:
            request = codec.decode_request(frame)
        except codec.MalformedMessage as e:
            log.warning("malformed message from %s: %s", principal.role, str(e)[:200])
            return
        server = self.connection.address
        body = self.standby.answer(request.body, principal.role, server)
        try:
            router.send_multipart([to, codec.encode(m.Reply(request.id, body))], zmq.NOBLOCK)
        except zmq.ZMQError as e:
            log.debug("a message could not be sent: %s", e)

    # --- the end ------------------------------------------------------------------------------

    def _become_server(self, epoch: int) -> None:
        home, address = self.home, self.kept.address
        home.standby_file.rename(home.root / WAS)
        os.close(self._lock)
        words = ["--address", address, "--least-epoch", str(epoch), *self._options]
        if self.kept.as_root and "--yes-as-root" not in words:
            words.append("--yes-as-root")
        os.execv(sys.executable, [sys.executable, "-m", "dq_server.live", *words])  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
