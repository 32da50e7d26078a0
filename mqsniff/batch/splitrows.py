"""A plan in, one row for each of its splits out; a row in, the split and its own files out.

1. A row holds all that its task needs of the plan, and nothing of other splits: what a task gets does not grow with the
   number of files.
2. Rows hold no credentials. They name a file system by its number in ``Stores``, which travels in closures: one entry
   for each file system, however many files it has.
3. Names may be any bytes.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from mqsniff.batch.inputs import Location
from mqsniff.batch.plan import FilePiece, InputFile, Split
from mqsniff.sources.parsers import Head

if TYPE_CHECKING:
    import pyarrow as pa

Stores: TypeAlias = tuple[str, ...]
"""URIs of file systems, which may hold credentials; the first is that of local files."""
CONTENT: Final = "content"
"""The only column."""


class SplitFiles(NamedTuple):
    """A split and the files that it reads, by index."""

    split: Split
    files: dict[int, InputFile]


def stores_of(files: Iterable[InputFile]) -> Stores:
    """The file systems of some files."""
    return ("", *sorted({_root(file.location.store) for file in files} - {""}))


def split_rows(splits: Iterable[Split], files: Sequence[InputFile], stores: Stores) -> list[str]:
    """A row for each split."""
    numbers = {store: number for number, store in enumerate(stores)}
    return [_row(split, files, numbers) for split in splits]


def read_split(row: str, stores: Stores) -> SplitFiles:
    """The split of a row."""
    number, size, pieces, files = json.loads(row)
    split = Split(number, tuple(FilePiece(*piece) for piece in pieces), size)
    return SplitFiles(split, {file[0]: _file(file, stores) for file in files})


def table_of(rows: Sequence[str]) -> pa.Table:
    """Rows of text as a table."""
    import pyarrow as pa  # noqa: PLC0415  # start-up is a budget

    return pa.table({CONTENT: pa.array(rows, pa.string())})


def _row(split: Split, files: Sequence[InputFile], numbers: dict[str, int]) -> str:
    pieces = [tuple(piece) if piece[2:] != FilePiece(0, 0)[2:] else piece[:2] for piece in split.pieces]
    uses_heads = {piece.file: piece.start > 0 or piece.stop is not None for piece in split.pieces}
    own = [_values(files[index], numbers, with_heads=wanted) for index, wanted in uses_heads.items()]
    return json.dumps([split.number, split.size, pieces, own], separators=(",", ":"))  # it knows names of any bytes


def _values(file: InputFile, numbers: dict[str, int], *, with_heads: bool) -> list[Any]:
    """What a scan needs of a file; heads only where it begins or ends within the file."""
    location = file.location._replace(store=numbers[_root(file.location.store)])  # type: ignore[arg-type]  # its number
    heads = [(head.offset, b64encode(head.data).decode()) for head in file.heads] if with_heads else []
    return [file.index, file.rank, file.name, file.size, file.compression, file.domain, location, heads]


def _file(values: Sequence[Any], stores: Stores) -> InputFile:
    index, rank, name, size, compression, domain, location, heads = values
    place = Location(*location)
    return InputFile(
        index=index,
        rank=rank,
        name=name,
        uri="",
        location=place._replace(store=stores[int(place.store)]),
        size=size,
        mtime_ns=None,
        compression=compression,
        domain=domain,
        heads=tuple(Head(offset, b64decode(data)) for offset, data in heads),
    )


def _root(store: str) -> str:
    """The URI of a file system without the path of a file: users may name many files, each with its URI."""
    if not store:
        return ""
    parts = urlsplit(store)
    return urlunsplit((parts.scheme, parts.netloc, "/", parts.query, ""))
