"""``import mqsniff``: captures in; typed rows, Arrow tables, results of SQL and statistics out, for scripts.

1. The names that ``mqsniff`` exports are stable, and so are the columns of the tables (``tables.schemas``): within a
   major version they are only added to. Everything else of the package may change.
2. Nothing is decoded before rows are asked for, and rows are decoded while they are iterated.
3. Secrets are redacted unless the user asks to see them.
4. Traffic raises nothing; errors are those of ``mqsniff.errors``.
"""
