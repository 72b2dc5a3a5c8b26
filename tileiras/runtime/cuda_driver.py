"""The CUDA driver through cuda-python: loaded when it is needed, its errors in words."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from tileiras.errors import TileirasError


class GpuError(TileirasError):
    """No GPU or driver, an argument that a kernel cannot take, a call that the driver refused."""

    exit_code = 2


class _Loaded:
    """The driver's module once it is initialised, and device 0's primary context."""

    driver: ClassVar[Any] = None
    context: ClassVar[Any] = None


def _bindings() -> Any:
    """cuda-python's module of the driver; raises GpuError where it is not installed."""
    try:
        return import_module("cuda.bindings.driver")
    except ImportError as error:
        raise GpuError("cannot import cuda.bindings: install the package cuda-python") from error


def check(driver: Any, result: tuple[Any, ...], what: str) -> Any:
    """The value of a driver call that returns (status, value...); raises GpuError."""
    status, *values = result
    if int(status) != 0:
        _, name = driver.cuGetErrorName(status)
        raise GpuError(f"{what} failed: {name.decode() if name else int(status)}")
    return values[0] if values else None


def call(name: str, *arguments: Any) -> Any:
    """Calls a function of the driver with device 0's primary context; returns its value.

    Raises GpuError where the driver refuses it, and where there is no GPU.
    """
    driver = _ready()
    return check(driver, getattr(driver, name)(*arguments), name)


def enumerator(group: str, name: str) -> Any:
    """A constant of the driver, such as `CUevent_flags`' `CU_EVENT_DEFAULT`."""
    return getattr(getattr(_bindings(), group), name)


def _ready() -> Any:
    """The driver, its context current in this thread; raises GpuError."""
    if _Loaded.driver is None:
        driver = _bindings()
        try:
            status = driver.cuInit(0)
        except RuntimeError as error:
            raise GpuError(f"no GPU: the CUDA driver cannot be loaded ({error})") from error
        try:
            check(driver, status, "cuInit")
        except GpuError as error:
            raise GpuError(f"no GPU: {error.message}") from error
        device = check(driver, driver.cuDeviceGet(0), "cuDeviceGet")
        retained = driver.cuDevicePrimaryCtxRetain(device)
        _Loaded.context = check(driver, retained, "cuDevicePrimaryCtxRetain")
        _Loaded.driver = driver
    driver = _Loaded.driver
    check(driver, driver.cuCtxSetCurrent(_Loaded.context), "cuCtxSetCurrent")
    return driver


def has_gpu() -> bool:
    """Whether a kernel could be launched here."""
    try:
        _ready()
    except GpuError:
        return False
    return True


def current_target() -> str:
    """Device 0's architecture as `compile` takes it; raises GpuError where there is no GPU."""
    device = call("cuDeviceGet", 0)
    kinds = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
    major, minor = (
        call(
            "cuDeviceGetAttribute",
            enumerator("CUdevice_attribute", f"CU_DEVICE_ATTRIBUTE_{kind}"),
            device,
        )
        for kind in kinds
    )
    return f"sm_{major}{minor}"
