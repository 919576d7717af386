"""Ranks that mpiexec has started, in a job that has attached itself to DQ (attachment.py).

Others join them as in any job of DQ's (own.py): a keeper starts those, and knows these by their
link. But these have hydra for a process manager, which takes a rank that ends without a word for a
crash and kills those beside it. So, once the job was resized, each says to hydra what MPI_Finalize
does not say any more, and ends.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NoReturn

from resize_lib.processes.failure import abort_job, flush, wait_until_read
from resize_lib.processes.hydra import pmi
from resize_lib.processes.link import LinkClosed, RankLink
from resize_lib.processes.own import OwnBackend, OwnExit


class AttachedExit(OwnExit):
    """The end that DQ wants, then the one that hydra wants."""

    def __init__(self, link: RankLink) -> None:
        super().__init__(link)
        self._rank = os.getpid()

    def end_in_order(self) -> None:
        super().end_in_order()
        if os.getpid() == self._rank:
            pmi.finalize()


class AttachedBackend(OwnBackend):
    """See the module's docstring."""

    name = "attached"
    exit = AttachedExit

    def abort(self, code: int = 1) -> NoReturn:
        with suppress(LinkClosed):  # no parent: the keeper would not know the code otherwise
            self._link.say(exit=code)
        flush()
        wait_until_read()
        abort_job(code)
