"""The subcommands of `scratch-transformer`, one a file; each is imported only when it is called."""
