"""Linear against torch.nn.Linear."""

from reference_tests.proof import prove

test_definition, test_precision, test_errors = prove("Linear")
