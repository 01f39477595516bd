"""The one exception that says: the user can mend this."""

import errno

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
"""What the system says where there is no room."""


class InputError(ValueError):
    """A file, a setting or a checkpoint that cannot be used, in one line; the commands print it and exit with 2."""


class CannotWrite(InputError):
    """The disk is full, or a limit is reached: with room, one can go on."""
