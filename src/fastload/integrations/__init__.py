"""fastload inside the frameworks that people train with.

Each module imports its framework, and nothing else imports the modules: `accelerate`,
`transformers` and `lightning`. Plain torch, DistributedDataParallel and torchdata's
StatefulDataLoader need nothing from here.
"""
