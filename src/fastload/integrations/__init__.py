"""Adapters of fastload to training frameworks.

The modules are `accelerate`, `transformers`, `lightning` and `tensorboard`. Each module imports
its framework, but for `tensorboard`, which takes a writer of the user's; nothing outside this
folder imports the modules. Plain torch,
DistributedDataParallel and torchdata's StatefulDataLoader need no adapter.
"""
