"""What one hook still has to be called for, and when: no clock, no process, no network.

Calls are made one after the other, in the order of the events. One that fails is made again, later
each time; after the hook's last try it is given up, and the next one follows.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dq_client.show.hooks.config import Hook

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
WAITING_MAX = 5000  # then nothing more is read; the journal keeps it

Occasion = dict[str, Any]
KIND_OF = {"done": "job_end", "failed": "job_end", "killed": "job_end", "node lost": "node_lost"}


class Backlog:
    """`place`: all up to this event of the journal has been called for, or was not asked for."""

    def __init__(self, hook: Hook, place: int) -> None:
        self.hook, self.place = hook, place
        self.waiting: deque[Occasion] = deque()
        self.delivered = self.given_up = self.failed_tries = 0
        self.trouble = ""  # of the last try, if it failed
        self._read_to = place
        self._next_s = 0.0
        self._tries = 0

    @property
    def full(self) -> bool:
        """Whether there is no room for more."""
        return len(self.waiting) >= WAITING_MAX

    def take(self, decisions: list[Occasion], read_to: int) -> None:
        """What has been decided up to an event; those that are known already are left out."""
        for row in decisions:
            kind = KIND_OF.get(row["what"], "")
            if row["event"] > self._read_to and kind in self.hook.on:
                self.waiting.append({**row, "on": kind})
        self._read_to = max(self._read_to, read_to)
        self._advance()

    def fits(self, job: dict[str, Any]) -> bool:
        """Whether the hook is for such a job's end."""
        return job["state"] in self.hook.states and (
            not self.hook.users or job["user"] in self.hook.users
        )

    def due(self, now: float) -> Occasion | None:
        """What to call for now."""
        return self.waiting[0] if self.waiting and now >= self._next_s else None

    def wait_s(self, now: float) -> float | None:
        """How long until there is something to call for; None: until there is news."""
        return max(0.0, self._next_s - now) if self.waiting else None

    def skip(self) -> None:
        """The hook is not for the first one."""
        self._over()

    def succeeded(self) -> None:
        """The call for the first one has succeeded."""
        self.delivered += 1
        self.trouble = ""
        self._over()

    def failed(self, why: str, now: float) -> bool:
        """The call for the first one has failed; whether it is given up."""
        self._tries += 1
        self.failed_tries += 1
        self.trouble = why
        if self._tries >= self.hook.tries:
            self.given_up += 1
            self._over()
            return True
        self._next_s = now + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._tries - 1))
        return False

    def _over(self) -> None:
        self.waiting.popleft()
        self._tries, self._next_s = 0, 0.0
        self._advance()

    def _advance(self) -> None:
        # Several decisions can follow from one event: it is over when the last of them is.
        self.place = self.waiting[0]["event"] - 1 if self.waiting else self._read_to
