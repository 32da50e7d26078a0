"""``mqsniff extract FILE… FILTERS -w OUT``: the packets of what was chosen, to share; or the values of its records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import click

from mqsniff.cli.filtering import filter_options, filters_of, where_option
from mqsniff.cli.options import RunOptions, decode_options
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.signals import code_of, ended_by_sigterm
from mqsniff.cli.talk import remark, say, tell_key_logs

if TYPE_CHECKING:
    from mqsniff.answers.extractchoice import ExtractChoice
    from mqsniff.answers.extractcopy import ExtractInput, ExtractReport
    from mqsniff.answers.savedvalues import SavedValues
    from mqsniff.dissector import Settings
    from mqsniff.pipeline import Pipeline
    from mqsniff.tables.values import Redaction

EPILOG: Final = """\b
Examples:
  mqsniff extract big.pcap --topic orders -w orders.pcapng
  mqsniff extract big.pcap --errors -w errors.pcapng
  mqsniff extract big.pcap --key user-17 --redact payload -w share.pcapng
  mqsniff extract day-*.pcap --connection 8e6438 -w one.pcapng
  mqsniff extract big.pcap --topic orders --save values/
  mqsniff extract tls.pcap --tls-keys keys.log --decrypted -w plain.pcapng
"""

_SECTION: Final = "Output"


class ExtractForm(NamedTuple):
    """What the packets of an extract are like."""

    raw: bool
    """Hide nothing."""
    decrypted: bool
    """Write TLS that was opened as plain TCP."""
    with_keys: bool
    """Write the keys of these connections too."""


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(_SECTION, "-w", "--write", "out", metavar="OUT", type=click.Path(path_type=Path, dir_okay=False),
        help="Capture to write: pcapng; - is stdout.")  # fmt: skip
@option(_SECTION, "--save", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="Write the values of chosen records to files topic-partition-offset, and index.ndjson.")  # fmt: skip
@option(_SECTION, "--overwrite", is_flag=True, help="Replace OUT, or write into a DIR that is not empty.")
@option(_SECTION, "--raw", is_flag=True,
        help="Hide nothing: secrets, payload and undecoded bytes stay as they were captured.")  # fmt: skip
@option(_SECTION, "--decrypted", is_flag=True,
        help="Write TLS that the keys open as plain TCP, redacted as all others; else it stays encrypted.")  # fmt: skip
@option(_SECTION, "--with-keys", is_flag=True,
        help="Write the key-log lines of these connections into OUT: who gets it can read all of them.")  # fmt: skip
@option(_SECTION, "-n", "--max-messages", "count", metavar="COUNT", type=click.IntRange(min=1),
        help="Stop after COUNT messages that the filters chose.")  # fmt: skip
@filter_options
@where_option
@decode_options
def command(
    files: tuple[str, ...],
    out: Path | None,
    save: Path | None,
    *,
    overwrite: bool,
    raw: bool,
    decrypted: bool,
    with_keys: bool,
    **options: Any,
) -> int:
    """Extract the packets of chosen messages into a capture to share.

    The packets of chosen messages go out with their exchanges, and with what makes them readable: handshakes, logins,
    handles, who taught a topic's name. Each has a comment that says what was decoded from it. A connection whose
    messages cannot be decoded without the rest of it goes out whole, which is said.

    Secrets are overwritten in place, and checksums of TCP repaired; --redact payload overwrites keys, values and bodies
    too. What lies in compressed bytes is blanked with all of them. Bytes that nobody decoded are blanked, and so is
    TLS that no key opens. All of it is counted. CRCs of record batches are not repaired. --show-secrets and --show-raw
    keep the one or the other, --raw keeps everything.

    TLS that --tls-keys opens stays encrypted, with its handshakes: the same key log opens it again. Decryption secrets
    stay behind, unless --with-keys asks for them. --decrypted writes it as plain TCP: packets that were made, with the
    addresses, ports and times of those that they come from, and redacted as all others.

    FILE is read several times, so it cannot be a pipe. Memory holds what was chosen: some 40 bytes for each packet of
    its connections, and a kilobyte a message.
    """
    _check(files, out, save, overwrite=overwrite, raw=raw, options=options)
    if (decrypted or with_keys) and out is None:
        raise click.UsageError(f"--{'decrypted' if decrypted else 'with-keys'} is about packets: it needs -w OUT")
    if decrypted and with_keys:
        raise click.UsageError("--decrypted leaves nothing that --with-keys could open: choose one")
    wanted = RunOptions(output="parquet", filters=filters_of(options), **options)
    try:
        with ended_by_sigterm():
            form = ExtractForm(raw, decrypted, with_keys)
            return _run(files, wanted, out, save, form)
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)


def _check(
    files: tuple[str, ...], out: Path | None, save: Path | None, *, overwrite: bool, raw: bool, options: dict[str, Any]
) -> None:
    """Refuse what cannot be meant; raises click.UsageError."""
    if out is None and save is None:
        raise click.UsageError("nothing to write: give -w OUT for packets, or --save DIR for values")
    for file in files:
        if file == "-" or (Path(file).exists() and not Path(file).is_file()):
            raise click.UsageError(f"{file}: a capture is read several times; write a pipe to a file first")
    if raw and options["redact"]:
        raise click.UsageError("--raw hides nothing, --redact payload hides the payload: choose one")
    if save is not None and options["redact"]:
        raise click.UsageError("--save writes values, --redact payload hides them: choose one")
    if out is not None and str(out) != "-" and out.exists():
        if any(Path(file).exists() and out.samefile(file) for file in files):
            raise click.UsageError(f"{out} is one of the captures that are read")
        if not overwrite:
            raise click.UsageError(f"{out} is there already; --overwrite replaces it")
    if save is not None and save.is_dir() and any(save.iterdir()) and not overwrite:
        raise click.UsageError(f"{save} is not empty; --overwrite writes into it all the same")


def _run(files: tuple[str, ...], wanted: RunOptions, out: Path | None, save: Path | None, form: ExtractForm) -> int:
    """Choose, save, write; the exit code."""
    from mqsniff.answers.savedvalues import SavedValues
    from mqsniff.cli.pluginwatch import watched_plugins
    from mqsniff.cli.progress import Progress
    from mqsniff.pipeline import Pipeline
    from mqsniff.sources.files import FileSource
    from mqsniff.tables.values import Redaction

    progress = Progress(silent_stdout=str(out) != "-")
    settings = _settings(wanted, save=save is not None, raw=form.raw)
    shown = Redaction(secrets=True, raw=True) if form.raw else wanted.shown
    with progress:
        source = FileSource(files, wanted.limits, progress)
        pipeline = Pipeline(source, settings, decode_as=wanted.decode_as, keys=wanted.tls_keys)
        try:
            saved = SavedValues(save, pipeline.captures, shown) if save is not None else None
            with watched_plugins(pipeline.captures):
                choice = _choose(pipeline, wanted, saved)
        except OSError as error:
            if save is None:
                raise
            raise click.FileError(str(save), error.strerror or str(error)) from None
        for capture in pipeline.captures:
            if capture.unreadable:
                say(f"mqsniff: {capture.name}: {capture.unreadable}")
        unreadable = any(capture.unreadable for capture in pipeline.captures)
        if out is not None and not all(capture.unreadable for capture in pipeline.captures):
            from mqsniff.answers.extractcopy import ExtractInput

            again = ExtractInput(files, settings, wanted.decode_as, progress, wanted.tls_keys)
            _write(again, choice, shown, out, form)
    if saved is not None:
        values = f"{saved.files:,} value{'' if saved.files == 1 else 's'}"
        say(f"{values} ({saved.size:,} bytes) in {save}, listed in index.ndjson")
    return 2 if unreadable else 0


def _settings(wanted: RunOptions, *, save: bool, raw: bool) -> Settings:
    """What is asked of dissectors: records only where somebody looks at them."""
    from mqsniff.dissector import USUAL, WITH_RECORDS, Settings

    records = save or wanted.filters.needs_records or wanted.where is not None
    return Settings(wanted.limits, WITH_RECORDS if records else USUAL, show_secrets=raw or wanted.show_secrets)


def _choose(pipeline: Pipeline, wanted: RunOptions, saved: SavedValues | None) -> ExtractChoice:
    """Read everything, and keep what the filters choose."""
    from mqsniff.answers.extractchoice import ExtractChoice
    from mqsniff.cli.choice import filter_chain
    from mqsniff.model import RecordItem

    chain = filter_chain(wanted, pipeline.captures)
    choice = ExtractChoice(pipeline.captures, wanted.shown, late=wanted.where is not None)
    try:
        for item in chain.of(choice.noting(pipeline.items())):
            if item is not None:
                choice.take(item)
                if saved is not None and isinstance(item, RecordItem):
                    saved.take(item)
    finally:
        if saved is not None:
            saved.close()
    for sentence in chain.sentences():
        say(sentence)
    tell_key_logs(wanted.tls_keys)
    if (explanation := chain.everything.explanation(pipeline.totals)) is not None:
        remark(explanation)
    return choice


def _write(source: ExtractInput, choice: ExtractChoice, shown: Redaction, out: Path, form: ExtractForm) -> None:
    """Write the extract, and say what became of it."""
    from mqsniff.answers.extract import extract

    with _opened(out) as stream:
        report = extract(source, choice, shown, stream, decrypted=form.decrypted, with_keys=form.with_keys)
    _tell(report, out, shown, form)


@contextmanager
def _opened(out: Path) -> Iterator[BinaryIO]:
    """The file to write to, which is there once it is complete."""
    if str(out) == "-":
        yield sys.stdout.buffer
        return
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(out)
    except OSError as error:
        raise click.FileError(str(out), error.strerror or str(error)) from None
    finally:
        part.unlink(missing_ok=True)


def _tell(report: ExtractReport, out: Path, shown: Redaction, form: ExtractForm) -> None:
    """Say what was written and what was hidden."""
    connections = f"{report.connections:,} connection{'' if report.connections == 1 else 's'}"
    size = f"{report.size:,} bytes"
    say(f"{report.messages:,} messages in {report.packets:,} packets of {connections}, {size}, in {out}")
    if report.whole:
        say(f"{report.whole:,} of the connections went out whole: their messages do not decode without the rest")
    if report.unlike:
        say(f"mqsniff: {report.unlike:,} rows of what was chosen decode differently in the extract")
    _tell_tls(report, form)
    if form.raw:
        say("--raw: nothing is hidden; secrets may be in these packets")
        return
    told = [
        (report.count("secret"), "secret", "overwritten"),
        (report.count("payload"), "key or value", "overwritten"),
        (report.count("compressed"), "compressed batch", "blanked"),
        (report.count("layer"), "compressed or encrypted stream", "blanked"),
    ]
    said = [f"{count:,} {_plural(what, count)} {done}" for count, what, done in told if count]
    if report.sizes["undecoded"]:
        said.append(f"{report.sizes['undecoded']:,} undecoded bytes blanked")
    if report.left_out:
        packets = f"{report.left_out:,} packet{'' if report.left_out == 1 else 's'}"
        said.append(f"{packets} left out (whose bytes could not be found in them, such as IP fragments)")
    if not shown.secrets:
        said = said or ["nothing had to be hidden"]
    say(", ".join(said) if said else "secrets are shown")


def _tell_tls(report: ExtractReport, form: ExtractForm) -> None:
    """Say what became of TLS that was opened."""
    if report.decrypted:
        say(f"{_connections(report.decrypted)} decrypted, as plain TCP in packets that were made")
    elif form.decrypted:
        say("--decrypted: no connection of these was opened by a key; what would open it: --tls-keys FILE")
    if report.encrypted:
        where = "in a tunnel, so still encrypted" if form.decrypted else "still encrypted"
        them = "it" if report.encrypted == 1 else "them"
        opens = f": the same key log opens {them}" if not report.key_lines else ", their keys in it: OUT is a secret"
        say(f"{_connections(report.encrypted)} {where}{opens}")
    if form.with_keys and not report.key_lines:
        say("--with-keys: no key opened anything of this, so none is written")


def _connections(count: int) -> str:
    return f"{count:,} TLS connection{'' if count == 1 else 's'}"


def _plural(what: str, count: int) -> str:
    if count == 1:
        return what
    if what == "key or value":
        return "keys and values"
    return f"{what}es" if what.endswith("ch") else f"{what}s"
