"""How users bring datasets to frameworks; never run."""

from typing import Any

from accelerate import Accelerator
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from typing_extensions import assert_type

from fastload import Batch, DataWait, FastParquetDataset
from fastload.integrations.accelerate import PreparedLoader, prepare
from fastload.integrations.lightning import ResumableLoader, WaitLogger
from fastload.integrations.tensorboard import WaitWriter
from fastload.integrations.transformers import DatasetMixin, Trainer

loader: DataLoader[Any] = DataLoader(FastParquetDataset("a.parquet"), batch_size=None)

prepared = prepare(Accelerator(), loader)
assert_type(prepared, PreparedLoader)
for batch in prepared:
    assert_type(batch, Batch)

resumable = ResumableLoader(loader)
resumable.load_state_dict(resumable.state_dict())
waits = DataWait(loader, on_step=WaitWriter(SummaryWriter(), every=10, tag="wait"))
logger = WaitLogger(waits, every=10)


class MyTrainer(DatasetMixin):
    pass


trainer = Trainer(train_dataset=loader.dataset)
trainer.train()
