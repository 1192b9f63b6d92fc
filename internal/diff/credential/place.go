package credential

import (
	"bytes"
	"crypto/sha256"
	"path"
	"slices"
	"strings"

	"shoal/internal/core"
)

// The kinds of credential that are told by where they lie.
const (
	Netrc          core.CredentialKind = "netrc"
	PostgresPass   core.CredentialKind = "pgpass"
	MySQLPassword  core.CredentialKind = "mysql_password"
	GitCredentials core.CredentialKind = "git_credentials"
	AWSCredentials core.CredentialKind = "aws_credentials"
	DockerConfig   core.CredentialKind = "docker_config"
	KubeConfig     core.CredentialKind = "kube_config"
	GCloud         core.CredentialKind = "gcloud_credentials"
	AzureCLI       core.CredentialKind = "azure_credentials"
	GitHubCLI      core.CredentialKind = "github_cli"
	NpmConfig      core.CredentialKind = "npm_config"
	PyPIConfig     core.CredentialKind = "pypi_config"
	CargoLogin     core.CredentialKind = "cargo_login"
	GemCredentials core.CredentialKind = "gem_credentials"
	Terraform      core.CredentialKind = "terraform_credentials"
	ToolLogin      core.CredentialKind = "tool_login"
	SSHKey         core.CredentialKind = "ssh_key"
	ShellHistory   core.CredentialKind = "shell_history"
)

// place is where a program keeps a credential: a path ends with it. What has none of the words in it, if there are any, has no credential.
type place struct {
	suffix string
	kind   core.CredentialKind
	words  []string
}

func places() []place {
	return []place{
		{"/.netrc", Netrc, []string{"password"}},
		{"/_netrc", Netrc, []string{"password"}},
		{"/.pgpass", PostgresPass, nil},
		{"/.my.cnf", MySQLPassword, []string{"password"}},
		{"/.git-credentials", GitCredentials, nil},
		{"/.config/git/credentials", GitCredentials, nil},
		{"/.aws/credentials", AWSCredentials, nil},
		{"/.docker/config.json", DockerConfig, []string{`"auth"`, `"identitytoken"`}},
		{"/.dockercfg", DockerConfig, nil},
		{"/.config/containers/auth.json", DockerConfig, []string{`"auth"`}},
		{"/.kube/config", KubeConfig, []string{"token", "password", "client-key-data"}},
		{"/.config/gcloud/application_default_credentials.json", GCloud, nil},
		{"/.config/gcloud/credentials.db", GCloud, nil},
		{"/.config/gcloud/access_tokens.db", GCloud, nil},
		{"/.boto", GCloud, []string{"secret", "refresh_token"}},
		{"/.azure/accessTokens.json", AzureCLI, nil},
		{"/.azure/msal_token_cache.json", AzureCLI, nil},
		{"/.config/gh/hosts.yml", GitHubCLI, []string{"oauth_token"}},
		{"/.npmrc", NpmConfig, []string{"_authToken", "_password", "_auth"}},
		{"/.yarnrc.yml", NpmConfig, []string{"npmAuthToken"}},
		{"/.pypirc", PyPIConfig, []string{"password"}},
		{"/.cargo/credentials", CargoLogin, nil},
		{"/.cargo/credentials.toml", CargoLogin, nil},
		{"/.gem/credentials", GemCredentials, nil},
		{"/.terraform.d/credentials.tfrc.json", Terraform, nil},
		{"/.vault-token", VaultToken, nil},
		{"/.config/shoal/cli.json", ShoalKey, []string{"api_key"}},
		{"/.claude/.credentials.json", ToolLogin, nil},
		{"/.codex/auth.json", ToolLogin, nil},
		{"/.config/rclone/rclone.conf", ToolLogin, []string{"pass", "token", "secret"}},
		{"/.s3cfg", ToolLogin, []string{"secret_key"}},
		{"/.e2b/config.json", ToolLogin, nil},
	}
}

// byPlace finds a credential by where it lies.
func byPlace(name string, text []byte) (Finding, bool) {
	if len(bytes.TrimSpace(text)) == 0 {
		return Finding{}, false
	}
	for _, p := range places() {
		if !strings.HasSuffix(name, p.suffix) {
			continue
		}
		line, ok := lineOf(text, p.words)
		return Finding{Kind: p.kind, Line: line, digest: sha256.Sum256(text)}, ok
	}
	switch base := path.Base(name); {
	case strings.HasPrefix(base, "id_") && path.Base(path.Dir(name)) == ".ssh" && !strings.HasSuffix(base, ".pub"):
		return Finding{Kind: SSHKey, digest: sha256.Sum256(text)}, true
	case isHistory(base):
		// What was typed grows all the time: that there is any is one finding.
		return Finding{Kind: ShellHistory}, true
	}
	return Finding{}, false
}

// lineOf returns the first line that has one of the words; with no words the whole file is meant.
func lineOf(text []byte, words []string) (line int, ok bool) {
	if len(words) == 0 {
		return 0, true
	}
	first := -1
	for _, w := range words {
		if i := bytes.Index(text, []byte(w)); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first < 0 {
		return 0, false
	}
	return 1 + bytes.Count(text[:first], []byte{'\n'}), true
}

func isHistory(base string) bool {
	return slices.Contains([]string{
		".bash_history", ".zsh_history", ".ash_history", ".sh_history", ".history", ".psql_history", ".mysql_history", ".python_history",
		".node_repl_history", ".sqlite_history", ".rediscli_history",
	}, base)
}

// holdsAssignments reports whether a file is one in which secrets are assigned to variables: an environment's file, or a shell's.
func holdsAssignments(name string) bool {
	base := path.Base(name)
	if isHistory(base) || name == "/etc/environment" {
		return true
	}
	switch base {
	case ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".envrc":
		return true
	}
	for _, word := range []string{"example", "sample", "template", "dist"} {
		if strings.HasSuffix(base, "."+word) {
			return false
		}
	}
	return base == ".env" || strings.HasPrefix(base, ".env.") || strings.HasSuffix(base, ".env")
}
