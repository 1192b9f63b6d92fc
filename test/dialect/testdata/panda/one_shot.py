"""Runs a task in a sandbox that lives as long as the task."""

import sys

from pandastack import Sandbox


def run_task(code: str) -> str:
    with Sandbox.create(template="code-interpreter", ttl_seconds=300) as sandbox:
        sandbox.filesystem.write("/workspace/task.py", code)
        result = sandbox.exec("python3 /workspace/task.py", timeout_seconds=60)
        return result.stdout


if __name__ == "__main__":
    sys.stdout.write(run_task(sys.stdin.read()))
