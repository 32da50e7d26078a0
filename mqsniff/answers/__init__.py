"""Answers to questions about a run: what it came to, and whether it is still what it was."""
