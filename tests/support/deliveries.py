"""What a dataset or a mix delivers to its ranks, also through a resume."""

from itertools import islice

from torch.utils.data import DataLoader


def loader_of(dataset, workers):
    """Return a loader of a dataset with some workers; without workers, the dataset itself."""
    if not workers:
        return dataset
    return DataLoader(dataset, batch_size=None, num_workers=workers, timeout=60)


def steps_to_ask(steps):
    """Return some numbers of a range of steps: at most eight, with the first and the last."""
    return sorted({*steps[:: max(1, len(steps) // 6)][:7], *steps[-1:]})


def deliver(mix_of, content_of, place, state, steps):
    """Return what each rank of a mix delivers in epoch 3, and the state after the last batch.

    Args:
        mix_of: makes the mix of a rank, given the number of the rank and the world size.
        content_of: returns what counts of a batch.
        place: world size, and workers of each rank.
        state: the state to load, or None.
        steps: batches of each rank, or None for all that are left.
    """
    (world, workers), ranks, states = place, [], []
    for rank in range(world):
        with mix_of(rank, world) as mixed:
            if state is not None:
                mixed.load_state_dict(state)
            mixed.set_epoch(3)
            after, delivered, batch = mixed.state_dict(), [], None
            left = len(mixed) - sum(leg[2] for leg in after["progress"])
            for batch in islice(loader_of(mixed, workers), steps):
                delivered.append((int(batch.source), *content_of(batch)))
            if delivered:
                after = mixed.state_dict(after=batch)
        assert len(delivered) == (left if steps is None else min(steps, left))
        ranks.append(delivered)
        states.append(after)
    assert all(state == states[0] for state in states)
    orders = [[source for source, *_ in delivered] for delivered in ranks]
    assert all(order == orders[0] for order in orders)
    return ranks, states[0]
