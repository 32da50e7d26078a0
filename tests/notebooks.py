"""The notebooks of examples/: their cells, and the outputs that are kept in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PLOTS, HOSTED = EXAMPLES / "capture_to_plots.ipynb", EXAMPLES / "hosted_spark.ipynb"
NOT_RUN = "skip-execution"
"""The tag of cells that are not run here, such as those that install; nbclient has it so."""


def code_of(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    return [cell for cell in code if NOT_RUN not in cell["metadata"].get("tags", ())]


def outputs_of(notebook: Path) -> list[dict[str, Any]]:
    return [output for cell in code_of(notebook) for output in cell["outputs"]]
