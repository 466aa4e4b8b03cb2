"""Errors: one tree, stable codes, fields for programs and texts for people."""

import importlib
import pkgutil
from typing import Any

import pytest

import awaken
from awaken.contracts import errors
from awaken.contracts.errors import AwakenError, StateError, StorageError, UsageError


def every_error() -> list[type[AwakenError]]:
    for module in pkgutil.walk_packages(awaken.__path__, "awaken."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: list[type[AwakenError]] = []
    queue: list[type[AwakenError]] = [AwakenError]
    while queue:
        error = queue.pop()
        queue += error.__subclasses__()
        if error.__module__.startswith("awaken."):
            found.append(error)
    return found


def test_no_two_errors_share_a_code() -> None:
    # One that has no code of its own is, to whoever reads codes, the same as the one above it.
    codes = [error.code for error in every_error() if "code" in vars(error)]
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
    tree = [error for error in every_error() if error.__module__ == "awaken.contracts.errors"]
    assert {error.code for error in tree if error.retryable} == {
        "queue_full",
        "store_full",
        "store_unavailable",
        "thread_busy",
        "thread_claimed",
    }
