"""The Hugging Face Hub: its paths, its API, and the signed addresses of its files.

In: paths as `HfFileSystem` has them, such as "datasets/org/name@revision/data". Out: paths of one
commit, listings, and byte ranges. huggingface_hub asks the Hub; other clients read the bytes.

Note: docs/notes/source-stores.md.
"""
