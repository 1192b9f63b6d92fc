package e2e_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// TestRegistry imports by reference from a registry that wants a login, one by the login itself and one by its token service: with a login
// that is kept for the tenant, and not for another, through a kill of the server; and looks for the password on the disk.
func TestRegistry(t *testing.T) {
	basic, tokens := harness.StartRegistry(t, false), harness.StartRegistry(t, true)
	opts := harness.Options{NoTemplates: true, Env: basic.Environment()}
	e := env{harness.Start(t, opts)}
	ref, private := basic.Push(t, "team/app:1", 3<<20, 5<<20), tokens.Push(t, "team/app:1", 1<<20)
	for _, image := range []string{ref, private} {
		if op := e.reference(t, e.Client, image); op.Error.Code != string(shoal.CodeDenied) {
			t.Errorf("without a login: %+v", op)
		}
	}
	if _, stderr, code := e.CLI(harness.RegistryPassword+"\n", "registry", "login", basic.Host, "--username", harness.RegistryUser, "--password-stdin"); code != 0 {
		t.Fatal(stderr)
	}
	if _, err := e.Client.Registries().Put(ctx(t), tokens.Host, shoal.PutRegistryRequest{Username: harness.RegistryUser, Password: harness.RegistryPassword}); err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{ref, private} {
		if op := e.reference(t, e.Client, image); op.State != shoal.OperationSucceeded || op.BytesTotal < 1<<20 || op.BytesDone != op.BytesTotal {
			t.Errorf("with one: %+v", op)
		}
	}
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Template: "app"})
	if r := e.Run(t, sb.ID, shoal.ExecRequest{Entrypoint: true}); *r.Stdout != "hello from nothing\n" {
		t.Errorf("in a sandbox of it: %s", harness.Describe(r))
	}

	other, _ := e.tenant(t, "other", shoal.TenantQuota{})
	before := basic.Calls()
	if op := e.reference(t, other, ref); op.Error.Code != string(shoal.CodeDenied) || basic.Calls() != before {
		t.Errorf("another tenant: %+v", op)
	}
	for r := range other.Registries().List(ctx(t)) {
		t.Errorf("another tenant sees %+v", r)
	}

	e.Kill()
	e.Restart(opts)
	for _, image := range []string{ref, private} {
		if op := e.reference(t, e.Client, image); op.State != shoal.OperationSucceeded {
			t.Errorf("after a kill: %+v", op)
		}
	}
	e.noPassword(t)
	if _, stderr, code := e.CLI("", "registry", "rm", basic.Host); code != 0 {
		t.Fatal(stderr)
	}
	if op := e.reference(t, e.Client, ref); op.Error.Code != string(shoal.CodeDenied) {
		t.Errorf("after the login was deleted: %+v", op)
	}
}

// reference imports an image by its reference, and returns the operation's end.
func (e env) reference(t *testing.T, client *shoal.Client, ref string) shoal.Operation {
	t.Helper()
	op, err := client.Templates().Create(ctx(t), shoal.CreateTemplateRequest{Name: "app", FromImage: ref})
	if err == nil {
		op, err = client.Operations().Wait(ctx(t), op.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// noPassword looks for a registry's password in what the server keeps and logs.
func (e env) noPassword(t *testing.T) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"shoal.db*", "server.log", "secrets.key", "node/journal/*.json"} {
		list, err := filepath.Glob(filepath.Join(e.Dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{
			harness.RegistryPassword, base64.StdEncoding.EncodeToString([]byte(harness.RegistryUser + ":" + harness.RegistryPassword)), "a-token-of-its-own",
		} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s has %q", path, secret)
			}
		}
	}
	info, err := os.Stat(filepath.Join(e.Dir, "secrets.key"))
	if err != nil || info.Mode().Perm() != 0o600 || len(files) < 3 {
		t.Errorf("%v, %v, %s", info, err, strings.Join(files, " "))
	}
}
