# Makes a bare git repository at $1 and a directory of packages at $2: what a git server and a package index would have.
set -eu
git init -q --bare "$1"
work=$(mktemp -d)
git init -q "$work"
cd "$work"
echo 'from greeting import greet; print(greet("repo"))' >main.py
git add main.py
git -c user.name=seed -c user.email=seed@localhost commit -q -m "first"
git push -q "$1" HEAD:master
git --git-dir="$1" symbolic-ref HEAD refs/heads/master
mkdir -p "$2"
python3 - "$2" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + "/greeting-1.0-py3-none-any.whl", "w") as z:
    z.writestr("greeting.py", "def greet(who):\n    return f'hello {who}'\n")
    z.writestr("greeting-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    z.writestr("greeting-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: seed\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("greeting-1.0.dist-info/RECORD", "greeting.py,,\ngreeting-1.0.dist-info/METADATA,,\ngreeting-1.0.dist-info/WHEEL,,\ngreeting-1.0.dist-info/RECORD,,\n")
PY
