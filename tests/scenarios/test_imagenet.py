"""The example that users copy, on real data: its train.py under real agents and etcd; only the cloud is missing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from elastic_aws.event_log import from_line
from elastic_aws.events import Progress, RoundFormed
from elastic_aws.round_record import Bounds, CommitRecord, StoreKeys, decode, encode
from elastic_aws.store.connect import connect
from elastic_aws.store.protocol import Put, Store
from elastic_aws.training.ledger import audit, read_committed
from tests.fakes.etcd_server import EtcdServer, running_etcd
from tests.waiting import until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "imagenet"
TRAINING_IMAGES, HELD_OUT_IMAGES = 1437, 360
EPOCHS, GLOBAL_BATCH, SAVE_EVERY = 4, 48, 10
STEPS_AN_EPOCH = 30
CHANCE = 10.0
"""Percent of ten digits that a guess gets right."""
LIMIT = timedelta(seconds=150)
KEYS = StoreKeys(job="digits")


def prepare(out: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLE / "prepare_digits.py"), "--out", str(out)], check=True, timeout=60)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "digits"
    prepare(out)
    return out


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def test_the_digits_are_written_once_as_an_image_folder(digits: Path) -> None:
    sizes = {split: len(list((digits / split).glob("?/*.png"))) for split in ("train", "val")}
    assert sizes == {"train": TRAINING_IMAGES, "val": HELD_OUT_IMAGES}
    assert [path.name for path in sorted((digits / "train").iterdir())] == list("0123456789")
    before = written(digits)
    prepare(digits)
    assert written(digits) == before, "the second call is a no-op"
    assert [path.name for path in digits.parent.iterdir()] == ["digits"], "no draft stays behind"


class Nodes:
    """Agents as processes; what they saw is in their events."""

    def __init__(self, etcd: EtcdServer, folder: Path, data: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        options = [f"--data={data}", "--arch=digits-small", "--side=32", "--no-flip", "--loaders=0", "--lr=0.05"]
        options += [f"--epochs={EPOCHS}", f"--global-batch={GLOBAL_BATCH}", f"--save-every={SAVE_EVERY}"]
        self._script = [str(EXAMPLE / "train.py"), *options, "--warm-up-epochs=1"]
        self._etcd = etcd

    def start(self, name: str) -> None:
        program = [sys.executable, "-m", "tests.scenarios.scripts.agent_of_one_node"]
        command = [*program, self._etcd.endpoint, KEYS.job, name, str(self.folder), *self._script]
        self._running[name] = subprocess.Popen(command, cwd=ROOT)

    def kill(self, name: str) -> None:
        self._running[name].kill()
        self._running.pop(name).wait()

    def ended(self) -> list[int] | None:
        codes = [process.poll() for process in self._running.values()]
        return None if None in codes else [code for code in codes if code is not None]

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)

    def logs(self) -> str:
        return "\n".join(f"{path}:\n{path.read_text()[-2000:]}" for path in self.folder.glob("*/round-*/*.log"))

    def world_sizes(self) -> list[int]:
        """Of the rounds, in order."""
        formed = [each for each in self._events() if isinstance(each, RoundFormed)]
        return [each.world_size for each in sorted(formed, key=lambda each: each.round)]

    def accuracies(self) -> list[float]:
        """Percent of the held-out digits that were recognized, by epoch."""
        seen = {each.epoch: each.metrics["val_top1"] for each in self._progress() if "val_top1" in each.metrics}
        return [seen[epoch] for epoch in sorted(seen)]

    def _progress(self) -> list[Progress]:
        return sorted((each for each in self._events() if isinstance(each, Progress)), key=lambda each: each.step)

    def _events(self) -> Iterator[object]:
        for file in self.folder.glob("*/events.jsonl"):
            yield from (from_line(line).event for line in file.read_text().splitlines())


@contextlib.contextmanager
def nodes_of_a_job(folder: Path, data: Path) -> Iterator[tuple[EtcdServer, Nodes]]:
    with running_etcd(folder) as etcd:
        nodes = Nodes(etcd, folder / "nodes", data)
        try:
            yield etcd, nodes
        finally:
            nodes.close()


async def set_bounds(store: Store, *, target: int) -> None:
    """`target` nodes at most: one more is a spare."""
    bounds = Bounds(min=1, max=target, target=target)
    await store.transact([], [Put(key=KEYS.bounds, value=encode(bounds))])


async def members(store: Store, count: int) -> None:
    """Wait for so many nodes."""
    async with asyncio.timeout(LIMIT.total_seconds()):
        async for _ in store.watch(KEYS.members, after=1):
            if len((await store.list(KEYS.members)).entries) == count:
                return


async def commit_in(store: Store, *, epoch: int, after_round: int) -> CommitRecord:
    """Wait for a checkpoint of a later round in the middle of an epoch, not before this one."""
    seen: list[CommitRecord] = []

    def fits() -> bool:
        if not seen or seen[-1].round <= after_round or seen[-1].epoch < epoch:
            return False
        return seen[-1].step % STEPS_AN_EPOCH == SAVE_EVERY  # most of the epoch is still to come

    async with asyncio.timeout(LIMIT.total_seconds()):
        async for _ in store.watch(KEYS.commit, after=1):
            entry = await store.get(KEYS.commit)
            if entry is not None:
                seen.append(decode(CommitRecord, entry.value))
            if fits():
                return seen[-1]
    raise AssertionError("a watch never ends")


def worlds_by_epoch(lines: tuple[str, ...]) -> dict[int, set[int]]:
    """The sizes of the worlds that trained each epoch: every rank writes one line a step."""
    steps = Counter((entry["epoch"], entry["step"]) for entry in map(json.loads, lines))
    found: dict[int, set[int]] = {}
    for (epoch, _), ranks in steps.items():
        found.setdefault(epoch, set()).add(ranks)
    return found


def test_the_example_learns_real_digits_and_loses_none_through_a_third_node_and_a_killed_one(
    tmp_path: Path, digits: Path
) -> None:
    async def whole(etcd: EtcdServer, nodes: Nodes) -> CommitRecord:
        store = connect([etcd.endpoint], call_timeout=timedelta(seconds=2))
        try:
            for name in ("a", "b", "c"):
                nodes.start(name)
            await members(store, 3)
            await set_bounds(store, target=2)  # without bounds there is no round
            two = await commit_in(store, epoch=1, after_round=0)
            await set_bounds(store, target=3)  # the spare gets a seat, in the middle of an epoch
            three = await commit_in(store, epoch=two.epoch + 1, after_round=two.round)
            nodes.kill("b")  # without a word: what came after the newest checkpoint is trained again
            codes = await until(nodes.ended, limit=LIMIT, what="the job ends")
            assert codes == [0, 0], nodes.logs()
            newest = await store.get(KEYS.commit)
            assert newest is not None
            last = decode(CommitRecord, newest.value)
            assert last.round > three.round, "the job went on after the loss"
            return last
        finally:
            await store.close()

    with nodes_of_a_job(tmp_path, digits) as (etcd, nodes):
        last = asyncio.run(whole(etcd, nodes))
        assert nodes.world_sizes()[:3] == [2, 3, 2]
    committed = read_committed(last.place)
    assert (committed.epoch, last.step) == (EPOCHS, EPOCHS * STEPS_AN_EPOCH)
    for epoch in audit(committed, dataset_size=TRAINING_IMAGES):
        assert (epoch.missed, epoch.repeated) == (0, 0), epoch
    assert {2, 3} in worlds_by_epoch(committed.lines).values(), "an epoch that two worlds shared"
    first, *_, final = nodes.accuracies()
    assert final > first, nodes.accuracies()
    assert final > 6 * CHANCE
