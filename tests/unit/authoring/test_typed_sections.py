"""The sections of an agent's plugins as structs, without their names."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from awaken import Agent
from awaken.errors import InvalidSpec
from awaken.extensions.background import BackgroundTasksConfig
from awaken.extensions.deferred_tools import DeferredToolsConfig
from awaken.extensions.generative_ui import GenerativeUiConfig
from awaken.extensions.guardrails import GuardrailsConfig
from awaken.extensions.mcp import McpConfig
from awaken.extensions.observability import ObservabilityConfig
from awaken.extensions.permission import PermissionConfig, PermissionPlugin, allow, ask, deny
from awaken.extensions.reminder import ReminderConfig
from awaken.extensions.skills import SkillsConfig
from awaken.models import RetryPolicy
from awaken.testing import ScriptedModel


def agent(config: Any) -> Agent:
    return Agent("a", model=ScriptedModel([]), config=config)


def test_a_list_of_sections_is_the_mapping_of_their_names() -> None:
    sections = [
        PermissionConfig(rules=(allow("read"), deny("delete_*"))),
        RetryPolicy(max_retries=5),
    ]
    expected = {
        "permission": {
            "rules": (
                {"tool": "read", "behavior": "allow"},
                {"tool": "delete_*", "behavior": "deny"},
            )
        },
        "retry": {"max_retries": 5},
    }
    assert agent(sections).spec.sections == expected
    assert agent({"permission": sections[0], "retry": sections[1]}).spec.sections == expected


@pytest.mark.parametrize(
    "type_",
    [
        BackgroundTasksConfig,
        DeferredToolsConfig,
        GenerativeUiConfig,
        GuardrailsConfig,
        McpConfig,
        ObservabilityConfig,
        PermissionConfig,
        ReminderConfig,
        SkillsConfig,
    ],
)
def test_every_extension_names_its_section(type_: Any) -> None:
    module = type_.__module__.removeprefix("awaken.extensions.").partition(".")[0]
    expected = {"background": "background_tasks"}.get(module, module)
    assert list(agent([type_()]).spec.sections) == [expected]


@dataclass
class Shipping:
    section: ClassVar[str] = "shipping"
    days: int = 3


def test_a_section_of_your_own_names_itself() -> None:
    assert agent([Shipping()]).spec.sections == {"shipping": {"days": 3}}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ([{"rules": []}], "dict names no section"),
        ([PermissionConfig(), PermissionConfig()], "section 'permission' is given twice"),
        ("permission", "neither a list of sections nor a mapping"),
        (PermissionConfig(), "neither a list of sections nor a mapping"),
    ],
)
def test_what_names_no_section_is_refused(config: Any, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        agent(config)


def test_rules_may_be_structs_or_data() -> None:
    typed = PermissionPlugin([allow("read"), ask("write", scope="user"), deny("delete_*")])
    data = PermissionPlugin(
        [
            {"tool": "read", "behavior": "allow"},
            {"tool": "write", "behavior": "ask", "scope": "user"},
            {"tool": "delete_*", "behavior": "deny"},
        ]
    )
    assert typed._config == data._config


@pytest.mark.parametrize(
    "options",
    [
        {"rules": [{"tool": "read"}]},
        {"rules": [{"tool": "read", "behavior": "maybe"}]},
        {"rules": [allow("read(")]},
        {"rules": [allow("read"), deny("read")]},
        {"rules": ["read"]},
        {"rules": 7},
        {"default": "maybe"},
        {"on_deny": "shout"},
    ],
)
def test_rules_that_cannot_be_read_are_refused_at_once(options: Any) -> None:
    with pytest.raises(InvalidSpec, match="PermissionPlugin"):
        PermissionPlugin(**options)
