"""``python -m mqsniff``: the command ``mqsniff``."""

from mqsniff.cli import main

if __name__ == "__main__":
    main()
