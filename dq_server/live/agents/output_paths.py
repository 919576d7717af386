"""Where a job's output goes if its user has said so: the patterns of `dq submit --output, --error`.

%j  the job's id           %a  its index in an array       %%  a percent sign
%A  the array's id         %n  the job's name
Of a job that is in no array %A is its own id and %a is 0. A relative path begins in the folder that
the job runs in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from dq_server.core.model.errors import InvalidSpec
from dq_server.core.model.jobs import Job

SIGN = re.compile(r"%(.?)", re.DOTALL)
SIGNS = "%j %a %A %n %%"


def check(option: str, pattern: str) -> None:
    """InvalidSpec with one line if the pattern cannot name a file."""
    unknown = [found[0] for found in SIGN.finditer(pattern) if found[1] not in (*"jaAn%",)]
    if unknown:
        raise InvalidSpec(f"{option} {pattern}: {unknown[0]} is none of {SIGNS}")
    if pattern.endswith("/") or PurePosixPath(pattern).name in (".", ".."):
        raise InvalidSpec(f"{option} {pattern}: this names a folder, give a file")


def output_paths(job: Job) -> tuple[str, str]:
    """The files for output and errors; empty: in the job's folder of DQ_HOME, as always."""
    return _path(job, job.spec.output), _path(job, job.spec.error)


def _path(job: Job, pattern: str) -> str:
    if not pattern:
        return ""
    element = job.spec.element
    # A name with a slash would lead into another folder.
    words: Mapping[str, str] = {
        "j": str(job.id),
        "A": str(element.array if element is not None else job.id),
        "a": str(element.index if element is not None else 0),
        "n": job.spec.name.replace("/", "_"),
        "%": "%",
    }
    return str(PurePosixPath(job.spec.cwd) / SIGN.sub(lambda found: words[found[1]], pattern))
