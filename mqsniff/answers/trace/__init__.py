"""Items of a run in, what happened to one record, group, connection or transaction out: steps and waits."""
