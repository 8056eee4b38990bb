"""Adapters of fastload to training frameworks.

The modules are `accelerate`, `transformers`, `lightning` and `tensorboard`. Each module imports
its framework, and nothing else in fastload imports the modules. Plain torch,
DistributedDataParallel and torchdata's StatefulDataLoader need no adapter.
"""
