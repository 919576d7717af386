"""One job on the whole terminal: its sizes with the curve, its decisions, the end of its output."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from dq_client.base import messages as m
from dq_client.base.errors import DQError
from dq_client.show.feed.follower import Asker
from dq_client.show.feed.log_tail import log_tail
from dq_client.show.output import clock
from dq_client.show.report.growth import growth
from dq_client.show.report.terminal import growth_panel
from dq_client.show.report.text import printable
from dq_client.show.top.looks import style
from dq_client.show.top.rows import DECISION_TONE

EVERY_S = 1.0


class Detail(Screen[None]):
    """Asks for the job once a second; nothing else does while nobody looks at it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "back"),
        Binding("o", "output('out')", "output"),
        Binding("e", "output('err')", "errors"),
        Binding("w", "output('')", "why"),
    ]

    def __init__(self, job: int, asker: Asker) -> None:
        super().__init__()
        self.job, self._asker = job, asker
        self._stream = ""  # empty: its story

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="detail"):
            yield Static(id="growth")
            yield Static(id="more")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#detail").focus()
        self.set_interval(EVERY_S, self.ask)
        self.ask()

    def action_output(self, stream: str) -> None:
        """What stands below the sizes: the story, or the end of an output."""
        self._stream = stream
        self.query_one("#more", Static).update("")
        self.ask()

    @work(thread=True, exclusive=True, exit_on_error=False)
    def ask(self) -> None:
        """Ask the server in a thread of its own, and show the answers."""
        stream = self._stream
        try:
            job = self._asker.data(m.JobQuery(self.job))
            if stream:
                more: object = Text(printable_lines(log_tail(self._asker, self.job, stream)))
            else:
                more = self._story(self._asker.data(m.WhyQuery(self.job)))
        except DQError as e:
            self.app.call_from_thread(self._show, None, Text(str(e)), stream)
            return
        self.app.call_from_thread(self._show, job, more, stream)

    def _show(self, job: dict[str, Any] | None, more: Any, stream: str) -> None:
        if not self.is_attached or stream != self._stream:
            return
        if job is not None:
            self.query_one("#growth", Static).update(growth_panel(growth(job, None)))
        self.query_one("#more", Static).update(more)

    def _story(self, why: dict[str, Any]) -> Group:
        dark = self.app.current_theme.dark
        now = [Text(f"now: {printable(reason['text'])}") for reason in why["now"]]
        story = Table.grid(padding=(0, 2))
        for d in reversed(why["story"]):
            story.add_row(
                Text(clock(d["time_s"]), style("soft", dark=dark)),
                Text(printable(d["what"]), style(DECISION_TONE.get(d["what"], ""), dark=dark)),
                Text(printable(d["text"])),
            )
        return Group(*now, Text(), story)


def printable_lines(text: str) -> str:
    """`text` without control characters other than line ends and tabs."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))
