"""Files kept on local disk: private directories, atomic publish, locks, quota, eviction.

In: a directory and a size limit. Out: entries that appear whole or not at all, shared by all
processes of a node, evicted least recently used first.

Note: docs/notes/cache.md.
"""
