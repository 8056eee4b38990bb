"""The commands fastload-bench, fastload-cache, fastload-inspect; no library module imports them."""
