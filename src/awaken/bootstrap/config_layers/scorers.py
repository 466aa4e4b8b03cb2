"""Scorers of real runs: what this process cannot score by is told, and refuses nothing.

Records are checked when they are written; another process may have other modules, or another
version.
"""

from .build import LayerBuild


def check_scorers(build: LayerBuild) -> None:
    """Warn of scorers that cannot be made here; their scores are missing."""
    records = build.records("scorers")
    if not records:
        return
    # Scorers are loaded only where some are written.
    from awaken.bootstrap.config_kinds.scorers import list_scorer_problems  # noqa: PLC0415

    for name, record in records.items():
        for at, message in list_scorer_problems(record.spec):
            build.warn(f"scorers/{name}/scorers/{at}", "invalid", message)
