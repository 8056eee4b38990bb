"""The commands: each reads its arguments and calls the library."""
