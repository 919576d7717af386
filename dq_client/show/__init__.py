"""A cluster shown: the feed of changes, and the report, the page and the lists made from it."""
