"""The options of a session, as a program gives them: at once or again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from resize_lib.legal import Legal, legal_sizes
from resize_lib.mistakes import Mistake, caller
from resize_lib.pace import chosen_interval
from resize_lib.server_link import ServerLink


@dataclass(frozen=True)
class Options:
    """Those of a session (see `jobsession.Session`), checked; `of` fills in what is not given."""

    connect: Callable[[], ServerLink] | None
    legal: tuple[int, ...]
    report_interval_s: float

    @classmethod
    def of(
        cls,
        *,
        connect: Callable[[], ServerLink] | None = None,
        legal: Legal | None = None,
        report_interval_s: float | None = None,
    ) -> Options:
        """From the arguments of a program.

        Raises:
            LegalSizesError, ValueError: a value that cannot be.
        """
        if connect is None and ServerLink.configured():
            connect = ServerLink.from_environment
            ServerLink.load()  # any rank may become rank 0, and others wait then
        interval_s = chosen_interval(report_interval_s)
        return cls(connect, legal_sizes(legal), interval_s)

    def check_repeated(self, given: Mapping[str, Any]) -> None:
        """Mistake if an option is given again with another value."""
        again = Options.of(**given)
        for name in given:
            if getattr(again, name) != getattr(self, name):
                raise Mistake(
                    f"{caller()}: session({name}={given[name]!r}): the session of this program is"
                    f" open with {name}={getattr(self, name)!r}: give options where it is opened"
                    " first"
                )
