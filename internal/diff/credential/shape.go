package credential

import (
	"bytes"
	"strings"

	"shoal/internal/core"
)

// The kinds of credential that are told by their shape.
const (
	PrivateKey       core.CredentialKind = "private_key"
	AgeKey           core.CredentialKind = "age_key"
	AWSAccessKey     core.CredentialKind = "aws_access_key"
	GitHubToken      core.CredentialKind = "github_token"
	GitLabToken      core.CredentialKind = "gitlab_token"
	SlackToken       core.CredentialKind = "slack_token"
	AnthropicKey     core.CredentialKind = "anthropic_key"
	OpenAIKey        core.CredentialKind = "openai_key"
	GoogleKey        core.CredentialKind = "google_key"
	StripeKey        core.CredentialKind = "stripe_key"
	NpmToken         core.CredentialKind = "npm_token"
	PyPIToken        core.CredentialKind = "pypi_token"
	HuggingFaceToken core.CredentialKind = "huggingface_token"
	SendGridKey      core.CredentialKind = "sendgrid_key"
	DigitalOcean     core.CredentialKind = "digitalocean_token"
	VaultToken       core.CredentialKind = "vault_token"
	AzureKey         core.CredentialKind = "azure_key"
	ShoalKey         core.CredentialKind = "shoal_key"
	E2BKey           core.CredentialKind = "e2b_key"
	JWT              core.CredentialKind = "jwt"
	URLPassword      core.CredentialKind = "url_password"
	SecretAssignment core.CredentialKind = "secret_assignment"
)

// A token is a word that begins with prefix and goes on with at least so many characters of a set.
type token struct {
	kind   core.CredentialKind
	prefix string
	set    func(byte) bool
	least  int
}

// tokens is in the order in which they are looked for: the first that fits a place has it.
func tokens() []token {
	return []token{
		{AWSAccessKey, "AKIA", upper, 16},
		{AWSAccessKey, "ASIA", upper, 16},
		{GitHubToken, "ghp_", word, 36},
		{GitHubToken, "gho_", word, 36},
		{GitHubToken, "ghu_", word, 36},
		{GitHubToken, "ghs_", word, 36},
		{GitHubToken, "ghr_", word, 36},
		{GitHubToken, "github_pat_", word, 40},
		{GitLabToken, "glpat-", wordDash, 20},
		{GitLabToken, "gldt-", wordDash, 20},
		{GitLabToken, "glrt-", wordDash, 20},
		{SlackToken, "xoxb-", wordDash, 20},
		{SlackToken, "xoxp-", wordDash, 20},
		{SlackToken, "xoxa-", wordDash, 20},
		{SlackToken, "xoxr-", wordDash, 20},
		{SlackToken, "xoxs-", wordDash, 20},
		{SlackToken, "xapp-", wordDash, 20},
		{AnthropicKey, "sk-ant-", wordDash, 24},
		{OpenAIKey, "sk-proj-", wordDash, 24},
		{OpenAIKey, "sk-svcacct-", wordDash, 24},
		{OpenAIKey, "sk-", word, 40},
		{GoogleKey, "AIza", wordDash, 35},
		{GoogleKey, "ya29.", wordDash, 40},
		{StripeKey, "sk_live_", word, 16},
		{StripeKey, "rk_live_", word, 16},
		{StripeKey, "sk_test_", word, 16},
		{NpmToken, "npm_", word, 36},
		{PyPIToken, "pypi-AgE", wordDash, 50},
		{HuggingFaceToken, "hf_", word, 30},
		{SendGridKey, "SG.", wordDot, 60},
		{DigitalOcean, "dop_v1_", word, 60},
		{VaultToken, "hvs.", wordDash, 24},
		{AgeKey, "AGE-SECRET-KEY-1", upper, 50},
		{ShoalKey, "shoal_", wordDash, 40},
		{E2BKey, "e2b_", hexadecimal, 40},
		{AzureKey, "AccountKey=", base64, 40},
	}
}

func upper(c byte) bool       { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
func alnum(c byte) bool       { return upper(c) || c >= 'a' && c <= 'z' }
func word(c byte) bool        { return alnum(c) || c == '_' }
func wordDash(c byte) bool    { return word(c) || c == '-' }
func wordDot(c byte) bool     { return wordDash(c) || c == '.' }
func base64(c byte) bool      { return alnum(c) || c == '+' || c == '/' || c == '=' }
func hexadecimal(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// shapes finds what has the shape of a credential.
func shapes(text []byte) []span {
	list := append(privateKeys(text), webTokens(text)...)
	list = append(list, urlPasswords(text)...)
	for _, t := range tokens() {
		list = append(list, t.find(text)...)
	}
	return list
}

// find returns where a token is. Each place is looked at for no longer than the shortest token is, and behind each token it goes on.
func (t token) find(text []byte) (list []span) {
	for at := 0; len(list) < maxFindings; {
		i := bytes.Index(text[at:], []byte(t.prefix))
		if i < 0 {
			break
		}
		start := at + i
		body := start + len(t.prefix)
		n := run(text[body:min(len(text), body+t.least)], t.set)
		if n < t.least || start > 0 && word(text[start-1]) {
			at = body
			continue
		}
		end := body + n + run(text[body+n:], t.set)
		at = end
		if !example(text[body:end]) {
			list = append(list, span{t.kind, start, end})
		}
	}
	return list
}

// run returns how many characters of a set a text begins with.
func run(text []byte, set func(byte) bool) int {
	for i, c := range text {
		if !set(c) {
			return i
		}
	}
	return len(text)
}

// example reports whether a value only shows where one belongs: it says so, or has hardly any different characters.
func example(value []byte) bool {
	if len(value) > 256 {
		return false
	}
	low := strings.ToLower(string(value))
	if strings.Contains(low, "example") || strings.Contains(low, "your") || strings.Contains(low, "placeholder") {
		return true
	}
	different := map[byte]bool{}
	for _, c := range value {
		different[c] = true
	}
	return len(different) <= 4
}

// privateKeys finds the first lines of private keys, with all up to their last.
func privateKeys(text []byte) (list []span) {
	begin, end := []byte("-----BEGIN "), []byte("-----END ")
	for at := 0; len(list) < maxFindings; {
		i := bytes.Index(text[at:], begin)
		if i < 0 {
			break
		}
		start := at + i
		label := text[start+len(begin) : min(len(text), start+len(begin)+64)]
		n := bytes.Index(label, []byte("-----"))
		at = start + len(begin)
		if n < 0 || !bytes.Contains(label[:n], []byte("PRIVATE KEY")) || !keyBody(text[at+n+5:]) {
			continue
		}
		stop := len(text)
		if j := bytes.Index(text[at:], end); j >= 0 {
			stop = at + j
		}
		at = stop
		list = append(list, span{PrivateKey, start, stop})
	}
	return list
}

// keyBody reports whether what follows the first line of a key looks like one: base64, or a header. In JSON a new line is \n.
func keyBody(text []byte) bool {
	text = text[:min(len(text), 256)]
	rest := bytes.TrimLeft(bytes.ReplaceAll(text, []byte(`\n`), []byte("\n")), "\r\n \t")
	if bytes.HasPrefix(text, rest) && len(rest) > 0 {
		return false // no new line
	}
	for _, header := range []string{"Proc-Type:", "Version:", "Comment:"} {
		if bytes.HasPrefix(rest, []byte(header)) {
			return true
		}
	}
	return run(rest, base64) >= 16
}

// webTokens finds JSON web tokens: three words with dots between, of which the first two are JSON in base64.
func webTokens(text []byte) (list []span) {
	const least = 16
	for at := 0; len(list) < maxFindings; {
		i := bytes.Index(text[at:], []byte("eyJ"))
		if i < 0 {
			break
		}
		start := at + i
		if start > 0 && wordDot(text[start-1]) {
			at = start + 3
			continue
		}
		head := start + run(text[start:], wordDash)
		at = head
		if head-start < least || !bytes.HasPrefix(text[head:], []byte(".eyJ")) {
			continue
		}
		claims := head + 1 + run(text[head+1:], wordDash)
		at = claims
		if claims-head < least || claims >= len(text) || text[claims] != '.' {
			continue
		}
		end := claims + 1 + run(text[claims+1:], wordDash)
		if at = end; end-claims >= least {
			list = append(list, span{JWT, start, end})
		}
	}
	return list
}

// maxUserInfo bounds the user and password of a URL.
const maxUserInfo = 512

// urlPasswords finds the passwords in URLs.
func urlPasswords(text []byte) (list []span) {
	for at := 0; len(list) < maxFindings; {
		i := bytes.Index(text[at:], []byte("://"))
		if i < 0 {
			break
		}
		user := at + i + 3
		at = user
		end := bytes.IndexAny(text[user:min(len(text), user+maxUserInfo)], "@/ \t\r\n\"'`<>\\|")
		if end < 0 || text[user+end] != '@' {
			continue
		}
		colon := bytes.IndexByte(text[user:user+end], ':')
		if colon < 0 || !meant(text[user+colon+1:user+end]) {
			continue
		}
		list = append(list, span{URLPassword, user + colon + 1, user + end})
		at = user + end
	}
	return list
}

// meant reports whether a value is one, and not where one will be put, or a word for it.
func meant(value []byte) bool {
	v := strings.Trim(string(value), `"'`)
	if len(v) < 4 || strings.ContainsAny(v[:1], "$<{%*(") {
		return false
	}
	switch strings.ToLower(v) {
	case "password", "passwd", "pass", "secret", "token", "null", "none", "true", "false", "changeme", "xxxx", "test", "user":
		return false
	}
	return !example([]byte(v))
}

// secretWords are what the names of variables and options have in them that hold secrets.
func secretWords() []string {
	return []string{"password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "access_key", "private_key", "credential"}
}

// secretName reports whether a name says that its value is a secret.
func secretName(name []byte) bool {
	if len(name) > 128 {
		return false
	}
	low := strings.ReplaceAll(strings.ToLower(string(name)), "-", "_")
	for _, w := range secretWords() {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// maxAssignments bounds how many equals signs of a text are looked at.
const maxAssignments = 1 << 20

// assignments finds NAME=VALUE where the name says that the value is a secret.
func assignments(text []byte) (list []span) {
	for at, looked := 0, 0; len(list) < maxFindings && looked < maxAssignments; looked++ {
		i := bytes.IndexByte(text[at:], '=')
		if i < 0 {
			break
		}
		equals := at + i
		at = equals + 1
		name := equals
		for name > 0 && equals-name <= 128 && wordDash(text[name-1]) {
			name--
		}
		if name == equals || !secretName(text[name:equals]) {
			continue
		}
		end := valueEnd(text, at)
		if !meant(text[at:end]) {
			continue
		}
		list = append(list, span{SecretAssignment, at, end})
		at = end
	}
	return list
}

// maxValue bounds a value.
const maxValue = 1024

// valueEnd returns where the value that begins at a place ends: at its closing quote, or else at a space.
func valueEnd(text []byte, at int) int {
	rest := text[at:min(len(text), at+maxValue)]
	if len(rest) > 1 && (rest[0] == '"' || rest[0] == '\'') {
		if n := bytes.IndexByte(rest[1:], rest[0]); n >= 0 {
			return at + n + 2
		}
	}
	if n := bytes.IndexAny(rest, " \t\r\n;&|"); n >= 0 {
		return at + n
	}
	return at + len(rest)
}

// options finds the value behind an option of a command line whose name says that it is a secret: --password VALUE.
func options(text []byte) (list []span) {
	at := 0
	for len(list) < maxFindings {
		i := bytes.Index(text[at:], []byte("--"))
		if i < 0 {
			break
		}
		name := at + i + 2
		end := name + run(text[name:], wordDash)
		at = end
		if end >= len(text) || text[end] != ' ' || !secretName(text[name:end]) {
			continue
		}
		stop := valueEnd(text, end+1)
		if value := text[end+1 : stop]; meant(value) && value[0] != '-' && value[0] != '/' {
			list = append(list, span{SecretAssignment, end + 1, stop})
			at = stop
		}
	}
	return list
}
