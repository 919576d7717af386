"""Following what changes at the server, by its one query for that (messages.Since).

`cursor.py` asks; `model.py` keeps what is known; `follower.py` does both in a thread, and comes
back to a server that was away: the live page and `dq top` show it. `one_job.py` waits for one job.
"""
