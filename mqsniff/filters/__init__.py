"""Filters: which packets, items and records a run decodes or shows, and how many matched."""
