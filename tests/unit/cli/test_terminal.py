"""A conversation on a terminal: what moves, what is asked, and what Ctrl-C does."""

import re
from pathlib import Path

import pytest

from .conftest import EVIL
from .pseudo_terminal import CTRL_C, CTRL_D, PseudoTerminal

APP = """
import asyncio
import time
from pathlib import Path

from awaken import Agent, ToolContext, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls

HERE = Path(__file__).parent


@tool(effect="none")
async def look_up(place: str, ctx: ToolContext) -> str:
    "Look up."
    ctx.progress(message="half way", progress=0.5)
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return f"sunny in {place}"


@tool
async def erase(name: str) -> str:
    "Erase."
    (HERE / "erased").open("a").write(name)
    return "gone"


@tool(effect="none")
def block() -> str:
    "Block a thread for long."
    (HERE / "blocked").write_text("")
    time.sleep(600)


@tool(effect="none")
async def wait() -> str:
    "Wait for long."
    await asyncio.sleep(600)


def agent(name, *script, **more):
    model = ScriptedModel([*script], cycle=True)
    return Agent(name, model=model, tools=[look_up, erase, block, wait], **more)


sunny = "It is **sunny** in `Paris`.\\n\\nBye."
looks = agent("looks", ToolCalls([("look_up", {"place": "Paris"})]), sunny)
evil = agent("evil", ToolCalls([("look_up", {"place": EVIL})]), EVIL + "\\n\\n<b>html</b> &#8238;x")
waits = agent("waits", ToolCalls([("wait", {})]), "Never.")
blocks = agent("blocks", ToolCalls([("block", {})]), "Never.")
rules = [{"tool": "erase", "behavior": "ask"}]
asks = agent(
    "asks", ToolCalls([("erase", {"name": "one"})]), "Done.", plugins=[PermissionPlugin()],
    config={"permission": {"default_behavior": "allow", "rules": rules}},
)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(f"EVIL = {EVIL!r}\n{APP}")
    return tmp_path


def test_a_conversation_streams_shows_tools_and_goes_on(shop: Path) -> None:
    with PseudoTerminal("chat", "app.py", "looks", folder=shop) as terminal:
        terminal.wait_for("you> ")
        assert "You talk to looks" in terminal.text
        terminal.type("What is the weather?\n")
        terminal.wait_for('look_up(place="Paris")')
        terminal.wait_for("50% half way")
        # Nothing that is typed mixes with what is drawn.
        assert not terminal.is_showing_keys()
        (shop / "go").touch()
        terminal.wait_for('✓ look_up(place="Paris")')
        terminal.wait_for("sunny in Paris")
        terminal.wait_for("It is sunny in Paris.")
        terminal.wait_for("you> ", times=2)
        assert "\x1b[" in terminal.shown
        assert "**" not in terminal.text.rpartition("It is sunny")[2]
        terminal.type("/agent\n")
        terminal.wait_for("looks, evil, waits")
        terminal.type("/nothing\n")
        terminal.wait_for("There is no command /nothing")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert terminal.is_showing_keys()


def test_text_of_models_and_tools_never_controls_the_terminal(shop: Path) -> None:
    (shop / "go").touch()
    with PseudoTerminal("run", "app.py", "evil", "go on", folder=shop) as terminal:
        assert terminal.end() == 0
        assert "\x1b[31mred" not in terminal.shown
        assert not {"\x9b", "\u202e"} & set(terminal.shown)
        assert "\\x1b[31mred" in terminal.text
        # Markdown can spell such characters, and rich would hide HTML.
        assert "<b>html</b> \\u202ex" in terminal.text


@pytest.mark.parametrize(
    ("environment", "is_plain"),
    [({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, True)],
)
def test_colours_can_be_switched_off(
    shop: Path, environment: dict[str, str], is_plain: bool
) -> None:
    (shop / "go").touch()
    with PseudoTerminal(
        "run", "app.py", "looks", "hi", folder=shop, environment=environment
    ) as terminal:
        assert terminal.end() == 0
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.shown)
        assert ("\x1b" not in terminal.shown) is is_plain


def test_a_question_shows_the_call_and_the_rule_and_needs_a_clear_yes(shop: Path) -> None:
    with PseudoTerminal("run", "app.py", "asks", "go", folder=shop) as terminal:
        terminal.wait_for("[y]es / [n]o")
        for words in ("Your decision is needed", "erase", "name: one", "'permission', rule: "):
            assert words in terminal.text
        terminal.type("\n")
        terminal.wait_for("[y]es / [n]o", times=2)
        terminal.type("maybe\n")
        terminal.wait_for("[y]es / [n]o", times=3)
        assert not (shop / "erased").exists()
        terminal.type("y\n")
        terminal.wait_for('✓ erase(name="one")')
        terminal.wait_for("Done.")
        assert terminal.end() == 0
        assert (shop / "erased").read_text() == "one"


def test_labels_of_a_form_never_control_the_terminal(shop: Path) -> None:
    form = """
from awaken.tools import Asks

schema = {"type": "object", "properties": {"a": {"type": "string", "title": EVIL,
          "description": EVIL, "enum": ["x", EVIL]}}, "required": ["a"]}

@tool
async def fill(ctx: ToolContext) -> object:
    "Fill in."
    if ctx.resume is None:
        return ctx.suspend(EVIL, response_schema=schema, asks=Asks.ANSWER)
    return ctx.resume.result

fills = Agent("fills", model=ScriptedModel([ToolCalls([("fill", {})]), "Done."]), tools=[fill])
"""
    with (shop / "app.py").open("a") as file:
        file.write(form)
    with PseudoTerminal("run", "app.py", "fills", "go", folder=shop) as terminal:
        terminal.wait_for("fill in the form?")
        terminal.type("y\n")
        terminal.wait_for("next)> ")
        terminal.type(CTRL_D)
        terminal.wait_for("declined")
        assert terminal.end() == 0
        assert "\x1b[31mred" not in terminal.shown
        assert not {"\x9b", "\u202e"} & set(terminal.shown)


@pytest.mark.parametrize(
    ("ending", "shown"),
    [
        (
            'return ToolResult(tool_name="erase", data="all gone", metadata={"trace": 7})',
            "all gone",
        ),
        ('raise ToolError("the disk is full")', "the disk is full"),
    ],
)
def test_an_approved_call_shows_what_came_of_it(shop: Path, ending: str, shown: str) -> None:
    app = shop / "app.py"
    text = (
        app.read_text().replace('return "gone"', ending).replace(') -> str:\n    "E', '):\n    "E')
    )
    app.write_text(f"from awaken import ToolError, ToolResult\n{text}")
    with PseudoTerminal("run", "app.py", "asks", "go", folder=shop) as terminal:
        terminal.wait_for("[y]es / [n]o")
        terminal.type("y\n")
        mark = "✗" if "raise" in ending else "✓"
        terminal.wait_for(f'{mark} erase(name="one")')
        terminal.wait_for(shown)
        assert terminal.end() == 0
        assert "trace" not in terminal.text
        assert "{'error'" not in terminal.text


def test_what_was_typed_before_the_question_is_no_answer(shop: Path) -> None:
    app = shop / "app.py"
    calls = 'ToolCalls([("look_up", {"place": "x"})]), ToolCalls([("erase", {"name": "one"})])'
    app.write_text(app.read_text().replace('ToolCalls([("erase", {"name": "one"})])', calls))
    with PseudoTerminal("run", "app.py", "asks", "go", folder=shop) as terminal:
        terminal.wait_for('look_up(place="x")')
        terminal.type("y\ny\n")
        (shop / "go").touch()
        terminal.wait_for("[y]es / [n]o")
        terminal.type("n\n")
        terminal.wait_for("declined")
        assert terminal.end() == 0
        assert not (shop / "erased").exists()


@pytest.mark.parametrize(("agent", "is_asked"), [("counts", False), ("counts-asks", True)])
def test_the_tokens_of_a_turn_include_those_before_a_question(
    shop: Path, agent: str, is_asked: bool
) -> None:
    more = """
turn = [ToolCalls([("erase", {"name": "one"})]), "Done."]
counts = agent("counts", *turn)
counts_asks = agent("counts-asks", *turn, plugins=asks.plugins, config=asks.config)
"""
    (shop / "app.py").write_text((shop / "app.py").read_text() + more)
    with PseudoTerminal("run", "app.py", agent, "go", folder=shop) as terminal:
        if is_asked:
            terminal.wait_for("lways> ")
            terminal.type("y\n")
        assert terminal.end() == 0
    assert "\u00b7 60 tokens" in terminal.text


def test_ctrl_c_at_a_question_cancels_the_run_and_approves_nothing(shop: Path) -> None:
    with PseudoTerminal("chat", "app.py", "asks", folder=shop) as terminal:
        terminal.wait_for("you> ")
        terminal.type("go\n")
        terminal.wait_for("[y]es / [n]o")
        terminal.type(CTRL_C)
        terminal.wait_for("nothing of this was approved")
        terminal.wait_for("you> ", times=2)
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert not (shop / "erased").exists()


def test_ctrl_c_cancels_the_run_and_the_conversation_goes_on(shop: Path) -> None:
    with PseudoTerminal("chat", "app.py", "waits", folder=shop) as terminal:
        terminal.wait_for("you> ")
        terminal.type("go\n")
        terminal.wait_for("wait()")
        terminal.type(CTRL_C)
        terminal.wait_for("✗ cancelled")
        terminal.wait_for("you> ", times=2)
        terminal.type(CTRL_C)
        terminal.wait_for("Ctrl-C again")
        terminal.wait_for("you> ", times=3)
        terminal.type(CTRL_C)
        assert terminal.end() == 0
        assert terminal.is_showing_keys()


def test_ctrl_c_cancels_a_run_that_was_asked_for_once_with_its_own_code(shop: Path) -> None:
    with PseudoTerminal("run", "app.py", "waits", "go", folder=shop) as terminal:
        terminal.wait_for("wait()")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "cancelled" in terminal.text


def test_a_second_ctrl_c_leaves_at_once_even_if_a_tool_blocks(shop: Path) -> None:
    with PseudoTerminal("run", "app.py", "blocks", "go", folder=shop) as terminal:
        terminal.wait_for("block()")
        while not (shop / "blocked").exists():
            terminal.wait_for("block()")
        terminal.type(CTRL_C)
        terminal.wait_for("✗ cancelled")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert terminal.is_showing_keys()


def test_an_error_on_a_terminal_is_red_and_in_a_pipe_plain(shop: Path) -> None:
    with PseudoTerminal("run", "gone.py", "a", "hi", folder=shop) as terminal:
        assert terminal.end() == 2
        assert "\x1b[31mawaken:" in terminal.shown
