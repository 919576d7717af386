"""What a feature keeps about a job, or about the whole cluster: its own record.

A feature declares a dataclass derived from `Record`; `SomeRecord.of(job)` or `SomeRecord.of(state)`
is the one that belongs to that job or state, made with its defaults when it is first asked for.
Neither `Job` nor `State` has to know the feature. A record that still equals its defaults says
nothing: it is neither stored (store/snapshot.py) nor compared, so asking for one changes nothing.

`key` is the record's name in snapshots on disk: a class may be renamed, its key may not. The same
holds for names of fields of records, of `Job`, `State` and of options, and for the classes and
fields of events and actions, which journals name.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

RECORDS: dict[str, type[Record]] = {}


class Owner(Protocol):
    """What has records: a Job, or the State."""

    records: Records


class Records(dict[str, Any]):
    """The records of one owner, by key."""

    __hash__ = None  # mutable

    def said(self) -> dict[str, Any]:
        """Those that differ from their defaults, ordered by name."""
        return {name: r for name, r in sorted(self.items()) if r != type(r)()}

    def __eq__(self, other: object) -> bool:
        return self.said() == other.said() if isinstance(other, Records) else NotImplemented


class Record:
    """Base of all records: `class Seen(Record, key="Seen")`.

    Every field needs a default; the key is unique and never changes.
    """

    __slots__ = ()
    key: ClassVar[str]

    def __init_subclass__(cls, key: str = "") -> None:
        if key:
            cls.key = key
        # @dataclass(slots=True) makes the class a second time, with `key` among its attributes: the
        # later one counts.
        key = vars(cls).get("key", "")
        if not key:
            raise TypeError(f"{cls.__qualname__}: a record needs a key of its own")
        other = RECORDS.get(key, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__qualname__}: {other.__qualname__} has the key {key!r}")
        RECORDS[key] = cls

    @classmethod
    def of(cls, owner: Owner) -> Self:
        """The owner's record of this type."""
        found = owner.records.get(cls.key)
        if found is None:
            found = owner.records[cls.key] = cls()
        return found

    @classmethod
    def known(cls, owner: Owner) -> Self | None:
        """The owner's record if somebody has asked for it before: most owners have few."""
        found: Self | None = owner.records.get(cls.key)
        return found
