"""What was found out, as plain data, for the terminal, as a page."""
