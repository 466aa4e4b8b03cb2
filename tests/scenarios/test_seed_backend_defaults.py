"""What a backend leaves out is as the port says, whether it subclasses the port or not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Cancelled, Failed, InvalidInput, NaturalEnd, RemoteEndpoint
from awaken.backends import BackendRunResult, ExecutionBackend, ExecutionBackendFactory
from awaken.errors import InvalidSpec, UnsupportedFeature
from awaken.events import Termination
from awaken.models import InferenceOverride

from .delegating import Door, asks, boss, child_of, ended, heard
from .each_store import NewStore, each_store
from .remoting import FakeBackend, remote_runtime, said


class RootOnly:
    """Has nothing of a backend but one way to execute."""

    async def execute_root(self, request: Any) -> BackendRunResult:
        return said(f"root {request.new_messages[-1].text}")


class DelegateOnly:
    async def execute_delegate(self, request: Any) -> BackendRunResult:
        return said(f"delegate {request.new_messages[-1].text}")


class RootPort(RootOnly, ExecutionBackend):
    """The same, as a subclass of the port."""


class DelegatePort(DelegateOnly, ExecutionBackend):
    """The same, as a subclass of the port."""


class Nothing(ExecutionBackend):
    """Leaves everything to the port."""


class BuildsOnly:
    """Has nothing of a factory but `build`."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.built: list[str] = []

    def build(self, endpoint: RemoteEndpoint) -> Any:
        self.built.append(endpoint.base_url)
        return self.made


class BuildsPort(BuildsOnly, ExecutionBackendFactory):
    """The same, as a subclass of the port."""


NO_ROOT = Failed(message="backend does not support root execution", code="backend_execution_failed")
NO_DELEGATE = Failed(
    message="backend does not support delegated execution", code="backend_execution_failed"
)
PARTS: dict[str, tuple[Any, Termination, Termination]] = {
    "root only": (RootOnly, NaturalEnd(), NO_DELEGATE),
    "root only, of the port": (RootPort, NaturalEnd(), NO_DELEGATE),
    "delegate only": (DelegateOnly, NO_ROOT, NaturalEnd()),
    "delegate only, of the port": (DelegatePort, NO_ROOT, NaturalEnd()),
    "nothing, of the port": (Nothing, NO_ROOT, NO_DELEGATE),
}


@each_store
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("made", ["given", "built", "built by the port"])
def test_a_backend_that_implements_a_part_has_the_defaults_for_the_rest(
    new_store: NewStore, part: str, made: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        kind, as_root, as_delegate = PARTS[part]
        asker = boss(asks("far"), heard, delegates=["far"])
        given = {"given": lambda it: it, "built": BuildsOnly}.get(made, BuildsPort)(kind())
        async with remote_runtime(given, new_store(tmp_path)(), asker) as rt:
            root = await (await rt.start("far", "hi", thread_id="r")).result()
            assert root.termination == as_root
            parent = await rt.run("boss", "hi", thread_id="t")
            assert (await child_of(rt, parent.run_id)).termination == as_delegate
            # It can do the least that a backend can.
            warm = InferenceOverride(temperature=0.5)
            with pytest.raises(UnsupportedFeature, match="does not support: overrides"):
                await rt.run("far", "hi", thread_id="x", overrides=warm)
            if root.termination == NaturalEnd():
                assert root.text == "root hi"

    asyncio.run(scenario())


@each_store
def test_cancelling_a_backend_without_abort_ends_the_run(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()

        class Slow:
            async def execute_root(self, _: Any) -> BackendRunResult:
                return said(await door.answer())

        async with remote_runtime(Slow(), new_store(tmp_path)()) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
            assert await handle.cancel()
            assert (await ended(rt, handle.run_id)).termination == Cancelled(cause="user")

    asyncio.run(scenario())


def test_a_factory_without_validate_is_checked_by_what_it_builds() -> None:
    endpoint = RemoteEndpoint(backend="fake", base_url="http://y")
    port = BuildsPort(RootOnly())
    port.validate(endpoint)
    assert port.built == ["http://y"]
    factory = BuildsOnly(RootOnly())
    remote_runtime(factory, None)
    # Once to validate the endpoint, once for its backend.
    assert factory.built == ["http://x"] * 2
    with pytest.raises(InvalidSpec, match="built a NoneType, which has neither execute_root nor"):
        remote_runtime(BuildsOnly(None), None)
    with pytest.raises(InvalidInput, match=r"'fake'.*neither execute_root nor execute_delegate"):
        remote_runtime(object(), None)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("status", "completed"),
        ("termination", None),
        ("response", None),
        ("output", "text"),
        ("steps", "3"),
    ],
)
def test_a_result_with_a_wrong_field_fails_its_run_and_says_which(field: str, wrong: Any) -> None:
    async def scenario() -> None:
        async with remote_runtime(FakeBackend(said("hi", **{field: wrong})), None) as rt:
            result = await (await rt.start("far", "hi", thread_id="t")).result()
            problem = f"the '{field}' of the backend's result is a {type(wrong).__name__}"
            assert result.termination == Failed(message=problem, code="backend_execution_failed")

    asyncio.run(scenario())


@each_store
def test_a_backend_that_gives_back_no_result_fails_its_run_and_says_so(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        class Odd:
            async def execute_root(self, _: Any) -> Any:
                return {"text": "hi"}

        async with remote_runtime(Odd(), new_store(tmp_path)()) as rt:
            result = await (await rt.start("far", "hi", thread_id="t")).result()
            message = "the backend returned a dict, not a BackendRunResult"
            assert result.termination == Failed(message=message, code="backend_execution_failed")

    asyncio.run(scenario())
