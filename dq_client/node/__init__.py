"""One machine: its agent, the ranks that the agent starts, how emulated nodes are slowed."""
