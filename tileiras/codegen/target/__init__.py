"""GPU targets as data: what each architecture can do and how large it is.

`get_target("sm_90").has(Feature.TMA)`; nothing outside this package compares architecture numbers.
"""

from tileiras.codegen.target.features import Feature
from tileiras.codegen.target.gpu_target import GpuTarget
from tileiras.codegen.target.performance import Performance, Unit, Work
from tileiras.codegen.target.records import TARGET_NAMES, get_target

__all__ = ["TARGET_NAMES", "Feature", "GpuTarget", "Performance", "Unit", "Work", "get_target"]
