"""Archives of captures in, committed Parquet tables out: the job as plain functions, and Spark that runs them."""
