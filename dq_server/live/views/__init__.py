"""Answers to users made of the state: jobs, nodes, quotas, and the feed of their changes."""
