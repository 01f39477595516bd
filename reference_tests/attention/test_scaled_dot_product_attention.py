"""scaled_dot_product_attention against torch's, by the table of components. Its whole signature: test_init.py."""

from reference_tests.proof import prove

test_definition, test_precision, test_errors = prove("scaled_dot_product_attention")
