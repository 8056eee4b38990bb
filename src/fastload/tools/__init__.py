"""The commands fastload-bench, fastload-cache, fastload-inspect, and fastload, which runs them.

No library module imports the folder; `__main__.py`, for `python -m fastload`, does.
"""
