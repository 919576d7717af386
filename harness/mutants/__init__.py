"""Mutation tests: small bugs put into the code, one at a time, to see whether the tests notice.

    python -m harness.mutants [--sample 200] [--seed 1] [--group core] [--jobs 2] [--list]

The changes are mutmut's (mutations.py). The trials are ours (trial.py): a sample is enough, and no
file is written. The right code runs first, and which functions each test calls is recorded. A trial
is a fork of this process that imports the changed module in place of the right one and runs those
tests of its group that call the changed function, until the first fails. Exit code 1: fewer than
90 % were killed, or a mutant survived that equivalent.toml does not name.
"""
