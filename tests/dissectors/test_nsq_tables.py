"""The tables of NSQ: how much of the protocols they hold, and that they agree with each other."""

from __future__ import annotations

from mqsniff_nsq import Nsq, Nsqlookupd, tables


def test_the_description_counts_what_the_protocols_have():
    counts = {name: len(rows) for name, rows in Nsq.describe().items()}
    assert counts == {
        "commands": 12,
        "frame_types": 3,
        "other_messages": 2,
        "metadata_blocks": 4,
        "record_formats": 3,
        "serialisations": 3,
        "identify_ranges": 6,
        "errors": 19,
        "ordinary_answers": 0,
        "historic_errors": 7,
        "upgrades": 3,
        "nsqlookupd_commands": 4,
    }
    lookupd = {name: len(rows) for name, rows in Nsqlookupd.describe().items()}
    assert lookupd == {
        "nsqlookupd_commands": 4,
        "other_messages": 1,
        "nsqlookupd_errors": 5,
        "ordinary_answers": 0,
        "metadata_blocks": 1,
        "serialisations": 3,
    }


def test_every_error_of_a_command_is_in_the_table_of_errors():
    for command in tables.COMMANDS.values():
        assert set(command.errors) <= set(tables.ERRORS)
    for command in tables.LOOKUPD_COMMANDS.values():
        assert set(command.errors) <= set(tables.LOOKUPD_ERRORS)


def test_only_three_errors_keep_the_connection():
    assert {code for code, error in tables.ERRORS.items() if not error.fatal} == {
        "E_FIN_FAILED",
        "E_REQ_FAILED",
        "E_TOUCH_FAILED",
    }


def test_no_historic_error_is_a_current_one():
    assert not set(tables.ERRORS) & set(tables.ERRORS_HISTORIC)


def test_every_row_of_a_description_is_plain():
    for described in (Nsq.describe(), Nsqlookupd.describe()):
        for rows in described.values():
            for row in rows:
                assert all(isinstance(value, str | int | bool | list) for value in row.values())
