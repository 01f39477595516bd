"""The equations of docstrings, written in Unicode on one line, as LaTeX.

y = (x - μ) / √(σ² + ε) · γ + β      becomes      y = \\frac{x - μ}{\\sqrt{σ^{2} + ε}} · γ + β

`latex` reads a whole formula by recursive descent:

    formula   = sum {relation sum}          relation: = ≈ ≤ ≥ < > ∈ ← → ~ ∝ and the comma
    sum       = [-] quotient {(+ | - | · | ×) quotient}
    quotient  = product {/ product}
    product   = power {power}               side by side: Q Kᵀ
    power     = atom {subscript | superscript}
    atom      = number | name | root | sum sign | group in brackets
"""

import re

SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+-aehijklmnoprstuvx", strict=True))
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁱⁿᵏᵗᵀ", [*"0123456789+-inkt", r"\top "], strict=True))
FUNCTIONS = {
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "erfc",
    "max",
    "min",
    "mean",
    "var",
    "softmax",
    "sum",
    "sigmoid",
}
RELATIONS = {"=": "=", "≈": r"\approx ", "≤": r"\le ", "≥": r"\ge ", "<": "<", ">": ">", "∈": r"\in ", "~": r"\sim "}
RELATIONS |= {"←": r"\leftarrow ", "→": r"\to ", "∝": r"\propto ", ",": r",\; ", "≠": r"\ne ", "≪": r"\ll "}
COMPARED = {sign: latex for sign, latex in RELATIONS.items() if sign != ","}
SIGNS = {"+": "+", "-": "-", "·": r"\cdot ", "×": r"\times ", "±": r"\pm ", "⊙": r"\odot "}
BRACKETS = {"(": ")", "[": "]"}
HALF = {"½": r"\tfrac{1}{2}"}
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?|[½∞])"
    r"|(?P<big>[Σ∏∂∇])"
    r"|(?P<identifier>(?!head_|d[a-z]_[a-z]{1,2}\b)[a-z][a-z0-9]+(?:_[a-z0-9]+)+)"
    r"|(?P<name>[^\W\d_]+\u0302?(?:(?<=[^\W\d_]{2})\d+(?![\d.]))?|…|\.\.\.)"
    r"|(?P<subscript>_[A-Za-z0-9]+(?:,[a-z]\b)?|_\([^()]*\)|_\{[^{}]*\}|[₀-₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ]+)"
    r"|(?P<superscript>\^|[⁰¹²³⁴-⁹⁺⁻ⁱⁿᵏᵗᵀ]+|'+)"
    r"|(?P<sign>[+\-·×±⊙])"
    r"|(?P<relation>[=≈≤≥<>∈~←→∝,≠≪])"
    r"|(?P<over>/)|(?P<root>√)|(?P<open>[(\[])|(?P<close>[)\]]))"
)
BELOW, ABOVE = "".join(SUBSCRIPTS), "".join(SUPERSCRIPTS)


class NoFormula(Exception):
    """The text is something else."""


def latex(text):
    """The formula as LaTeX. Raises NoFormula."""
    reader = Reader(tokens(text))
    result = reader.formula()
    if reader.kind():
        raise NoFormula(text)
    return result


def tokens(text):
    """(kind, text) of every token, with whether a space stands before it."""
    found, end = [], 0
    text = text.rstrip()
    while end < len(text):
        match = TOKEN.match(text, end)
        if match is None:
            raise NoFormula(text[end:])
        for kind, word in parts(match.lastgroup, match[match.lastgroup]):
            found.append((kind, word))
        end = match.end()
    return found


def parts(kind, word):
    """A name with its scripts is several tokens: Kᵀ, xᵢ, because Unicode counts most of them as letters."""
    if kind != "name":
        return [(kind, word)]
    return [
        (piece.lastgroup, piece[0])
        for piece in re.finditer(
            rf"(?P<subscript>[{BELOW}]+)|(?P<superscript>[{ABOVE}]+)|(?P<name>[^{BELOW}{ABOVE}]+)", word
        )
    ]


class Reader:
    """Reads tokens from left to right."""

    def __init__(self, tokens):
        self.tokens, self.at, self.exponents = tokens, 0, 0

    def kind(self):
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self):
        if not self.kind():
            raise NoFormula("ends early")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def formula(self):
        result = self.sum()
        while self.kind() == "relation":
            result += RELATIONS[self.take()] + self.sum()
        return result

    def sum(self):
        result = SIGNS[self.take()] if self.kind() == "sign" else ""
        result += self.quotient()
        while self.kind() == "sign":
            result += f" {SIGNS[self.take()]} {self.quotient()}"
        return result

    def quotient(self):
        result = self.product()
        while self.kind() == "over":
            self.take()
            if self.exponents:
                result += f"/{self.product()}"
                continue
            result = rf"\frac{{{bare(result)}}}{{{bare(self.product())}}}"
        return result

    def product(self):
        result = self.power()
        while self.kind() in ("number", "name", "identifier", "root", "big", "open"):
            close = (
                self.kind() == "open"
                or self.tokens[self.at - 1][0] == "number"
                or result.endswith((r"\partial ", r"\nabla "))
            )
            result += ("" if close else r"\, ") + self.power()
        return result

    def power(self):
        result, below, above = self.atom(), "", ""
        while self.kind() in ("subscript", "superscript"):
            if self.kind() == "subscript":
                below += subscript(self.take())
            else:
                above += self.superscript(self.take())
        return result + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")

    def superscript(self, mark):
        """In a written-out exponent a fraction keeps its slash."""
        if mark == "^":
            self.exponents += 1
            above = bare(self.power())
            self.exponents -= 1
            return above
        return r"\prime " * len(mark) if mark[0] == "'" else "".join(SUPERSCRIPTS[letter] for letter in mark)

    def derivative(self):
        """∂y/∂x is one thing: what stands before it is not in the fraction."""
        above = rf"\partial {self.power()}"
        if [word for _, word in self.tokens[self.at : self.at + 2]] != ["/", "∂"]:
            return above
        self.at += 2
        return rf"\frac{{{above}}}{{\partial {self.power()}}}"

    def atom(self):
        kind, word = self.kind(), self.take()
        if kind == "number":
            return number(word)
        if kind == "name":
            return name(word)
        if kind == "identifier":
            return r"\mathtt{" + word.replace("_", r"\_") + "}"
        if word == "∂" and self.kind() == "name":
            return self.derivative()
        if kind == "big":
            return {"Σ": r"\sum ", "∏": r"\prod ", "∂": r"\partial ", "∇": r"\nabla "}[word]
        if kind == "root":
            return rf"\sqrt{{{bare(self.power())}}}"
        if kind == "open":
            inside = self.formula()
            if self.take() != BRACKETS[word]:
                raise NoFormula("brackets")
            tall = any(command in inside for command in (r"\frac", r"\sqrt", r"\sum"))
            return rf"\left{word}{inside}\right{BRACKETS[word]}" if tall else word + inside + BRACKETS[word]
        raise NoFormula(word)


def bare(text):
    """Without the brackets around all of it: a fraction's bar or a root says the same."""
    depth = 0
    for step in re.finditer(r"(\\left)?\(|(\\right)?\)", text):
        depth += 1 if step[0].endswith("(") else -1
        if depth == 0:
            first = re.match(r"(\\left)?\(", text)
            return text[first.end() : step.start()] if first and step.end() == len(text) else text
    return text


def number(word):
    """1.5e-7 is 1.5 · 10⁻⁷."""
    digits, _, exponent = word.replace(",", "{,}").replace("∞", r"\infty ").partition("e")
    power = rf"10^{{{int(exponent)}}}" if exponent else ""
    return HALF.get(word) or r" \cdot ".join(part for part in (digits, power) if part and (part != "1" or not power))


def name(word):
    """One letter is a variable, several are upright; a hat stays on its letter."""
    if word in ("…", "..."):
        return r"\ldots "
    if word.endswith("\u0302"):
        return (r"\mathrm{d}" if word[:-2] == "d" else word[:-2]) + rf"{{\hat{{{word[-2]}}}}}"
    if word in FUNCTIONS:
        return rf"\operatorname{{{word}}}"
    if len(word) == 2 and word[0] == "d":
        return rf"\mathrm{{d}}{word[1]}"
    return word if len(word) == 1 else rf"\mathrm{{{word}}}"


def subscript(mark):
    """Of one or two letters: indices. Longer: a word."""
    if mark[0] != "_":
        return "".join(SUBSCRIPTS[letter] for letter in mark)
    mark = mark[1:].strip("(){}")
    is_word = len(mark) > 2 and not set(mark) & set(",=- +")
    return rf"\mathrm{{{mark}}}" if is_word else "".join(COMPARED.get(letter, letter) for letter in mark)
