"""The paper's training recipe: Adam and its warm-up schedule (Vaswani et al. 2017, section 5.3)."""

from scratch_transformer.optim.adam import Adam
from scratch_transformer.optim.optimizer import Optimizer
from scratch_transformer.optim.schedule import WarmupSchedule, warmup_lr

__all__ = ["Adam", "Optimizer", "WarmupSchedule", "warmup_lr"]
