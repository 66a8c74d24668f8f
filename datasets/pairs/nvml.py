"""NVIDIA's management library (NVML, part of the driver), as far as it is needed here: it only reads.

Functions and constants are those of `nvml.h`. What a GPU does not tell (utilisation and power of a MIG instance, say)
is `None`; any other error names the function and NVML's number.
"""

from __future__ import annotations

import ctypes
from typing import List, NamedTuple, Optional

from runner import Reading, Unfit

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE, UNKNOWN = 3, 4, 6, 7, 999
# Told by GPUs that do not have what was asked for.
UNTOLD = {NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, UNKNOWN}
DEFAULT_MODE, EXCLUSIVE_PROCESS = 0, 3
SM_CLOCK = 1
ON_CHIP = 0
TX, RX = 0, 1
MIB = 1024.0 * 1024.0


class NvmlError(Unfit):
    """NVML refused, or is not there."""

    def __init__(self, text: str, code: Optional[int] = None):
        super().__init__(text)
        self.code = code


class Utilization(ctypes.Structure):
    """`nvmlUtilization_t`, percent."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Memory(ctypes.Structure):
    """`nvmlMemory_t`, bytes."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Device(NamedTuple):
    """A GPU or a MIG instance."""

    handle: ctypes.c_void_p
    name: str
    uuid: str


class Nvml:
    """The library, loaded and begun. `library` stands in for it in tests."""

    def __init__(self, library=None):
        if library is None:
            try:
                library = ctypes.CDLL("libnvidia-ml.so.1")
            except OSError as error:
                raise NvmlError(f"no NVIDIA driver is here ({error}); try the tool with --backend simulated") from error
        self._library = library
        self._call("nvmlInit_v2")

    def _call(self, name: str, *arguments) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise NvmlError(f"this driver has no {name}; a newer one has", NOT_SUPPORTED) from error
        code = function(*arguments)
        if code != 0:
            raise NvmlError(f"{name} failed with NVML's error {code}", code)

    def _number(self, name: str, device: Device, *arguments) -> Optional[int]:
        value = ctypes.c_uint()
        try:
            self._call(name, device.handle, *arguments, ctypes.byref(value))
        except NvmlError as error:
            if error.code in UNTOLD:
                return None
            raise
        return value.value

    def _text(self, name: str, *before) -> str:
        text = ctypes.create_string_buffer(96)
        self._call(name, *before, text, ctypes.c_uint(96))
        return text.value.decode()

    def _device(self, handle: ctypes.c_void_p) -> Device:
        return Device(handle, self._text("nvmlDeviceGetName", handle), self._text("nvmlDeviceGetUUID", handle))

    def driver(self) -> str:
        """Version of the driver."""
        return self._text("nvmlSystemGetDriverVersion")

    def gpu(self, index: int) -> Device:
        """A GPU by its number in `nvidia-smi`."""
        handle = ctypes.c_void_p()
        try:
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        except NvmlError as error:
            raise NvmlError(
                f"there is no GPU number {index} ({error}); nvidia-smi -L lists them", error.code
            ) from error
        return self._device(handle)

    def mig_is_on(self, gpu: Device) -> bool:
        """Whether the GPU is divided into instances now."""
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        try:
            self._call("nvmlDeviceGetMigMode", gpu.handle, ctypes.byref(current), ctypes.byref(pending))
        except NvmlError as error:
            if error.code in UNTOLD:
                return False
            raise
        return current.value == 1

    def mig_instances(self, gpu: Device) -> List[Device]:
        """Instances that an administrator has made on a GPU."""
        found = []
        for place in range(self._number("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0):
            handle = ctypes.c_void_p()
            try:
                self._call(
                    "nvmlDeviceGetMigDeviceHandleByIndex", gpu.handle, ctypes.c_uint(place), ctypes.byref(handle)
                )
            except NvmlError as error:
                if error.code == NOT_FOUND:
                    continue
                raise
            found.append(self._device(handle))
        return found

    def compute_mode(self, gpu: Device) -> int:
        """Who may use the GPU: one of the constants above."""
        return self._number("nvmlDeviceGetComputeMode", gpu) or DEFAULT_MODE

    def processes(self, device: Device) -> int:
        """How many processes compute on a device."""
        count = ctypes.c_uint(0)
        try:
            self._call("nvmlDeviceGetComputeRunningProcesses", device.handle, ctypes.byref(count), None)
        except NvmlError as error:
            # With no room for an answer, any process at all is told in this way.
            if error.code != INSUFFICIENT_SIZE:
                raise
        return count.value

    def memory(self, device: Device) -> Optional[Memory]:
        """Memory of a device, bytes."""
        memory = Memory()
        try:
            self._call("nvmlDeviceGetMemoryInfo", device.handle, ctypes.byref(memory))
        except NvmlError as error:
            if error.code in UNTOLD:
                return None
            raise
        return memory

    def read(self, gpu: Device, parts: List[Device]) -> Reading:
        """The GPU now; memory is that of `parts` (the GPU itself, or its instances in use) together."""
        busy = Utilization()
        try:
            self._call("nvmlDeviceGetUtilizationRates", gpu.handle, ctypes.byref(busy))
            sm, memory_interface = float(busy.gpu), float(busy.memory)
        except NvmlError as error:
            if error.code not in UNTOLD:
                raise
            sm = memory_interface = None
        memories = [self.memory(part) for part in parts]
        used = None if None in memories else round(sum(memory.used for memory in memories) / MIB, 1)
        power = self._number("nvmlDeviceGetPowerUsage", gpu)
        # Each takes 20 ms, over which it counts; told in kB/s.
        traffic = [self._number("nvmlDeviceGetPcieThroughput", gpu, ctypes.c_uint(way)) for way in (TX, RX)]
        clock = self._number("nvmlDeviceGetClockInfo", gpu, ctypes.c_uint(SM_CLOCK))
        warm = self._number("nvmlDeviceGetTemperature", gpu, ctypes.c_uint(ON_CHIP))
        return Reading(
            sm,
            memory_interface,
            used,
            None if power is None else power / 1000.0,
            None if None in traffic else round(sum(traffic) / 1000.0, 3),
            None if clock is None else float(clock),
            None if warm is None else float(warm),
        )
