"""Fuzzing: bytes of any kind in, findings out. README.md says how to run it, and how far it has got.

1. A target tries one input and raises where something is wrong; ``judging`` also looks at time and memory.
2. Inputs begin with seeds: the samples of ``pcaps/`` and the conversations of the laws, made anew for each run.
3. ``guided`` lets atheris (libFuzzer) change them, led by coverage; ``blind`` changes them by chance, without atheris.
4. What was found is kept in ``findings/``, smallest first; ``test_fuzz_findings`` tries it again.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[1]
for _folder in (_TESTS, _TESTS / "streams", _TESTS / "tls"):  # where the helpers of other tests lie
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
