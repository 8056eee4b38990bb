"""The files to read: their survey, and links to small files."""
