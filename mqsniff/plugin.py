"""Everything that a dissector imports: the plugin contract, the values that it gives, and what it is helped with.

These names are stable: what stands here changes only with a line in the change log. docs/plugins.md shows their use.
"""

from mqsniff.codecs.blocks import BlockError, decompress
from mqsniff.codecs.transforms import Dark, Lost, Transform
from mqsniff.dissector import (
    NEED,
    NO_FRAME,
    WAIT_PEER,
    Broken,
    Dissector,
    Probed,
    Sample,
    Settings,
    Sized,
    Switch,
    Table,
    Verdict,
    Walk,
    Walked,
)
from mqsniff.framing import FramedDissector
from mqsniff.framing.lengthprefix import LengthPrefix
from mqsniff.limits import Limits
from mqsniff.model import (
    Asked,
    Chunk,
    Event,
    Frame,
    Gap,
    HeaderSpans,
    Identity,
    Mark,
    Message,
    Problem,
    RecordBatch,
    Secret,
    Side,
    Skipped,
    Span,
    Sure,
    Undecoded,
    Upgrade,
    Value,
)
from mqsniff.spec.wire import Malformed

__all__ = [
    "NEED",
    "NO_FRAME",
    "WAIT_PEER",
    "Asked",
    "BlockError",
    "Broken",
    "Chunk",
    "Dark",
    "Dissector",
    "Event",
    "Frame",
    "FramedDissector",
    "Gap",
    "HeaderSpans",
    "Identity",
    "LengthPrefix",
    "Limits",
    "Lost",
    "Malformed",
    "Mark",
    "Message",
    "Probed",
    "Problem",
    "RecordBatch",
    "Sample",
    "Secret",
    "Settings",
    "Side",
    "Sized",
    "Skipped",
    "Span",
    "Sure",
    "Switch",
    "Table",
    "Transform",
    "Undecoded",
    "Upgrade",
    "Value",
    "Verdict",
    "Walk",
    "Walked",
    "decompress",
]
