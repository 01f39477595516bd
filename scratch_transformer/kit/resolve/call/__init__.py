"""Calling what was built: which argument is which, in which order of dimensions, with masks in which form."""
