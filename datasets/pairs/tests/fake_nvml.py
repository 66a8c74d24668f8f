"""A library with the functions of NVML that are used, of one made-up GPU."""

OK, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 6, 7


class Library:
    def __init__(self, processes=0, mode=0, instances=None, uuid=b"GPU-fake"):
        self.processes, self.mode, self.uuid = processes, mode, uuid
        # Names of MIG instances; `None` where MIG is off.
        self.instances = instances

    def nvmlInit_v2(self):
        return OK

    def nvmlSystemGetDriverVersion(self, text, size):
        text.value = b"550.00"
        return OK

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = 1000
        return OK if index.value == 0 else 2

    def nvmlDeviceGetName(self, handle, text, size):
        text.value = b"Fake GPU" if handle.value == 1000 else self.instances[handle.value - 1]
        return OK

    def nvmlDeviceGetUUID(self, handle, text, size):
        text.value = self.uuid if handle.value == 1000 else b"MIG-%d" % handle.value
        return OK

    def nvmlDeviceGetMigMode(self, handle, current, pending):
        current._obj.value = int(self.instances is not None)
        return OK

    def nvmlDeviceGetMaxMigDeviceCount(self, handle, count):
        count._obj.value = 7
        return OK

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu, index, handle):
        if index.value >= len(self.instances):
            return NOT_FOUND
        handle._obj.value = index.value + 1
        return OK

    def nvmlDeviceGetComputeMode(self, handle, mode):
        mode._obj.value = self.mode
        return OK

    def nvmlDeviceGetComputeRunningProcesses(self, handle, count, room):
        count._obj.value = self.processes
        return INSUFFICIENT_SIZE if self.processes else OK

    def nvmlDeviceGetMemoryInfo(self, handle, memory):
        memory._obj.total, memory._obj.used = 16 << 30, 1 << 30
        return OK

    def nvmlDeviceGetUtilizationRates(self, handle, busy):
        busy._obj.gpu, busy._obj.memory = 80, 30
        return OK if self.instances is None else NOT_SUPPORTED

    def nvmlDeviceGetPowerUsage(self, handle, milliwatts):
        milliwatts._obj.value = 123_456
        return OK

    def nvmlDeviceGetPcieThroughput(self, handle, way, kilobytes):
        kilobytes._obj.value = (1_500, 500)[way.value]
        return OK

    def nvmlDeviceGetClockInfo(self, handle, which, megahertz):
        megahertz._obj.value = 1_410
        return OK

    def nvmlDeviceGetTemperature(self, handle, where, degrees):
        return NOT_SUPPORTED
