"""A change becomes live whole or not at all, by one way."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken.contracts.config.audit import AuditAction, AuditQuery
from awaken.contracts.config.errors import (
    InvalidConfig,
    LiveConflict,
    MissingSecrets,
    OwnedByCode,
    PublishRefused,
    RecordConflict,
    RecordExists,
    RecordInUse,
    UnknownConfigRecord,
    UnknownPublication,
    VersionNotFound,
    VersionUnusable,
)
from awaken.contracts.config.heads import CanaryPlan, SeenCanary
from awaken.contracts.config.store import ConfigReceipt, ConfigWrite
from awaken.contracts.errors import IdempotencyConflict
from awaken.managed.drafts import PublishDraft
from awaken.managed.parts import Author
from awaken.managed.publish_rules import FreezeWindow, PublishRules
from awaken.managed.records import RecordWrite
from awaken.stores.memory.store import MemoryStore

from .config_world import ANN, BEN, CODE_AGENT, ConfigWorld, in_loop, write_agent


async def audit_of(world: ConfigWorld) -> list[tuple[str, str]]:
    rows = await world.store.list_audit(AuditQuery(limit=100))
    return [(row.event.action.value, row.event.resource) for row in reversed(rows)]


@in_loop
async def test_a_record_is_published_installed_and_audited_by_one_write() -> None:
    world = ConfigWorld()
    number = await world.put("support", system_prompt="Help.")
    head = await world.managed.heads.read_head()
    assert (number, head.publication, world.compiler.installed) == (1, 1, [1])
    assert world.compiler.specs["support"].system_prompt == "Help."
    assert await audit_of(world) == [("create", "agents/support")]
    assert world.signals == 1


@in_loop
async def test_what_does_not_compile_writes_nothing() -> None:
    world = ConfigWorld()
    with pytest.raises(InvalidConfig) as refused:
        await world.put("support", system_prompt="broken")
    assert [it.path for it in refused.value.problems] == ["agents/support/system_prompt"]
    assert await world.store.find_config_head() is None
    assert await world.store.list_publications() == ()
    assert (await audit_of(world), world.compiler.installed) == ([], [])
    assert world.compiler.discarded == 1


@in_loop
async def test_the_same_record_again_publishes_nothing() -> None:
    world = ConfigWorld()
    first = await world.put("support", system_prompt="Help.")
    again = await world.put("support", system_prompt="Help.")
    assert (first, again, len(await world.store.list_publications())) == (1, 1, 1)


@in_loop
async def test_a_revision_that_the_author_did_not_read_is_not_overwritten() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="one")
    await world.put("support", BEN, system_prompt="two")
    with pytest.raises(RecordConflict, match="has revision 2, not 1"):
        await world.managed.records.put(
            write_agent("support", expected=1), {"model_id": "scripted", "system_prompt": "three"}
        )
    assert (await world.managed.records.get_record("agents", "support")).body[
        "system_prompt"
    ] == "two"


class RacingStore(MemoryStore):
    """Lets another process write right before a write."""

    def __init__(self, race: Any) -> None:
        super().__init__()
        self.race = race

    async def write_config(self, write: ConfigWrite) -> ConfigReceipt:
        race, self.race = self.race, None
        if race is not None:
            await race()
        return await super().write_config(write)


@in_loop
async def test_changes_of_other_records_in_between_are_kept() -> None:
    store = RacingStore(None)
    ours, theirs = ConfigWorld(store), ConfigWorld(store)
    store.race = lambda: theirs.put("other", system_prompt="theirs")
    await ours.put("support", system_prompt="ours")
    bodies = {it.meta.id: it.body.get("system_prompt") for it in
              await ours.managed.records.list_records("agents")}  # fmt: skip
    assert bodies == {"greeter": "Greet.", "other": "theirs", "support": "ours"}
    assert [it.no for it in await store.list_publications()] == [2, 1]


@in_loop
async def test_a_change_of_the_same_record_in_between_is_a_conflict() -> None:
    store = RacingStore(None)
    ours, theirs = ConfigWorld(store), ConfigWorld(store)
    store.race = lambda: theirs.put("support", system_prompt="theirs")
    with pytest.raises(RecordConflict):
        await ours.put("support", system_prompt="ours")
    view = await ours.managed.records.get_record("agents", "support")
    assert view.body["system_prompt"] == "theirs"


@in_loop
async def test_an_expected_head_is_compared() -> None:
    world = ConfigWorld()
    await world.put("support")
    with pytest.raises(LiveConflict):
        await world.managed.heads._publisher.publish(
            msgspec.structs.replace(
                world.managed.records._request_all(write_agent("x"), {}, ()), expected_head=7
            )
        )


@in_loop
async def test_a_repeated_request_gives_the_same_publication() -> None:
    world = ConfigWorld()
    write = write_agent("support", idempotency_key="k", request_hash="h1")
    body = {"model_id": "scripted", "system_prompt": "one"}
    first = await world.managed.records.put(write, body)
    await world.put("support", system_prompt="two")
    again = await world.managed.records.put(write, body)
    assert first.publication.no == again.publication.no == 1
    other = write_agent("support", idempotency_key="k", request_hash="h2")
    with pytest.raises(IdempotencyConflict):
        await world.managed.records.put(other, {**body, "system_prompt": "three"})


@in_loop
async def test_a_record_of_the_code_is_overridden_not_replaced() -> None:
    world = ConfigWorld()
    with pytest.raises(OwnedByCode):
        await world.put("greeter", system_prompt="mine")
    write = write_agent("greeter")
    await world.managed.records.patch(write, {"system_prompt": "Say hello.", "max_rounds": 3})
    assert world.compiler.specs["greeter"] == msgspec.structs.replace(
        CODE_AGENT, system_prompt="Say hello.", max_rounds=3
    )
    await world.managed.records.patch(write, {}, cleared=["max_rounds"])
    assert world.compiler.specs["greeter"].max_rounds == CODE_AGENT.max_rounds
    await world.managed.records.patch(write, {}, cleared=["system_prompt"])
    assert "greeter" not in world.compiler.specs
    view = await world.managed.records.get_record("agents", "greeter")
    assert (view.meta.source, view.body["system_prompt"]) == ("code", "Greet.")


@in_loop
async def test_overrides_that_are_written_at_once_are_all_kept() -> None:
    world = ConfigWorld()
    records, write = world.managed.records, write_agent("greeter")
    await asyncio.gather(
        records.patch(write, {"system_prompt": "Say hello."}),
        records.patch(write, {"max_rounds": 3}),
        records.delete(write),
    )
    view = await records.get_record("agents", "greeter")
    assert view.overrides == {"system_prompt": "Say hello.", "max_rounds": 3}
    assert (view.meta.is_hidden, view.meta.revision) == (True, 3)


@in_loop
async def test_deleting_a_record_of_the_code_hides_it() -> None:
    world = ConfigWorld()
    await world.managed.records.delete(write_agent("greeter"))
    assert (await world.managed.records.get_record("agents", "greeter")).meta.is_hidden
    await world.managed.records.patch(write_agent("greeter"), {}, is_hidden=False)
    assert not (await world.managed.records.get_record("agents", "greeter")).meta.is_hidden


@in_loop
async def test_a_record_that_others_name_is_not_deleted() -> None:
    world = ConfigWorld()
    await world.managed.records.put(
        RecordWrite(namespace="providers", id="mine", author=ANN),
        {"adapter": "openai", "base_url": "http://127.0.0.1:1"},
    )
    await world.managed.records.put(
        RecordWrite(namespace="models", id="fast", author=ANN),
        {"provider_id": "mine", "upstream_model": "m"},
    )
    await world.put("support", model_id="fast")
    with pytest.raises(RecordInUse, match="agents/support"):
        await world.managed.records.delete(RecordWrite(namespace="models", id="fast", author=ANN))
    with pytest.raises(RecordInUse, match="models/fast"):
        await world.managed.records.delete(
            RecordWrite(namespace="providers", id="mine", author=ANN)
        )
    await world.managed.records.delete(write_agent("support"))
    await world.managed.records.delete(
        RecordWrite(namespace="providers", id="mine", author=ANN), is_forced=True
    )
    assert await world.managed.records.list_records("models") == []


@in_loop
async def test_a_record_is_restored_from_a_publication_an_event_or_an_object() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="one")
    await world.put("support", system_prompt="two")
    await world.managed.records.delete(write_agent("support"))
    events = await world.store.list_audit(AuditQuery(limit=10))
    deleted = events[0].event
    assert deleted.action is AuditAction.DELETE
    await world.managed.records.restore(write_agent("support"), deleted.id)
    view = await world.managed.records.get_record("agents", "support")
    assert view.body["system_prompt"] == "two"
    await world.managed.records.restore(write_agent("support"), "1")
    view = await world.managed.records.get_record("agents", "support")
    assert view.body["system_prompt"] == "one"
    assert deleted.before is not None
    await world.managed.records.restore(write_agent("support"), deleted.before)
    view = await world.managed.records.get_record("agents", "support")
    assert view.body["system_prompt"] == "two"
    with pytest.raises(VersionNotFound):
        await world.managed.records.restore(write_agent("support"), "f" * 32)
    with pytest.raises(VersionUnusable):
        await world.managed.records.restore(write_agent("other"), deleted.id)


@in_loop
async def test_a_rollback_publishes_an_earlier_manifest_again() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="one")
    await world.put("support", system_prompt="two")
    await world.put("other")
    published = await world.managed.heads.roll_back(1, ANN, expected_head=3)
    assert published.publication.no == 4
    first = await world.store.load_publication(1)
    assert first is not None
    assert published.publication.manifest_hash == first.manifest_hash
    assert set(world.compiler.specs) == {"support"}
    assert world.compiler.specs["support"].system_prompt == "one"
    with pytest.raises(UnknownConfigRecord):
        await world.managed.records.get_record("agents", "other")


@in_loop
async def test_the_rules_for_publishing_hold() -> None:
    world = ConfigWorld(rules=PublishRules(requires_message=True, requires_second_person=True))
    with pytest.raises(PublishRefused) as refused:
        await world.put("support")
    assert len(refused.value.unmet) == 2
    now = ConfigWorld().clock.now_ms()
    frozen = PublishRules(freeze=(FreezeWindow(begin=now, end=now + 10, reason="the fair"),))
    world = ConfigWorld(rules=frozen)
    with pytest.raises(PublishRefused, match="the fair"):
        await world.put("support")
    world.clock.advance(10)
    assert await world.put("support") == 1


@in_loop
async def test_a_secret_in_a_record_is_kept_apart_and_never_shown() -> None:
    world = ConfigWorld()
    write = RecordWrite(namespace="providers", id="mine", author=ANN)
    body = {"adapter": "openai", "base_url": "http://127.0.0.1:1", "api_key": "sk-canary"}
    await world.managed.records.put(write, body)
    view = await world.managed.records.get_record("providers", "mine")
    assert view.wire["has_api_key"] is True
    assert "sk-canary" not in repr((view, await world.store.list_publications()))
    assert b"sk-canary" not in b"".join((await world.store.load_objects([view.meta.hash])).values())
    key = world.managed.parts.reader
    config = await key.read_effective(
        (await world.managed.records.read_live()).manifest, world.managed.parts.code
    )
    assert config.records["providers"]["mine"].spec.api_key.reveal() == "sk-canary"
    # An edit that does not mention the key keeps it; an empty one clears it.
    await world.managed.records.put(write, {"adapter": "openai", "base_url": "http://127.0.0.1:2"})
    assert (await world.managed.records.get_record("providers", "mine")).wire["has_api_key"]
    await world.managed.records.put(write, {**body, "api_key": ""})
    assert not (await world.managed.records.get_record("providers", "mine")).wire["has_api_key"]


@in_loop
async def test_a_reference_to_a_secret_that_does_not_exist_is_refused() -> None:
    world = ConfigWorld()
    write = RecordWrite(namespace="providers", id="mine", author=ANN)
    body = {"adapter": "openai", "api_key": {"$secret": "store:providers/mine/api_key"}}
    with pytest.raises(MissingSecrets, match="store:providers/mine/api_key"):
        await world.managed.records.put(write, body)
    await world.managed.heads.set_secret("providers/mine/api_key", "sk-1", ANN)
    await world.managed.records.put(write, body)


@in_loop
async def test_a_created_record_must_be_new() -> None:
    world = ConfigWorld()
    body = {"model_id": "scripted"}
    await world.managed.records.create(write_agent("support"), body)
    with pytest.raises(RecordExists):
        await world.managed.records.create(write_agent("support"), body)


@in_loop
async def test_one_process_publishes_one_after_the_other() -> None:
    world = ConfigWorld()
    await asyncio.gather(*(world.put(f"agent-{n}", Author(id=f"p{n}")) for n in range(10)))
    assert world.compiler.installed == list(range(1, 11))
    assert len(world.compiler.specs) == 10


@in_loop
async def test_a_name_that_was_not_verified_makes_no_second_person() -> None:
    world = ConfigWorld(rules=PublishRules(requires_second_person=True))
    editor = Author(id="robot/ann", principal="robot")
    draft = await world.managed.drafts.create(editor)
    write = msgspec.structs.replace(write_agent("support"), author=editor)
    await world.managed.drafts.put_record(draft.id, write, {"model_id": "scripted"})
    for name in ("robot", "robot/ben"):
        publisher = Author(id=name, principal="robot")
        with pytest.raises(PublishRefused, match="a second person"):
            await world.managed.drafts.publish(draft.id, PublishDraft(author=publisher))
    other = Author(id="ben", principal="ben")
    published = await world.managed.drafts.publish(draft.id, PublishDraft(author=other))
    assert published.publication.no == 1


@in_loop
async def test_an_earlier_publication_is_tried_and_promoted_by_the_same_rules() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="one")
    await world.put("support", system_prompt="two")
    head = await world.managed.heads.start_canary(1, CanaryPlan(percent=10), ANN)
    assert head.canary is not None
    assert (head.publication, head.canary.publication) == (2, 1)
    with pytest.raises(PublishRefused, match="is being tried"):
        await world.managed.heads.start_canary(1, CanaryPlan(percent=10), ANN)
    with pytest.raises(UnknownPublication):
        await world.managed.heads.start_canary(9, CanaryPlan(percent=10), ANN)
    now = world.clock.now_ms()
    strict = world.managed.with_rules(
        PublishRules(freeze=(FreezeWindow(begin=now, end=now + 10, reason="the fair"),))
    )
    with pytest.raises(PublishRefused, match="the fair"):
        await strict.heads.promote_canary(SeenCanary(publication=1), ANN)
    promoted = await world.managed.heads.promote_canary(SeenCanary(publication=1), ANN)
    assert promoted.publication == 1
    assert world.compiler.specs["support"].system_prompt == "one"
