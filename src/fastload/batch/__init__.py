"""Batches: tensors by output name, their memory, and their way to processes and devices.

In: one buffer of the core for each batch, and a description of the outputs in the buffer.
Out: `Batch` and `Ragged` over the buffer, without a copy. A worker process sends a batch as a
descriptor of a few hundred bytes. `transfer.py` begins the copies of a batch to a device, on the
stream that its caller has made current.

Note: docs/notes/batch.md.
"""
