"""The model: what the scheduler knows, as data with invariants. Nothing here decides anything."""
