"""Changes inputs, led by the coverage that they give: atheris, libFuzzer for Python. It ends its process.

Modules of the project have to be imported under its hook, so nothing of the project is imported before.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .judging import Target

INSTRUMENTED = ("mqsniff", "mqsniff_kafka", "mqsniff_nsq", "mqsniff_pulsar", "mqsniff_rocketmq")
SLOWNESS = 10
"""How much slower instrumented code is, at most; the inputs that are kept are timed again without."""


def run(find_target: Callable[[str], Target], name: str, seconds: int, seed: int) -> None:
    """Fuzz a target for so long; does not return."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        target = find_target(name)
        from .judging import judge
        from .mutation import mutated
        from .store import FoundInputs, corpus_of

        found = FoundInputs(target)
        corpus = corpus_of(target)

        def attempt(data: bytes) -> None:
            finding = judge(target, data, slowness=SLOWNESS)
            if finding is not None:
                found.add(finding, data)

        def change(data: bytes, size_max: int, number: int) -> bytes:
            chance = random.Random(number)
            if chance.random() < 0.5:
                return atheris.Mutate(data, size_max)
            return mutated(data, size_max, chance)

        flags = [f"-max_total_time={seconds}", f"-max_len={target.size_max}", f"-seed={seed}", "-rss_limit_mb=3000"]
        arguments = [sys.argv[0], *flags, "-print_final_stats=1", "-reload=0", "-timeout=300", str(corpus)]
        atheris.Setup(arguments, attempt, custom_mutator=change)
        for seed_input in target.seeds():  # imports that happen inside functions happen under the hook
            attempt(seed_input)
            break
        atheris.Fuzz()
