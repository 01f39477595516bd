"""Transformer against torch.nn.Transformer."""

import pytest
import torch

from reference_tests.agreement import assert_agree, assert_equal
from reference_tests.proof import prove, quiet
from scratch_transformer import nn
from scratch_transformer.conformance import Draw

test_definition, test_precision, test_errors = prove("Transformer")
test_precision = pytest.mark.long(test_precision)  # its layers and stacks are proved in every precision

B, T, S, H, E, FF = 3, 4, 5, 3, 6, 7
MODEL = {"d_model": E, "nhead": H, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": FF}


class Recorded(torch.nn.Module):
    """A stack of the user's own: remembers what it was called with, and passes its first input on."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, *inputs, **options):
        self.calls.append((inputs, options))
        return inputs[0]


@pytest.fixture
def sequences():
    return tuple(torch.randn(length, B, E, dtype=torch.float64) for length in (S, T))


@quiet
def test_custom_stacks_are_called_as_torch_calls_them(sequences):
    draw, calls = Draw(), []
    masks = {"src_mask": draw.some(S, S), "tgt_mask": draw.future(T), "memory_mask": draw.some(T, S)}
    paddings = {f"{name}_key_padding_mask": draw.padding(B, n) for name, n in (("src", S), ("tgt", T), ("memory", S))}
    for library in (nn, torch.nn):
        encoder, decoder = Recorded(), Recorded()
        model = library.Transformer(E, H, custom_encoder=encoder, custom_decoder=decoder)
        hints = {"src_is_causal": False, "tgt_is_causal": True, "memory_is_causal": True}
        assert_equal(model(*sequences, **masks, **paddings, **hints), sequences[1])
        calls.append([encoder.calls, decoder.calls])
    for ours, builtin in zip(*calls, strict=True):
        ((inputs, options),), ((expected_inputs, expected_options),) = ours, builtin
        assert all(a is b for a, b in zip(inputs, expected_inputs, strict=True))
        assert options.keys() == expected_options.keys()
        assert all(options[name] is value for name, value in expected_options.items())


@quiet
@pytest.mark.parametrize("custom", ["custom_encoder", "custom_decoder"])
def test_one_custom_stack_beside_a_standard_one(custom, sequences):
    ours, builtin = (library.Transformer(**MODEL, **{custom: Recorded()}).double() for library in (nn, torch.nn))
    Draw(0).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    assert_agree(ours.eval(), builtin.eval(), *sequences)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("dtype_given", [None, torch.float64, torch.float16])
def test_generate_square_subsequent_mask(size, dtype_given, device):
    ours, builtin = (
        library.Transformer.generate_square_subsequent_mask(size, device=device, dtype=dtype_given)
        for library in (nn, torch.nn)
    )
    assert ours.dtype == builtin.dtype
    assert ours.device == builtin.device
    assert torch.equal(ours, builtin)


def test_the_generated_mask_is_on_the_given_device():
    assert nn.Transformer.generate_square_subsequent_mask(3, device=torch.device("meta")).is_meta


def test_the_generated_mask_is_in_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert nn.Transformer.generate_square_subsequent_mask(3).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@quiet
def test_what_the_paper_does_differently(sequences):
    """Both stacks end in a norm that the paper's post-norm stacks don't have: without it the numbers are others."""
    model = nn.Transformer(**MODEL).double().eval()
    Draw(0).randomise(model)
    as_torch = model(*sequences).detach()
    model.encoder.norm = model.decoder.norm = None
    as_in_the_paper = model(*sequences).detach()
    assert (as_torch - as_in_the_paper).abs().max() > 0.1


@quiet
@pytest.mark.parametrize("position, name", list(enumerate(["src", "tgt"])))
def test_nested_tensors_are_refused(position, name, sequences):
    inputs = list(sequences)
    inputs[position] = torch.nested.nested_tensor([torch.randn(T, E), torch.randn(S, E)], layout=torch.jagged)
    with pytest.raises(NotImplementedError, match=f"Transformer: {name} is a nested tensor"):
        nn.Transformer(**MODEL).double()(*inputs)
