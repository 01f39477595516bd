"""A recorded run: every named tensor of a forward pass, with what it means and PyTorch's own beside it.

from scratch_transformer.trace import trace

recorded = trace(nn.TransformerEncoderLayer(d_model=12, nhead=3), x)
recorded["self_attn.weights"].tensor
print(recorded)                          # name, shape, equation, source line, difference from torch

sites       where in the reference each tensor is made
kinds       what each is: equation, letters, a sentence
record      watches a run
beside      the same model in torch.nn
torch_run   watches that
result      Trace and Point
source      the lines that ran
letters     of the dimensions
sentence    the run of a trained model on a sentence
document    a trace as JSON: what the page is given
"""

from scratch_transformer.trace.document import to_document
from scratch_transformer.trace.result import Point, Trace
from scratch_transformer.trace.run import trace

__all__ = ["Point", "Trace", "to_document", "trace"]
