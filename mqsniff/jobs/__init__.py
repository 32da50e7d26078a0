"""A run over several processes: each decodes the connections of its share, and one orders the rows (decision 025)."""
