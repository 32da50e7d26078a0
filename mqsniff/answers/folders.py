"""A folder of tables in, the Parquet files of each table out, as Arrow datasets.

1. A table is a subfolder with its name; its files may be in partition folders (``day=2026-11-21``), whose values become
   columns.
2. If ``mqsniff batch`` writes to the folder (it has ``_mqsniff``), only files that a manifest lists
   (``_mqsniff/runs/*.json``) count, without runs that a later one replaced and files that a later one dropped. Before
   the first run is committed there are none. Else all ``*.parquet`` files count, except hidden ones (``.``, ``_``).
3. Any other subfolder with such files is a table too, such as ``files``, which ``mqsniff batch`` adds.
4. Equal tables of several folders are one table; columns that a file lacks are null, additional ones are kept. Types of
   other writers (int32, large strings, dictionaries, nanoseconds) are read as ours.
5. Every file is checked first: one that is damaged, of another major version or of another table is an error.
6. A manifest may only list files inside its folder, as the folder may come from another user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import orjson

from mqsniff.sinks.outputfolder import local_folder
from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_HOME: Final = "_mqsniff"
"""Made before the first file of a table: without it, a reader would take part of a run for all of it."""
_MAJOR: Final = SCHEMA_VERSION.partition(".")[0]


class FolderError(Exception):
    """A folder without readable tables; the text is one line."""


def is_table_folder(path: Path) -> bool:
    """Whether a folder has manifests or a subfolder named like a table."""
    return path.is_dir() and ((path / _HOME).is_dir() or any((path / table).is_dir() for table in TABLES))


def table_files(folder: Path) -> dict[str, list[Path]]:
    """The files of each table in a folder; raises FolderError if it has no tables."""
    if (folder / _HOME).is_dir():
        found = _committed(folder)
        if not found:
            raise FolderError(f"{folder}: no run is committed there")
    else:
        found = {path.name: sorted(_plain(path)) for path in sorted(folder.iterdir()) if path.is_dir()}
        found = {table: files for table, files in found.items() if files or table in TABLES}
    if not found:
        raise FolderError(f"{folder}: no tables in this folder (expected sub-folders such as messages)")
    return found


def table_dataset(table: str, folders: Sequence[tuple[Path, Sequence[Path]]]) -> ds.Dataset:
    """One table from several (folder, files); FolderError for files that are not Parquet or have other columns."""
    import pyarrow as pa  # noqa: PLC0415  # heavy, and only SQL needs it
    import pyarrow.dataset as ds  # noqa: PLC0415

    ours = next((arrow_schema(name) for name in TABLES if name == table), pa.schema([]))
    schema = _bare(ours)
    parts = []
    for folder, files in folders:
        if not files:
            continue
        for file in files:
            schema = _with_columns(schema, file, table)
        found = _dataset(folder / table, files, None)
        schema = _merged(schema, found.schema, files[0], table)
        parts.append((folder / table, files, found.partitioning))
    if not parts:
        return ds.dataset(ours.empty_table())
    return ds.dataset([_dataset(*part, schema) for part in parts], schema=schema)


def _committed(folder: Path) -> dict[str, list[Path]]:
    """Files by table, by the manifests; a table without rows has no files."""
    runs: dict[str, dict[str, list[Path]]] = {}
    replaced: set[str] = set()
    dropped: dict[str, set[Path]] = {}
    for file in sorted((folder / _HOME / "runs").glob("*.json")):
        try:
            run = orjson.loads(file.read_bytes())
            files: dict[str, list[Path]] = {str(table): [] for table in run["options"].get("tables", TABLES)}
            for part in run["parts"]:
                files.setdefault(str(part["table"]), []).append(_inside(folder, part["path"]))
            replaced |= set(map(str, run["replaces"]))
            dropped[str(run["run"])] = {_inside(folder, path) for path in run.get("drops", ())}
            runs[str(run["run"])] = files
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FolderError(f"{file}: no manifest: {error}") from None
    counting = runs.keys() - replaced
    gone = {path for run in counting for path in dropped[run]}
    found: dict[str, list[Path]] = {}
    for files in (files for name, files in runs.items() if name in counting):
        for table, paths in files.items():
            found.setdefault(table, []).extend(path for path in paths if path not in gone)
    return found


def _inside(folder: Path, path: str) -> Path:
    """The path of a file in a folder; ValueError if it leads out of the folder."""
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"{path!r} is outside the folder")
    return folder / relative


def _plain(folder: Path) -> Iterable[Path]:
    """Parquet files below a folder, without hidden ones."""
    for file in folder.rglob("*.parquet"):
        hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        if not hidden and not file.is_dir():
            yield file


def _dataset(
    folder: Path, files: Sequence[Path], partitioning: ds.Partitioning | None, schema: pa.Schema | None = None
) -> ds.FileSystemDataset:
    """Files as a dataset; without a partitioning, it is inferred from their folders."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.dataset as ds  # noqa: PLC0415

    if partitioning is None and any("=" in file.parent.name for file in files if file.parent != folder):
        partitioning = ds.HivePartitioning.discover(infer_dictionary=False)
    filesystem, root = local_folder(folder.absolute())
    names = [f"{root}/{file.relative_to(folder).as_posix()}" for file in files]
    try:
        return ds.dataset(
            names, schema, filesystem=filesystem, format="parquet", partitioning=partitioning, partition_base_dir=root
        )
    except UnicodeEncodeError:
        raise FolderError(f"{folder}: the name of a file in it is not UTF-8") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise FolderError(f"{folder}: {_first_line(error)}") from None


def _with_columns(schema: pa.Schema, file: Path, table: str) -> pa.Schema:
    """A schema with the additional columns of a file; FolderError for a file of another table."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    if file.exists() and not file.is_file():  # reading a pipe would wait
        raise FolderError(f"{file}: not a regular file")
    try:
        with file.open("rb") as stream:  # a name may be any bytes
            found = pq.read_schema(stream)
    except (pa.ArrowException, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else _first_line(error)
        raise FolderError(f"{file}: not a readable Parquet file: {reason}") from None
    metadata = {name: value.decode(errors="replace") for name, value in (found.metadata or {}).items()}
    version, holds = metadata.get(b"mqsniff.schema_version", SCHEMA_VERSION), metadata.get(b"mqsniff.table", table)
    if version.partition(".")[0] != _MAJOR:
        raise FolderError(f"{file}: tables of schema {version}, this is {SCHEMA_VERSION}")
    if holds != table or (table in TABLES and not set(found.names) & set(schema.names)):
        raise FolderError(f"{file}: not the columns of {table}" + (f" but of {holds}" if holds != table else ""))
    return _merged(schema, found, file, table)


def _merged(schema: pa.Schema, found: pa.Schema, file: Path, table: str) -> pa.Schema:
    """A schema with the columns of another; for columns in both, its own types count."""
    import pyarrow as pa  # noqa: PLC0415

    found = _bare(found)
    for index, field in enumerate(found):
        if field.name in schema.names and _kin(field.type) == _kin(schema.field(field.name).type):
            found = found.set(index, schema.field(field.name))
    try:
        return pa.unify_schemas([schema, found])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FolderError(f"{file}: not the columns of {table}: {_first_line(error)}") from None


def _kin(kind: pa.DataType) -> object:
    """A value that is equal for types that Arrow can convert into each other when it reads."""
    from pyarrow import types  # noqa: PLC0415

    if types.is_dictionary(kind):
        return _kin(kind.value_type)
    families = {
        "integer": types.is_integer(kind),
        "text": types.is_string(kind) or types.is_large_string(kind),
        "bytes": types.is_binary(kind) or types.is_large_binary(kind),
        "time": types.is_timestamp(kind),
    }
    return next((family for family, member in families.items() if member), kind)


def _bare(schema: pa.Schema) -> pa.Schema:
    """A schema of nullable columns without metadata, equal for files of different runs."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema([field.with_nullable(True).remove_metadata() for field in schema])  # noqa: FBT003  # its signature


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
