"""Shows that ttl_seconds counts from the last use: sandboxes that are used live on, one that isn't is gone."""

import threading
import time

from pandastack import Sandbox
from pandastack.exceptions import NotFoundError

TTL = 5


def exists(sb):
    # A list asks for no sandbox in particular, so it keeps none alive.
    return sb.id in [s.id for s in Sandbox.list()]


def main():
    idle = Sandbox.create(template="minimal", ttl_seconds=TTL)
    asked = Sandbox.create(template="minimal", ttl_seconds=TTL)
    busy = Sandbox.create(template="minimal", ttl_seconds=TTL)
    # A command that runs for longer than the ttl is use all the time.
    deadline = time.monotonic() + 60
    began = time.monotonic()
    code = []
    runner = threading.Thread(target=lambda: code.append(busy.exec_stream(f"sleep {3 * TTL}; exit 7")))
    runner.start()
    while exists(idle):
        assert time.monotonic() < deadline, "the idle sandbox lives for ever"
        asked.refresh()
        time.sleep(0.5)
    assert time.monotonic() - began > TTL - 1, "it was not idle for so long"
    while time.monotonic() - began < 3 * TTL:
        asked.lifecycle()
        time.sleep(1)
    runner.join()
    assert code == [7], code
    assert exists(asked) and exists(busy)
    try:
        idle.exec("true")
        raise AssertionError("it is still there")
    except NotFoundError:
        pass
    asked.kill()
    busy.kill()
    print("used ones live, the idle one is gone")


if __name__ == "__main__":
    main()
