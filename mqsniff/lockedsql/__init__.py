"""Tables and SQL in, results of DuckDB out, from a process that can do nothing else."""
