"""The notebooks of examples/: their code runs as it stands, and they are kept with the results of a run.

Jupyter is not needed here: the cells are run as Python, in their order. ``make notebooks`` runs them in a kernel.
The cells for Spark are run in ``batch/test_hosted_notebook.py``.
"""

from __future__ import annotations

import pytest
from notebooks import EXAMPLES, HOSTED, NOTEBOOKS, PLOTS, code_of, outputs_of


def test_the_cells_of_the_plots_run(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(len(plt.gcf().axes[0].get_children())))
    monkeypatch.chdir(EXAMPLES)
    names: dict = {}
    for cell in code_of(PLOTS):
        exec("".join(cell["source"]), names)
        plt.close("all")
    assert len(drawn) == 3
    assert all(children > 10 for children in drawn)


def test_the_plots_are_kept():
    outputs = outputs_of(PLOTS)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert any("<table>" in "".join(output.get("data", {}).get("text/html", "")) for output in outputs)


def test_notebooks_are_kept_without_errors_and_without_places_of_a_machine():
    assert set(NOTEBOOKS) == {PLOTS, HOSTED}
    outputs = [output for notebook in NOTEBOOKS for output in outputs_of(notebook)]
    assert all(output["output_type"] != "error" and output.get("name") != "stderr" for output in outputs)
    assert not any("/tmp/" in str(output) for output in outputs)
