"""Packets in, connections and their streams out: headers as columns, then bounded reassembly."""
