"""The notebook for hosted Spark: its cells run in a session that is there, and print what is kept in it."""

from __future__ import annotations

from typing import Any

import pytest
from notebooks import EXAMPLES, HOSTED, code_of, outputs_of


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_cells_print_what_is_kept(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLES)
    names: dict[str, Any] = {"spark": spark}
    for cell in code_of(HOSTED):
        exec("".join(cell["source"]), names)
    kept = [line for output in outputs_of(HOSTED) for line in "".join(output["text"]).splitlines()]
    assert len(kept) > 20
    assert capsys.readouterr().out.splitlines() == kept
