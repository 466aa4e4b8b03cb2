"""How calls about skills go wrong: codes that programs read, and texts that models read."""

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
    """A call about a skill cannot be done; becomes an error result with the code."""

    template = "{message}"
    kind: Code
    message: str


class DocumentError(UsageError):
    """What is wrong with a skill's document, said without its name."""

    template = "{message}"
    message: str = field(kw_only=False)


class InvalidSkill(UsageError):
    """A skill's document breaks the specification; the skill is not offered."""

    code = "invalid_skill_md"
    template = "{where}: {problem}"
    where: str
    problem: str


def shown_name(directory: str) -> str:
    """A directory's name for people and logs, whatever characters it has."""
    return directory if directory.isprintable() else ascii(directory)
