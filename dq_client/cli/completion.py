"""`dq completion`: the script that lets a shell complete dq's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dq_client.show.output import say

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script for a shell, which then completes commands, options and job ids.

    bash: eval "$(dq completion bash)" in ~/.bashrc; zsh: the same with zsh, in ~/.zshrc, after
    compinit; fish: dq completion fish > ~/.config/fish/completions/dq.fish
    """
    from dq_client.cli.main import cli  # this module is imported by the one named there

    found = get_completion_class(shell)
    assert found is not None  # click brings all of SHELLS
    # The variable must be the one that click's `main` looks for: made from the program's name.
    say(found(cli, {}, "dq", "_DQ_COMPLETE").source())
