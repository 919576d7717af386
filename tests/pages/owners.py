"""Who runs which block of the documentation's pages; tests/client/test_docs.py misses none."""

from __future__ import annotations

from harness.pages import Block, blocks

# By number on the page. Blocks in the language `text` are output or drawings, and have no owner.
#   shell       test_pages_shell.py: all of a page in order, in a folder of its own
#   job         test_pages_fragments.py: as a job that is resized while it runs
#   ranks       test_pages_fragments.py: on several ranks, without a server
#   config      read as a server's configuration file, as the first thing that a server does
#   cluster     read as a cluster file; hooks: as a file of `dq hooks`; recipe; yaml
#   study       read as a study (tests/sim/test_study.py)
#   FILE        an excerpt of this file, which other tests compile and run
#   lab..., slurm  on machines of the lab, under a real Slurm
#   other-mpi   tests/live/test_restarted_apps.py, under `make test-mpi`
#   page        the test of that page (tests/live/test_readme.py, test_tutorial.py)
#   -           not run, and why
C = "resize_lib/c/examples/"
OWNERS: dict[str, tuple[str, ...]] = {
    "CONTRIBUTING.md": ("- its second command is what this test is run by",),
    "README.md": ("page",) * 3,
    "arrays.md": ("ranks", "ranks", "job", "ranks", "job", "ranks", "ranks"),
    "attach.md": ("shell", "shell", "ranks"),
    "c.md": (C + "step.c", C + "around.py", "shell", "shell", C + "jacobi.c", C + "stencil3d.c",
             "shell", "compile", "shell", C + "lu.f90", C + "stencil3d.f90", C + "sums.f90"),
    "carry.md": ("job",),
    "cluster.md": ("cluster", "lab", "install", "install", "- needs nft", "cluster", "shell",
                   "- needs systemd", "- needs podman"),
    "emulation.md": ("shell", "cluster"),
    "evolving.md": ("job", "shell", "config", "shell", "config"),
    "gridengine.md": ("cluster",),
    "hooks.md": ("hooks", "shell"),
    "kernels.md": ("ranks", "shell"),
    "mistakes.md": ("shell", "config", "shell"),
    "mpi.md": ("other-mpi", "config", "- builds mpi4py: make test-mpi MPIS=debian-mpich"),
    "nodes.md": ("shell", "shell", "config", "shell", "shell"),
    "pool.md": ("cluster", "shell"),
    "porting.md": ("shell", "ranks", "ranks", "ranks", "shell", "shell"),
    "programs.md": ("job", "job", "job", "job", "job", "job"),
    "protection.md": ("shell",),
    "python.md": ("client", "client", "client"),
    "quotas.md": ("config", "shell"),
    "ranks.md": ("config",),
    "recipes.md": ("recipe",),
    "scheduling.md": ("shell", "config", "shell", "shell", "config",
                      "config", "config", "shell", "config", "config", "config", "config"),
    "security.md": ("shell",),
    "simulation.md": ("shell", "config", "shell", "shell"),
    "slurm.md": ("cluster", "slurm", "cluster", "slurm"),
    "standby.md": ("lab-standby",),
    "studies.md": ("study", "shell", "study", "shell"),
    "submitting.md": ("shell", "shell", "config", "shell"),
    "tutorial.md": ("page",) * 6,
    "verify.md": ("shell",),
    "web.md": ("shell", "yaml"),
    "workers.md": ("shell", "client"),
    "years.md": ("shell",),
}  # fmt: skip


def owned() -> dict[Block, str]:
    """Each block that somebody should run, with its owner.

    Raises:
        AssertionError: a page has other blocks than are listed.
    """
    there: dict[str, list[Block]] = {}
    for block in blocks():
        if block.language != "text":
            there.setdefault(block.page, []).append(block)
    assert {page: len(found) for page, found in there.items()} == {
        page: len(owners) for page, owners in OWNERS.items()
    }, "tests/pages/owners.py lists the blocks of every page"
    return {
        block: owner
        for page, found in there.items()
        for block, owner in zip(found, OWNERS[page], strict=True)
    }


def of(*owners: str) -> list[Block]:
    """The blocks that one of these owns."""
    return [block for block, owner in owned().items() if owner in owners]
