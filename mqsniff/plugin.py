"""Everything that a dissector imports: the plugin contract, the values that it gives, and what it is helped with.

These names are stable: what stands here changes only with a line in the change log. docs/plugins.md shows their use.
"""

from mqsniff.codecs.blocks import BlockError, decompress
from mqsniff.codecs.transforms import Dark, Lost, Transform
from mqsniff.dissector import (
    NEED,
    NO_FRAME,
    WAIT_PEER,
    Dissector,
    IncrementalSize,
    LayerChange,
    Probed,
    Sample,
    Settings,
    Sized,
    Table,
    Verdict,
    WalkAborted,
    Walked,
)
from mqsniff.framing import FramedDissector
from mqsniff.framing.lengthprefix import LengthPrefix
from mqsniff.limits import Limits
from mqsniff.model import (
    Chunk,
    Event,
    Frame,
    Gap,
    HeaderSpans,
    Identity,
    Mark,
    Message,
    Pending,
    Problem,
    ProvenSize,
    RecordBatch,
    Secret,
    Side,
    Skipped,
    Span,
    Undecoded,
    Upgrade,
    Value,
)
from mqsniff.spec.wire import Malformed

__all__ = [
    "NEED",
    "NO_FRAME",
    "WAIT_PEER",
    "BlockError",
    "Chunk",
    "Dark",
    "Dissector",
    "Event",
    "Frame",
    "FramedDissector",
    "Gap",
    "HeaderSpans",
    "Identity",
    "IncrementalSize",
    "LayerChange",
    "LengthPrefix",
    "Limits",
    "Lost",
    "Malformed",
    "Mark",
    "Message",
    "Pending",
    "Probed",
    "Problem",
    "ProvenSize",
    "RecordBatch",
    "Sample",
    "Secret",
    "Settings",
    "Side",
    "Sized",
    "Skipped",
    "Span",
    "Table",
    "Transform",
    "Undecoded",
    "Upgrade",
    "Value",
    "Verdict",
    "WalkAborted",
    "Walked",
    "decompress",
]
