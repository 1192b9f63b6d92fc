import os, platform

with open("/proc/cpuinfo") as f:
    cores = sum(line.startswith("processor") for line in f)
with open("/proc/meminfo") as f:
    memory = int(f.readline().split()[1]) // 1024
print("kernel    ", platform.release())
print("system    ", next(l.split("=")[1].strip().strip('"') for l in open("/etc/os-release") if l.startswith("PRETTY_NAME")))
print("python    ", platform.python_version())
print("user      ", "uid", os.getuid(), "on", platform.node())
print("processes ", len([p for p in os.listdir("/proc") if p.isdigit()]))
print("memory    ", memory, "MiB")
