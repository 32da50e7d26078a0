"""The notebooks of examples/: their code runs as it stands, and they are kept with the results of a run.

Jupyter is not needed here: the cells are run as Python, in their order. ``make notebooks`` runs them in a kernel.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent
NOTEBOOKS = sorted((HOME / "examples").glob("*.ipynb"))


def code_of(notebook: Path) -> list[dict]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_cells_of_a_notebook_run(notebook, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(len(plt.gcf().axes[0].get_children())))
    monkeypatch.chdir(HOME / "examples")
    names: dict = {}
    for cell in code_of(notebook):
        exec("".join(cell["source"]), names)
        plt.close("all")
    assert len(drawn) == 3
    assert all(children > 10 for children in drawn)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_with_its_three_plots_and_without_errors(notebook):
    outputs = [output for cell in code_of(notebook) for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert any("<table>" in "".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    assert all(output["output_type"] != "error" for output in outputs)


def test_there_is_a_notebook():
    assert NOTEBOOKS
