"""The Transformer of *Attention Is All You Need*, from scratch, and proved equal to PyTorch's builtins.

    import scratch_transformer.nn as nn                       # torch.nn's transformer stack, readable
    from scratch_transformer.model import build_transformer   # the same model in the paper's own terms

The proof, on this machine: `scratch-transformer verify`.

Importing this package loads nothing else, not even torch: import the part that you need.
"""

__version__ = "0.8.0"
