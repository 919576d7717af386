"""Measured comparisons: ratios in one run, medians, with the physical limit beside."""
