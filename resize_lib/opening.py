"""The one session of a program: opened by its first call, or before it in a rank that joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resize_lib import jobsession
from resize_lib.mistakes import Mistake, caller, note_application
from resize_lib.session_options import Options

_opened: jobsession.Session | None = None
_early = False  # the program has not asked for it yet


def open_session(options: Mapping[str, Any], *, early: bool = False) -> jobsession.Session:
    """The session of this program; the first call opens it.

    early: in a rank that joins, by what the program does before it opens the session.

    Raises:
        Mistake: the options are others than at the first call, or the session has ended and the
            job has been resized in it.
    """
    global _opened, _early
    if _opened is not None and _opened._session.ended:
        if _opened._session.job.resize_id:
            raise Mistake(
                f"{caller()}: the session of this program has ended, and the job has been resized"
                " in it: open one session around all loops"
            )
        _opened = None
    if _opened is None:
        if not early:
            note_application()
        _opened, _early = jobsession.Session(**options), early
    elif _early:
        note_application()
        _opened._session.set_options(Options.of(**options))
        _early = False
    else:
        _opened._session.options.check_repeated(options)
    return _opened
