"""Follows a command in a sandbox that dies under it, and tells what E2B's Python SDK says then."""

import os

from e2b import Sandbox, SandboxNotFoundException, TimeoutException

sbx = Sandbox.create("minimal", metadata={"run": os.environ["RUN"]}, timeout=300)
try:
    sbx.commands.run("touch /tmp/begun; sleep 1000", timeout=0)
    print("it ended")
except TimeoutException as e:
    print(type(e).__name__)
print(sbx.is_running())
try:
    sbx.get_info()
except SandboxNotFoundException as e:
    print(type(e).__name__)
print(sbx.kill())
