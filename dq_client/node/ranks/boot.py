"""Starts a keeper or a starter, in an interpreter that need not have DQ:

    python -I -S boot.py keeper FD            a keeper by exec; its request comes on FD
    python boot.py starter FD PADDING         a starter
    python -I -S boot.py program FOLDER ...   a keeper of one program (program_keeper.py)

It loads dq_client as a package of a name that no program uses: a rank forked from here keeps these
modules, and `import dq_client` or `import program` must find the user's.
"""

import importlib.util
import os
import socket
import sys

NAME = "_dq"
RANKS = f"{NAME}.node.ranks"


def package() -> None:
    """Make dq_client importable as NAME."""
    folder = os.path.abspath(__file__)
    for _ in RANKS.split("."):
        folder = os.path.dirname(folder)
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)


def main() -> None:
    if sys.path and os.path.abspath(sys.path[0] or ".") == os.path.dirname(
        os.path.abspath(__file__)
    ):
        del sys.path[0]  # Python put it there: a program must not find our files
    package()
    what = sys.argv[1]
    if what == "program":
        sys.exit(importlib.import_module(f"{RANKS}.program_keeper").main(sys.argv[2:]))
    starter = importlib.import_module(f"{RANKS}.starter")
    fd = int(sys.argv[2])
    sock = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    if what == "starter":
        starter.serve(sock)
        return
    import json

    data, fds, _, _ = socket.recv_fds(sock, 1 << 20, 1)
    # Else its ranks would hold it, and the agent not notice that the keeper is gone.
    os.set_inheritable(fds[0], False)
    starter.keep(json.loads(data), socket.socket(fileno=fds[0]), None)


if __name__ == "__main__":
    become = None
    try:
        main()
    except BaseException as e:
        # A rank: out of the frames of the keeper, with the program to be run. Everything else that
        # is raised here is an error.
        become = getattr(e, "program", None)
        if become is None:
            raise
    if become is not None:
        sys.modules[f"{RANKS}.program"].run(become)
