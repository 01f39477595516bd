"""The exercises as they are handed out: lesson04.py is what `scratch-transformer learn attention` writes."""
