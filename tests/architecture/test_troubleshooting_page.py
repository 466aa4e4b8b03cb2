"""The page that helps by error code names codes that exist and commands that exist."""

import re
from pathlib import Path

from awaken.contracts.runs.records import WaitingReason

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to/troubleshooting.md").read_text(encoding="utf-8")
ERRORS = (DOCS / "reference/errors.md").read_text(encoding="utf-8")
EVENTS = (DOCS / "reference/events.md").read_text(encoding="utf-8")


def codes() -> list[str]:
    cells = re.findall(r"^\| (`[^|]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`(\w+)`", cell)]


def test_every_code_of_the_page_exists() -> None:
    known = {*re.findall(r"`(\w+)`", ERRORS + EVENTS), *WaitingReason}
    assert len(codes()) > 40
    assert [code for code in codes() if code not in known] == []


def test_every_command_of_the_page_exists() -> None:
    commands = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`awaken\s([a-z][a-z-]*(?: [a-z]+)?)", PAGE))
    assert [it for it in sorted(named) if f"### awaken {it}\n" not in commands] == []
