"""Items of a live run in, metrics out: for Prometheus, and by OpenTelemetry's SDK.

1. Counts, errors and times are those of ``mqsniff stats``: the same functions decide what counts as what.
2. Memory and label sets are bounded (``Limits.metrics_rows_max``, a number of topics); what comes later is counted
   together as ``(others)``. Nothing that was counted is forgotten, so counters never fall.
3. Labels hold names only: of protocols, commands, brokers, errors and, where asked for, topics. Text from the wire is
   escaped and cut; no key, value, body or secret becomes a label.
4. ``families`` says what there is; docs/metrics.md is built from it.
"""
