import pytest
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from fastload.runtime.child_processes import worker_ends_with_its_pass


class Answers(IterableDataset):
    def __iter__(self):
        yield worker_ends_with_its_pass()


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_worker_knows_whether_it_lives_on(loader, persistent, context):
    options = {"persistent_workers": persistent, "multiprocessing_context": context}
    assert list(loader(Answers(), batch_size=None, num_workers=1, **options)) == [not persistent]


def test_a_process_of_its_own_lives_on():
    assert list(DataLoader(Answers(), batch_size=None)) == [False]
