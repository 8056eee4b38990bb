"""What fastload-bench prints and writes: the table, its sentences, the JSON and the HTML page."""
