"""Commands whose every refusal is one line on stderr, exit code 2, and nothing on stdout."""

from __future__ import annotations

from typing import Any

import click


class InputError(click.ClickException):
    """Input that makes no sense: where, what, and what to do, in one line."""

    exit_code = 2


class OneLineCommand(click.Command):
    """Reports a wrong command line as one line, without the usage text in front of it."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise InputError(error.format_message()) from error
