"""The process of `dq hooks`: one thread reads what was decided, one for each hook calls.

It ends on SIGTERM or Ctrl-C, with `dq hooks stop` or `dq down`. `hooks-place.json` in the home says
how far each hook has come; what was called for just before a crash may be called for again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, NotFound
from dq_client.base.home import Home, write_private
from dq_client.base.process import rename
from dq_client.base.text_files import object_of
from dq_client.deploy import sidecars
from dq_client.show.feed.cursor import FeedCursor
from dq_client.show.feed.follower import Asker
from dq_client.show.hooks.backlog import Backlog, Occasion
from dq_client.show.hooks.call import CallError, Child, call
from dq_client.show.hooks.config import Hook, read

log = logging.getLogger("dq.hooks")
WAIT_S = 5.0
RETRY_S = 0.5
SAID_EVERY_S = 0.5
SCHEMA = 1


class Hooks:
    """All hooks of a file, from where they were when they ended last."""

    def __init__(self, home: Home, hooks: list[Hook]) -> None:
        self._home, self._asker = home, Asker(home)
        self._known = _read_places(home)
        self._new = [hook for hook in hooks if hook.name not in self._known]
        self.backlogs = [Backlog(h, self._known.get(h.name, 0)) for h in hooks]
        self._children = {hook.name: Child() for hook in hooks}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self.ready = threading.Event()

    def stop(self) -> None:
        """Call nobody any more."""
        self._stopped.set()
        for child in self._children.values():
            child.end()
        with self._changed:
            self._changed.notify_all()

    def status(self) -> list[dict[str, Any]]:
        """How each hook stands, for `dq hooks status`."""
        with self._changed:
            return [
                {
                    "name": b.hook.name,
                    "delivered": b.delivered,
                    "failed_tries": b.failed_tries,
                    "given_up": b.given_up,
                    "waiting": len(b.waiting),
                    "trouble": b.trouble,
                }
                for b in self.backlogs
            ]

    # --- reading ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Read what is decided until it is stopped."""
        callers = [
            threading.Thread(target=self._calls, args=(b,), daemon=True) for b in self.backlogs
        ]
        while not self._stopped.is_set():
            try:
                with contextlib.closing(Connection.to(self._home, "viewer")) as connection:
                    if not self.ready.is_set():
                        self._begin(connection)
                        for caller in callers:
                            caller.start()
                        self.ready.set()
                    self._read(connection)
            except (DQError, OSError) as e:
                log.info("the server is away: %s", e)
            self._stopped.wait(RETRY_S)
        for caller in callers:
            if caller.is_alive():
                caller.join(1.0)
        self._save()
        self._asker.close()

    def _begin(self, connection: Connection) -> None:
        """New hooks begin now, not with the cluster's first job."""
        place = FeedCursor()
        while self._new:
            told = place.look(connection)
            if told["more"]:
                continue
            for backlog in self.backlogs:
                if backlog.hook in self._new:
                    backlog.take([], told["event"])
            self._new = []
        self._save()

    def _read(self, connection: Connection) -> None:
        place: dict[str, Any] = {"epoch": 0, "seq": 0}
        event = min(b.place for b in self.backlogs)
        while not self._stopped.is_set():
            if any(b.full for b in self.backlogs):
                self._stopped.wait(RETRY_S)
                continue
            body = m.Since(epoch=place["epoch"], seq=place["seq"], event=event, wait_s=WAIT_S)
            reply = connection.call(body, WAIT_S + 5.0, self._stopped.is_set)
            assert isinstance(reply, m.Data)
            place, event = reply.data, reply.data["event"]
            with self._changed:
                for backlog in self.backlogs:
                    backlog.take(place["decisions"], event)
                self._changed.notify_all()
            self._save()

    # --- calling ---------------------------------------------------------------------------------

    def _calls(self, backlog: Backlog) -> None:
        while not self._stopped.is_set():
            with self._changed:
                occasion = backlog.due(time.monotonic())
                if occasion is None:
                    self._changed.wait(backlog.wait_s(time.monotonic()))
                    continue
            self._call(backlog, occasion)
            self._save()

    def _call(self, backlog: Backlog, occasion: Occasion) -> None:
        hook = backlog.hook
        try:
            told = self._told(occasion)
        except NotFound:  # forgotten and not in the archive: there is nothing to tell
            told = None
        except (DQError, OSError):
            self._stopped.wait(RETRY_S)
            return
        with self._changed:
            if told is None or (told["job"] and not backlog.fits(told["job"])):
                backlog.skip()
                return
        try:
            call(hook, told, self._home.root, self._children[hook.name])
        except CallError as e:
            if self._stopped.is_set():
                return  # we have ended it: it is called for again
            with self._changed:
                over = backlog.failed(str(e), time.monotonic())
            words = "given up" if over else "tried again later"
            log.warning("%s for event %d, %s: %s", hook.name, occasion["event"], words, e)
        else:
            with self._changed:
                backlog.succeeded()

    def _told(self, occasion: Occasion) -> dict[str, Any]:
        """What is told (docs/hooks.md)."""
        job = None
        if occasion["job"]:
            job = self._asker.data(m.JobQuery(occasion["job"]))
        return {
            "schema": SCHEMA,
            "on": occasion["on"],
            "event": occasion["event"],
            "time_s": occasion["time_s"],
            "code": occasion["code"],
            "text": occasion["text"],
            "node": occasion["node"] or None,
            "job": job,
        }

    # --- places ----------------------------------------------------------------------------------

    def _save(self) -> None:
        with self._changed:
            # Of hooks that are not in the file now, too: they may come back.
            places = self._known | {b.hook.name: b.place for b in self.backlogs}
            if places == self._known:
                return
            self._known = places
            try:
                write_private(_file(self._home), json.dumps({"schema": SCHEMA, "places": places}))
            except OSError as e:  # they are called for again after the next start
                log.warning("how far hooks have come cannot be saved: %s", e)


def _file(home: Home) -> Path:
    return home.root / "hooks-place.json"


def _read_places(home: Home) -> dict[str, int]:
    try:
        found = object_of(_file(home))["places"]
        return {str(name): int(place) for name, place in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        log.warning("%s cannot be read (%s): all hooks begin now", _file(home), e)
        return {}


def serve(home: Home, hooks: list[Hook], file: Path) -> None:
    """Call hooks until told to end."""
    running = Hooks(home, hooks)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: running.stop())
    reader = threading.Thread(target=running.follow)
    reader.start()
    said: object = None
    try:
        while reader.is_alive():
            reader.join(SAID_EVERY_S)
            if running.ready.is_set() and said != (said := running.status()):
                with contextlib.suppress(OSError):  # of a disk that is full
                    sidecars.announce(home, "hooks", file=str(file.absolute()), hooks=said)
    finally:
        running.stop()
        reader.join()
        sidecars.file_of(home, "hooks").unlink(missing_ok=True)


def main() -> int:
    """Of the process that `dq hooks --detach` starts."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    file = Path(sys.argv[1])
    rename(["dq-hooks"])
    try:
        serve(Home.default(), read(file), file)
    except DQError as e:
        print(f"dq hooks: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
