"""The schemas in, the classes of rows of ``import mqsniff`` out: ``mqsniff/library/rows.py``.

python docs/build_rows.py            writes the module
python docs/build_rows.py --check    fails where the committed file is not what they give
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from generated import write

from mqsniff.tables.schemas import TABLES, Column, ColumnType, TableName

MODULE: Final = Path(__file__).parents[1] / "mqsniff/library/rows.py"

TYPES: Final[dict[ColumnType, str]] = {
    "text": "str",
    "texts": "tuple[str, ...]",
    "int64": "int",
    "bool": "bool",
    "timestamp": "datetime",
    "json": "Any",
    "payload": "bytes",
    "headers": "tuple[tuple[str, Any], ...]",
}

HEAD: Final = '''\
"""A class for the rows of each table, made by docs/build_rows.py from the schemas: do not edit.

What each column means, and its unit, stands in docs/tables.md.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from mqsniff.tables.schemas import TableName
'''


def class_of(table: TableName) -> str:
    """The name of the class for the rows of a table."""
    return f"{table.capitalize()}Row"


def module() -> str:
    """The whole module."""
    classes = [_class(table) for table in TABLES]
    names = [class_of(table) for table in TABLES]
    union = " | ".join(names)
    types = "".join(f'    "{table}": {class_of(table)},\n' for table in TABLES)
    return "".join((
        HEAD,
        *classes,
        f'\n\nTableRow: TypeAlias = {union}\n"""A row of any table."""\n',
        f"\nROW_TYPES: Final[dict[TableName, type[TableRow]]] = {{\n{types}}}\n",
    ))  # fmt: skip


def _class(table: TableName) -> str:
    fields = "".join(f"    {column.name}: {_type(column)}\n" for column in TABLES[table])
    return f'\n\nclass {class_of(table)}(NamedTuple):\n    """A row of ``{table}``."""\n\n{fields}'


def _type(column: Column) -> str:
    kind = TYPES[column.type]
    return kind if not column.nullable or kind == "Any" else f"{kind} | None"


def build(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or check it; the exit code."""
    return write(MODULE, module(), "build_rows.py", arguments)


if __name__ == "__main__":
    sys.exit(build())
