"""Lesson 13: Adam and warm-up.

    lr = d_model^(-1/2) · min(step^(-1/2), step · warmup^(-3/2))

Of d_model = 512 and warmup = 4000: 1.74693e-7 at step 1, 6.98771e-4 at step 4000, the peak.

Check it as often as you like:    scratch-transformer check lesson13.py
Stuck? One hint at a time:        scratch-transformer learn adam --hint
"""


def learning_rate(step, d_model, warmup):
    """The learning rate of a step; the first is number 1."""
    raise NotImplementedError("not written yet: your code here")
