"""`awaken upgrade check` compiles what is managed with the new code."""

from pathlib import Path

import pytest

from .conftest import Call

APP = """
from awaken import Agent
greeter = Agent("{name}", model="scripted", instructions="Greet.")
"""
FILES = """
agents: [{id: support, model_id: scripted}]
overrides: {agents: {greeter: {max_rounds: 3}}}
"""


@pytest.fixture
def applied(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one record, and one patch on the agent `greeter` of the code."""
    monkeypatch.setenv("AWAKEN_STORE", f"sqlite:///{tmp_path / 'awaken.db'}")
    for name in ("greeter", "support", "other"):
        (tmp_path / f"{name}_app.py").write_text(APP.format(name=name))
    (tmp_path / "conf.yaml").write_text(FILES)
    assert call("db", "migrate").code == 0
    assert call("config", "apply", "conf.yaml", "--yes", "--app", "greeter_app.py").code == 0
    return tmp_path


@pytest.mark.usefixtures("applied")
def test_the_same_code_is_safe_and_a_lost_record_is_told(call: Call) -> None:
    same = call("upgrade", "check", "greeter_app.py", "--json")
    assert (same.code, same.document.get("config")) == (0, None)
    lost = call("upgrade", "check", "other_app.py", "--json")
    assert lost.code == 0
    assert [(it["path"], it["code"]) for it in lost.document["config"]] == [
        ("agents/greeter", "orphan_override")
    ]


@pytest.mark.usefixtures("applied")
def test_an_id_that_the_code_now_has_is_refused(call: Call) -> None:
    clash = call("upgrade", "check", "support_app.py")
    assert clash.code == 1
    assert "agents/support: The code has a record of this id as well" in clash.out


def test_a_run_on_a_managed_agent_resumes_on_its_publication(applied: Path, call: Call) -> None:
    assert call("submit", "support", "hello", "--thread", "t").code == 0
    assert call("upgrade", "check", "greeter_app.py").code == 0
    (applied / "conf.yaml").write_text("agents: []")
    assert (
        call("config", "apply", "conf.yaml", "--yes", "--prune", "--app", "greeter_app.py").code
        == 0
    )
    assert call("upgrade", "check", "greeter_app.py").code == 1
