"""What Spark finds by itself: ``spark.read.format("mqsniff")`` works wherever mqsniff is installed.

Spark 4 looks at each installed module whose name begins with ``pyspark_`` for a ``DefaultSource``.
"""

from mqsniff.batch.datasource import Captures as DefaultSource

__all__ = ["DefaultSource"]
