"""What every session knows of copies, whether its job is protected or not."""

from __future__ import annotations

from dataclasses import dataclass

from resize_lib.loops import Position


@dataclass(slots=True)
class CopyState:
    """What all ranks know of the copies so far; joining ranks receive it."""

    number: int = 0  # attempts in this start of the job
    loops: Position = ()  # where the job was when the last copy was made
    points: int = 0  # iterations since then that may end with a remap point
    resize_id: int = 0  # the last resize before it
    took_s: float = 0.0
    error: str = ""


class ProtectionError(Exception):
    """A copy that cannot be made, or cannot be used; one line says which and why."""
