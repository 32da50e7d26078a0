"""The statuses of exchanges and the kinds of problems in, ``statuses.md`` out: what each means, and what to do.

python docs/build_statuses.py            writes docs/statuses.md
python docs/build_statuses.py --check    fails where the committed file is not what they give
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from generated import write

from mqsniff.model.kinds import EXCHANGE_STATUSES, PROBLEM_KINDS, KindOfProblem, KindOfStatus

PAGE: Final = Path(__file__).parent / "statuses.md"

HEAD: Final = """\
# Statuses and problems

Made by docs/build_statuses.py from the code: do not edit.

## Statuses of exchanges

An exchange is a request and its answer. Each row of the table `exchanges` has a `status`. Only `ok`, `partial`
and `error` count for latency: for the others no answer was seen, or none was wanted.

"""

PROBLEMS: Final = """
## Kinds of problems

Whatever is odd in a capture is a row of the table `problems`, never an error of the program. A row names the packet,
the kind, and a severity:

- `error`: data are lost or wrong.
- `warning`: something is odd, and all data are kept.
- `info`: a rule of the protocol was bent, or the network did something worth knowing.

`mqsniff decode --table problems FILE` lists them; `mqsniff protocols problems` prints this table.

"""


def page() -> str:
    """The whole page."""
    return HEAD + _table("status", EXCHANGE_STATUSES) + PROBLEMS + _table("kind", PROBLEM_KINDS)


def _table(name: str, rows: Mapping[str, KindOfStatus | KindOfProblem]) -> str:
    lines = [f"| `{key}` | {about.meaning} | {about.advice} |\n" for key, about in rows.items()]
    return f"| {name} | what it means | what to do |\n|---|---|---|\n" + "".join(lines)


def build(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or check it; the exit code."""
    return write(PAGE, page(), "build_statuses.py", arguments)


if __name__ == "__main__":
    sys.exit(build())
