"""The sample applications and cluster files that come with DQ, wherever it is installed.

In a checkout they are the folders `apps` and `hostfiles` at its top. A wheel has both in the folder
of this package (`[tool.hatch.build.targets.wheel]` in pyproject.toml): a top-level package named
`apps` would collide with the user's own. So no installed `apps` can be imported; who runs one says
where it is, see `app_command`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dq_client.base.errors import UsageError

APPS, CLUSTER_FILES = "apps", "hostfiles"


def folder() -> Path:
    """The folder that holds `apps` and `hostfiles`."""
    here = Path(__file__).parent
    return here if (here / APPS).is_dir() else here.parents[1]


def app_command(app: str, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command that runs one of our applications, and the environment it needs.

    Neither the current folder nor the user's PYTHONPATH can put another `apps` in its place.
    """
    if not (folder() / APPS / f"{app}.py").is_file():
        raise UsageError(f"the sample application {app} is missing from {folder() / APPS}")
    # -P: with -m alone Python would look in the current folder first. Ranks that join later get the
    # flag, too: they are spawned with the command line of the first ones.
    argv = [sys.executable, "-P", "-m", f"{APPS}.{app}", *arguments]
    path = [str(folder()), *filter(None, [os.environ.get("PYTHONPATH")])]
    return argv, {"PYTHONPATH": os.pathsep.join(path)}


def cluster_file(word: str) -> Path:
    """The file that `--cluster WORD` means: a path, or the name of one of ours (`opteron36`).

    A file that exists under that path comes first.
    """
    path = Path(word)
    if path.is_file() or path.name != word:
        return path
    ours = folder() / CLUSTER_FILES / (word if path.suffix == ".toml" else f"{word}.toml")
    return ours if ours.is_file() else path
