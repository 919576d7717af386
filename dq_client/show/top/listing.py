"""A list of any length of which only what is in sight is drawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dq_client.show.top.rows import Cell, Column, Row

GAP = 1


class Listing(ScrollView, can_focus=True):
    """Rows under a line with the names of their columns; one of them is chosen.

    key     tells one row from another: the chosen one stays so when rows come and go
    style   of a tone (rows.py)
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000000)", show=False),
        Binding("end", "move(1000000000)", show=False),
        Binding("enter", "choose", "more"),
    ]

    class Chosen(Message):
        """Somebody wants to know more of a row."""

        def __init__(self, listing: Listing, row: Row) -> None:
            super().__init__()
            self.listing, self.row = listing, row

    def __init__(
        self,
        columns: tuple[Column, ...],
        key: Callable[[Row], Any],
        style: Callable[[str], Style],
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._all_columns, self._key_of, self._style_of = columns, key, style
        self.rows: list[Row] = []
        self._at = 0
        self.sorted_by: Column | None = None
        self.upwards = False

    # --- what is shown ---------------------------------------------------------------------------

    def show(self, rows: list[Row]) -> None:
        """These rows from now on."""
        chosen = self._key_of(self.rows[self._at]) if self.rows else None
        at_top = self._at == 0
        self.rows = rows
        # Above all new rows stands who looks at the first one; who looks at another keeps it.
        found = (k for k, row in enumerate(rows) if self._key_of(row) == chosen)
        self._at = 0 if at_top else next(found, min(self._at, max(0, len(rows) - 1)))
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.refresh()

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self._at] if self.rows else None

    def columns(self) -> list[tuple[Column, int]]:
        """Those that there is room for, with their widths."""
        width = self.scrollable_content_region.width
        shown = [c for c in self._all_columns if c.least <= width]
        rest = width - sum(c.width + GAP for c in shown) + GAP
        return [(c, c.width or max(4, min(c.most, rest))) for c in shown]

    def sort_next(self) -> None:
        """Sort by the next column, or in the usual order after the last."""
        order: list[Column | None] = [None, *(c for c, _ in self.columns())]
        at = order.index(self.sorted_by) if self.sorted_by in order else 0
        self.sorted_by, self.upwards = order[(at + 1) % len(order)], False

    def render_line(self, y: int) -> Strip:
        """See ScrollView; the first line does not scroll away."""
        base = self.rich_style
        if y == 0:
            return self._drawn([(self._title(c), w, c.right) for c, w in self.columns()],
                               base + self._style_of("soft") + Style(bold=True))  # fmt: skip
        at = y - 1 + self.scroll_offset.y
        if at >= len(self.rows):
            return Strip.blank(self.size.width, base)
        row, now_s = self.rows[at], time.time()
        cells = [(c.cell(row, now_s), w, c.right) for c, w in self.columns()]
        on = base
        if at == self._at:
            on = base + self._style_of("chosen" if self.has_focus else "marked")
        return self._drawn(cells, on)

    def _title(self, column: Column) -> Cell:
        mark = ("▲" if self.upwards else "▼") if column is self.sorted_by else ""
        return Cell(column.name + mark, "soft")

    def _drawn(self, cells: list[tuple[Cell, int, bool]], base: Style) -> Strip:
        found = []
        for cell, width, right in cells:
            text = fitted(cell.text, width, right=right)
            found += [Segment(text, base + self._style_of(cell.tone)), Segment(" " * GAP, base)]
        return Strip(found[:-1]).adjust_cell_length(self.size.width, base)

    # --- keys and clicks -------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Choose another row."""
        self._at = max(0, min(len(self.rows) - 1, self._at + by))
        room = max(1, self.scrollable_content_region.height - 1)
        top = self.scroll_offset.y
        if self._at < top:
            self.scroll_to(y=self._at, animate=False)
        elif self._at >= top + room:
            self.scroll_to(y=self._at - room + 1, animate=False)
        self.refresh()

    def action_page(self, by: int) -> None:
        """As many rows further as are in sight."""
        self.action_move(by * max(1, self.scrollable_content_region.height - 1))

    def action_choose(self) -> None:
        """Tell who listens that somebody wants to know more."""
        if (row := self.chosen) is not None:
            self.post_message(self.Chosen(self, row))

    def on_click(self, event: events.Click) -> None:
        """A click chooses; on the line that is chosen already it shows more."""
        place = event.get_content_offset(self)
        if place is None or place.y == 0:
            return
        at = place.y - 1 + self.scroll_offset.y
        if not 0 <= at < len(self.rows):
            return
        if at == self._at and event.chain > 1:
            self.action_choose()
        self._at = at
        self.refresh()


def fitted(text: str, width: int, *, right: bool) -> str:
    """Exactly `width` cells of the terminal wide: wide characters count twice."""
    room = width - cell_len(text)
    if room < 0:
        return set_cell_size(set_cell_size(text, width - 1).rstrip() + "…", width)
    return " " * room + text if right else text + " " * room
