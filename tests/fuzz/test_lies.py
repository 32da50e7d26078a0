"""Every length field of every format lies: nothing raises, time and memory stay bounded, and no lie passes unseen.

Each length says one other thing here, in a part of the messages; ``make lies`` tries everything.
"""

from __future__ import annotations

import pytest
from lengths import LIES, Length, honest, lies, sized

from . import lies_below, lies_kafka, lies_others, lies_pulsar
from .lying import LengthCase, Liar, sampled

FORMATS = {"kafka": (lies_kafka, 20), "pulsar": (lies_pulsar, 2), "others": (lies_others, 15), "below": (lies_below, 1)}
"""Name -> its cases, and of how many one is tried."""


@pytest.mark.parametrize("name", FORMATS)
def test_lengths_that_lie_are_noticed(name):
    module, step = FORMATS[name]
    liar = Liar(each=False)
    count = liar.run(sampled(module.cases(), step))
    assert [(where, finding.text) for where, _, finding in liar.findings] == []
    assert count.lies > 4 * count.messages > 100


@pytest.mark.parametrize("name", ["kafka", "pulsar", "others"])
def test_messages_that_do_not_lie_are_decoded_without_a_problem_of_their_form(name):
    module, step = FORMATS[name]
    for case in sampled(module.cases(), step):
        told = case.attempt(honest(case.parts))
        for event in told if isinstance(told, list) else ():
            if isinstance(event, tuple) and isinstance(event[1], tuple):
                kinds = {problem[0] for problem in event[8]}
                assert not kinds & {"malformed", "truncated", "trailing_bytes"}, (case.name, event[8])


def test_every_message_of_the_specifications_has_a_case():
    names = {case.name.split()[0] for case in lies_kafka.messages()}
    assert names == {api.name for api in lies_kafka.specs.apis().values()}
    assert {case.name for case in lies_pulsar.cases()} > {command.name for command in lies_pulsar.COMMANDS.values()}
    remoting = {case.name.split()[0] for case in lies_others.remoting()}
    assert remoting == {request.name for request in lies_others.tables().requests.values()}


def test_each_length_tells_every_lie_that_differs_from_the_truth():
    parts = [*sized(">h", [b"abc"]), b"-", Length("compact", 3)]
    told = list(lies(parts))
    assert {lie.index for lie in told} == {0, 1}
    assert {lie.name for lie in told} == set(LIES)
    assert honest(parts) == b"\0\3abc-\4"
    assert b"\0\3abc-\0" in {lie.data for lie in told}
    assert len({lie.data for lie in told}) == len(told)


def test_what_comes_out_as_the_truth_is_a_finding():
    case = LengthCase("deaf", sized(">i", [b"x"]), lambda _: "the same")
    liar = Liar(each=True)
    liar.run([case])
    assert {finding.kind for _, _, finding in liar.findings} == {"silent"}
    assert liar.lies == len(liar.findings)
