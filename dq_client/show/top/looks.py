"""The colours of `dq top`, those of the live page (web/static/page.css), dark and light."""

from __future__ import annotations

from rich.style import Style
from textual.theme import Theme

_DARK = {
    "page": "#12161d", "card": "#1a202a", "ink": "#e6eaf0", "soft": "#a6b0bf", "rule": "#2c3542",
    "busy": "#6db3f8", "good": "#46c994", "waits": "#e2ac55", "bad": "#ff8a80",
    "marked": "#222a35", "chosen": "#28476b",
}  # fmt: skip
_LIGHT = {
    "page": "#f6f7f9", "card": "#ffffff", "ink": "#1c2330", "soft": "#5b6575", "rule": "#e1e5ea",
    "busy": "#0b66c3", "good": "#0a7d4f", "waits": "#9a5b00", "bad": "#b3261e",
    "marked": "#eef1f5", "chosen": "#cfe2f6",
}  # fmt: skip
_DARK_JOBS = (
    "#4f8fe0",
    "#d98a2b",
    "#35a880",
    "#cf6a8d",
    "#9478d3",
    "#98a53f",
    "#3fa7bb",
    "#b5805b",
)
_LIGHT_JOBS = (
    "#3b7dd8",
    "#b86a0a",
    "#1f8862",
    "#c2557a",
    "#8464c9",
    "#717f14",
    "#1f8396",
    "#9a6440",
)


def theme(*, dark: bool) -> Theme:
    """For textual."""
    colours = _DARK if dark else _LIGHT
    return Theme(
        name="dq-dark" if dark else "dq-light",
        dark=dark,
        primary=colours["busy"],
        accent=colours["busy"],
        success=colours["good"],
        warning=colours["waits"],
        error=colours["bad"],
        foreground=colours["ink"],
        background=colours["page"],
        surface=colours["card"],
        panel=colours["rule"],
        variables={"footer-background": colours["card"], "border": colours["rule"]},
    )


def style(tone: str, *, dark: bool) -> Style:
    """How text of a tone is drawn (rows.py): a name, or "job N"."""
    colours = _DARK if dark else _LIGHT
    if tone in ("marked", "chosen"):
        return Style(bgcolor=colours[tone])
    if tone.startswith("job "):
        jobs = _DARK_JOBS if dark else _LIGHT_JOBS
        return Style(color=jobs[int(tone[4:]) % len(jobs)])
    return Style(color=colours[tone]) if tone else Style()
