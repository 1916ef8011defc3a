"""What every store promises, on the one in memory and on a real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from elastic_aws.errors import LeaseLostError, StoreError, StoreUnavailableError
from elastic_aws.store.connect import connect
from elastic_aws.store.memory_store import MemoryStore
from elastic_aws.store.protocol import (
    Changed,
    CreatedAt,
    Delete,
    Put,
    Removed,
    Resynced,
    Store,
    Unchanged,
    ValueIs,
    WatchEvent,
)
from tests.fakes.etcd_server import EtcdServer, running_etcd

LIMIT = 15.0
LIFE = timedelta(seconds=2)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A store under test: how to connect, break and replace it."""

    client: Callable[[], Store]
    stop: Callable[[], None]
    start: Callable[[], None]
    replace: Callable[[], None]

    def run(self, test: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
        """Run the test with a connection, under a deadline."""
        asyncio.run(asyncio.wait_for(self._with_client(test), 60))

    async def _with_client(self, test: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
        store = self.client()
        try:
            await test(store)
        finally:
            await store.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(params=["memory", "etcd"])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "memory":
        return _memory()
    server: EtcdServer = request.getfixturevalue("etcd")
    server.wipe()
    return Subject(
        client=lambda: connect([server.endpoint], call_timeout=timedelta(seconds=2)),
        stop=server.stop,
        start=server.start,
        replace=server.wipe,
    )


def _memory() -> Subject:
    store = MemoryStore()
    return Subject(client=store.client, stop=store.pause, start=store.resume, replace=store.replace)


async def _next(events: AsyncIterator[WatchEvent]) -> WatchEvent:
    return await asyncio.wait_for(anext(events), LIMIT)


async def _put(store: Store, key: str, value: bytes, lease: int = 0) -> int:
    return (await store.transact([], [Put(key=key, value=value, lease=lease)])).revision


def test_what_was_put_is_read_and_listed_in_key_order_under_its_prefix_only(subject: Subject) -> None:
    async def test(store: Store) -> None:
        assert await store.get("/a/1") is None
        for key in ("/a/2", "/a/1", "/b/1"):
            await _put(store, key, key.encode())
        rewritten = await _put(store, "/a/1", b"new")
        snapshot = await store.list("/a/")
        assert [(entry.key, entry.value) for entry in snapshot.entries] == [("/a/1", b"new"), ("/a/2", b"/a/2")]
        assert snapshot.revision >= rewritten
        assert snapshot.store_id
        assert snapshot.entries[0] == await store.get("/a/1")
        assert snapshot.entries[0].created < snapshot.entries[0].modified == rewritten

    subject.run(test)


def test_a_transaction_writes_all_or_nothing(subject: Subject) -> None:
    async def test(store: Store) -> None:
        first = await store.transact([Unchanged(key="/k", modified=0)], [Put(key="/k", value=b"1")])
        assert first.succeeded
        refused = await store.transact(
            [ValueIs(key="/k", value=b"1"), CreatedAt(key="/k", created=first.revision + 1)],
            [Put(key="/k", value=b"2"), Delete(key="/other")],
        )
        assert not refused.succeeded
        done = await store.transact(
            [Unchanged(key="/k", modified=first.revision), CreatedAt(key="/k", created=first.revision)],
            [Delete(key="/k"), Put(key="/l", value=b"3")],
        )
        assert done.succeeded
        assert await store.get("/k") is None
        entry = await store.get("/l")
        assert entry is not None
        assert entry.modified == done.revision

    subject.run(test)


def test_a_condition_on_the_value_of_an_absent_key_does_not_hold(subject: Subject) -> None:
    async def test(store: Store) -> None:
        assert not (await store.transact([ValueIs(key="/no", value=b"")], [Put(key="/no", value=b"1")])).succeeded

    subject.run(test)


def test_writing_a_key_twice_in_one_transaction_is_refused(subject: Subject) -> None:
    async def test(store: Store) -> None:
        with pytest.raises(StoreError):
            await store.transact([], [Put(key="/k", value=b"1"), Put(key="/k", value=b"2")])
        assert await store.get("/k") is None

    subject.run(test)


def test_a_revoked_lease_takes_its_keys_along_and_admits_no_more(subject: Subject) -> None:
    async def test(store: Store) -> None:
        lease = await store.grant(LIFE)
        assert lease.id
        revision = await _put(store, "/m/1", b"", lease.id)
        events = store.watch("/m/", after=revision)
        await lease.revoke()
        assert isinstance(await _next(events), Removed)
        await asyncio.wait_for(lease.lost(), LIMIT)
        with pytest.raises(LeaseLostError):
            await _put(store, "/m/1", b"", lease.id)

    subject.run(test)


def test_a_kept_lease_outlives_its_time_and_runs_out_once_its_client_is_gone(subject: Subject) -> None:
    async def test(store: Store) -> None:
        other = subject.client()
        kept, left = await store.grant(LIFE), await other.grant(LIFE)
        await _put(store, "/m/kept", b"", kept.id)
        revision = await _put(store, "/m/left", b"", left.id)
        events = store.watch("/m/", after=revision)
        await other.close()
        removed = await _next(events)
        assert isinstance(removed, Removed)
        assert removed.key == "/m/left"
        assert await store.get("/m/kept") is not None

    subject.run(test)


def test_a_lease_is_lost_by_the_clients_own_clock_while_the_store_is_down(subject: Subject) -> None:
    async def test(store: Store) -> None:
        lease = await store.grant(LIFE)
        subject.stop()
        try:
            await asyncio.wait_for(lease.lost(), LIMIT)
        finally:
            subject.start()

    subject.run(test)


def test_calls_fail_within_their_deadline_while_the_store_is_down_and_work_again_after(subject: Subject) -> None:
    async def test(store: Store) -> None:
        await _put(store, "/k", b"1")
        subject.stop()
        try:
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(store.get("/k"), LIMIT)
        finally:
            subject.start()
        assert await store.get("/k") is not None

    subject.run(test)


def test_a_watch_tells_every_change_after_its_revision_in_order(subject: Subject) -> None:
    async def test(store: Store) -> None:
        first = await _put(store, "/w/1", b"1")
        await _put(store, "/w/1", b"2")
        await _put(store, "/x/1", b"not under the prefix")
        await store.transact([], [Delete(key="/w/1"), Put(key="/w/2", value=b"3")])
        events = store.watch("/w/", after=first)
        told = [await _next(events) for _ in range(3)]
        assert isinstance(told[0], Changed)
        assert told[0].entry.value == b"2"
        assert {type(event) for event in told[1:]} == {Removed, Changed}

    subject.run(test)


def test_a_watch_goes_on_across_a_restart_of_the_store_and_misses_nothing(subject: Subject) -> None:
    async def test(store: Store) -> None:
        revision = (await store.list("/w/")).revision
        events = store.watch("/w/", after=revision)
        await _put(store, "/w/1", b"1")
        assert isinstance(await _next(events), Changed)
        subject.stop()
        subject.start()
        await _put(store, "/w/2", b"2")
        await _put(store, "/w/3", b"3")
        told = [await _next(events), await _next(events)]
        assert [event.entry.key for event in told if isinstance(event, Changed)] == ["/w/2", "/w/3"]

    subject.run(test)


def test_a_watch_says_so_when_the_store_was_replaced_by_an_empty_one(subject: Subject) -> None:
    async def test(store: Store) -> None:
        await _put(store, "/w/1", b"1")
        before = await store.list("/w/")
        events = store.watch("/w/", after=before.revision)
        await _put(store, "/w/2", b"2")
        assert isinstance(await _next(events), Changed)
        subject.replace()
        told = await _next(events)
        assert isinstance(told, Resynced)
        assert told.snapshot.entries == ()
        assert told.snapshot.store_id != before.store_id
        await _put(store, "/w/3", b"3")
        assert isinstance(await _next(events), Changed)

    subject.run(test)


def test_a_lease_is_lost_when_the_store_was_replaced(subject: Subject) -> None:
    async def test(store: Store) -> None:
        lease = await store.grant(LIFE)
        subject.replace()
        await asyncio.wait_for(lease.lost(), LIMIT)

    subject.run(test)
