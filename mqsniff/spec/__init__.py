"""Wire formats as data: primitive readers, specifications, and the decoders that are made of them."""
