"""The audit of managed configuration, and the purge that leaves what is needed."""

import asyncio

import msgspec

from awaken.contracts.config.audit import AuditAction, AuditAnchor, AuditQuery, find_broken_link
from awaken.contracts.config.errors import DraftNotFound, UnknownPublication
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.store import (
    ConfigPurge,
    ConfigStore,
    ConfigWrite,
    HeadTarget,
    PurgedConfig,
)

from .config_writing import (
    EPHEMERAL,
    LIST_MAX,
    ConfigWriter,
    check_chain,
    make_canary,
    make_draft,
    make_event,
    make_object,
    make_publication,
)
from .writing import refusal

change = msgspec.structs.replace
LATER = 1 << 50
"""A time after all others."""


async def audit_events_come_back_as_they_were(store: ConfigStore) -> None:
    """Every field; an event without a publication gets that of its write."""
    event = make_event(
        1,
        action=AuditAction.RESTORE,
        before="00" * 16,
        after="11" * 16,
        ip="::1",
        request_id="r",
        restored_from="event-0",
        error="ünï",
        message="why",
        details={"b": [1, 2.5, None], "a": {"z": True, "y": ""}},
    )
    own = make_event(2, publication=77)
    publisher = ConfigWriter(store)
    await publisher.publish(audit=(event, own))
    await store.write_config(ConfigWrite(audit=(make_event(3),)))
    found = [row.event for row in await check_chain(store)]
    assert found == [change(event, publication=1), own, make_event(3)]


async def audit_is_listed_by_what_it_names(store: ConfigStore) -> None:
    """Every filter alone and with others, newest first."""
    for number in range(12):
        event = make_event(
            number,
            actor=("ada", "bob")[number % 2],
            action=(AuditAction.CREATE, AuditAction.UPDATE, AuditAction.SWITCH)[number % 3],
            resource=f"agents/{number % 4}",
        )
        await store.write_config(ConfigWrite(audit=(event,)))

    async def find(**fields: object) -> list[int]:
        rows = await store.list_audit(AuditQuery(**fields))  # type: ignore[arg-type]
        return [row.event.at // 1000 for row in rows]

    assert await find() == list(range(11, -1, -1))
    assert await find(resource="agents/1") == [9, 5, 1]
    assert await find(actor="bob") == [11, 9, 7, 5, 3, 1]
    assert await find(action=AuditAction.SWITCH) == [11, 8, 5, 2]
    assert await find(since=3000, until=5000) == [5, 4, 3]
    assert await find(event_id="event-4") == [4]
    assert await find(event_id="event-4", resource="agents/0", actor="ada") == [4]
    assert await find(event_id="event-4", resource="agents/1") == []
    assert await find(resource="agents/1", action=AuditAction.SWITCH, actor="bob") == [5]
    assert await find(resource="agents/1", since=2000, until=8999) == [5]
    assert await find(resource="agents") == await find(resource="agents/%") == []
    assert await find(limit=0) == []


async def audit_pages_continue_where_the_last_ended(store: ConfigStore) -> None:
    """By the number of the last row, whatever is added meanwhile."""
    for number in range(9):
        event = make_event(number, resource=f"agents/{number % 2}")
        await store.write_config(ConfigWrite(audit=(event,)))
    wanted: tuple[tuple[str | None, list[int]], ...] = (
        (None, list(range(8, -1, -1))),
        ("agents/0", [8, 6, 4, 2, 0]),
    )
    for resource, expected in wanted:
        seen: list[int] = []
        before: int | None = None
        while rows := await store.list_audit(
            AuditQuery(resource=resource, before_no=before, limit=2)
        ):
            seen += [row.event.at // 1000 for row in rows]
            before = rows[-1].no
            await store.write_config(ConfigWrite(audit=(make_event(50, resource="agents/9"),)))
        assert [number for number in seen if number != 50] == expected
    chain = await store.read_audit_chain(after=2, limit=3)
    assert [row.no for row in chain] == [3, 4, 5]


async def a_changed_event_breaks_the_chain(store: ConfigStore) -> None:
    """As does one that is missing, moved or added; the number says where."""
    for number in range(6):
        await store.write_config(ConfigWrite(audit=(make_event(number),)))
    chain = list(await check_chain(store))
    start = AuditAnchor()
    assert find_broken_link(start, chain) is None
    changed = change(chain[2], event=change(chain[2].event, actor="eve"))
    assert find_broken_link(start, [*chain[:2], changed, *chain[3:]]) == 3
    assert find_broken_link(start, [*chain[:2], *chain[3:]]) == 3
    assert find_broken_link(start, chain[1:]) == 1
    assert find_broken_link(start, [*chain[:4], chain[5], chain[4]]) == 5
    assert find_broken_link(start, [*chain, chain[5]]) == 7
    assert find_broken_link(AuditAnchor(no=2, chain=chain[1].chain), chain[2:]) is None


async def a_purge_keeps_what_is_needed(store: ConfigStore) -> None:
    """The head, the canary, bases of drafts and pinned publications, however old."""
    publisher = ConfigWriter(store)
    for _ in range(4):
        await publisher.publish()
    await publisher.publish_ephemeral()
    await publisher.publish_ephemeral()
    await publisher.publish(
        head=ConfigHead(publication=2, canary=make_canary()), target=HeadTarget.CANARY
    )
    await publisher.publish(head=ConfigHead(canary=make_canary(7)))
    back = ConfigHead(publication=2, canary=make_canary(7))
    await store.write_config(ConfigWrite(head=back, expected_revision=6))
    await store.save_draft(make_draft("d", base=1, expires_at=LATER), 0)
    purge = ConfigPurge(
        pinned=frozenset({4, 6, 99}), keep_newest=0, live_before=LATER, ephemeral_before=LATER
    )
    purged = await store.purge_config(purge)
    assert (purged.publications, purged.drafts, purged.audit) == (3, 0, 0)
    left = await store.list_publications(with_ephemeral=True)
    assert [it.no for it in left] == [7, 6, 4, 2, 1]
    assert await store.find_config_head() == change(back, revision=7)
    assert await store.purge_config(purge) == PurgedConfig()
    assert (await publisher.publish()).no == 9


async def a_purge_keeps_the_newest_and_the_young(store: ConfigStore) -> None:
    """A live publication goes if it is old and not one of the newest; an ephemeral one by age."""
    publisher = ConfigWriter(store)
    for number in range(1, 9):
        await publisher.publish()
        if number % 2 == 0:
            await publisher.publish_ephemeral()
    live = [it.no for it in await store.list_publications()]
    assert live == [11, 10, 8, 7, 5, 4, 2, 1]
    none = frozenset[int]()
    assert await store.purge_config(ConfigPurge(pinned=none)) == PurgedConfig()
    await store.purge_config(ConfigPurge(pinned=none, keep_newest=0, live_before=3))
    assert [it.no for it in await store.list_publications()] == [11, 10, 8, 7, 5, 4]
    await store.purge_config(ConfigPurge(pinned=none, keep_newest=3, live_before=LATER))
    assert [it.no for it in await store.list_publications()] == [11, 10, 8]
    everything = await store.list_publications(with_ephemeral=True)
    assert [it.no for it in everything] == [12, 11, 10, 9, 8, 6, 3]
    await store.purge_config(ConfigPurge(pinned=none, ephemeral_before=6))
    everything = await store.list_publications(with_ephemeral=True)
    assert [it.no for it in everything] == [12, 11, 10, 9, 8]


async def a_purge_removes_objects_that_nothing_names(store: ConfigStore) -> None:
    """Those of publications and of audit events that stay remain."""
    publisher = ConfigWriter(store)
    names = [make_object(f"text {number}")[0] for number in range(1, 6)]
    for _ in names:
        await publisher.publish()
    none = frozenset[int]()
    old = ConfigPurge(pinned=frozenset({2}), keep_newest=1, live_before=LATER)
    purged = await store.purge_config(old)
    assert (purged.publications, purged.objects) == (3, 0)
    assert set(await store.load_objects(names)) == set(names)
    purged = await store.purge_config(ConfigPurge(pinned=none, audit_before=4000))
    assert (purged.audit, purged.objects) == (3, 2)
    assert set(await store.load_objects(names)) == {names[1], names[3], names[4]}
    last = await store.load_publication(5)
    assert last is not None
    entry = last.find_entry("agents", "a")
    assert entry is not None
    assert entry.hash == names[4]


async def a_pruned_chain_still_verifies(store: ConfigStore) -> None:
    """From its anchor on; only the start of the chain goes, even if a later event is older."""
    for at in (1, 2, 9, 3, 4):
        await store.write_config(ConfigWrite(audit=(make_event(at),)))
    chain = await check_chain(store)
    purge = ConfigPurge(pinned=frozenset(), audit_before=5000)
    assert (await store.purge_config(purge)).audit == 2
    assert await store.find_audit_anchor() == AuditAnchor(no=2, chain=chain[1].chain)
    assert await check_chain(store) == chain[2:]
    assert (await store.purge_config(purge)).audit == 0
    await store.write_config(ConfigWrite(audit=(make_event(10),)))
    assert [row.no for row in await check_chain(store)] == [3, 4, 5, 6]
    everything = ConfigPurge(pinned=frozenset(), audit_before=LATER)
    assert (await store.purge_config(everything)).audit == 4
    assert await check_chain(store) == ()
    await store.write_config(ConfigWrite(audit=(make_event(11),)))
    assert [row.no for row in await check_chain(store)] == [7]


async def a_purge_removes_drafts_and_keys_by_age(store: ConfigStore) -> None:
    """A base is free once its draft is gone; a forgotten key can be used anew."""
    publisher = ConfigWriter(store)
    await publisher.publish(idempotency_key="key", request_hash="h")
    await publisher.publish()
    await store.save_draft(make_draft("old", base=1, expires_at=10), 0)
    await store.save_draft(make_draft("young", base=2, expires_at=11), 0)
    purge = ConfigPurge(
        pinned=frozenset(), keep_newest=0, live_before=LATER, drafts_before=11, requests_before=1
    )
    purged = await store.purge_config(purge)
    assert purged == PurgedConfig(publications=1, drafts=1)
    assert [it.id for it in await store.list_drafts()] == ["young"]
    await refusal(DraftNotFound, store.save_draft(make_draft("old"), 1))
    repeated = await store.write_config(
        await publisher.build(idempotency_key="key", request_hash="h")
    )
    assert (repeated.is_repeated, repeated.publication) == (True, None)
    purged = await store.purge_config(change(purge, requests_before=LATER))
    assert purged == PurgedConfig(requests=1)
    assert await store.find_config_request("key") is None
    assert (await publisher.publish(idempotency_key="key", request_hash="other")).no == 3


async def a_purge_that_races_with_writers_loses_nothing(store: ConfigStore) -> None:
    """Every publication that stays has its objects, and so does what is written meanwhile."""
    publisher = ConfigWriter(store)
    purge = ConfigPurge(
        pinned=frozenset(),
        keep_newest=1,
        live_before=LATER,
        ephemeral_before=LATER,
        audit_before=LATER,
    )
    name, _ = made = make_object("text 1")
    again = ConfigWrite(
        objects=dict([made]), publication=make_publication({"a": name}, 1, kind=EPHEMERAL)
    )
    for _ in range(6):
        await publisher.publish()
        publisher.count = publisher.count % 2
        # Rolls back to a publication that the purge may remove, or uses an object again.
        oldest = (await store.list_publications(limit=LIST_MAX))[-1].no
        head = await store.find_config_head() or ConfigHead()
        outcomes = await asyncio.gather(
            store.purge_config(purge),
            store.write_config(
                ConfigWrite(head=change(head, publication=oldest), expected_revision=head.revision)
            ),
            store.purge_config(purge),
            store.write_config(again),
            return_exceptions=True,
        )
        failed = [it for it in outcomes if isinstance(it, BaseException)]
        assert all(isinstance(it, UnknownPublication) for it in failed), failed
        await check_chain(store)
        now = await store.find_config_head()
        assert now is not None
        for listed in await store.list_publications(with_ephemeral=True):
            kept = await store.load_publication(listed.no)
            assert kept is not None
            hashes = [it.hash for it in kept.manifest["agents"].values()]
            assert set(await store.load_objects(hashes)) == set(hashes)
        assert now.publication is not None
        assert await store.load_publication(now.publication) is not None


CHECKS = (
    audit_events_come_back_as_they_were,
    audit_is_listed_by_what_it_names,
    audit_pages_continue_where_the_last_ended,
    a_changed_event_breaks_the_chain,
    a_purge_keeps_what_is_needed,
    a_purge_keeps_the_newest_and_the_young,
    a_purge_removes_objects_that_nothing_names,
    a_pruned_chain_still_verifies,
    a_purge_removes_drafts_and_keys_by_age,
    a_purge_that_races_with_writers_loses_nothing,
)
