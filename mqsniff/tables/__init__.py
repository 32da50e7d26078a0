"""The tables: their columns as plain data, and decoded things turned into their rows."""
