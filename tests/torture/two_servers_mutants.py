"""Test the stage with two servers: plant each bug of `two_servers_mutants.toml`, see it caught.

`python -m tests.torture.two_servers_mutants` plants all, `--rotate 4` some that change with the
seed. When a server is killed is a matter of chance: a bug that is missed once may be caught later.
"""

import tomllib
from pathlib import Path

from . import mutants

BUGS = Path(__file__).with_name("two_servers_mutants.toml")


def planted() -> list[mutants.Mutant]:
    """Every planted bug."""
    found = tomllib.loads(BUGS.read_text("utf-8"))["mutant"]
    return [
        mutants.Mutant(name=it["name"], stage=it["stage"], edits=tuple(map(tuple, it["edits"])))
        for it in found
    ]


def main() -> None:
    """Plant, and exit with 1 when a bug was missed."""
    mutants.BUGS = BUGS
    mutants.main()


if __name__ == "__main__":
    main()
