"""Every sample: what dissectors say that messages do is well formed, and all of its records can be traced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqsniff.answers.captures import captures_under
from mqsniff.answers.trace.acting import Acts
from mqsniff.cli import main
from mqsniff.decode.registry import load_dissectors
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import Act, MessageItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

PCAPS = Path(__file__).parents[1] / "pcaps"
SAMPLES = [path for name in ("kafka", "nsq", "pulsar", "rocketmq", "broken") for path in captures_under([PCAPS / name])]


@pytest.mark.parametrize("capture", SAMPLES, ids=lambda path: path.name)
def test_acts_of_every_message_are_well_formed(capture):
    acts = Acts(entry.dissector for entry in load_dissectors() if entry.dissector is not None)
    pipeline = Pipeline(FileSource((str(capture),), Limits()), Settings(Limits(), WITH_RECORDS))
    for item in pipeline.items():
        if isinstance(item, MessageItem):
            for act in acts.of(item.message):
                assert is_well_formed(act), act
    assert not acts.faults


def is_well_formed(act: Act) -> bool:
    texts = (act.topic, act.topic_id, act.message_id, act.transaction, act.member)
    numbers = (act.partition, act.first, act.last, act.generation)
    return (
        bool(act.what)
        and all(text is None or isinstance(text, str) for text in texts)
        and all(number is None or isinstance(number, int) for number in numbers)
        and all(isinstance(label, str) for label, _ in act.details)
    )


@pytest.mark.parametrize("capture", SAMPLES[::6], ids=lambda path: path.name)
def test_every_record_of_a_sample_has_a_trace_in_the_order_of_time(capture):
    done = CliRunner().invoke(main, ["trace", str(capture), "--topic", "*", "-n", "100000", "--json"])
    assert done.exit_code in (0, 2), done.output
    if done.exit_code == 0:
        for trace in json.loads(done.stdout)["traces"]:
            times = [step["ts_ns"] for step in trace["steps"]]
            assert times == sorted(times)
            assert times
            assert all(0 <= wait["from_step"] <= wait["to_step"] < len(times) for wait in trace["waits"])
