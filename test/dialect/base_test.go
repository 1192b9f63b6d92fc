package dialect_test

import (
	"strings"
	"testing"

	shoal "shoal/sdk/go"
)

// testBase tries what the template base promises, which the dialects' names of templates lead to.
func testBase(t *testing.T, e *env) {
	memory := int64(1 << 30)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Template: "base", MemoryBytes: &memory})
	for script, want := range map[string]string{
		"id -un; id -u; pwd":                  "user\n1000\n/home/user\n",
		"sudo -n id -u":                       "0\n",
		`node -e 'console.log(6*7)'`:          "42\n",
		"npm --version >/dev/null && echo ok": "ok\n",
		"python3 -m venv /tmp/v && /tmp/v/bin/pip --version >/dev/null && /tmp/v/bin/python -c 'print(7)'":      "7\n",
		`printf '#include <stdio.h>\nint main(void){puts("built");}' >a.c && gcc a.c -o a && ./a`:               "built\n",
		"git init -q r && cd r && git -c user.email=a@b -c user.name=n commit -q --allow-empty -m m && echo ok": "ok\n",
		`echo '{"a":3}' | jq .a`:     "3\n",
		"curl --version | head -c 4": "curl",
	} {
		if got := e.Out(t, sb.ID, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if got := e.Out(t, sb.ID, "cat /etc/apt/sources.list.d/*"); !strings.Contains(got, "deb") {
		t.Errorf("apt has no sources: %q", got)
	}
}
