"""Notebooks in, the same notebooks with the results of a fresh run out: ``make notebooks``."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path) -> None:
    """Run the cells of a notebook in a kernel; raises CellExecutionError where one fails."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(HERE)}}
    NotebookClient(notebook, timeout=300, resources=resources, record_timing=False).execute()
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for each in sorted(HERE.glob("*.ipynb")):
        run(each)
        print(f"{each.name}: run")  # noqa: T201
