"""`dq top` as a whole: three lists, a line on the cluster, and the keys."""

from __future__ import annotations

import threading
from typing import ClassVar

from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.widgets import Footer, Input, Static

from dq_client.base.home import Home
from dq_client.base.states import ENDED, NOT_STARTED
from dq_client.show.feed.follower import Asker, Follower
from dq_client.show.feed.model import Model
from dq_client.show.report.text import printable, processors
from dq_client.show.top import rows
from dq_client.show.top.detail import Detail
from dq_client.show.top.listing import Listing
from dq_client.show.top.looks import style, theme
from dq_client.show.top.rows import Row

DRAWN_EVERY_S = 0.25
WIDE = 100  # nodes and decisions side by side
OF_LISTS = ("filter", "shown", "sort", "upwards", "nodes", "all")


class Top(App[str]):
    """Ends with why it did: empty if somebody wanted it to.

    model, asker   what is known, and who can ask for more; a Follower fills the model and calls
                   `news` after each change, `gone` when there is no cluster any more
    """

    CSS = """
    #cluster { height: 1; padding: 0 1; background: $surface; color: $foreground; }
    #cluster.away { background: $error; color: $background; }
    Listing { padding: 0 1; background: $surface; scrollbar-size-vertical: 1; overflow-x: hidden; }
    #jobs { height: 3fr; border-top: solid $panel; border-title-color: $accent; }
    #below { height: 2fr; }
    #nodes { width: 2fr; border-top: solid $panel; border-title-color: $accent; }
    #decisions { width: 3fr; border-top: solid $panel; border-title-color: $accent; }
    #below.narrow #nodes { display: none; }
    #below.narrow.nodes #nodes { display: block; }
    #below.narrow.nodes #decisions { display: none; }
    #filter { height: 1; border: none; padding: 0 1; display: none; }
    #filter.asked { display: block; }
    #detail { padding: 0 1; }
    #more { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("a", "shown", "active/all"),
        Binding("s", "sort", "sort"),
        Binding("r", "upwards", "reverse"),
        Binding("n", "nodes", "nodes"),
        Binding("t", "look", "theme"),
        Binding("escape", "all", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False
    TITLE = "dq top"

    def __init__(self, model: Model, asker: Asker) -> None:
        super().__init__()
        for dark in (True, False):
            self.register_theme(theme(dark=dark))
        self.theme = "dq-dark"
        self._model, self._asker = model, asker
        self._read_to = ""
        self._known_jobs: dict[int, Row] = {}
        self._known_nodes: dict[str, Row] = {}
        self._known_decisions: list[Row] = []
        self._known_status: Row = {}
        self._shown = rows.SHOWN[0]
        self._sought = ""
        self._news = threading.Event()

    def compose(self) -> ComposeResult:
        yield Static(id="cluster")
        yield Listing(rows.JOBS, lambda j: j["id"], self._style_of, id="jobs")
        with Horizontal(id="below"):
            yield Listing(rows.NODES, lambda n: n["name"], self._style_of, id="nodes")
            key = lambda d: (d["event"], d["what"], d["job"], d["node"])  # noqa: E731
            yield Listing(rows.DECISIONS, key, self._style_of, id="decisions")
        yield Input(placeholder="a number, or a part of a name", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        self.list_of("jobs").focus()
        self.set_interval(DRAWN_EVERY_S, self._draw_news)
        self.draw()

    def _style_of(self, tone: str) -> Style:
        return style(tone, dark=self.current_theme.dark)

    def list_of(self, name: str) -> Listing:
        """One of `jobs`, `nodes`, `decisions`."""
        return self.screen_stack[0].query_one(f"#{name}", Listing)

    # --- news ------------------------------------------------------------------------------------

    def news(self) -> None:
        """The model has changed; from any thread."""
        self._news.set()

    def gone(self) -> None:
        """There is no cluster any more; from any thread."""
        self.call_from_thread(self.exit, "the cluster is gone")

    def _draw_news(self) -> None:
        if not self.is_running:  # on its way out: the lists may be gone before this timer is
            return
        if self._news.is_set():
            self.draw()
        elif self._known_jobs:
            self.list_of("jobs").refresh()  # times go on

    def draw(self) -> None:
        """Take in what has changed, and show it."""
        self._news.clear()
        self._read_to, news = self._model.since(self._read_to)
        if news["whole"]:
            self._known_jobs.clear()
            self._known_nodes.clear()
            self._known_decisions.clear()
        self._known_jobs.update((job["id"], job) for job in news["jobs"])
        self._known_nodes.update((node["name"], node) for node in news["nodes"])
        for gone in news["gone"]:
            self._known_jobs.pop(gone, None)
            self._known_nodes.pop(gone, None)
        self._known_decisions = [*self._known_decisions, *news["decisions"]][-2000:]
        self._known_status = news["status"]
        self._fill()

    def _fill(self) -> None:
        used = rows.used(self._known_jobs.values())
        of = self._known_status.get("processors", 1)
        jobs = rows.jobs_wanted(self._known_jobs.values(), self._shown, self._sought)
        for job in jobs:
            job["of"] = of
        found = self.list_of("jobs")
        found.show(rows.in_order(jobs, found.sorted_by, upwards=found.upwards))
        found.border_title = f"{self._shown} jobs: {len(jobs)}" + (
            f" with '{self._sought}'" if self._sought else ""
        )
        below = self.list_of("nodes")
        there = [(k, node) for k, node in self._known_nodes.items() if node["state"] != "left"]
        nodes = [{**node, "used": used[name]} for name, node in there]
        order = below.sorted_by or rows.NODES[0]
        below.show(rows.in_order(nodes, order, upwards=below.upwards))
        below.border_title = f"nodes: {len(nodes)}"
        decisions = rows.decisions_wanted(self._known_decisions, self._sought)
        feed = self.list_of("decisions")
        if feed.sorted_by is not None:
            decisions = rows.in_order(decisions, feed.sorted_by, upwards=feed.upwards)
        feed.show(decisions)
        feed.border_title = "decisions, latest first"
        self._say_cluster(used.total())

    def _say_cluster(self, busy: int) -> None:
        line = self.screen_stack[0].query_one("#cluster", Static)
        status, counts = self._known_status, {"running": 0, "queued": 0, "ended": 0}
        for job in self._known_jobs.values():
            waits = job["state"] in NOT_STARTED
            counts["ended" if job["state"] in ENDED else "queued" if waits else "running"] += 1
        words = (
            f"{processors(status.get('processors', 0))}, {status.get('idle', 0)} idle  "
            f"{rows.bar(busy / max(1, status.get('processors', 1)))}  "
            + ", ".join(f"{count} {name}" for name, count in counts.items())
        )
        away = not status.get("up")
        if away:
            words = f"the server is away ({status.get('why', '')}); as last known: {words}"
        elif status.get("paused"):
            words += f"  paused: {status['paused']}"
        line.set_class(away and bool(self._known_jobs or self._known_nodes), "away")
        line.update(printable(words), layout=False)

    # --- keys ------------------------------------------------------------------------------------

    def on_resize(self, event: Resize) -> None:
        below = self.screen_stack[0].query_one("#below")
        below.set_class(event.size.width < WIDE, "narrow")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """See textual: what the lists are for does nothing while a job is shown."""
        return action not in OF_LISTS or not isinstance(self.screen, Detail)

    def action_nodes(self) -> None:
        """Nodes instead of decisions, where there is no room for both; or the other way round."""
        below = self.screen_stack[0].query_one("#below")
        below.toggle_class("nodes")
        shows_nodes = below.has_class("nodes") or not below.has_class("narrow")
        self.list_of("nodes" if shows_nodes else "decisions").focus()

    def action_look(self) -> None:
        """Dark or light."""
        self.theme = "dq-light" if self.current_theme.dark else "dq-dark"
        self._fill()

    def action_shown(self) -> None:
        """The next kind of jobs."""
        self._shown = rows.SHOWN[(rows.SHOWN.index(self._shown) + 1) % len(rows.SHOWN)]
        self._fill()

    def _sorted(self) -> Listing:
        return self.focused if isinstance(self.focused, Listing) else self.list_of("jobs")

    def action_sort(self) -> None:
        """The list in use by its next column."""
        self._sorted().sort_next()
        self._fill()

    def action_upwards(self) -> None:
        """The list in use the other way round."""
        listing = self._sorted()
        listing.upwards = not listing.upwards
        self._fill()

    def action_filter(self) -> None:
        """Ask what to look for."""
        field = self.query_one("#filter", Input)
        field.add_class("asked")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._sought = event.value
        self._fill()

    def on_input_submitted(self) -> None:
        self.list_of("jobs").focus()

    def action_all(self) -> None:
        """No filter any more."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("asked")
        self.list_of("jobs").focus()

    def on_listing_chosen(self, event: Listing.Chosen) -> None:
        """A job, or that of a decision, on the whole screen."""
        row = event.row
        job = row.get("id") or row.get("job")
        if job:
            self.push_screen(Detail(job, self._asker))


def show(home: Home) -> str:
    """Follow the cluster until somebody ends it; why it ended, empty if by a key."""
    model, asker = Model(), Asker(home)
    top = Top(model, asker)
    follower = Follower(home, model, top.news, top.gone)
    follower.start()
    try:
        return top.run() or ""
    finally:
        follower.stop()
        asker.close()
