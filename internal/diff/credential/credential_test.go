package credential_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/diff/credential"
)

// secret makes a value that is no example and stands in no source.
func secret(n int) string {
	const letters = "q7Zk2VxN9bRt4WmPc8LdYs6HjFg3TnAe5UyKw1QoXiBv0MrSzDpJaCfGhEuOl"
	return strings.Repeat(letters, n/len(letters)+1)[:n]
}

func found(list []credential.Finding) (out []string) {
	for _, f := range list {
		out = append(out, fmt.Sprintf("%s:%d", f.Kind, f.Line))
	}
	return out
}

func TestFind(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + secret(70) + "\n" + secret(70) + "\n-----END OPENSSH " + "PRIVATE KEY-----\n"
	jwt := "eyJ" + secret(20) + ".eyJ" + secret(40) + "." + secret(43)
	for name, tc := range map[string]struct {
		path, text string
		want       []string
	}{
		"nothing":                {"/etc/motd", "welcome\n", nil},
		"empty netrc":            {"/root/.netrc", "", nil},
		"netrc":                  {"/root/.netrc", "machine a\nlogin b password c\n", []string{"netrc:2"}},
		"netrc without password": {"/root/.netrc", "machine a\n", nil},
		"git credentials":        {"/home/u/.git-credentials", "https://u:" + secret(20) + "@github.com\n", []string{"git_credentials:0", "url_password:1"}},
		"aws": {
			"/root/.aws/credentials", "[default]\naws_access_key_id = AKIA" + strings.ToUpper(secret(16)) + "\n",
			[]string{"aws_credentials:0", "aws_access_key:2"},
		},
		"docker":           {"/root/.docker/config.json", `{"auths": {"x": {"auth": "abcd"}}}`, []string{"docker_config:1"}},
		"docker, none":     {"/root/.docker/config.json", `{"auths": {}}`, nil},
		"ssh key":          {"/root/.ssh/id_ed25519", key, []string{"ssh_key:0", "private_key:1"}},
		"public key":       {"/root/.ssh/id_ed25519.pub", "ssh-ed25519 " + secret(60), nil},
		"key elsewhere":    {"/srv/x.pem", "\n\n" + key, []string{"private_key:3"}},
		"key in JSON":      {"/srv/x.json", strings.ReplaceAll(key, "\n", `\n`), []string{"private_key:1"}},
		"word for a key":   {"/x.py", `if "-----BEGIN ` + `PRIVATE KEY-----" in text: raise`, nil},
		"encrypted key":    {"/x.pem", "-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", []string{"private_key:1"}},
		"public in PEM":    {"/x.pem", "-----BEGIN PUBLIC KEY-----\n" + secret(70), nil},
		"github":           {"/x", "a\nb ghp_" + secret(36) + "\n", []string{"github_token:2"}},
		"github, short":    {"/x", "ghp_" + secret(35), nil},
		"inside a word":    {"/x", "xghp_" + secret(36), nil},
		"two on a line":    {"/x", "ghp_" + secret(36) + " hf_" + secret(34), []string{"github_token:1", "huggingface_token:1"}},
		"anthropic":        {"/x", "sk-ant-" + secret(40), []string{"anthropic_key:1"}},
		"openai":           {"/x", "sk-proj-" + secret(40) + "\nsk-" + secret(48), []string{"openai_key:1", "openai_key:2"}},
		"aws example":      {"/x", "AKIAIOSFODNN7EXAMPLE", nil},
		"x's":              {"/x", "ghp_" + strings.Repeat("x", 36), nil},
		"jwt":              {"/x", "token " + jwt, []string{"jwt:1"}},
		"half a jwt":       {"/x", "eyJ" + secret(20) + ".eyJ" + secret(40), nil},
		"shoal":            {"/x", "shoal_" + secret(43), []string{"shoal_key:1"}},
		"url":              {"/etc/x", "db = postgres://app:" + secret(12) + "@db/x\n", []string{"url_password:1"}},
		"url, variable":    {"/etc/x", "postgres://app:$PASSWORD@db/x postgres://app:${P}@db postgres://a:password@h", nil},
		"url, no user":     {"/etc/x", "see https://example.com/a@b:c", nil},
		"dotenv":           {"/srv/.env", "PORT=8080\nDB_PASSWORD=" + secret(12) + "\nAPI_TOKEN=$X\n", []string{"secret_assignment:2"}},
		"dotenv, quoted":   {"/srv/prod.env", "SECRET_KEY='" + secret(12) + " " + secret(3) + "'\n", []string{"secret_assignment:1"}},
		"dotenv example":   {"/srv/.env.example", "DB_PASSWORD=" + secret(12) + "\n", nil},
		"assigned in code": {"/srv/x.py", "password=" + secret(12) + "\n", nil},
		"history":          {"/root/.bash_history", "ls\nexport TOKEN=" + secret(12) + "\n", []string{"shell_history:0", "secret_assignment:2"}},
		"binary":           {"/bin/x", "\x00ghp_" + secret(36), nil},
		"npmrc":            {"/root/.npmrc", "registry=x\n//r/:_authToken=" + secret(20), []string{"npm_config:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tc.want, found(credential.Find(tc.path, []byte(tc.text)))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestNew: what was there before is not told again, wherever it is now.
func TestNew(t *testing.T) {
	t.Parallel()
	old, fresh := "ghp_"+secret(36), "ghp_"+secret(40)
	was := credential.Find("/x", []byte(old))
	now := credential.Find("/x", []byte("a\n"+old+"\n"+fresh+"\n"))
	if got := found(credential.New(was, now)); len(got) != 1 || got[0] != "github_token:3" {
		t.Errorf("new: %v", got)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	s := secret(40)
	for command, want := range map[string]string{
		"python3 -m http.server 8000":            "python3 -m http.server 8000",
		"curl -H Authorization: Bearer ghp_" + s: "curl -H Authorization: Bearer [github_token]",
		"mysql --password=" + s + " db":          "mysql --password=[secret_assignment] db",
		"tool --api-key " + s + " --verbose":     "tool --api-key [secret_assignment] --verbose",
		"tool --token-file /run/token":           "tool --token-file /run/token",
		"tool --password --verbose":              "tool --password --verbose",
		"psql postgres://app:" + s + "@db/x":     "psql postgres://app:[url_password]@db/x",
		"env TOKEN=ghp_" + s + " run":            "env TOKEN=[github_token] run",
		"a ghp_" + s + " b sk-ant-" + s + " c":   "a [github_token] b [anthropic_key] c",
	} {
		got, kinds := credential.Mask(command)
		if got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
		if strings.Contains(got, s) {
			t.Errorf("the value is there: %q", got)
		}
		if (got != command) != (len(kinds) > 0) {
			t.Errorf("%q: kinds %v", command, kinds)
		}
	}
}

// TestHostileTextTakesLittleTime: text that is made to be looked at again and again is read in time that grows with its length.
func TestHostileTextTakesLittleTime(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{
		"sk-", "sk-ant-", "eyJ", "eyJa.eyJ", "://", "://a:", "token=", "token=$", `token="`, "--token ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "\n",
		"-----BEGIN PRIVATE KEY-----\n", "AKIA", "=", "shoal_-",
	} {
		text := []byte(strings.Repeat(piece, 1<<20/len(piece)))
		began := time.Now()
		_ = credential.Find("/x/.env", text)
		_, _ = credential.Mask(string(text[:64<<10]))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %s", piece, took)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("/srv/.env", "A_TOKEN="+secret(20)+"\nhttps://a:"+secret(9)+"@b\n-----BEGIN "+"PRIVATE KEY-----\n"+secret(64))
	f.Add("/root/.bash_history", "sk-ant-"+secret(30)+" eyJ"+secret(20)+".eyJ"+secret(20)+"."+secret(20))
	f.Fuzz(func(t *testing.T, path, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, x := range credential.Find(path, []byte(text)) {
			if x.Line < 0 || x.Line > lines || x.Kind == "" {
				t.Errorf("%+v of %d lines", x, lines)
			}
		}
		masked, kinds := credential.Mask(text)
		if len(kinds) == 0 && masked != text {
			t.Errorf("%q became %q without a word", text, masked)
		}
	})
}
