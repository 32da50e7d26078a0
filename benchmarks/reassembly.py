"""Read, take apart and reassemble a capture without decoding it: ``python benchmarks/reassembly.py FILE``.

Prints how many bytes of the two directions of all connections came out in order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from mqsniff.limits import Limits
from mqsniff.sources.files import FileSource
from mqsniff.streams.events import StreamChunk
from mqsniff.streams.flows import FlowEvents, FlowTable
from mqsniff.streams.packets import PacketDecoder


def bytes_of(flows: Iterable[FlowEvents]) -> int:
    """Bytes of all chunks."""
    return sum(len(event.data) for flow in flows for _, _, event in flow if isinstance(event, StreamChunk))


def main() -> None:
    """Count the bytes of a file's streams."""
    limits = Limits()
    decoder, flows = PacketDecoder(limits), FlowTable(limits, "")
    size = 0
    for batch in FileSource(sys.argv[1:], limits).batches():
        size += bytes_of(flows.feed(decoder.decode(batch)))
    print(size + bytes_of(flows.end()))


if __name__ == "__main__":
    main()
