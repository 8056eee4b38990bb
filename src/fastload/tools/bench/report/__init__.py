"""Reports of fastload-bench: the table, the sentences below it, the JSON and the HTML page."""
