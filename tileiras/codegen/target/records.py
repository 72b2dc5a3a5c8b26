"""The targets.

Sources: CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes".

Code is generated for the `a` variant where the family-specific instructions need it. The PTX
version is the newest that LLVM 22 knows, and newer where a target is newer than LLVM: there LLVM
compiles for the nearest older processor, and the text says the newer target (see `_newer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tileiras.codegen.target.features import Feature
from tileiras.codegen.target.gpu_target import GpuTarget
from tileiras.codegen.target.performance import PERFORMANCE
from tileiras.errors import TargetError
from tileiras.suggestions import did_you_mean

_PTX_VERSION = 90
_PTXAS_RELEASE = (13, 0)
"""ptxas 13.0 is the first that reads PTX ISA 9.0."""

_CTAS: Mapping[str, int] = {"sm_86": 16, "sm_87": 16, "sm_88": 16, "sm_89": 24}
"""CTAs that an SM holds, where it is not 32 with 64 warps and 24 with 48."""

_PORTABLE_CLUSTER = 8
"""CTAs (CUDA Programming Guide, "Thread Block Clusters")."""
_LARGEST_CLUSTERS: Mapping[str, int] = dict.fromkeys(("sm_90", "sm_100", "sm_103"), 16)
"""Where the hardware has larger ones, if the launch allows them (tuning guides of Hopper and
Blackwell; an H200 launched one of 16, and refused it without)."""

_KIB = 1024
_OLD_STATIC_SHARED_KIB = 48
"""ptxas takes no more static shared memory before sm_90, the block's limit since (tried, 13.5)."""

_AMPERE = frozenset(
    {Feature.MMA_SYNC, Feature.LDMATRIX, Feature.CP_ASYNC, Feature.REDUX, Feature.F64_MMA}
)
_ADA = _AMPERE | {
    Feature.FP8_MMA,
    Feature.FP8_MMA_NATIVE,
    Feature.FP8_CONVERT,
    Feature.BF16_ATOMIC,
}
_SINCE_HOPPER = _ADA | {
    Feature.STMATRIX,
    Feature.TMA,
    Feature.MBARRIER_TRY_WAIT,
    Feature.CLUSTER_LAUNCH,
    Feature.GRID_DEPENDENCY,
    Feature.ELECT,
    Feature.TANH_BF16,
    Feature.BF16_ARITHMETIC,
    Feature.BF16_ATOMIC_NATIVE,
    Feature.VECTOR_ATOMIC,
    Feature.SETMAXNREG,
}
_HOPPER = (_SINCE_HOPPER - {Feature.FP8_MMA_NATIVE}) | {Feature.WGMMA, Feature.F32_BY_BF16}
_BLACKWELL = _SINCE_HOPPER | {
    Feature.CLUSTER_LAUNCH_CONTROL,
    Feature.FP4_CONVERT,
    Feature.WIDE_GLOBAL_ACCESS,
    Feature.F32X2,
}
_DATACENTER_BLACKWELL = _BLACKWELL | {Feature.TCGEN05, Feature.TCGEN05_SCALED, Feature.REDUX_F32}
_MULTICAST_BLACKWELL = _DATACENTER_BLACKWELL | {Feature.MULTIMEM, Feature.F32X2_NATIVE}
_TENSOR_MEMORY = (128, 512)
"""Lanes and columns of an SM (PTX ISA, "Tensor Memory")."""
_WITH_I8 = frozenset({Feature.TCGEN05_I8})
_CONSUMER_BLACKWELL = (_BLACKWELL - {Feature.WIDE_GLOBAL_ACCESS}) | {
    Feature.BLOCK_SCALED_MMA,
    Feature.TMA_TO_OWN_CTA,
}


def _target(
    name: str,
    features: frozenset[Feature],
    block_kib: int,
    sm_kib: int,
    warps: int,
    suffix: str = "",
) -> GpuTarget:
    """A record; shared memory in KiB per block (opt-in) and per SM."""
    clusters = Feature.CLUSTER_LAUNCH in features
    tmem_lanes, tmem_columns = _TENSOR_MEMORY if Feature.TCGEN05 in features else (0, 0)
    return GpuTarget(
        name=name,
        ptx_target=name + suffix,
        ptx_version=_PTX_VERSION,
        llvm_processor=name + suffix,
        llvm_ptx_version=_PTX_VERSION,
        ptxas_release=_PTXAS_RELEASE,
        features=features,
        shared_memory_per_block=block_kib * _KIB,
        shared_memory_per_sm=sm_kib * _KIB,
        static_shared_limit=(block_kib if clusters else _OLD_STATIC_SHARED_KIB) * _KIB,
        max_warps_per_sm=warps,
        max_ctas_per_sm=_CTAS.get(name, warps // 2),
        max_cluster=_PORTABLE_CLUSTER if clusters else 1,
        largest_cluster=_LARGEST_CLUSTERS.get(name, _PORTABLE_CLUSTER) if clusters else 1,
        performance=PERFORMANCE[name],
        tmem_lanes=tmem_lanes,
        tmem_columns=tmem_columns,
    )


def _newer(
    base: GpuTarget,
    name: str,
    features: frozenset[Feature],
    ptx_version: int,
    ptxas_release: tuple[int, int],
) -> GpuTarget:
    """A target that LLVM does not know, of the family of `base`, which LLVM compiles for instead.

    `features` are those beyond `base`'s. Instructions of a family are on its later members (PTX
    ISA, `.target`, "family-specific features").
    """
    return replace(
        base,
        name=name,
        ptx_target=name + base.ptx_target.removeprefix(base.name),
        ptx_version=ptx_version,
        features=base.features | features,
        ptxas_release=ptxas_release,
    )


_SM_103 = _target("sm_103", _MULTICAST_BLACKWELL, 227, 228, 64, "a")
_RUBIN = frozenset({Feature.FP8_E5M3_CONVERT})

_RECORDS = (
    _target("sm_80", _AMPERE, 163, 164, 64),
    _target("sm_86", _AMPERE, 99, 100, 48),
    _target("sm_87", _AMPERE, 163, 164, 48),
    _target("sm_88", _AMPERE, 99, 100, 48),
    _target("sm_89", _ADA, 99, 100, 48),
    _target("sm_90", _HOPPER, 227, 228, 64, "a"),
    _target("sm_100", _MULTICAST_BLACKWELL | _WITH_I8, 227, 228, 64, "a"),
    _SM_103,
    # ptxas 13.5 is the first with sm_107, and has the limit of shared memory of sm_103 (tried).
    _newer(_SM_103, "sm_107", _RUBIN, ptx_version=94, ptxas_release=(13, 5)),
    _target("sm_110", _DATACENTER_BLACKWELL | _WITH_I8, 227, 228, 48, "a"),
    _target("sm_120", _CONSUMER_BLACKWELL, 99, 100, 48, "a"),
    _target("sm_121", _CONSUMER_BLACKWELL, 99, 100, 48, "a"),
)
_BY_NAME = {record.name: record for record in _RECORDS}

TARGET_NAMES = tuple(_BY_NAME)
"""Names of the targets that can be compiled for, in ascending order; `--gpu-name` takes these."""


def get_target(name: str) -> GpuTarget:
    """The record of `sm_NN`; raises TargetError with the known names."""
    if name not in _BY_NAME:
        known = ", ".join(TARGET_NAMES)
        label = did_you_mean(name, TARGET_NAMES)
        raise TargetError(f"unknown GPU target '{name}', expected one of {known}", label=label)
    return _BY_NAME[name]
