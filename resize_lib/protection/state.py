"""What all ranks of a protected job know of its copies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CopyState:
    """What all ranks know of the copies so far; travels with the bearings."""

    number: int = 0  # attempts in this start of the job
    step: int = -1  # that the last copy holds
    points: int = 0  # remap points since then
    resize_id: int = 0  # the last resize before it
    took_s: float = 0.0
    error: str = ""
