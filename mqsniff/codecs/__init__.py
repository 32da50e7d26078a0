"""Decompression, streaming and capped: compressed bytes in, plain bytes out."""
