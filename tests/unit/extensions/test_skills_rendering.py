"""Arguments really go into a skill's text, as data, and none is lost."""

import pytest

from awaken.contracts.specs.skills import Skill, SkillArgument
from awaken.extensions.skills.arguments import MAX_VALUE, render_body, resolve_arguments
from awaken.extensions.skills.problems import SkillProblem


def skill(body: str, *arguments: str) -> Skill:
    """A skill whose arguments are required when they end in `!`."""
    declared = tuple(
        SkillArgument(name=it.rstrip("!"), required=it.endswith("!")) for it in arguments
    )
    return Skill(name="s", description="d", body=body, arguments=declared)


def render(it: Skill, given: str | dict[str, str] | None = None) -> str:
    return render_body(it, resolve_arguments(it, given))


@pytest.mark.parametrize(
    ("body", "names", "given", "expected"),
    [
        ("Hi ${who}!", ("who",), {"who": "Ada"}, "Hi Ada!"),
        ("Hi ${WHO}!", ("who",), {"who": "Ada"}, "Hi Ada!"),
        ("Hi ${FIRST_NAME}!", ("first-name",), {"first-name": "Ada"}, "Hi Ada!"),
        ("Hi ${first-name}!", ("first-name",), {"first-name": "Ada"}, "Hi Ada!"),
        ("Hi ${who}!", ("who",), "Ada", "Hi Ada!"),
        ("${a} ${b} ${a}", ("a", "b"), {"a": "1", "b": "2"}, "1 2 1"),
        ("${a}-${b}", ("a", "b"), {"a": "1"}, "1-"),
        ("Do $ARGUMENTS.", (), "it all", "Do it all."),
        ("Do ${ARGUMENTS}.", (), "it all", "Do it all."),
        ("Do $ARGUMENTS.", ("a", "b"), {"b": "2", "a": "1"}, "Do 1 2."),
        ("Do $ARGUMENTS.", (), None, "Do ."),
        ("Do.", (), "it \"all\"\nnow", 'Do.\n\nArguments:\n- ARGUMENTS: "it \\"all\\"\\nnow"'),
        ("Do ${a}.", ("a", "b"), {"a": "1", "b": "2"}, 'Do 1.\n\nArguments:\n- b: "2"'),
        ("Do.", (), None, "Do."),
    ],
)  # fmt: skip
def test_values_take_their_places(
    body: str, names: tuple[str, ...], given: str | dict[str, str] | None, expected: str
) -> None:
    assert render(skill(body, *names), given) == expected


@pytest.mark.parametrize(
    "text",
    [
        "${HOME}", "$HOME", "$(id)", "`id`", "$ARGUMENTSX", "$1", "{{who}}", "%s", "${", "$${x}",
        "!`ls`", "@file",
    ],
)  # fmt: skip
def test_nothing_else_is_expanded(text: str) -> None:
    assert render(skill(f"${{who}}: {text}", "who"), "Ada") == f"Ada: {text}"


@pytest.mark.parametrize("value", ["${other}", "$ARGUMENTS", "\\g<0>", "${who}", "\\1", "%(x)s"])
def test_a_value_is_data_and_never_expanded_itself(value: str) -> None:
    it = skill("${who} and ${other}", "who", "other")
    assert render(it, {"who": value, "other": "O"}) == f"{value} and O"


@pytest.mark.parametrize(
    ("names", "given", "told"),
    [
        (("who!",), None, "who"),
        (("who!",), {}, "who"),
        (("who!",), {"who": ""}, "who"),
        (("a!", "b!"), "text", "a, b"),
        (("who",), {"whom": "Ada"}, "'whom'"),
        ((), {"who": "Ada"}, "none"),
        (("who",), {"ARGUMENTS": "x"}, "args"),
        (("who",), {"who": "x" * (MAX_VALUE + 1)}, str(MAX_VALUE)),
        (tuple(f"a{i}" for i in range(9)), {f"a{i}": "x" * 8_000 for i in range(9)}, "65536"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_way_out(
    names: tuple[str, ...], given: str | dict[str, str] | None, told: str
) -> None:
    with pytest.raises(SkillProblem) as refusal:
        resolve_arguments(skill("x", *names), given)
    assert refusal.value.kind == "invalid_arguments"
    assert told in str(refusal.value)
