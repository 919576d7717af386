"""Running a program that links no library of ours, by its recipe (docs/recipes.md).

    agent → keeper → rank 0: steward ── starts, stops, watches ─→ the program
                  └─ the other ranks: the program; or, where it has a launcher of its own, nothing

To the server the steward is what a session is in other programs: it reports iterations at remap
points and carries resizes out, by restart (docs/mpi.md). So a resize is

    the steward   stop → proof of the checkpoint, and a copy → RestartReady → all processes end
    the server    starts the job on its new processors
    the steward   start from the copy → progress beyond the checkpoint → Committed

and what fails before the last step goes back to the old size, from the same copy.

__main__.py     what each rank of such a job runs
steward.py      the steward
running.py      the program's process: start, output, stop
progress.py     counting iterations in what it writes (pure)
checkpoints.py  proven checkpoints: copies, and what the next start has to know
"""
