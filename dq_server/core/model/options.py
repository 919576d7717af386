"""What a feature or a policy can be told, declared in the file that uses it.

A feature or policy derives a frozen dataclass from `Options`. Its table in the configuration is
[scheduler.TABLE]; a setting that is used often may have a short name in [scheduler] itself, too
(`short`). settings.py reads them; `SchedulerConfig.of(SomeOptions)` gives them back, checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dq_server.core.model.config import SchedulerConfig

TABLES: dict[str, type[Options]] = {}
SHORT: dict[str, tuple[str, str]] = {}  # setting of [scheduler] -> table and setting in it


class Options:
    """Base of all options: frozen dataclasses in which every field has a default."""

    table: ClassVar[str]
    short: ClassVar[Mapping[str, str]] = {}  # setting of [scheduler] -> field

    def __init_subclass__(cls) -> None:
        TABLES[cls.table] = cls
        for name, field in cls.short.items():
            SHORT[name] = cls.table, field

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of a table as users write them, as values of the fields."""
        return table

    def validate(self) -> None:
        """Raise ConfigError with one clear line if a figure makes no sense."""

    def suits(self, config: SchedulerConfig) -> None:
        """Raise ConfigError if this makes no sense beside the rest of the configuration."""
