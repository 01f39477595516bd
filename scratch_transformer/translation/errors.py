"""The one exception that says: the user can mend this."""


class InputError(ValueError):
    """A file, a setting or a checkpoint that cannot be used, in one line; the commands print it and exit with 2."""


class CannotWrite(InputError):
    """The disk is full, or a limit is reached: with room, one can go on."""
