"""scaled_dot_product_attention against torch's, by the table of components. Its whole signature: test_init.py."""

from reference_tests.proof import prove

test_definition, test_precision, test_errors = prove("scaled_dot_product_attention")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch's compiler itself
def test_masks_of_any_rank_compile():
    """The comparison of shapes too: torch 2.6 compiles no zip of unequal lengths."""
    torch.compiler.reset()
    compiled = torch.compile(scaled_dot_product_attention, backend="eager", fullgraph=True)
    x = torch.randn(2, 3, 4, 5)
    for shape in ((4,), (4, 4), (3, 1, 4), (2, 1, 4, 4)):
        mask = torch.rand(shape) < 0.6
        assert torch.allclose(compiled(x, x, x, mask), scaled_dot_product_attention(x, x, x, mask), atol=1e-6)
    torch.compiler.reset()
