"""Tests that fail beside others, tried once more by themselves.

    python -m harness.second_try pytest ...

Runs pytest with these words. If one or two tests fail, they are run again, one at a time; those
that pass then are named, for they depend on what runs beside them. If more fail, nothing is tried
again. The exit code is pytest's, of the last run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TRIED_AGAIN_MAX = 2
FAILED = 1  # pytest's exit code
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(words: list[str]) -> int:
    """Run the tests; the exit code."""
    code = subprocess.run([*words, "--cache-clear"], check=False).returncode
    if code != FAILED:
        return code
    failed = sorted(json.loads(LAST_FAILED.read_text()))
    if len(failed) > TRIED_AGAIN_MAX:
        print(f"{len(failed)} tests failed; {TRIED_AGAIN_MAX} at most are tried again", flush=True)
        return code
    code = subprocess.run([*words, "-n", "0", *failed], check=False).returncode
    if code == 0:
        for name in failed:
            print(f"passed only at the second try: {name}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
