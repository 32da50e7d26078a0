"""TLS 1.3 with its keys, beside tshark with the same keys, and beside the same traffic in plain: ``run.py tls``."""

from __future__ import annotations

from measuring import COMPARED, MQSNIFF, PASSES, compared, has_tshark, made, show

FORM = ["-o", "ndjson"]


def tls(scale: int) -> None:
    """NSQ in TLS (AES-256-GCM), and without."""
    sealed = made("nsqtraffic.py", f"nsq-tls-{scale}", 0, "--generations", scale, "--tls")
    plain = made("nsqtraffic.py", f"nsq-plain-{scale}", 0, "--generations", scale)
    keys, path = str(sealed.path.with_suffix(".keys")), str(sealed.path)
    read = ["tshark", "-n", "-r", path, "-d", "tcp.port==4150,tls", "-o", f"tls.keylog_file:{keys}"]
    theirs = {"tshark, decrypted data": [*read, "-T", "fields", "-e", "tls.app_data"]} if has_tshark() else {}
    decode = [*MQSNIFF, "decode"]
    ours = {
        "NDJSON with keys": [*decode, "--tls-keys", keys, path, *FORM],
        "NDJSON without keys": [*decode, path, *FORM],
        "extract --decrypted": [*MQSNIFF, "extract", "--tls-keys", keys, path, "--decrypted", "--raw", "-w", "-"],
    }
    rows = compared(sealed, theirs, ours, PASSES)
    rows += compared(plain, {}, {"NDJSON, the same in plain": [*decode, str(plain.path), *FORM]}, PASSES)
    show(f"TLS 1.3 ({sealed.mb:.0f} MB, {sealed.messages:,} messages)", COMPARED, rows)
