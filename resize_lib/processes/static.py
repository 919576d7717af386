"""The backend for an MPI whose jobs keep the size they started with."""

from __future__ import annotations

from typing import Any, NoReturn

from mpi4py import MPI

from resize_lib.processes.failure import abort_job, abort_on_uncaught_exception
from resize_lib.processes.interface import ProcessError, Reserve, ResizeUnsupportedError
from resize_lib.world import bare


class StaticBackend:
    """Runs under any MPI; says why it cannot resize instead of trying."""

    name = "static"
    can_resize = False
    spawned = False

    def __init__(self, why_not: str) -> None:
        self.why_not = why_not
        if bare().size > 1:
            abort_on_uncaught_exception()

    def start(self, reserve: Reserve | None = None) -> MPI.Intracomm:  # noqa: ARG002
        return bare().Dup()

    def join(self, reserve: Reserve | None = None) -> MPI.Intracomm:  # noqa: ARG002
        raise ProcessError("this rank was not spawned by a running job, so there is no job to join")

    def begin_expand(self, *_: Any, **_options: Any) -> None:
        raise ResizeUnsupportedError(f"this job cannot expand: {self.why_not}")

    def expand_ready(self, wait_s: float = 0.0) -> bool:  # noqa: ARG002
        return False

    def expand_news(self) -> bool:
        return False

    def complete_expand(self, *_: Any) -> MPI.Intracomm:
        raise ResizeUnsupportedError(f"this job cannot expand: {self.why_not}")

    def cancel_expand(self) -> None:
        """Nothing can have been begun."""

    def shrink(self, *_: Any) -> MPI.Intracomm | None:
        raise ResizeUnsupportedError(f"this job cannot shrink: {self.why_not}")

    def leave(self) -> NoReturn:
        raise ResizeUnsupportedError(f"no rank can leave this job: {self.why_not}")

    def abort(self, code: int = 1) -> NoReturn:
        abort_job(code)
