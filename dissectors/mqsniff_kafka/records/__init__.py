"""Record data of Kafka: fields of bodies in, what bodies show of them and records as columns out.

The modules in the order in which a field passes them: ``data`` (the fields of a message), ``fields`` (one of them),
``snapshots`` (if it is a piece of a snapshot), ``batches`` and ``messagesets`` (heads; records by ``compression`` and
``walk``, into a ``reading``), ``marking`` (columns that need the request or response), ``secrets`` (hidden values).
"""
