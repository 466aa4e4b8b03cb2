"""What commands that go on running log, on stderr."""

import logging
import sys

from .printing import plain


def log_to_stderr(level: int) -> None:
    """Log from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class _PlainFormatter(logging.Formatter):
    """Log lines with everything invisible spelled out: errors quote what models wrote."""

    def format(self, record: logging.LogRecord) -> str:
        """One record; only its own line breaks stay."""
        return "\n".join(plain(line) for line in super().format(record).split("\n"))
