"""A SKILL.md as a `Skill`, by the rules of the agentskills specification."""

import hashlib
import json
import re
import unicodedata
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from awaken.contracts.record import Record
from awaken.contracts.specs.skills import Skill, SkillArgument, SkillContext

from .frontmatter import read_frontmatter, split_document
from .problems import DocumentError, InvalidSkill, printable_name

MAX_NAME = 64

# Spaces and commas inside of brackets, and brackets inside of quotes, do not separate tools.
_TOOL = re.compile(r"""(?:[^\s,(]|\((?:"[^"]*+"|'[^']*+'|[^()"'])*+\)?+)++""")


class Argument(Record, frozen=True, kw_only=True):
    """One of `arguments`."""

    name: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
    description: str = ""
    required: bool = False


class Frontmatter(Record, frozen=True, kw_only=True, rename="kebab"):
    """The keys that have a meaning; the validator ignores all others."""

    name: Annotated[str, Meta(pattern=r"\S")]
    description: Annotated[str, Meta(max_length=1_024, pattern=r"\S")]
    license: Any = None
    compatibility: Annotated[str, Meta(max_length=500)] | None = None
    metadata: Any = None
    allowed_tools: str | list[str] = ""
    when_to_use: str = ""
    arguments: Annotated[tuple[Argument | str, ...], Meta(max_length=32)] = ()
    argument_hint: str = ""
    user_invocable: bool = True
    disable_model_invocation: bool = False
    model: str = ""
    context: SkillContext = SkillContext.INLINE
    agent: str = ""
    paths: str = ""


def parse_skill(text: str, directory: str) -> Skill:
    """Read the document of a skill in a directory of this name; unknown keys are ignored.

    Raises:
        InvalidSkill: It breaks the specification, or the value of a key is invalid.
    """
    try:
        head, body = split_document(text)
        fields = msgspec.convert(read_frontmatter(head), Frontmatter, strict=False)
        return _skill(fields, _name(fields.name, directory), body, text)
    except (DocumentError, msgspec.ValidationError) as error:
        raise InvalidSkill(where=printable_name(directory), problem=str(error)) from error


def name_problem(name: str) -> str | None:
    """Why a normalised name cannot be the name of a skill; None if it can."""
    if not 0 < len(name) <= MAX_NAME:
        return f"its name must have 1 to {MAX_NAME} characters"
    if name != name.lower():
        return "its name must be lowercase"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        return "its name may not start or end with a hyphen, nor have two in a row"
    if not all(character.isalnum() or character == "-" for character in name):
        return "its name may have letters, digits and hyphens only"
    return None


def placeholders(argument: SkillArgument) -> set[str]:
    """The names by which a body may refer to an argument: as declared, and in upper case."""
    return {argument.name, argument.name.upper().replace("-", "_")}


def _name(value: str, directory: str) -> str:
    name = unicodedata.normalize("NFKC", value.strip())
    problem = name_problem(name)
    if problem is None and unicodedata.normalize("NFKC", directory) != name:
        problem = f"its directory must be called '{name}' like the skill"
    if problem is not None:
        raise DocumentError(problem)
    return name


def _skill(fields: Frontmatter, name: str, body: str, text: str) -> Skill:
    tools = fields.allowed_tools
    return Skill(
        name=name,
        description=fields.description.strip(),
        body=body,
        when_to_use=fields.when_to_use.strip() or None,
        arguments=_arguments(fields.arguments),
        argument_hint=fields.argument_hint.strip() or None,
        allowed_tools=tuple(_TOOL.findall(tools) if isinstance(tools, str) else tools),
        user_invocable=fields.user_invocable,
        model_invocable=not fields.disable_model_invocation,
        model=fields.model.strip() or None,
        context=fields.context,
        agent=fields.agent.strip() or None,
        paths=tuple(it for part in re.split(r"[,\n]", fields.paths) if (it := part.strip())),
        license=fields.license if isinstance(fields.license, str) else None,
        compatibility=fields.compatibility,
        metadata=_metadata(fields.metadata),
        content_hash=hashlib.sha256(text.encode()).hexdigest(),
    )


def _metadata(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: it if isinstance(it, str) else json.dumps(it) for key, it in pairs}


def _arguments(declared: tuple[Argument | str, ...]) -> tuple[SkillArgument, ...]:
    full = (
        msgspec.convert({"name": it}, Argument) if isinstance(it, str) else it for it in declared
    )
    arguments = tuple(
        SkillArgument(name=it.name, description=it.description.strip(), required=it.required)
        for it in full
    )
    forms = [form for argument in arguments for form in placeholders(argument)]
    if len(set(forms)) != len(forms):
        raise DocumentError("'arguments' has two of the same name")
    return arguments
