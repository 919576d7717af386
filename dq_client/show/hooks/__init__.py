"""Hooks: commands and URLs that are called when a job has ended or a node is lost (docs/hooks.md).

A process of its own with a viewer's key reads decisions by `Since` (process.py): nothing of it is
in the server's way. config.py reads the file, backlog.py decides what is called when (no clock, no
process), call.py calls. How far each hook has come is kept in a file, so that what happens while
nobody calls is called for later, from the journal.
"""
