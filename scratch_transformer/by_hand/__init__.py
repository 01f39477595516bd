"""Backward passes derived by hand, where those that autograd records take much longer.

Autograd goes back through every operation of an equation and keeps what each of them needs. Worked out on paper, the
same derivative often takes half the passes over memory, and a buffer may be used again. The equations stay where they
are, in `functional` and `attention.naive`; here is how they are computed where nobody looks at single operations:

    passes         when the passes are taken, and what happens where they are not
    activations    ReLU, sigmoid, SiLU, GELU
    normalization  layer normalization, root-mean-square normalization
    loss           the cross-entropy of an index
    turning        the rotary turn of pairs
    attention      softmax(Q Kᵀ + mask) V

Each agrees with its equation, in first and in second derivatives: `reference_tests/by_hand`. `with equations_alone():`
computes without them.
"""

from scratch_transformer.by_hand.passes import Passes, are_taken, differentiated_by, equations_alone

__all__ = ["Passes", "are_taken", "differentiated_by", "equations_alone"]
