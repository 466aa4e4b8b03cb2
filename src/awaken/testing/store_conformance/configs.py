"""Managed configuration: writes that are whole or absent, drafts and secrets."""

import asyncio
from typing import Any

import msgspec

from awaken.contracts.config.audit import AuditQuery
from awaken.contracts.config.drafts import DeleteRecord, PatchRecord, PutRecord
from awaken.contracts.config.errors import (
    DraftConflict,
    DraftNotFound,
    HeadMoved,
    UnknownPublication,
)
from awaken.contracts.config.heads import ConfigHead, Switch, SwitchKind, SwitchState
from awaken.contracts.config.publications import hash_object
from awaken.contracts.config.store import ConfigReceipt, ConfigStore, ConfigWrite, HeadTarget
from awaken.contracts.errors import IdempotencyConflict, InvalidRecord

from .config_writing import (
    EPHEMERAL,
    ConfigWriter,
    check_chain,
    make_canary,
    make_draft,
    make_event,
    make_object,
    make_publication,
    make_secret,
    read_config,
)
from .writing import refusal

change = msgspec.structs.replace
WRITERS = 20


async def an_empty_store_has_no_configuration(store: ConfigStore) -> None:
    """Nothing is there, and looking for it is no error."""
    assert await store.find_config_head() is None
    assert await store.load_publication(1) is None
    assert await store.list_publications(with_ephemeral=True) == ()
    assert await store.load_objects([]) == {}
    assert await store.load_objects(["ab" * 16, "no hash", ""]) == {}
    assert await store.find_draft("d") is None
    assert await store.list_drafts() == ()
    assert await store.list_secrets() == ()
    assert await store.find_config_request("key") is None
    assert await store.find_audit_anchor() == await store.find_audit_end()
    assert await store.list_audit(AuditQuery()) == ()
    assert await store.delete_draft("d") is False


async def a_publication_comes_back_as_it_was(store: ConfigStore) -> None:
    """With its number, its manifest, its changes and its objects; the head names it."""
    publisher = ConfigWriter(store)
    write = await publisher.build()
    receipt = await store.write_config(write)
    assert write.publication is not None
    assert receipt.publication == change(write.publication, no=1)
    assert receipt.head == ConfigHead(publication=1, revision=1)
    assert not receipt.is_repeated
    assert await store.find_config_head() == receipt.head
    assert await store.load_publication(1) == receipt.publication
    assert await store.load_objects(write.objects) == write.objects
    second = await publisher.publish()
    assert (second.no, second.parent) == (2, 1)
    assert await store.load_publication(1) == receipt.publication


async def the_head_keeps_its_canary_and_switches(store: ConfigStore) -> None:
    """Every part of the head comes back; a canary gets the number of its publication."""
    publisher = ConfigWriter(store)
    await publisher.publish()
    stop = Switch(
        kind=SwitchKind.AGENT, id="a", state=SwitchState.PAUSED, reason="ünsafe", by="ada", at=5
    )
    head = ConfigHead(publication=1, canary=make_canary(99), switches=(stop,))
    tried = await publisher.publish(head=head, target=HeadTarget.CANARY)
    expected = change(head, revision=2, canary=make_canary(tried.no))
    assert await store.find_config_head() == expected
    await store.write_config(
        ConfigWrite(head=ConfigHead(publication=tried.no, revision=77), expected_revision=2)
    )
    assert await store.find_config_head() == ConfigHead(publication=2, revision=3)


async def a_moved_head_refuses_the_write(store: ConfigStore) -> None:
    """With everything in it; the error says where the head is."""
    publisher = ConfigWriter(store)
    await store.save_draft(make_draft("d"), 0)
    late = await publisher.build(
        secrets=(make_secret("providers/x/key"),), removed_draft="d", idempotency_key="new"
    )
    await publisher.publish()
    moved = await publisher.expect_refusal(HeadMoved, late)
    assert (moved.expected, moved.actual) == (0, 1)
    early = await publisher.build(expected_revision=2)
    moved = await publisher.expect_refusal(HeadMoved, early)
    assert (moved.expected, moved.actual) == (2, 1)
    await publisher.expect_refusal(HeadMoved, ConfigWrite(expected_revision=0))


async def a_write_without_a_head_leaves_it(store: ConfigStore) -> None:
    """An ephemeral publication, audit events and secrets move no head."""
    publisher = ConfigWriter(store)
    tried = await publisher.publish_ephemeral()
    assert (tried.no, tried.kind) == (1, EPHEMERAL)
    assert await store.find_config_head() is None
    await publisher.publish()
    head = await store.find_config_head()
    assert head == ConfigHead(publication=2, revision=1)
    receipt = await store.write_config(ConfigWrite(audit=(make_event(9),)))
    assert receipt == ConfigReceipt(head=head)
    await store.write_config(ConfigWrite(secrets=(make_secret("a"),), expected_revision=1))
    assert await store.find_config_head() == head


async def numbers_are_never_used_again(store: ConfigStore) -> None:
    """A refused write leaves no gap; each publication has the next number."""
    publisher = ConfigWriter(store)
    assert (await publisher.publish()).no == 1
    await refusal(HeadMoved, store.write_config(await publisher.build(expected_revision=9)))
    assert (await publisher.publish_ephemeral()).no == 2
    assert (await publisher.publish()).no == 3


async def a_write_whose_parts_do_not_fit_is_refused(store: ConfigStore) -> None:
    """It would leave a head that names nothing, or an object under a wrong name."""
    publisher = ConfigWriter(store)
    await publisher.publish()
    whole = await publisher.build()
    assert whole.publication is not None
    other = hash_object(b"other")
    ephemeral = change(whole.publication, kind=EPHEMERAL)
    elsewhere = make_publication({"a": other}, 1)
    parts: tuple[dict[str, Any], ...] = (
        {"expected_revision": None},
        {"head": None},
        {"publication": None},
        {"publication": ephemeral},
        {"target": HeadTarget.CANARY},
        {"objects": {other: b"{}"}},
        {"objects": {}, "publication": elsewhere},
        {"idempotency_key": ""},
        {"removed_draft": "d", "draft_revision": 0},
    )
    for wrong in parts:
        await publisher.expect_refusal(InvalidRecord, change(whole, **wrong))
    assert (await publisher.publish()).no == 2


async def a_head_names_publications_that_exist(store: ConfigStore) -> None:
    """A rollback to one that was purged meanwhile is refused, for live and for the canary."""
    publisher = ConfigWriter(store)
    await publisher.publish()
    await publisher.publish()
    for head in (ConfigHead(publication=7), ConfigHead(publication=1, canary=make_canary(7))):
        write = ConfigWrite(head=head, expected_revision=2, audit=(make_event(1),))
        assert (await publisher.expect_refusal(UnknownPublication, write)).no == 7
    back = ConfigWrite(head=ConfigHead(publication=1), expected_revision=2)
    assert (await store.write_config(back)).head == ConfigHead(publication=1, revision=3)


async def the_same_request_is_applied_once(store: ConfigStore) -> None:
    """Again it gives the same publication and the head of now; another request is refused."""
    publisher = ConfigWriter(store)
    write = await publisher.build(idempotency_key="key", request_hash="h", audit=(make_event(1),))
    first = await store.write_config(write)
    assert await store.find_config_request("key") == ("h", 1)
    second = await publisher.publish()
    before = await read_config(store)
    again = await store.write_config(write)
    assert again == ConfigReceipt(
        publication=first.publication,
        head=ConfigHead(publication=second.no, revision=2),
        is_repeated=True,
    )
    assert await read_config(store) == before
    other = change(write, request_hash="other", expected_revision=2)
    await publisher.expect_refusal(IdempotencyConflict, other)
    assert await store.find_config_request("key") == ("h", 1)


async def a_request_without_a_publication_is_remembered(store: ConfigStore) -> None:
    """Such as a switch: once, with the head of now."""
    write = ConfigWrite(
        head=ConfigHead(), expected_revision=0, idempotency_key="key", audit=(make_event(1),)
    )
    await store.write_config(write)
    assert await store.find_config_request("key") == ("", None)
    again = await store.write_config(write)
    assert again == ConfigReceipt(head=ConfigHead(revision=1), is_repeated=True)
    assert len(await check_chain(store)) == 1


async def a_failing_part_leaves_nothing(store: ConfigStore) -> None:
    """Whichever part is refused: no object, publication, head, audit, secret, draft or key."""
    publisher = ConfigWriter(store)
    await publisher.publish(secrets=(make_secret("kept"),))
    await store.save_draft(make_draft("d"), 0)
    await store.save_draft(make_draft("e"), 0)
    whole = await publisher.build(
        secrets=(make_secret("providers/x/key"), make_secret("kept", 2)),
        removed_secrets=("kept",),
        removed_draft="d",
        draft_revision=1,
        idempotency_key="new-key",
    )
    bad = make_event(5, details={"text": "\ud800"})
    wrong: tuple[tuple[type[Exception], dict[str, Any]], ...] = (
        (HeadMoved, {"expected_revision": 0}),
        (DraftNotFound, {"removed_draft": "absent"}),
        (DraftConflict, {"draft_revision": 2}),
        (UnknownPublication, {"head": ConfigHead(publication=1, canary=make_canary(99))}),
        (InvalidRecord, {"audit": (*whole.audit, bad)}),
    )
    for error, part in wrong:
        await publisher.expect_refusal(error, change(whole, **part))
    receipt = await store.write_config(whole)
    assert receipt.head == ConfigHead(publication=2, revision=2, secrets_at=2)
    assert await store.find_draft("d") is None
    assert await store.list_secrets() == (make_secret("kept", 2), make_secret("providers/x/key"))


async def one_writer_wins_each_revision(store: ConfigStore) -> None:
    """Of writers that saw the same head exactly one is applied; no audit event is lost."""
    name, body = make_object("text")
    for revision in range(3):
        writes = [
            ConfigWrite(
                objects={name: body},
                publication=make_publication({"a": name}, number),
                target=HeadTarget.LIVE,
                head=ConfigHead(),
                expected_revision=revision,
                audit=(make_event(number), make_event(number)),
            )
            for number in range(WRITERS)
        ]
        outcomes = await asyncio.gather(*map(store.write_config, writes), return_exceptions=True)
        won = [it for it in outcomes if isinstance(it, ConfigReceipt)]
        lost = [it for it in outcomes if isinstance(it, HeadMoved)]
        assert (len(won), len(lost)) == (1, WRITERS - 1), outcomes
        head = await store.find_config_head()
        assert head == won[0].head == ConfigHead(publication=revision + 1, revision=revision + 1)
        assert len(await check_chain(store)) == 2 * (revision + 1)


async def writers_that_race_make_one_chain(store: ConfigStore) -> None:
    """Writers without a head all succeed: numbers have no gap, and no link has two successors."""
    writes = [
        ConfigWrite(
            publication=make_publication({}, number, kind=EPHEMERAL),
            audit=tuple(make_event(number, resource=f"agents/{n}") for n in range(number % 3)),
            secrets=(make_secret(f"s{number % 4}", number),),
        )
        for number in range(WRITERS)
    ]
    receipts = await asyncio.gather(*map(store.write_config, writes))
    numbers = [it.publication.no for it in receipts if it.publication is not None]
    assert sorted(numbers) == list(range(1, WRITERS + 1))
    chain = await check_chain(store)
    assert len(chain) == sum(number % 3 for number in range(WRITERS))
    for row in chain:
        number = row.event.at // 1000
        assert row.event.publication == numbers[number]


async def the_same_key_from_many_writers_is_applied_once(store: ConfigStore) -> None:
    """A retry that races with the first attempt repeats it."""
    publisher = ConfigWriter(store)
    write = await publisher.build(idempotency_key="key", request_hash="h")
    receipts = await asyncio.gather(*(store.write_config(write) for _ in range(WRITERS)))
    assert sorted(it.is_repeated for it in receipts) == [False] + [True] * (WRITERS - 1)
    assert {it.publication.no for it in receipts if it.publication is not None} == {1}
    assert len(await check_chain(store)) == 1


async def publications_are_listed_newest_first(store: ConfigStore) -> None:
    """By pages, without manifests; ephemeral ones only if asked for."""
    publisher = ConfigWriter(store)
    for number in range(7):
        await (publisher.publish_ephemeral() if number % 3 == 2 else publisher.publish())
    live = await store.list_publications()
    assert [it.no for it in live] == [7, 5, 4, 2, 1]
    assert not any(it.manifest or it.code for it in live)
    whole = await store.load_publication(7)
    assert whole is not None
    assert live[0] == change(whole, manifest={}, code={})
    everything = await store.list_publications(with_ephemeral=True)
    assert [it.no for it in everything] == [7, 6, 5, 4, 3, 2, 1]
    page = await store.list_publications(before=5, limit=2)
    assert [it.no for it in page] == [4, 2]
    page = await store.list_publications(before=5, limit=2, with_ephemeral=True)
    assert [it.no for it in page] == [4, 3]
    assert await store.list_publications(limit=0) == ()
    assert await store.list_publications(before=1) == ()


async def many_objects_are_loaded_at_once(store: ConfigStore) -> None:
    """More than fit into one statement; those that do not exist are left out."""
    objects = dict(make_object(f"text {number}") for number in range(300))
    large = b'"' + b"x" * 1_000_000 + b'"'
    objects[hash_object(large)] = large
    manifest = {f"agent-{number}": name for number, name in enumerate(objects)}
    publication = make_publication(manifest, 1, kind=EPHEMERAL)
    await store.write_config(ConfigWrite(objects=objects, publication=publication))
    await store.write_config(ConfigWrite(objects=objects))
    absent = hash_object(b"absent")
    assert await store.load_objects([*objects, absent, absent]) == objects
    assert await store.load_publication(1) == change(publication, no=1)


async def a_draft_counts_its_edits(store: ConfigStore) -> None:
    """Each edit names the revision that it saw; every part comes back."""
    publisher = ConfigWriter(store)
    await publisher.publish()
    changes = {
        "agents": {"a": PutRecord(body={"x": [1, None]}), "b": DeleteRecord()},
        "tools": {"t": PatchRecord(body={"y": "ü"}, is_hidden=True)},
    }
    draft = make_draft("d", base=1, changes=changes, revision=40)
    first = await store.save_draft(draft, 0)
    assert first == change(draft, revision=1)
    assert await store.find_draft("d") == first
    second = await store.save_draft(change(first, title="Other", updated_at=9), 1)
    assert second == change(first, title="Other", updated_at=9, revision=2)
    for expected in (0, 1, 3):
        conflict = await refusal(DraftConflict, store.save_draft(first, expected))
        assert (conflict.expected, conflict.actual) == (expected, 2)
    assert await store.list_drafts() == (second,)


async def a_draft_that_is_gone_is_not_saved_again(store: ConfigStore) -> None:
    """An edit of a discarded draft does not bring it back; its id can be used anew."""
    await store.save_draft(make_draft("d"), 0)
    assert await store.delete_draft("d") is True
    assert await store.delete_draft("d") is False
    await refusal(DraftNotFound, store.save_draft(make_draft("d"), 1))
    assert await store.find_draft("d") is None
    assert (await store.save_draft(make_draft("d"), 0)).revision == 1


async def the_base_of_a_draft_exists(store: ConfigStore) -> None:
    """A draft that is begun on a purged publication is refused."""
    unknown = await refusal(UnknownPublication, store.save_draft(make_draft("d", base=1), 0))
    assert unknown.no == 1
    assert await store.list_drafts() == ()


async def drafts_are_listed_by_their_last_edit(store: ConfigStore) -> None:
    """The latest edited first, ties by id."""
    for name, at in (("b", 5), ("a", 5), ("c", 9), ("d", 1)):
        await store.save_draft(make_draft(name, updated_at=at), 0)
    assert [it.id for it in await store.list_drafts()] == ["c", "a", "b", "d"]


async def one_editor_wins_each_revision_of_a_draft(store: ConfigStore) -> None:
    """Of editors that saw the same revision exactly one is applied."""
    for expected in range(2):
        edits = [
            store.save_draft(make_draft("d", title=f"by {n}"), expected) for n in range(WRITERS)
        ]
        outcomes = await asyncio.gather(*edits, return_exceptions=True)
        lost = [it for it in outcomes if isinstance(it, DraftConflict)]
        assert len(lost) == WRITERS - 1, outcomes
        won = [it for it in outcomes if not isinstance(it, BaseException)]
        assert await store.find_draft("d") == won[0]


async def secrets_are_replaced_and_removed(store: ConfigStore) -> None:
    """By name, sorted; bytes come back as they were, and the head says when they changed."""
    names = ("b", "a/ü", "a/b", "B")
    await store.write_config(
        ConfigWrite(
            head=ConfigHead(), expected_revision=0, secrets=tuple(make_secret(it) for it in names)
        )
    )
    assert [it.ref for it in await store.list_secrets()] == ["B", "a/b", "a/ü", "b"]
    write = ConfigWrite(
        head=ConfigHead(secrets_at=1),
        expected_revision=1,
        secrets=(make_secret("b", 2),),
        removed_secrets=("B", "absent", "a/ü"),
    )
    receipt = await store.write_config(write)
    assert receipt.head == ConfigHead(revision=2, secrets_at=2)
    assert await store.list_secrets() == (make_secret("a/b"), make_secret("b", 2))
    kept = ConfigWrite(head=ConfigHead(secrets_at=2), expected_revision=2)
    assert (await store.write_config(kept)).head == ConfigHead(revision=3, secrets_at=2)


CHECKS = (
    an_empty_store_has_no_configuration,
    a_publication_comes_back_as_it_was,
    the_head_keeps_its_canary_and_switches,
    a_moved_head_refuses_the_write,
    a_write_without_a_head_leaves_it,
    numbers_are_never_used_again,
    a_write_whose_parts_do_not_fit_is_refused,
    a_head_names_publications_that_exist,
    the_same_request_is_applied_once,
    a_request_without_a_publication_is_remembered,
    a_failing_part_leaves_nothing,
    one_writer_wins_each_revision,
    writers_that_race_make_one_chain,
    the_same_key_from_many_writers_is_applied_once,
    publications_are_listed_newest_first,
    many_objects_are_loaded_at_once,
    a_draft_counts_its_edits,
    a_draft_that_is_gone_is_not_saved_again,
    the_base_of_a_draft_exists,
    drafts_are_listed_by_their_last_edit,
    one_editor_wins_each_revision_of_a_draft,
    secrets_are_replaced_and_removed,
)
