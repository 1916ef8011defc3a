"""Making a checkpoint the newest: one transaction, fenced by the round."""

from __future__ import annotations

import asyncio

from elastic_aws.agent.group_events import CommitAsked, NewestAsked
from elastic_aws.errors import MalformedRecordError, StoreError
from elastic_aws.event_log import Emit
from elastic_aws.events import CheckpointCommitted, CommitRefused
from elastic_aws.round_record import CommitRecord, RoundRecord, StoreKeys, decode, encode
from elastic_aws.store.protocol import Entry, Put, Store, Unchanged

RETRY_SECONDS = 0.2
ATTEMPTS = 5
"""Against another writer of the same keys. An unreachable store is waited for as long as the round lasts."""


class Commits:
    """Commits for the workers of this node. `round` is the round's entry as this node last saw it."""

    def __init__(self, *, store: Store, keys: StoreKeys, emit: Emit) -> None:
        self.round: Entry | None = None
        self._store = store
        self._keys = keys
        self._emit = emit

    async def commit(self, asked: CommitAsked) -> None:
        """Commit and reply; refuse what is of a round that is over, or older than the newest."""
        reason = await self._commit(asked.record)
        record = asked.record
        if reason:
            self._emit(CommitRefused(round=record.round, step=record.step, reason=reason))
        else:
            self._emit(CheckpointCommitted(round=record.round, step=record.step, place=record.place))
        asked.reply(not reason, reason)

    async def _commit(self, record: CommitRecord) -> str:
        """Answer why not, or an empty text."""
        for _ in range(ATTEMPTS):
            current = await self._read(self._keys.round)
            if current is not None:
                self.round = current
            if self.round is None:
                return "there is no round"
            number = decode(RoundRecord, self.round.value).number
            if number != record.round:
                return f"round {record.round} is over, this is round {number}"
            newest = await self._read(self._keys.commit)
            if newest is not None and decode(CommitRecord, newest.value).step > record.step:
                return f"step {decode(CommitRecord, newest.value).step} is committed already"
            conditions = [
                Unchanged(key=self._keys.round, modified=current.modified if current else 0),
                Unchanged(key=self._keys.commit, modified=newest.modified if newest else 0),
            ]
            try:
                done = await self._store.transact(conditions, [Put(key=self._keys.commit, value=encode(record))])
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)  # unclear whether it was done: the next look tells
                continue
            if done.succeeded:
                return ""
        return "other commits came in between"

    async def newest(self, asked: NewestAsked) -> None:
        """Reply with the newest commit."""
        entry = await self._read(self._keys.commit)
        try:
            asked.reply(decode(CommitRecord, entry.value) if entry else None)
        except MalformedRecordError:
            asked.reply(None)

    async def _read(self, key: str) -> Entry | None:
        while True:
            try:
                return await self._store.get(key)
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)
