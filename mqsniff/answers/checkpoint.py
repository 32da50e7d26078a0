"""Where a run of ``mqsniff live --follow`` is, as a file; and where the next run goes on.

1. A checkpoint is made between two batches, when all rows of the packets before are in the output. It holds the place
   of these packets, the connections that were open there, topic names, and how far the output was complete.
2. The next run reads again from the file on in which the first of these connections began, and writes nothing of it:
   results depend on the packets only, so the connections are what they were. Then it drops every other connection that
   the packets gave (they had ended, and their rows are written), and goes on at the place.
3. What the output holds beyond the checkpoint is taken back: bytes after its end, part files of later periods.
4. The file is replaced at once, by renaming. There is no moment at which a kill loses or doubles a row.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqsniff.model import packet_capture
from mqsniff.sources.following import FileKey, FollowPlace, FollowResume

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mqsniff.pipeline import Pipeline
    from mqsniff.streams.connection import Connection

_VERSION: Final = 1


class CheckpointError(Exception):
    """A state file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace:
    """How far an output is complete."""

    kind: str
    """parquet: a folder; ndjson: a file."""
    where: str
    """The folder; device and inode of the file."""
    size: int = 0
    """Bytes of the file."""
    period: int = 0
    """The next period of the folder."""
    run: str = ""
    """Stands in the names of the folder's parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Everything that the next run has to know."""

    paths: list[str]
    output: OutputPlace
    place: FollowPlace | None = None
    replay_from: FileKey | None = None
    connections: dict[str, list[Any]] = field(default_factory=dict)
    """Open connections: id -> flow."""
    topics: list[Any] = field(default_factory=list)

    @property
    def resume(self) -> FollowResume | None:
        """Where the source goes on; None at the start."""
        if self.place is None or self.replay_from is None:
            return None
        return FollowResume(self.replay_from, self.place)

    @classmethod
    def read(cls, path: Path) -> Checkpoint | None:
        """The checkpoint in a file; None if there is no file."""
        try:
            known = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            if known.pop("version") != _VERSION:
                raise CheckpointError(f"{path}: a state of another version of mqsniff")
            place, replay = known.pop("place"), known.pop("replay_from")
            return cls(
                output=OutputPlace(**known.pop("output")),
                place=None if place is None else FollowPlace(FileKey(*place[0]), place[1]),
                replay_from=None if replay is None else FileKey(*replay),
                **known,
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror or error}") from None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise CheckpointError(f"{path}: no state file of mqsniff live") from None

    def write(self, path: Path) -> None:
        """Replace the file; OSError if that fails."""
        text = json.dumps({"version": _VERSION, **asdict(self)})
        beside = path.with_name(path.name + ".tmp")
        with beside.open("w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)


def checkpoint_of(
    pipeline: Pipeline, paths: Sequence[str], output: OutputPlace, place: FollowPlace | None
) -> Checkpoint:
    """The checkpoint of a run at the end of a batch."""
    connections = pipeline.open_connections()
    replay_from = None if place is None else place.file
    for connection in connections:
        info = pipeline.captures[packet_capture(connection.first_packet)]
        if replay_from is not None and info.first_ts_ns is not None:
            replay_from = min(replay_from, FileKey(info.first_ts_ns, info.name))
    return Checkpoint(
        paths=list(paths),
        output=output,
        place=place,
        replay_from=replay_from,
        connections={each.id: _flow(each) for each in connections},
        topics=[list(row) for row in pipeline.topics.rows()],
    )


def restore_connections(pipeline: Pipeline, checkpoint: Checkpoint) -> int:
    """Drop the connections that had ended at the checkpoint; how many are not what they were.

    These began in files that are gone: they are joined in their middle.
    """
    flows = list(checkpoint.connections.values())
    found = set()
    for connection in pipeline.open_connections():
        if connection.id in checkpoint.connections:
            found.add(connection.id)
        elif _flow(connection) not in flows:
            pipeline.forget(connection)
    return len(checkpoint.connections) - len(found)


def _flow(connection: Connection) -> list[Any]:
    key = connection.key
    return [key.tunnel, key.low_ip.hex(), key.low_port, key.high_ip.hex(), key.high_port]
