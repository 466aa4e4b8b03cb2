"""Errors of skill tools: codes for programs, and texts for models."""

from typing import Literal

from awaken.contracts.errors import RunError, UsageError, field

Code = Literal[
    "unknown_skill",
    "invalid_arguments",
    "invalid_skill_md",
    "invalid_path",
    "path_escapes_root",
    "unsupported_path",
    "io_error",
    "unsupported_runtime",
    "script_timeout",
    "unsupported_operation",
    "isolation_unavailable",
]


class SkillProblem(RunError):
    """A skill tool call failed; becomes an error result with the code."""

    template = "{message}"
    kind: Code
    message: str


class DocumentError(UsageError):
    """A problem of a skill's document; the text does not name the document."""

    template = "{message}"
    message: str = field(kw_only=False)


class InvalidSkill(UsageError):
    """A skill's document breaks the specification; the skill is not offered."""

    code = "invalid_skill_md"
    template = "{where}: {problem}"
    where: str
    problem: str


def printable_name(directory: str) -> str:
    """A directory's name for messages and logs, with unprintable characters escaped."""
    return directory if directory.isprintable() else ascii(directory)
