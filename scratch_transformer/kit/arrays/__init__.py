"""Code of NumPy's arrays: what computes with them, and its classes as modules, with their backward by hand."""
