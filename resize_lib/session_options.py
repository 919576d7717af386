"""The options of a session, as a program gives them: at once or again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from resize_lib.legal import legal_sizes
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
    def of(cls, **given: Any) -> Options:
        """From the arguments of a program; None for an option is its default.

        Raises:
            Mistake: there is no such option.
            LegalSizesError, ValueError: a value that cannot be.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise Mistake(
                    f"{caller()}: session() has no option {name!r}; it has {', '.join(known)}"
                )
        connect = given.get("connect")
        if connect is None and ServerLink.configured():
            connect = ServerLink.from_environment
            ServerLink.load()  # any rank may become rank 0, and others wait then
        interval_s = chosen_interval(given.get("report_interval_s"))
        return cls(connect, legal_sizes(given.get("legal")), interval_s)

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
