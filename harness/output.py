"""How experiments and benchmarks show their results: options, notes, tables, CSV, pictures."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from dq_server.sim.files import try_to_write

PLOT_FORMATS = (".png", ".pdf", ".svg")


class Parser(argparse.ArgumentParser):
    """Reports an invalid command line in one line, without the usage text before it."""

    def __init__(self, **how: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **how)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an option: a whole number, `least` or more."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return parse


def add_options(parser: argparse.ArgumentParser, *, quick: str) -> None:
    """--quick, --json, --csv, --plot; `quick` says what the quick form does."""
    parser.add_argument("--quick", action="store_true", help=f"within 3 minutes: {quick}")
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--csv", type=Path, help="write the figures")
    parser.add_argument("--plot", type=Path, help="write a picture (PNG, PDF, SVG)")


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Check before a long run, not after it, that its results can be written."""
    plot: Path | None = getattr(options, "plot", None)
    for path in filter(None, (options.csv, plot)):
        if not path.absolute().parent.is_dir():
            parser.error(f"{path}: no such folder")
        if path.is_dir():
            parser.error(f"{path}: this is a folder: name a file in it")
        try:
            try_to_write(path)
        except OSError as error:
            parser.error(f"{path}: cannot be written: {error.strerror}")
    if plot and plot.suffix not in PLOT_FORMATS:
        parser.error(f"--plot {plot}: the name must end in {', '.join(PLOT_FORMATS)}")
    if plot and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install 'dq-mpi[plots]'")


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """One line per row."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, all aligned to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, *rows]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def number(value: float | None, form: str = ".3g") -> str:
    """A number, or a dash."""
    return "-" if value is None else format(value, form)


def note(text: str) -> None:
    """A word for people: on standard error, standard output is data."""
    print(text, file=sys.stderr, flush=True)


def minutes(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def pyplot() -> Any:
    """matplotlib's pyplot for files; imported only here because it takes a second."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt
