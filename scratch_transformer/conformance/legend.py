"""The definition of every number that a verification reports."""

from __future__ import annotations

from scratch_transformer.conformance.compare import DEFINITION, DRAWS, GRADIENT_LIMIT, OUTPUT_LIMIT
from scratch_transformer.conformance.invariants import tolerance
from scratch_transformer.conformance.oracle import ORACLE

LEGEND = {
    "cases": "Ways to construct and to call the component: options, shapes, masks, training and evaluation. All "
    "parameters are random, all sizes differ from each other.",
    "bitwise": "Cases in which, in float64, every element of every output and gradient equals the builtin's exactly.",
    "float64": "Largest relative error ‖ours - builtin‖∞ / ‖builtin‖∞ of an output (or of a buffer that the call "
    f"changes), and of a gradient (of any input or parameter), over all cases: at most {DEFINITION:.0e}. The "
    "denominator is at least 1/1000 of the largest tensor of the call: a gradient that is zero by mathematics consists "
    "of rounding errors.",
    "oracle": "The same errors against the NumPy oracle, an independent implementation with hand-derived gradients: at "
    f"most {ORACLE:.0e}, over the number of cases that it can do.",
    "low precision": "In float32, bfloat16 and float16, (e + f) / (b + f): e is our largest error and b the builtin's "
    "own, both against the builtin in float64 on the same rounded values, and f a rounding floor, one unit in the last "
    f"place of the larger of the result and 0.3, over (limit - 1). At most {OUTPUT_LIMIT:g} for outputs and "
    f"{GRADIENT_LIMIT:g} for gradients. Each ratio is the median of {DRAWS[0]} draws of parameters and inputs, or of "
    f"{' or '.join(map(str, DRAWS[1:]))} where fewer exceed a limit.",
    "mean": "The geometric mean of these ratios over all tensors, cases and dtypes: below 1 where ours is more precise "
    "than the builtin.",
    "errors": "Bad inputs that ours refuses with the builtin's type of exception, and in a message that names the "
    "argument, its value and what was expected. Checked on the CPU.",
    "invariants": "Equations that hold for every correct implementation, such as that masked keys cannot influence "
    f"anything: violated by at most {tolerance():.0e} in float64.",
}
"""By the names of the report's columns."""
