"""The page in which the Transformer runs: `scratch-transformer view`.

It holds a run's weights, and computes the whole forward pass itself, in JavaScript (assets/transformer.js). Beside
every tensor it has the one that torch.nn computed for a recorded sentence.

page.py       the page from its parts
payload.py    the data that it is given      story.py    what happens, in order, in words and equations
packing.py    tensors as text                sources.py  the lines of this package that compute it
bundle.py     JavaScript, CSS and fonts      mistakes.py the catalogue's mistakes that can be tried out
"""

from scratch_transformer.view.page import page

__all__ = ["page"]
