"""Fields of record data in; what bodies show of them, and records as columns, out.

The modules in the order in which a field passes them: ``data`` (which fields a message has), ``fields`` (one of them; a
piece of ``snapshots`` may be, whose last batch is ``begun``), ``batches`` and ``messagesets`` (heads, and records by
``compression`` and ``walk``, into a ``reading``; those ``opened`` before are known), ``marking`` (what only requests
and answers tell of them), ``metadatalog`` (the names it teaches), ``secrets`` (what nobody gets to see).
"""
