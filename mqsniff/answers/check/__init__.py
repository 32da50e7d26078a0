"""Regression tests for captures: goldens, their differences by row and field, and expectations.

1. ``goldens`` decodes a capture and compares it with the golden beside it, or writes the golden.
2. ``differences`` compares rows.
3. ``checksettings`` reads ``mqsniff.toml``; ``expectations`` checks statements about a capture that need no golden.
4. ``junit`` writes the results for CI systems.
"""
