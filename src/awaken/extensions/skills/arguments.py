"""Checks arguments against a skill's declaration and inserts them as data."""

import json
import re
from collections.abc import Mapping

from awaken.contracts.specs.skills import Skill

from .documents import placeholders
from .problems import SkillProblem

ALL = "ARGUMENTS"
"""The placeholder for all arguments as one text: `$ARGUMENTS`."""
MAX_VALUE = 8_192
MAX_VALUES = 65_536
MAX_TEXT = 262_144

_PLACE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)\}|\$ARGUMENTS\b")


def resolve_arguments(skill: Skill, given: str | Mapping[str, str] | None) -> dict[str, str]:
    """The values by declared name, with `ARGUMENTS` for the text of all of them.

    A plain text is the value of the only declared argument, if there is exactly one.

    Raises:
        SkillProblem: A required argument is missing, one is unknown, or they are too large.
    """
    values = _by_name(skill, given)
    declared = [argument.name for argument in skill.arguments]
    if unknown := sorted(values.keys() - {*declared, ALL}):
        known = ", ".join(declared) or "none"
        raise _argument_error(
            skill, f"it has no argument {unknown[0][:64]!r}; its arguments: {known}"
        )
    missing = [it.name for it in skill.arguments if it.required and not values.get(it.name)]
    if missing:
        raise _argument_error(skill, f"it needs 'arguments' with: {', '.join(missing)}")
    if any(len(value) > MAX_VALUE for value in values.values()):
        raise _argument_error(skill, f"an argument has more than {MAX_VALUE} characters")
    if sum(map(len, values.values())) > MAX_VALUES:
        raise _argument_error(skill, f"its arguments have more than {MAX_VALUES} characters")
    values.setdefault(ALL, " ".join(values[name] for name in declared if values.get(name)))
    return values


def render_body(skill: Skill, arguments: Mapping[str, str]) -> str:
    """The skill's body with the arguments inserted, in one pass: no value is expanded itself.

    `${name}`, `${NAME}` and `$ARGUMENTS` are placeholders; any other text with a dollar sign is
    unchanged. A value without a placeholder is listed at the end, so that none is lost.
    """
    names = {form: it.name for it in skill.arguments for form in placeholders(it)}
    placed: set[str] = set()

    def value(match: re.Match[str]) -> str:
        name = ALL if match[1] is None or match[1] == ALL else names.get(match[1])
        if name is None:
            return match[0]
        placed.add(name)
        return arguments.get(name, "")

    text = _PLACE.sub(value, skill.body)
    return text + _rest(arguments, placed)


def _by_name(skill: Skill, given: str | Mapping[str, str] | None) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, str):
        if ALL in given:
            raise _argument_error(skill, f"'{ALL}' is not an argument; give a plain text as 'args'")
        return dict(given)
    if len(skill.arguments) == 1:
        return {skill.arguments[0].name: given, ALL: given}
    return {ALL: given}


def _rest(arguments: Mapping[str, str], placed: set[str]) -> str:
    if ALL in placed or not arguments.get(ALL):
        return ""
    names = [name for name in arguments if name != ALL]
    left = {name: arguments[name] for name in names or [ALL] if name not in placed}
    lines = [f"- {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in left.items()]
    return "\n\nArguments:\n" + "\n".join(lines) if lines else ""


def _argument_error(skill: Skill, problem: str) -> SkillProblem:
    return SkillProblem(kind="invalid_arguments", message=f"Skill '{skill.name}': {problem}.")
