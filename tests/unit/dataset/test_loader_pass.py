"""What the passes over loaders do after an error: they never look exhausted."""

import pytest
from torch.utils.data import DataLoader

from fastload import DataWait, DevicePrefetcher, FastParquetDataset
from support.sample_files import ids_of, write_sample


def prepared(loader):
    accelerate = pytest.importorskip("fastload.integrations.accelerate")
    return accelerate.PreparedLoader(loader)


def resumable(loader):
    lightning = pytest.importorskip("fastload.integrations.lightning")
    made = lightning.ResumableLoader(loader)
    made.setup(None, None, "fit")
    return made


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("wrap", [DataWait, DevicePrefetcher, prepared, resumable])
def test_an_error_of_the_loader_is_no_end_of_the_epoch(tmp_path, monkeypatch, wrap, error):
    path = write_sample(tmp_path / "sample.parquet", 100)
    arguments = {"device": "cpu"} if wrap is DevicePrefetcher else {}
    with FastParquetDataset(path, batch_size=10) as dataset:
        loader = wrap(DataLoader(dataset, batch_size=None), **arguments)
        batches, seen = iter(loader), []
        seen += ids_of([next(batches)])
        take = type(dataset._pass).__next__

        def fails(_):
            raise error("in the loader")

        monkeypatch.setattr(type(dataset._pass), "__next__", fails)
        with pytest.raises(error, match="in the loader"):
            next(batches)
        monkeypatch.setattr(type(dataset._pass), "__next__", take)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"^{error.__name__} ended this pass after 1 b"):
                next(batches)
        if wrap in (DevicePrefetcher, prepared):  # these count the batches that they hand out
            loader.load_state_dict(loader.state_dict())
            assert seen + ids_of(loader) == list(range(100))
