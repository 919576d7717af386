"""What the fixture `log` gives."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class WriteLog(Protocol):
    """Writes the lines to a log of that name."""

    def __call__(self, *lines: str, name: str = "log.swf") -> Path:
        """Its path."""
