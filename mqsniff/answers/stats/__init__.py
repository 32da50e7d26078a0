"""Items of a run in, one at a time; rows of plain values about all of it out: what was in it, and what failed.

1. Nothing is printed here: commands, reports and metrics show the same rows.
2. Memory is bounded by open connections and by ``Limits.stats_rows_max`` rows of each list; what comes later is counted
   together in a row ``(others)``.
3. Nothing here knows a protocol: what a group, a lookup or a commit is, dissectors say (``Dissector.news``).
4. Counts equal those of SQL over the tables; docs/stats.md has the queries. Percentiles are off by at most
   ``sketch.ERROR``.
"""

from mqsniff.answers.stats.collecting import SECTIONS, TrafficStats
from mqsniff.answers.stats.comparing import changes
from mqsniff.answers.stats.health import RunFacts, facts_of

__all__ = ["SECTIONS", "RunFacts", "TrafficStats", "changes", "facts_of"]
