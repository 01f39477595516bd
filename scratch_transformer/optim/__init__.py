"""The paper's training recipe: Adam and its warm-up schedule (Vaswani et al. 2017, section 5.3)."""

from .adam import Adam
from .optimizer import Optimizer
from .schedule import WarmupSchedule, warmup_lr

__all__ = ["Adam", "Optimizer", "WarmupSchedule", "warmup_lr"]
