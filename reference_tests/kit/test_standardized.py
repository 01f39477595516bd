"""Functions that standardize rewards, prices, images or a table are no norms; one of features is one all the same."""

import ast

import pytest

from scratch_transformer.kit.resolve.standardized import standardizes

OVER_ALL = "(x - x.mean()) / (x.std() + eps)"
OVER_FEATURES = "(x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + eps)"
OVER_SAMPLES = "(x - torch.mean(x, dim=0)) / torch.std(x, dim=0)"


def said_of(name: str, given: str, returned: str) -> str:
    """What is said of a function that gives one line back."""
    source = (
        f"def {name}({given}, eps=1e-5):\n    return {returned.replace('(x', f'({given}').replace('x.', f'{given}.')}"
    )
    (function,) = ast.parse(source).body
    return standardizes(function)


@pytest.mark.parametrize(
    "name, given, returned, word",
    [
        ("normalize_reward", "reward", OVER_ALL, "reward"),
        ("norm", "advantages", OVER_ALL, "advantages"),
        ("normalize_images", "images", OVER_FEATURES, "images"),
        ("normalize", "data", OVER_ALL, "data"),
        ("normalize_columns", "table", OVER_SAMPLES, "columns"),
    ],
)
def test_other_numbers_than_features(name, given, returned, word):
    assert said_of(name, given, returned) == f"it standardizes {word}: other numbers than the features of tokens"


@pytest.mark.parametrize(
    "name, given, returned",
    [
        ("layer_norm", "x", OVER_FEATURES),
        ("layer_norm", "x", OVER_ALL),  # LN7
        ("normalize", "values", OVER_FEATURES),
        ("normalize_returned", "x", OVER_ALL),
        ("normalize_rewards", "rewards", "x / x.sum()"),
    ],
)
def test_features_or_no_deviation(name, given, returned):
    assert said_of(name, given, returned) == ""
