"""``mqsniff.toml``: which file counts for a capture, and what it may say."""

from __future__ import annotations

import pytest

from mqsniff.answers.check.checksettings import CheckSettings, SettingsError, read_settings, settings_of


def test_the_nearest_file_up_to_the_checked_folder_counts(tmp_path):
    inner = tmp_path / "top" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "mqsniff.toml").write_text('[check]\nignore = ["outside"]\n')
    top = tmp_path / "top"
    assert settings_of(inner / "x.pcap", top) == CheckSettings()
    (top / "mqsniff.toml").write_text('[check]\nignore = ["ts"]\ndecode_as = { 14150 = "nsq" }\n')
    assert settings_of(inner / "x.pcap", top) == CheckSettings(("ts",), {14150: "nsq"})
    (inner / "mqsniff.toml").write_text("")
    assert settings_of(inner / "x.pcap", top) == CheckSettings()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[check", "mqsniff.toml: "),
        ("check = 1", "check is not a table"),
        ('[check]\nignored = ["ts"]', "[check] has no 'ignored'; it has ignore, decode_as"),
        ('[check]\nignore = "ts"', "ignore is a list of fields"),
        ('[check]\nignore = [""]', "ignore is a list of fields"),
        ("[check]\ndecode_as = 1", "decode_as is a table of ports"),
        ('[check.decode_as]\n70000 = "nsq"', "'70000' is not a port"),
        ('[check.decode_as]\n4150 = "nsk"', "no protocol 'nsk'; there are "),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path, text, says):
    (tmp_path / "mqsniff.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        read_settings(tmp_path / "mqsniff.toml")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
