"""A second server: the pair's agreement, seen from both sides, and taking the place."""
