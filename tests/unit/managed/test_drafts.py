"""Drafts: how they stand to what is live, are brought onto it, and become live."""

from typing import Any

import pytest

from awaken.contracts.config.audit import AuditQuery
from awaken.contracts.config.drafts import PatchRecord, PutRecord
from awaken.contracts.config.errors import (
    DraftConflict,
    DraftHasConflicts,
    DraftNotFound,
    InvalidConfig,
    PublishRefused,
    RecordConflict,
    UnknownConfigRecord,
)
from awaken.contracts.config.heads import CanaryPlan
from awaken.contracts.errors import IdempotencyConflict
from awaken.managed.differences import MergeState, Preference
from awaken.managed.drafts import PublishDraft
from awaken.managed.parts import Author
from awaken.managed.publish_rules import PublishRules
from awaken.managed.records import RecordWrite

from .config_world import ANN, BEN, ConfigWorld, in_loop, write_agent

EVE = Author(id="eve")


async def begin(world: ConfigWorld, **agents: dict[str, Any] | None) -> str:
    """Begin a draft with agents by id; None deletes one."""
    draft = await world.managed.drafts.create(ANN, "a title")
    for agent_id, fields in agents.items():
        await edit(world, draft.id, agent_id, fields)
    return draft.id


async def edit(
    world: ConfigWorld,
    draft_id: str,
    agent_id: str,
    fields: dict[str, Any] | None,
    author: Author = ANN,
) -> None:
    body = None if fields is None else {"model_id": "scripted", **fields}
    await world.managed.drafts.put_record(draft_id, write_agent(agent_id, author), body)


async def states(world: ConfigWorld, draft_id: str) -> dict[str, MergeState]:
    difference = await world.managed.drafts.compare(draft_id)
    return {it.id: it.state for it in difference.records}


def by(author: Author, **rest: Any) -> PublishDraft:
    return PublishDraft(author=author, **rest)


@in_loop
async def test_each_record_of_a_draft_says_how_it_stands_to_what_is_live() -> None:
    world = ConfigWorld()
    for name in ("kept", "edited", "gone", "raced", "caught-up"):
        await world.put(name, system_prompt="old")
    draft_id = await begin(
        world,
        kept={"system_prompt": "old"},
        edited={"system_prompt": "new"},
        added={"system_prompt": "new"},
        gone=None,
        raced={"system_prompt": "mine"},
        **{"caught-up": {"system_prompt": "same"}},
    )
    await world.put("raced", BEN, system_prompt="theirs")
    await world.put("caught-up", BEN, system_prompt="same")
    await world.put("kept", BEN, system_prompt="theirs")
    assert await states(world, draft_id) == {
        "kept": MergeState.THEIRS,
        "edited": MergeState.CHANGED,
        "added": MergeState.ADDED,
        "gone": MergeState.DELETED,
        "raced": MergeState.CONFLICT,
        "caught-up": MergeState.SAME,
    }
    difference = await world.managed.drafts.compare(draft_id)
    raced = next(it for it in difference.records if it.id == "raced")
    assert [(it.path, it.base, it.live, it.mine, it.is_conflict) for it in raced.fields] == [
        ("system_prompt", "old", "theirs", "mine", True)
    ]
    assert (difference.base, difference.head) == (5, 8)


@in_loop
async def test_a_rebase_merges_fields_that_only_one_side_changed() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="old", max_rounds=3)
    draft_id = await begin(world, support={"system_prompt": "mine", "max_rounds": 3})
    await world.put("support", BEN, system_prompt="old", max_rounds=9)
    with pytest.raises(RecordConflict):
        await world.managed.drafts.publish(draft_id, by(ANN))
    draft = await world.managed.drafts.rebase(draft_id, ANN, None)
    assert draft.base == 2
    assert await states(world, draft_id) == {"support": MergeState.CHANGED}
    await world.managed.drafts.publish(draft_id, by(ANN))
    spec = world.compiler.specs["support"]
    assert (spec.system_prompt, spec.max_rounds) == ("mine", 9)


@pytest.mark.parametrize(("prefer", "left"), [("mine", "mine"), ("live", "theirs")])
def test_a_preference_decides_a_field_that_both_sides_changed(prefer: str, left: str) -> None:
    @in_loop
    async def scenario() -> None:
        world = ConfigWorld()
        await world.put("support", system_prompt="old")
        draft_id = await begin(world, support={"system_prompt": "mine"})
        await world.put("support", BEN, system_prompt="theirs")
        before = await world.managed.drafts.get_draft(draft_id)
        with pytest.raises(DraftHasConflicts) as refused:
            await world.managed.drafts.rebase(draft_id, ANN, None)
        assert refused.value.paths == ("agents/support/system_prompt",)
        assert await world.managed.drafts.get_draft(draft_id) == before
        await world.managed.drafts.rebase(draft_id, ANN, None, Preference(prefer))
        await world.managed.drafts.publish(draft_id, by(ANN))
        assert world.compiler.specs["support"].system_prompt == left
        assert await world.managed.drafts.list_drafts() == ()

    scenario()


@in_loop
async def test_each_field_that_both_sides_changed_can_have_a_preference_of_its_own() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="old", max_rounds=3)
    draft_id = await begin(world, support={"system_prompt": "mine", "max_rounds": 4})
    await world.put("support", BEN, system_prompt="theirs", max_rounds=5)
    chosen = {"agents/support/system_prompt": Preference.LIVE}
    with pytest.raises(DraftHasConflicts) as refused:
        await world.managed.drafts.rebase(draft_id, ANN, None, chosen=chosen)
    assert refused.value.paths == ("agents/support/max_rounds",)
    chosen["agents/support/max_rounds"] = Preference.MINE
    await world.managed.drafts.rebase(draft_id, ANN, None, chosen=chosen)
    await world.managed.drafts.publish(draft_id, by(ANN))
    spec = world.compiler.specs["support"]
    assert (spec.system_prompt, spec.max_rounds) == ("theirs", 4)


@in_loop
async def test_a_record_that_one_side_deleted_and_the_other_changed_is_a_conflict() -> None:
    world = ConfigWorld()
    await world.put("support", system_prompt="old")
    draft_id = await begin(world, support={"system_prompt": "mine"})
    await world.managed.records.delete(write_agent("support", BEN))
    with pytest.raises(DraftHasConflicts) as refused:
        await world.managed.drafts.rebase(draft_id, ANN, None)
    assert refused.value.paths == ("agents/support",)
    draft = await world.managed.drafts.rebase(draft_id, ANN, None, Preference.LIVE)
    assert draft.changes == {}
    draft_id = await begin(world, support={"system_prompt": "back"})
    await world.managed.drafts.publish(draft_id, by(ANN))
    draft_id = await begin(world, support=None)
    await world.put("support", BEN, system_prompt="theirs")
    await world.managed.drafts.rebase(draft_id, ANN, None, Preference.MINE)
    await world.managed.drafts.publish(draft_id, by(ANN))
    assert "support" not in world.compiler.specs


@in_loop
async def test_a_draft_that_only_shows_or_hides_a_record_of_the_code_is_a_change() -> None:
    world = ConfigWorld()
    drafts, place = world.managed.drafts, write_agent("greeter")
    draft = await drafts.create(ANN)
    await drafts.put_record(draft.id, place, {}, is_patch=True, is_hidden=True)
    assert await states(world, draft.id) == {"greeter": MergeState.ADDED}
    await drafts.publish(draft.id, by(ANN))
    assert (await world.managed.records.get_record("agents", "greeter")).meta.is_hidden
    draft = await drafts.create(ANN)
    await drafts.put_record(draft.id, place, {}, is_patch=True, is_hidden=False)
    assert await states(world, draft.id) == {"greeter": MergeState.DELETED}
    # Another record changes, and the draft is brought onto it.
    await world.put("support", BEN)
    rebased = await drafts.rebase(draft.id, ANN, None)
    assert set(rebased.changes["agents"]) == {"greeter"}
    await drafts.publish(draft.id, by(ANN))
    assert not (await world.managed.records.get_record("agents", "greeter")).meta.is_hidden


@in_loop
async def test_a_patch_keeps_being_hidden_when_it_is_merged() -> None:
    world = ConfigWorld()
    drafts, place = world.managed.drafts, write_agent("greeter")
    await world.managed.records.patch(place, {"system_prompt": "one"})
    draft = await drafts.create(ANN)
    await drafts.put_record(
        draft.id, place, {"system_prompt": "one"}, is_patch=True, is_hidden=True
    )
    await world.managed.records.patch(write_agent("greeter", BEN), {"max_rounds": 4})
    rebased = await drafts.rebase(draft.id, ANN, None)
    assert rebased.changes["agents"]["greeter"] == PatchRecord(
        body={"system_prompt": "one", "max_rounds": 4}, is_hidden=True
    )


@in_loop
async def test_a_published_draft_is_gone_and_named_by_its_publication() -> None:
    world = ConfigWorld()
    draft_id = await begin(world, one={}, two={})
    published = await world.managed.drafts.publish(draft_id, by(ANN))
    assert published.publication.draft_id == draft_id
    assert published.publication.message == "a title"
    assert set(world.compiler.specs) == {"one", "two"}
    assert len(await world.store.list_publications()) == 1
    with pytest.raises(DraftNotFound):
        await world.managed.drafts.publish(draft_id, by(ANN))


@in_loop
async def test_a_repeated_publish_of_a_draft_gives_the_same_publication() -> None:
    world = ConfigWorld()
    draft_id = await begin(world, one={})
    how = by(ANN, idempotency_key="k", request_hash="h")
    first = await world.managed.drafts.publish(draft_id, how)
    again = await world.managed.drafts.publish(draft_id, how)
    assert first.publication.no == again.publication.no == 1
    with pytest.raises(IdempotencyConflict):
        await world.managed.drafts.publish(
            draft_id, by(ANN, idempotency_key="k", request_hash="other")
        )


@in_loop
async def test_a_draft_whose_changes_are_live_already_is_removed_by_publishing() -> None:
    world = ConfigWorld()
    await world.put("one", system_prompt="x")
    draft_id = await begin(world, one={"system_prompt": "x"})
    published = await world.managed.drafts.publish(draft_id, by(ANN))
    assert (published.publication.no, published.is_changed) == (1, False)
    assert await world.managed.drafts.list_drafts() == ()


@in_loop
async def test_an_edit_that_comes_while_the_draft_is_published_is_not_lost() -> None:
    world = ConfigWorld()
    draft_id = await begin(world, one={"system_prompt": "read"})
    compile_, is_first = world.compiler.compile, [True]

    async def compile_slowly(config: Any) -> Any:
        if is_first.pop():
            await edit(world, draft_id, "two", {}, BEN)
            is_first.append(False)
        is_first.append(False)
        return await compile_(config)

    world.compiler.compile = compile_slowly  # type: ignore[method-assign]
    with pytest.raises(DraftConflict):
        await world.managed.drafts.publish(draft_id, by(ANN))
    assert set((await world.managed.drafts.get_draft(draft_id)).changes["agents"]) == {"one", "two"}
    assert await world.store.list_publications() == ()


@in_loop
async def test_an_edit_of_a_draft_that_changed_meanwhile_is_refused() -> None:
    world = ConfigWorld()
    draft_id = await begin(world, one={})
    read = await world.managed.drafts.get_draft(draft_id)
    await edit(world, draft_id, "two", {}, BEN)
    with pytest.raises(DraftConflict):
        await world.managed.drafts.put_record(
            draft_id, write_agent("three", expected=read.revision), {"model_id": "scripted"}
        )
    with pytest.raises(DraftConflict):
        await world.managed.drafts.rename(draft_id, "x", ANN, read.revision)
    assert (await world.managed.drafts.get_draft(draft_id)).editors == ("ann", "ben")


@in_loop
async def test_a_second_person_publishes_what_others_have_edited() -> None:
    world = ConfigWorld(rules=PublishRules(requires_second_person=True))
    draft_id = await begin(world, one={})
    await edit(world, draft_id, "two", {}, BEN)
    for editor in (ANN, BEN):
        with pytest.raises(PublishRefused):
            await world.managed.drafts.publish(draft_id, by(editor))
    published = await world.managed.drafts.publish(draft_id, by(EVE))
    assert published.publication.created_by == "eve"


@in_loop
async def test_a_draft_that_does_not_compile_stays_and_says_why() -> None:
    world = ConfigWorld()
    draft_id = await begin(world, one={"system_prompt": "broken"}, two={})
    trial = await world.managed.drafts.validate(draft_id, ANN)
    assert [it.path for it in trial.problems] == ["agents/one/system_prompt"]
    with pytest.raises(InvalidConfig):
        await world.managed.drafts.publish(draft_id, by(ANN))
    with pytest.raises(InvalidConfig):
        await world.managed.drafts.preview(draft_id, ANN)
    assert set((await world.managed.drafts.get_draft(draft_id)).changes["agents"]) == {"one", "two"}
    assert await world.store.find_config_head() is None


@in_loop
async def test_a_preview_moves_no_head_and_leaves_the_draft() -> None:
    world = ConfigWorld()
    await world.put("one", system_prompt="live")
    head = await world.managed.heads.read_head()
    draft_id = await begin(world, one={"system_prompt": "tried"})
    publication = await world.managed.drafts.preview(draft_id, ANN)
    assert (publication.no, publication.kind.value, publication.origin.value) == (
        2, "ephemeral", "preview",
    )  # fmt: skip
    assert await world.managed.heads.read_head() == head
    assert (world.compiler.installed, world.compiler.kept) == ([1], [2])
    assert world.compiler.specs["one"].system_prompt == "live"
    await world.managed.drafts.get_draft(draft_id)
    assert [it.no for it in await world.store.list_publications()] == [1]
    assert len(await world.store.list_audit(AuditQuery(limit=10))) == 1


@in_loop
async def test_a_draft_can_be_tried_as_a_canary() -> None:
    world = ConfigWorld()
    await world.put("one", system_prompt="live")
    draft_id = await begin(world, one={"system_prompt": "tried"})
    await world.managed.drafts.publish(draft_id, by(ANN, canary=CanaryPlan(percent=10)))
    head = await world.managed.heads.read_head()
    assert (head.publication, head.canary and head.canary.publication) == (1, 2)
    assert await world.managed.drafts.list_drafts() == ()


@in_loop
async def test_records_are_taken_out_of_a_draft() -> None:
    world = ConfigWorld()
    draft_id = await begin(world, one={}, two={})
    draft = await world.managed.drafts.drop_record(draft_id, ("agents", "one"), ANN, None)
    assert set(draft.changes["agents"]) == {"two"}
    with pytest.raises(UnknownConfigRecord):
        await world.managed.drafts.drop_record(draft_id, ("agents", "one"), ANN, None)
    await world.managed.drafts.discard(draft_id)
    with pytest.raises(DraftNotFound):
        await world.managed.drafts.discard(draft_id)


def provider(**rest: Any) -> RecordWrite:
    return RecordWrite(namespace="providers", id="mine", author=ANN, **rest)


@in_loop
async def test_a_secret_in_a_draft_changes_no_secret_that_is_in_use() -> None:
    world = ConfigWorld()
    body = {"adapter": "openai", "base_url": "http://127.0.0.1:1"}
    await world.managed.records.put(provider(), {**body, "api_key": "sk-live"})
    resolve = world.managed.parts.resolver.resolve
    draft = await world.managed.drafts.create(ANN)
    await world.managed.drafts.put_record(draft.id, provider(), {**body, "api_key": "sk-draft"})
    assert resolve("store:providers/mine/api_key") == "sk-live"
    await world.managed.drafts.publish(draft.id, by(ANN))
    view = await world.managed.records.get_record("providers", "mine")
    assert resolve(view.body["api_key"]["$secret"]) == "sk-draft"


@in_loop
async def test_a_later_edit_in_a_draft_keeps_the_secret_that_an_earlier_one_set() -> None:
    world = ConfigWorld()
    body = {"adapter": "openai", "base_url": "http://127.0.0.1:1"}
    draft = await world.managed.drafts.create(ANN)
    await world.managed.drafts.put_record(draft.id, provider(), {**body, "api_key": "sk-1"})
    edited = await world.managed.drafts.put_record(
        draft.id, provider(), {**body, "base_url": "http://127.0.0.1:2"}
    )
    change = edited.changes["providers"]["mine"]
    assert isinstance(change, PutRecord)
    assert "$secret" in change.body["api_key"]
    await world.managed.drafts.publish(draft.id, by(ANN))
    assert (await world.managed.records.get_record("providers", "mine")).wire["has_api_key"]


@in_loop
async def test_deletions_and_creations_repeat_under_their_key() -> None:
    world = ConfigWorld()
    body = {"model_id": "scripted"}
    write = write_agent("one", idempotency_key="create", request_hash="h")
    first = await world.managed.records.create(write, body)
    again = await world.managed.records.create(write, body)
    assert first.publication.no == again.publication.no == 1
    write = write_agent("one", idempotency_key="delete", request_hash="h")
    first = await world.managed.records.delete(write)
    again = await world.managed.records.delete(write)
    assert first.publication.no == again.publication.no == 2
