"""Commands: each command reads its arguments and calls the library."""
