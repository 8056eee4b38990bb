"""The view of `by_index()` as the map-style dataset of Trainers, DataLoaders and Grain."""

from __future__ import annotations

import importlib.util
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, Subset, random_split

from fastload import FastParquetDataset
from launching import require
from support.sample_files import ids_of, write_sample

ROWS = 200
TIMEOUT_S = 60
GRAIN_COLUMNS = ["id", "price", "name"]

# Trainers warn of torch, and of a machine without a GPU.
of_trainers = pytest.mark.filterwarnings("ignore")
# Grain and its libraries warn of names of their own.
of_grain = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("rows") / "sample.parquet", ROWS, 64)


@pytest.fixture(scope="module")
def prices(path):
    """The price of each row as pyarrow reads the price, by id."""
    table = pq.read_table(path, columns=["id", "price"])
    return dict(zip(table["id"].to_pylist(), table["price"].to_pylist(), strict=True))


class Regression(torch.nn.Module):
    """A model of Hugging Face's Trainer that remembers the rows of its batches."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.trained = []
        self.evaluated = []

    def forward(self, rows, labels):
        (self.trained if self.training else self.evaluated).append(rows.tolist())
        logits = self.linear(labels[:, None])[:, 0]
        return {"loss": (logits - labels).square().mean(), "logits": rows.float()}


def view_of(path, **options):
    # The Trainer drops the column `name`, which is no argument of forward().
    columns = {"rows": "id", "labels": "price", "name": "name"}
    return FastParquetDataset(path, columns=columns, threads=1, **options).by_index()


def hugging_face(path, directory, **arguments):
    import transformers

    settings = transformers.TrainingArguments(
        str(directory),
        use_cpu=True,
        num_train_epochs=2,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=48,
        save_strategy="steps",
        save_steps=5,
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        learning_rate=0.1,
        **arguments,
    )
    return transformers.Trainer(
        Regression(),
        settings,
        train_dataset=view_of(path),
        eval_dataset=view_of(path, filters=[("id", ">=", 100)]),
    )


@of_trainers
@pytest.mark.parametrize("workers", [0, 1])
def test_trainer_of_hugging_face(path, prices, tmp_path, workers):
    require("transformers")
    more = {"dataloader_num_workers": workers}
    whole = hugging_face(path, tmp_path / "run", **more)
    whole.train()
    batches = whole.model.trained
    assert [len(batch) for batch in batches] == [*[32] * 6, 8] * 2
    epochs = [[row for batch in batches[start : start + 7] for row in batch] for start in (0, 7)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(ROWS))] * 2
    assert epochs[0] != epochs[1] != list(range(ROWS))

    predicted = whole.predict(whole.eval_dataset)
    assert predicted.predictions.tolist() == list(range(100, ROWS))
    assert predicted.label_ids.tolist() == [prices[row] for row in range(100, ROWS)]
    whole.model.evaluated.clear()
    whole.evaluate()
    assert [row for batch in whole.model.evaluated for row in batch] == list(range(100, ROWS))

    resumed = hugging_face(path, tmp_path / "run", **more)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-5"))
    assert resumed.model.trained == batches[5:]
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


@of_trainers
def test_trainer_of_lightning(path, tmp_path):
    require("lightning")
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Regression()

        def training_step(self, batch, _):
            return self.model(batch["rows"], batch["labels"])["loss"]

        def validation_step(self, batch, _):
            # The size of the batch, which Lightning finds by itself.
            self.log("loss", self.model(batch["rows"], batch["labels"])["loss"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    view = view_of(path)
    odd = Subset(view, range(1, ROWS, 2))
    model = Model()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        default_root_dir=tmp_path,
    )
    trainer.fit(
        model, DataLoader(view, batch_size=32, shuffle=True), DataLoader(odd, batch_size=32)
    )
    trained, validated = model.model.trained, model.model.evaluated
    for epoch in range(2):
        rows = [row for batch in trained[7 * epoch : 7 * epoch + 7] for row in batch]
        assert sorted(rows) == list(range(ROWS))
        rows = [row for batch in validated[4 * epoch : 4 * epoch + 4] for row in batch]
        assert rows == list(range(1, ROWS, 2))
    assert 0 < trainer.callback_metrics["loss"] < 1


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_parts_of_a_random_split_in_worker_processes(path, context):
    view = FastParquetDataset(path, columns=["id", "name"], threads=1).by_index()
    parts = random_split(view, [0.75, 0.25], torch.Generator().manual_seed(3))
    rows = []
    for part in parts:
        loader = DataLoader(
            part,
            batch_size=16,
            shuffle=True,
            num_workers=2,
            multiprocessing_context=context,
            timeout=TIMEOUT_S,
        )
        batches = list(loader)
        assert [batch.rows for batch in batches][:-1] == [16] * (len(batches) - 1)
        for batch in batches:
            assert list(batch["name"]) == [f"row {row}" for row in batch["id"].tolist()]
        rows.append(ids_of(batches))
        assert sorted(rows[-1]) == sorted(part.indices)
        assert rows[-1] != list(part.indices)
    assert sorted(rows[0] + rows[1]) == list(range(ROWS))


# Grain ---------------------------------------------------------------------------------


@pytest.fixture
def grain():
    if importlib.util.find_spec("grain") is None:
        pytest.skip("Grain is not installed: pip install '.[test]'")
    import grain

    return grain


@pytest.fixture(scope="module")
def stored(path):
    """The rows as pyarrow reads the rows, by number."""
    return pq.read_table(path, columns=GRAIN_COLUMNS).to_pylist()


def grain_view(path, columns=GRAIN_COLUMNS, **options):
    return FastParquetDataset(path, columns=columns, threads=1, **options).by_index()


def grain_rows(batches):
    """The rows of Grain's batches, in the form of pyarrow's to_pylist()."""
    return [
        dict(zip(batch, row, strict=True))
        for batch in batches
        for row in zip(*(np.asarray(values).tolist() for values in batch.values()), strict=True)
    ]


def expect_each_once(rows, stored):
    """Check that the rows are the stored rows, each once, in another order."""
    assert sorted(rows, key=lambda row: row["id"]) == stored
    assert rows != stored


def grain_loader(grain, view, workers, **options):
    """Grain's DataLoader, whose processes make the batches."""
    sampler = grain.samplers.IndexSampler(len(view), shuffle=True, seed=5, num_epochs=1, **options)
    return grain.DataLoader(
        data_source=view,
        sampler=sampler,
        operations=[grain.transforms.Batch(32)],
        worker_count=workers,
    )


def grain_dataset(grain, view, workers):
    """Grain's dataset, whose processes send records of tensors to this process."""
    records = grain.MapDataset.source(view).shuffle(seed=1).to_iter_dataset()
    if workers:
        options = grain.multiprocessing.MultiprocessingOptions(num_workers=workers)
        records = records.mp_prefetch(options)
    return records.batch(32)


@of_grain
def test_source_of_grain(grain, path, stored):
    view = grain_view(path)
    assert isinstance(view, grain.sources.RandomAccessDataSource)
    source = grain.MapDataset.source(view)
    assert len(source) == ROWS
    assert grain_rows(source.batch(32)) == stored
    assert grain_rows(source[10:20].batch(4)) == stored[10:20]
    epochs = [grain_rows([batch]) for batch in source.seed(2).shuffle().repeat(2).batch(ROWS)]
    for epoch in epochs:
        expect_each_once(epoch, stored)
    assert epochs[0] != epochs[1]


@of_grain
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [grain_loader, grain_dataset])
def test_checkpoint_of_grain_goes_on_with_the_other_rows(
    grain, path, stored, make, workers, monkeypatch
):
    if make is grain_loader:
        # Grain spawns its workers, each of which would import torch first. A worker of the fork
        # server gets the view as a spawned worker does.
        context = multiprocessing.get_context("forkserver")
        monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    batches = iter(make(grain, grain_view(path), workers))
    first = grain_rows([next(batches) for _ in range(3)])
    state = pickle.dumps(batches.get_state())
    rest = grain_rows(batches)
    assert (len(first), len(rest)) == (96, ROWS - 96)
    expect_each_once(first + rest, stored)

    resumed = iter(make(grain, grain_view(path), workers))
    resumed.set_state(pickle.loads(state))
    assert grain_rows(resumed) == rest


@of_grain
def test_grain_refuses_the_checkpoint_of_other_columns(grain, path):
    batches = iter(grain_loader(grain, grain_view(path), 0))
    next(batches)
    other = iter(grain_loader(grain, grain_view(path, ["id"]), 0))
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        other.set_state(batches.get_state())


@of_grain
def test_shards_of_grain_share_filtered_rows(grain, path, stored):
    view = grain_view(path, filters=[("id", ">=", 100)])
    shards = [
        grain_rows(grain_loader(grain, view, 0, shard_options=grain.sharding.ShardOptions(k, 2)))
        for k in range(2)
    ]
    assert [len(shard) for shard in shards] == [50, 50]
    expect_each_once(shards[0] + shards[1], stored[100:])


def test_what_grain_asks_of_a_source(path):
    """Grain takes `index % len(source)` on many threads and in processes, and compares the repr.

    A checkpoint of Grain's DataLoader holds the repr of its source, and a source of another repr is
    refused. So the repr of a view has to stay the same through reads and in another process.
    """
    view = FastParquetDataset(path, columns=["id", "price"], threads=1).by_index()
    text = repr(view)
    assert isinstance(len(view), int)
    with ThreadPoolExecutor(16) as threads:
        rows = list(threads.map(lambda index: view[index % len(view)], range(2 * ROWS)))
    assert [row["id"].item() for row in rows] == [*range(ROWS), *range(ROWS)]
    assert view[np.int64(3)].keys() == {"id", "price"}
    # Grain's batch of records.
    prices = np.stack([row["price"] for row in rows[:5]])
    assert prices.tolist() == view[[0, 1, 2, 3, 4]]["price"].tolist()
    assert repr(view) == text
    assert repr(pickle.loads(pickle.dumps(view))) == text
    made = f"FastParquetDataset({path!r}, columns=['id', 'price'], threads=1).by_index()"
    program = f"from fastload import FastParquetDataset; print(repr({made}), end='')"
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert other.stdout == text


def doubled(block):
    block["twice"] = block["id"] * 2
    return block


def test_repr_of_a_view_does_not_depend_on_what_was_read(path):
    dataset = FastParquetDataset(path, columns=["id"], preprocess=doubled, threads=1)
    view = dataset.by_index()
    text = repr(view)
    assert "twice" in dataset.schema
    assert repr(view) == repr(dataset.by_index()) == text
