"""All decompression, streaming and capped: compressed bytes in, plain bytes out."""
