"""A tool's state updates are read back from its journal as what they were."""

from awaken.contracts.suspension.permissions import TOOL_GRANTS, WANTED_TOOLS, ToolGrant
from awaken.extensions.guardrails.reviews import WITHHELD, Withheld
from awaken.runtime.tools.recall import _read_update


def test_an_update_comes_back_as_the_type_that_its_key_declares() -> None:
    grant = _read_update(TOOL_GRANTS, {"source": "skill:pdf", "patterns": ["Read"]})
    assert grant.update == ToolGrant(source="skill:pdf", patterns=("Read",))
    assert TOOL_GRANTS.apply_update({}, grant.update)["skill:pdf"].patterns == ("Read",)
    held = _read_update(WITHHELD, ["c", {"text": "x"}])
    assert WITHHELD.apply_update({}, held.update) == {"c": Withheld(text="x")}


def test_an_update_without_a_declared_type_comes_back_as_json() -> None:
    assert _read_update(WANTED_TOOLS, ["a"]).update == ["a"]
