"""Errors of the Python client (client.py) and of resize_lib: the public names of base/errors.py."""

from dq_client.base.errors import (
    DQError,
    NoServer,
    NotFound,
    NotNow,
    OtherVersion,
    Refused,
    Timeout,
    UsageError,
)

__all__ = [
    "DQError",
    "NoServer",
    "NotFound",
    "NotNow",
    "OtherVersion",
    "Refused",
    "Timeout",
    "UsageError",
]
