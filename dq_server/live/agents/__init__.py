"""What the server has of agents: who reports, with which nodes and ranks, and their output."""
