"""Copies of a protected job's data, and their way back into a job of any size (docs/protection.md).

`partfile` one rank's part of a copy as a file · `generations` whole copies in a folder, the newest
complete one counts · `partners` who holds whose part in memory, and how it gets there · `recovery`
all ranks at a restart, on any grid · `protector` what a session does at remap points.
"""
