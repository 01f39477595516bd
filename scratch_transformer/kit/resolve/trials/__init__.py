"""Trying: every way to build, call and load, until the reference or a mistake explains what is computed."""
