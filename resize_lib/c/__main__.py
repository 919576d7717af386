"""Build libdq, and say how programs are compiled against it.

python -m resize_lib.c build -o dq
cc -o lu lu.c $(python -m resize_lib.c flags --scalapack dq)
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from resize_lib.c.build import BuildError, build, flags, missing
from resize_lib.c.mpi_library import MPILibraryError


def main(words: list[str] | None = None) -> int:
    """Exit code 1, with one line, if something is missing; 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="python -m resize_lib.c", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build", help="make libdq.so, with dq.h, dq.f90 and dq.pc")
    making.add_argument("-o", "--output", type=Path, default=Path("dq"), metavar="FOLDER")
    telling = commands.add_parser("flags", help="print what a compiler needs")
    telling.add_argument("--scalapack", action="store_true", help="with Debian's ScaLAPACK")
    telling.add_argument("folder", type=Path, help="where libdq was built")
    commands.add_parser("check", help="say whether libdq can be built here; builds nothing")
    o = parser.parse_args(words)
    try:
        if o.command == "build":
            print(build(o.output))
        elif o.command == "flags":
            print(shlex.join(flags(o.folder, scalapack=o.scalapack)))
        elif why := missing():
            raise BuildError(why)
    except (BuildError, MPILibraryError, OSError) as e:
        print(f"dq: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
