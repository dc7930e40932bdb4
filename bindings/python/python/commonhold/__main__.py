"""``python -m commonhold ARGUMENTS`` runs the command: ``hold ARGUMENTS``.

The wheel that ``./package`` makes contains the command, and pip installs it like a script. A wheel
built by maturin alone does not contain it.
"""

import os
import sys
from pathlib import Path

_NOT_FOUND = (
    "commonhold: this package was built without the command 'hold'; install the wheel that "
    "./package makes, or the command itself with 'cargo install --path crates/hold'"
)


def command(name: str = "hold") -> Path | None:
    """The command of this installation, or None if the wheel did not contain it."""
    folder = Path(__file__).resolve().parent
    # DIR/commonhold with 'pip install --target DIR'; otherwise
    # PREFIX/lib/python3.x/site-packages/commonhold.
    places = [up / "bin" / name for up in (folder.parents[0], *folder.parents[3:4])]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def main() -> int:
    """Replaces this process by the command."""
    path = command()
    if path is None:
        print(_NOT_FOUND, file=sys.stderr)
        return 3
    os.execv(path, ["hold", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
