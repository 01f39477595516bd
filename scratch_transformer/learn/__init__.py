"""The lessons: `desk` is what their pages use; the rest is what `scratch-transformer learn` hands out and judges."""
