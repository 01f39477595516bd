"""Equations of docstrings, in Unicode on one line, become LaTeX that means the same."""

import pytest

from docs.site.formulas import NoFormula, latex

EQUATIONS = {
    "y = x Wᵀ + b": r"y=x\, W^{\top } + b",
    "softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)": r"\operatorname{softmax}(x)_{i}=\frac{\operatorname{exp}(x_{i})}"
    r"{\sum _{j}\, \operatorname{exp}(x_{j})}",
    "(x - μ) / √(σ² + ε) · γ": r"\frac{x - μ}{\sqrt{σ^{2} + ε}} \cdot  γ",
    "10000^(2i/d_model)": r"10000^{2i/d_{\mathrm{model}}}",
    "½ (1 + x)": r"\tfrac{1}{2}(1 + x)",
    "Σ_o dy_o ∂y_o/∂x_i": r"\sum _{o}\, \mathrm{d}y_{o}\, \frac{\partial y_{o}}{\partial x_{i}}",
    "m̂ / (1 - β₁ᵗ)": r"\frac{{\hat{m}}}{1 - β_{1}^{t}}",
    "lr = 1.5e-7": r"\mathrm{lr}=1.5 \cdot 10^{-7}",
    "j ≤ i + warmup_steps": r"j\le i + \mathtt{warmup\_steps}",
    "(a + b)(c + d)/2": r"\frac{(a + b)(c + d)}{2}",
}


@pytest.mark.parametrize("text", EQUATIONS)
def test_an_equation(text):
    assert latex(text) == EQUATIONS[text]


@pytest.mark.parametrize("text", ["(a", "a)", "a +", "/ b", "a = `b`", "a == b", ""])
def test_no_equation(text):
    with pytest.raises(NoFormula):
        latex(text)
