"""vitalsdsl in a torch training: the vitals that it measures of itself."""

from vitalsdsl_torch.vitals import Vitals

__all__ = ["Vitals"]
