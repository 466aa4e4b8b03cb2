"""Errors: one tree, stable codes, fields for programs and texts for people."""

import copy
import pickle
from typing import Any, ClassVar

import pytest
from tests.error_classes import load_error_classes

from awaken.contracts import errors
from awaken.contracts.errors import AwakenError, StateError, StorageError, UsageError, field
from awaken.contracts.models.errors import RateLimited
from awaken.contracts.tools.tool import InvalidArguments, ToolError


def test_no_two_errors_share_a_code() -> None:
    # A class without a code of its own has the code of its parent on purpose.
    codes = [error.code for error in load_error_classes() if "code" in vars(error)]
    assert sorted(codes) == sorted(set(codes))


STATE_ERRORS: list[tuple[type[StateError], dict[str, Any]]] = [
    (errors.RevisionConflict, {"expected": 3, "actual": 4}),
    (errors.BaseRevisionMismatch, {"left": 1, "right": 2}),
    (errors.PluginAlreadyInstalled, {"name": "p"}),
    (errors.PluginNotInstalled, {"name": "p"}),
    (errors.KeyAlreadyRegistered, {"key": "k"}),
    (errors.UnknownKey, {"key": "k"}),
    (errors.KeyCodecError, {"key": "k", "problem": "odd"}),
    (errors.HandlerAlreadyRegistered, {"kind": "effect", "key": "k"}),
    (errors.UnknownHandler, {"kind": "action", "key": "k"}),
    (errors.PhaseNotConverging, {"phase": "run_start", "max_rounds": 16}),
    (errors.MergeConflict, {"key": "k", "owners": "of one phase"}),
]


@pytest.mark.parametrize(("error", "fields"), STATE_ERRORS)
def test_a_state_error_carries_its_data_and_says_it(
    error: type[StateError], fields: dict[str, Any]
) -> None:
    raised = error(**fields)
    assert raised.fields == fields
    assert all(getattr(raised, name) == value for name, value in fields.items())
    assert all(str(value) in str(raised) for value in fields.values())
    assert isinstance(raised, StateError)
    assert raised.retryable is False


@pytest.mark.parametrize(
    ("raised", "text", "root"),
    [
        (
            errors.VersionConflict(thread_id="t", expected=1, actual=2),
            "Thread 't' is at version 2, the commit expects 1.",
            StorageError,
        ),
        (
            errors.AlreadyExists(kind="Run", record_id="r"),
            "Run 'r' already exists.",
            StorageError,
        ),
        (
            errors.RecordNotFound(kind="Thread", record_id="t"),
            "Thread 't' does not exist.",
            StorageError,
        ),
        (
            errors.CommitUnknown(commit_id="c"),
            "The outcome of commit 'c' is unknown.",
            StorageError,
        ),
        (
            errors.UnknownAgent(agent_id="x", known="a, b"),
            "Agent 'x' is not registered; known agents: a, b.",
            UsageError,
        ),
        (
            errors.DuplicateRegistration(kind="Tool", name="t"),
            "Tool 't' is registered twice; ids must be unique.",
            UsageError,
        ),
    ],
)
def test_texts_of_errors_are_stable(
    raised: AwakenError, text: str, root: type[AwakenError]
) -> None:
    assert str(raised) == text
    assert isinstance(raised, root)


def test_only_what_may_work_later_is_retryable() -> None:
    room = "awaken.contracts.errors."
    tree = [error for error in load_error_classes() if error.__module__.startswith(room)]
    assert {error.code for error in tree if error.retryable} == {
        "agent_paused",
        "queue_full",
        "tenant_queue_full",
        "store_full",
        "store_unavailable",
        "thread_busy",
        "thread_claimed",
    }


@pytest.mark.parametrize(
    ("kind", "texts", "fields"),
    [
        (errors.UnknownRun, (), {"rnu_id": "x"}),
        (errors.UnknownRun, (), {"run_id": "x", "rnu_id": "x"}),
        (errors.UnknownRun, (), {}),
        (errors.UnknownRun, ("x",), {}),
        (errors.UnknownRun, ("x",), {"run_id": "x"}),
        (errors.RunFailed, (), {"run_id": "x", "cause": "y", "cause_code": "z"}),
        (ToolError, (), {}),
        (ToolError, ("a", "b"), {}),
        (ToolError, ("a",), {"message": "b"}),
        (ToolError, ("a",), {"code": "b"}),
        (RateLimited, ("slow", 3), {}),
        (UsageError, (), {}),
        (UsageError, ("text",), {}),
        (AwakenError, (), {}),
        (AwakenError, (), {"message": "text"}),
    ],
)
def test_an_error_takes_exactly_its_fields(
    kind: type[AwakenError], texts: tuple[Any, ...], fields: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=kind.__name__):
        kind(*texts, **fields)


def test_a_text_may_come_by_position_and_a_default_may_be_left_out() -> None:
    limited = RateLimited("slow down")
    assert limited.fields == {"message": "slow down", "retry_after_ms": None}
    assert str(RateLimited(message="{x}", retry_after_ms=7)) == "{x}"
    assert str(InvalidArguments("no")) == "Invalid arguments: no"


def test_a_template_names_only_fields() -> None:
    with pytest.raises(TypeError, match="Misspelt names unknown fields: rnu_id"):

        class Misspelt(UsageError):
            template = "{rnu_id}"
            run_id: str


@pytest.mark.parametrize("name", ["args", "fields", "add_note"])
def test_a_field_cannot_hide_what_every_error_has(name: str) -> None:
    with pytest.raises(TypeError, match=f"cannot have the field '{name}'"):
        type("Hiding", (UsageError,), {"__annotations__": {name: str}})


class Closed(ToolError):
    """As a host writes one: with facts of the class, a default, and fields of its own."""

    code: str = "closed"
    template = "The {shop} is closed until {hour}: {message}"
    hours: ClassVar[int] = 24
    shop: str
    hour: int = 8


class Counted(ToolError):
    """As a host writes one: with an `__init__` of its own."""

    count: int

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} are too many")
        self.count = count


def test_hosts_write_errors_of_their_own() -> None:
    closed = Closed("come back", shop="bakery")
    assert str(closed) == "The bakery is closed until 8: come back"
    assert closed.fields == {"message": "come back", "shop": "bakery", "hour": 8}
    assert closed.code == "closed"
    counted = Counted(3)
    assert str(counted) == "Execution failed: 3 are too many"
    assert counted.count == 3


@pytest.mark.parametrize(
    "error",
    [
        errors.VersionConflict(thread_id="t", expected=1, actual=2),
        RateLimited("slow", retry_after_ms=3),
        Closed("come back", shop="bakery"),
        Counted(3),
    ],
)
def test_an_error_can_be_copied(error: AwakenError) -> None:
    error.add_note("seen")
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert twin.args == error.args
        assert vars(twin) == vars(error)


def test_a_field_by_keyword_only_has_no_position() -> None:
    class Named(UsageError):
        template = "{name}"
        name: str = field(kw_only=True)

    assert str(Named(name="x")) == "x"
    with pytest.raises(TypeError):
        Named("x")
