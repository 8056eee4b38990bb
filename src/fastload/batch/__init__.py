"""Batches: tensors by output name, their memory, and their way to processes and devices.

In: one buffer of the core for each batch, with a description.
Out: `Batch` and `Ragged` over that buffer without a copy; a descriptor of a few hundred
bytes between processes; copies on a side stream for a device.
"""
