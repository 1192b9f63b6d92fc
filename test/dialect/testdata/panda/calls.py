"""Every call of the Python SDK that docs/dialects/panda.md says works, one after the other, and how those end that don't.

What it sends is compared with requests-python.txt: keep it in one order and free of times, random numbers and polling.
"""

import pathlib
import tempfile

import pandastack
from pandastack import Client, Sandbox
from pandastack.exceptions import (
    AuthError,
    BadRequestError,
    CommandFailed,
    NotFoundError,
    SandboxTimeout,
    ServerError,
)


def raises(kind, text, call, *args, **kwargs):
    try:
        got = call(*args, **kwargs)
    except Exception as e:
        assert type(e) is kind, f"{type(e).__name__}: {e}"
        assert text in str(e), str(e)
        return e
    raise AssertionError(f"{kind.__name__} expected, got {got!r}")


def account(client):
    me = client.me()
    assert me["workspace"] == "default" and me["admin"] is False, me
    raises(AuthError, "API key", Client(api_key="pds_wrong").me)


def templates(client):
    listed = {t.name: t for t in client.templates.list()}
    assert listed["base"].is_global and listed["base"].size_bytes > 1 << 20, listed
    for alias in ("code-interpreter", "ubuntu-24.04"):
        assert listed[alias].base == "base", listed[alias]
        assert client.templates.get(alias).name == alias
    raises(NotFoundError, "no such template", client.templates.get, "org/none")
    raises(ServerError, "templates can't be built", client.templates.delete, "base")


def create(client):
    # \u00e9 and a value of 2,000 characters: metadata is not only for short words.
    metadata = {"tenant_id": "t-1", "caf\u00e9": "x" * 2000, "empty": ""}
    sb = Sandbox.create(template="code-interpreter", metadata=metadata, ttl_seconds=120)
    assert sb.status == "running" and not sb.persistent and sb.metadata == metadata, sb
    assert sb.cpu >= 1 and sb.memory_mb >= 64 and sb.created_at.endswith("Z") and sb.boot_ms > 0, sb
    again = Sandbox.get(sb.id)
    assert again == sb, (again, sb)
    assert sb.refresh().id == sb.id
    assert sb.id in [s.id for s in client.sandboxes.list()]
    assert sb.id in [s.id for s in Sandbox.list()]
    raises(NotFoundError, "no template nope", Sandbox.create, template="nope")
    raises(BadRequestError, "from_snapshot", Sandbox.create, from_snapshot="x")
    raises(BadRequestError, "volumes", Sandbox.create, volumes=[{"name": "v"}])
    raises(BadRequestError, "ttl_seconds", Sandbox.create, ttl_seconds=60, persistent=True)
    raises(BadRequestError, "ttl_seconds", Sandbox.create, ttl_seconds=-1)
    raises(BadRequestError, "metadata", Sandbox.create, metadata={str(i): "" for i in range(1000)})
    raises(NotFoundError, "no such sandbox", Sandbox.get, "aaaaaaaaaaaaaaaaaaaaaa")
    return sb


def execs(sb):
    r = sb.exec("echo out; echo err >&2; exit 3")
    assert (r.stdout, r.stderr, r.exit_code) == ("out\n", "err\n", 3) and r.duration_ms > 0, r
    r = sb.exec("id -un; pwd; echo $HOME; echo a && X=b sh -c 'echo $X' | tr b c", timeout_seconds=30, check=True)
    assert r.stdout == "root\n/root\n/root\na\nc\n", r
    assert raises(CommandFailed, "exited with code 4", sb.exec, "echo partial; exit 4", check=True).stdout == "partial\n"
    assert sb.commands.run("printf 'caf\\303\\251 \\377'", timeout=30).stdout == "caf\u00e9 \ufffd"
    assert sb.exec("kill -9 $$").exit_code == 137
    assert sb.exec("kill -TERM $$").exit_code == 143
    raises(SandboxTimeout, "timed out", sb.exec, "sleep 61 & sleep 60", timeout_seconds=1)
    assert sb.exec("pgrep -x sleep || echo none").stdout == "none\n", "the group outlived its timeout"
    assert len(sb.exec("head -c 900000 /dev/zero | tr '\\0' x").stdout) == 900000
    assert len(sb.exec("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 1 << 20, "longer than the documented limit of a reply"
    assert sb.run_code("print(6 * 7)").stdout == "42\n"
    assert sb.run_code("echo $((6*7))", language="shell").stdout == "42\n"
    raises(BadRequestError, "cmd is needed", sb.exec, " ")
    raises(BadRequestError, "at most 131071 bytes", sb.exec, "true " + "#" * 131072)


def streams(sb):
    out, err = [], []
    code = sb.exec_stream("echo one; echo bad >&2; sleep 0.3; echo two; exit 5", on_stdout=out.append, on_stderr=err.append)
    assert (code, "".join(out), "".join(err)) == (5, "one\ntwo\n", "bad\n") and len(out) > 1, (code, out, err)
    # A character in two pieces, and ends of lines that the SDK's own reader would cut at.
    script = r"printf 'caf\303'; sleep 0.3; printf '\251|\302\205|\342\200\250|\r\n\n|\033\013\014\034|\377\n'"
    out.clear()
    assert sb.exec_stream(script, on_stdout=out.append) == 0
    assert "".join(out) == "caf\u00e9|\x85|\u2028|\r\n\n|\x1b\x0b\x0c\x1c|\ufffd\n", out
    out.clear()
    assert sb.exec_stream("seq 200000", on_stdout=out.append) == 0
    assert "".join(out) == "".join(f"{i}\n" for i in range(1, 200001))
    assert sb.exec_stream("kill -9 $$") == 137
    raises(SandboxTimeout, "timeout", sb.exec_stream, "echo a; sleep 60", timeout_seconds=1)


def files(sb):
    fs, everything = sb.filesystem, bytes(range(256)) * 5000
    assert fs.write("/workspace/deep/er/caf\u00e9 + &?#%.txt", "h\u00e9llo\n") == {"path": "/workspace/deep/er/caf\u00e9 + &?#%.txt", "bytes": 7}
    assert fs.read("/workspace/deep/er/caf\u00e9 + &?#%.txt") == "h\u00e9llo\n".encode()
    with tempfile.TemporaryDirectory() as tmp:
        local = pathlib.Path(tmp)
        (local / "up").write_bytes(everything)
        assert fs.upload(local / "up", "/workspace/bin")["bytes"] == len(everything)
        fs.download("/workspace/bin", local / "down")
        assert (local / "down").read_bytes() == everything
    assert fs.write("/workspace/empty", b"")["bytes"] == 0 and fs.read("/workspace/empty") == b""
    assert sb.exec("cd /workspace && stat -c '%U %a %s' bin empty").stdout == f"root 644 {len(everything)}\nroot 644 0\n"
    fs.write("/workspace/bin", "short")
    assert fs.read("/workspace/bin") == b"short", "the old content stayed"
    assert fs.read("/proc/version").startswith(b"Linux version ")
    sb.exec("cd /workspace && ln -s deep link && ln -s nowhere broken && mkdir many && cd many && seq -w 1 1203 | xargs touch", check=True)
    entries = {e.name: e for e in fs.listdir("/workspace")}
    assert set(entries) == {"deep", "bin", "empty", "link", "broken", "many"}, entries
    assert entries["deep"].is_dir and not entries["link"].is_dir and entries["bin"].path == "/workspace/bin", entries
    assert entries["bin"].size == 5 and entries["bin"].mode == "0644" and entries["bin"].mtime > 1.7e9, entries
    assert [e.name for e in fs.listdir("/workspace/many")] == [f"{i:04d}" for i in range(1, 1204)]
    assert fs.stat("/workspace/link").is_dir and fs.stat("/workspace/many").path == "/workspace/many"
    assert fs.exists("/workspace/broken") and fs.exists("/workspace/bin") and not fs.exists("/workspace/none")
    walked = [(d, len(dirs), len(names)) for d, dirs, names in fs.walk("/workspace")]
    assert walked == [("/workspace", 2, 4), ("/workspace/deep", 1, 0), ("/workspace/deep/er", 0, 1), ("/workspace/many", 0, 1203)], walked
    raises(NotFoundError, "no such file", fs.read, "/workspace/none")
    raises(BadRequestError, "it is a directory", fs.read, "/workspace")
    raises(BadRequestError, "absolute", fs.write, "relative", "x")
    raises(BadRequestError, "not a directory", fs.listdir, "/workspace/bin")


def lifecycle(sb):
    life = sb.lifecycle()
    assert life["ttl_seconds"] == 120 and life["persistent"] is False and 0 <= life["idle_seconds"] < 60, life
    assert sb.set_ttl(600)["ttl_seconds"] == 600
    life = sb.set_persistent(True)
    assert life["persistent"] is True and life["ttl_seconds"] == 0, life
    assert Sandbox.get(sb.id).persistent
    raises(BadRequestError, "persistent", sb.set_ttl, 60)
    life = sb.set_persistent(False)
    assert life["persistent"] is False and life["ttl_seconds"] > 0, life
    assert sb.set_ttl(300)["ttl_seconds"] == 300


def missing(client, sb):
    for words, call in {
        "put to sleep": (sb.pause, sb.resume, sb.hibernate, sb.wake),
        "forks": (sb.snapshot, sb.fork, lambda: sb.fork_tree(2), sb.promote, client.snapshots.list),
        "code contexts": (sb.create_code_context,),
        "ports": (sb.preview_urls,),
        "logs": (lambda: list(sb.logs()),),
        "volumes": (client.volumes.list,),
        "functions": (client.functions.list,),
        "schedules": (client.schedules.list,),
        "databases": (client.databases.list,),
        "apps": (client.apps.list,),
        "keys": (client.tokens.list,),
    }.items():
        for c in call:
            raises(ServerError, words, c)


def main():
    assert pandastack.__version__ == "0.10.0", pandastack.__version__
    client = Client()
    account(client)
    templates(client)
    sb = create(client)
    with sb:
        execs(sb)
        streams(sb)
        files(sb)
        lifecycle(sb)
        missing(client, sb)
    raises(NotFoundError, "no such sandbox", sb.exec, "true")
    raises(NotFoundError, "no such sandbox", sb.kill)
    print("python: every call is as documented")


if __name__ == "__main__":
    main()
