"""``python -m mqsniff``, and the command ``mqsniff``."""

import signal


def run() -> None:
    """Run the command; while it is imported, Ctrl-C ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mqsniff.cli import main  # noqa: PLC0415  # see above
    from mqsniff.cli.signals import raise_dropped_again  # noqa: PLC0415

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_dropped_again()
    main()


if __name__ == "__main__":
    run()
