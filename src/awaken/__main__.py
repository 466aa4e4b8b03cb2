"""`python -m awaken`."""

from awaken.cli.main import app

app()
