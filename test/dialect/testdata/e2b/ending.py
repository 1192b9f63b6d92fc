"""What E2B's Python SDK tells of a sandbox that ends, under an open stream and afterwards, and of one whose token is another."""

import re
import threading
import time

from e2b import AuthenticationException, Sandbox, SandboxNotFoundException, TimeoutException


def raises(kind, f, words=""):
    try:
        got = f()
    except kind as e:
        assert re.search(words, str(e)), f"{e!r} doesn't say {words!r}"
        return e
    raise AssertionError(f"no {kind} but {got!r}")


def until(f):
    deadline = time.monotonic() + 30
    while not f():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


sbx = Sandbox.create("base", timeout=120)
cut = []

def wait():
    try:
        sbx.commands.run("sleep 1000")
    except BaseException as e:
        cut.append(e)

waits = threading.Thread(target=wait)
waits.start()
until(lambda: any("sleep 1000" in " ".join(p.args) for p in sbx.commands.list()))
began = time.monotonic()
assert sbx.kill() is True
waits.join(15)
assert not waits.is_alive(), "the stream outlived its sandbox"
assert isinstance(cut[0], TimeoutException), repr(cut)
assert sbx.is_running() is False
assert sbx.kill() is False
raises(TimeoutException, lambda: sbx.commands.run("true"))
raises(TimeoutException, lambda: sbx.files.read("/etc/hostname"))
raises(SandboxNotFoundException, sbx.get_info)
raises(SandboxNotFoundException, lambda: sbx.set_timeout(1))
raises(SandboxNotFoundException, sbx.pause)
raises(SandboxNotFoundException, lambda: Sandbox.connect(sbx.sandbox_id))
with Sandbox.create("base", timeout=60) as short:
    short.set_timeout(0)
    assert short.is_running() is False
print("the end")
