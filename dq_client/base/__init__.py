"""What every part of DQ needs: errors, files, keys, messages, the connection to the server.

Imports nothing of dq_client but itself; resize_lib imports nothing else of dq_client, but `check`.
"""
