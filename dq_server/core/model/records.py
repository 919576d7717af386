"""What a feature keeps about a job, or about the whole cluster: its own record.

A feature declares a dataclass derived from `Record`; `SomeRecord.of(job)` or `SomeRecord.of(state)`
is the one that belongs to that job or state, made with its defaults when it is first asked for.
Neither `Job` nor `State` has to know the feature. A record that still equals its defaults says
nothing: it is neither stored (live/snapshot.py) nor compared, so asking for one changes nothing.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

RECORDS: dict[str, type[Record]] = {}


class Owner(Protocol):
    """What has records: a Job, or the State."""

    records: Records


class Records(dict[str, Any]):
    """The records of one owner, by type."""

    __hash__ = None  # mutable

    def said(self) -> dict[str, Any]:
        """Those that differ from their defaults, ordered by name."""
        return {name: r for name, r in sorted(self.items()) if r != type(r)()}

    def __eq__(self, other: object) -> bool:
        return self.said() == other.said() if isinstance(other, Records) else NotImplemented


class Record:
    """Base of all records. Every field needs a default."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        # @dataclass(slots=True) makes the class a second time: the later one counts.
        RECORDS[cls.__name__] = cls

    @classmethod
    def of(cls, owner: Owner) -> Self:
        """The owner's record of this type."""
        found = owner.records.get(cls.__name__)
        if found is None:
            found = owner.records[cls.__name__] = cls()
        return found
