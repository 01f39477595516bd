"""A recorded run: every named tensor of a forward pass, with what it means and PyTorch's own beside it.

In use:

    from scratch_transformer import nn
    from scratch_transformer.trace import trace

    recorded = trace(nn.TransformerEncoderLayer(d_model=12, nhead=3), torch.randn(5, 2, 12))
    recorded["self_attn.weights"].tensor
    print(recorded)  # name, shape, equation, source line, difference from torch

The files, in the order of reading:

    kinds       what each tensor is: its equation, the letters of its dimensions, a sentence
    sites       where in the reference each is made
    record      watches a run
    beside      the same model in torch.nn
    tutorials   the same for `model.py`
    torch_run   watches that
    source      the lines that ran
    letters     which dimension is what
    result      Trace and Point
    run         `trace`
    sentence    a trained model and a sentence
    document    a trace as JSON: what the page is given
"""

from scratch_transformer.trace.document import to_document
from scratch_transformer.trace.result import Point, Trace
from scratch_transformer.trace.run import trace

__all__ = ["Point", "Trace", "to_document", "trace"]
