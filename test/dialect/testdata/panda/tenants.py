"""Keeps one sandbox per tenant, with its repository and packages, and finds it again.

    tenants.py STATE open TENANT REPOSITORY PACKAGES PACKAGE     create or find it; clone and install what is missing
    tenants.py STATE run TENANT COMMAND                          run a command in it
    tenants.py STATE close TENANT                                destroy it

STATE is a file in which the sandboxes' ids are kept between runs. The git server and the package index are directories of the sandbox
itself, which seed.sh makes: sandboxes reach nothing outside.
"""

import json
import pathlib
import sys

from pandastack import Sandbox


class Tenants:
    def __init__(self, state: str) -> None:
        self.state = pathlib.Path(state)
        self.saved = json.loads(self.state.read_text()) if self.state.exists() else {}

    def save(self) -> None:
        self.state.write_text(json.dumps(self.saved))

    def sandbox(self, tenant_id: str) -> Sandbox:
        saved_id = self.saved.get(tenant_id)
        if saved_id:
            return Sandbox.get(saved_id)
        sandbox = Sandbox.create(template="code-interpreter", persistent=True, metadata={"tenant_id": tenant_id})
        self.saved[tenant_id] = sandbox.id
        self.save()
        return sandbox

    def destroy(self, tenant_id: str) -> None:
        self.sandbox(tenant_id).kill()
        del self.saved[tenant_id]
        self.save()


def prepare(sandbox: Sandbox, repository: str, packages: str, package: str) -> str:
    if sandbox.filesystem.exists("/workspace/repo"):
        return "found"
    seed = pathlib.Path(__file__).with_name("seed.sh").read_text()
    sandbox.filesystem.write("/tmp/seed.sh", seed)
    sandbox.exec(f"sh /tmp/seed.sh {repository} {packages}", check=True, timeout_seconds=60)
    sandbox.exec(f"git clone -q {repository} /workspace/repo", check=True, timeout_seconds=60)
    install = f"python3 -m pip install -q --no-index --find-links {packages} --target /workspace/packages {package}"
    sandbox.exec(install, check=True, timeout_seconds=60)
    return "made"


def main(state: str, verb: str, tenant_id: str, *rest: str) -> None:
    tenants = Tenants(state)
    if verb == "open":
        sandbox = tenants.sandbox(tenant_id)
        print(prepare(sandbox, *rest), sandbox.metadata["tenant_id"], sandbox.persistent, sandbox.status)
    elif verb == "run":
        result = tenants.sandbox(tenant_id).exec(rest[0], check=True)
        sys.stdout.write(result.stdout)
    elif verb == "close":
        tenants.destroy(tenant_id)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
