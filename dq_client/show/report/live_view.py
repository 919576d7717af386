"""The display of one job while it grows: `dq demo` uses it.

On a terminal the display redraws itself (rich is imported only then); elsewhere each event is one
plain line. Everything goes to stderr: stdout is for data.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from dq_client.show.report.growth import Growth, changes, growth

if TYPE_CHECKING:
    from rich.live import Live


class GrowthView:
    """Shows iterations done and the sizes visited so far. Call `close` at the end, always."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._last: Growth | None = None
        self._live: Live | None = None
        if is_drawable(self._stream):
            self._live = _start_live(self._stream)

    def update(self, job_view: dict[str, Any], total_iterations: int | None = None) -> None:
        """Show the job as it is now. `job_view` is what JobQuery answers."""
        after = growth(job_view, total_iterations)
        if self._live is not None:
            from dq_client.show.report.terminal import growth_panel

            self._live.update(growth_panel(after), refresh=True)
        else:
            for line in changes(self._last, after):
                print(line, file=self._stream, flush=True)
        self._last = after

    def close(self) -> None:
        """Keep the last picture on the terminal and restore the cursor."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> GrowthView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_drawable(stream: TextIO) -> bool:
    """Whether a display that redraws itself makes sense there."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def _start_live(stream: TextIO) -> Live:
    from rich.console import Console
    from rich.live import Live

    # auto_refresh would start a thread that competes with the job for a processor: update() draws.
    # redirect_stdout would put data printed meanwhile into the display; stdout may be a file.
    live = Live(console=Console(file=stream), auto_refresh=False, redirect_stdout=False)
    live.start()
    return live
