package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"shoal/internal/core"
	"shoal/internal/outbound"
)

// registry is a repository of a registry.
type registry struct {
	repo   name.Repository
	puller *remote.Puller
	client *http.Client
	scheme string
	pace   time.Duration
}

// openRegistry finds an image by its reference.
func openRegistry(ctx context.Context, cfg Config, want v1.Platform) (image, func(), error) {
	ref, err := parseRef(cfg.Source.Ref)
	if err != nil {
		return image{}, nil, err
	}
	if cfg.Source, err = withKept(ctx, cfg.Source, ref); err != nil {
		return image{}, nil, err
	}
	auth, err := credentials(cfg.Source)
	if err != nil {
		return image{}, nil, err
	}
	base := cfg.Guard.Transport()
	r, err := connect(ctx, cfg, ref.Context(), auth, base)
	if err != nil {
		base.CloseIdleConnections()
		return image{}, nil, explain(ref, cfg.Source, err)
	}
	img, err := r.find(ctx, ref, want)
	if err != nil {
		base.CloseIdleConnections()
		return image{}, nil, explain(ref, cfg.Source, err)
	}
	return img, base.CloseIdleConnections, nil
}

// maxRef bounds a reference: host, repository, tag and digest.
const maxRef = 512

func parseRef(text string) (name.Reference, error) {
	if len(text) > maxRef {
		return nil, core.Invalid("ref", "the image's name has more than %d characters", maxRef)
	}
	if strings.Contains(text, "://") {
		return nil, core.Invalid("ref", "an image is named without %q: write ghcr.io/owner/app:1.2", text[:strings.Index(text, "://")+3])
	}
	ref, err := name.ParseReference(text, name.WeakValidation)
	if err == nil && slices.ContainsFunc(strings.Split(ref.Context().Name(), "/"), func(part string) bool { return strings.Trim(part, ".") == "" }) {
		err = errors.New("a part of it has only dots")
	}
	if err != nil {
		wrong := core.Wrap(core.CodeInvalid, err, "%q is no name of an image: write alpine, ghcr.io/owner/app:1.2 or app@sha256:…", clip(text, 200))
		wrong.Field = "ref"
		return nil, wrong
	}
	return ref, nil
}

// withKept fills in the login that the tenant keeps for the registry of this import, unless it brings one.
func withKept(ctx context.Context, src core.ImageSource, ref name.Reference) (core.ImageSource, error) {
	if src.Login == nil || src.Username != "" || src.Password != "" {
		return src, nil
	}
	host, err := core.RegistryHost(ref.Context().RegistryStr())
	if err != nil {
		return src, nil //nolint:nilerr // For a host of no such form no login is kept.
	}
	if src.Username, src.Password, err = src.Login(ctx, host); err != nil {
		return src, fmt.Errorf("find the login of a registry: %w", err)
	}
	return src, nil
}

// credentials are those of this one import. Nothing else is ever asked for one: no file, no helper, no environment.
func credentials(src core.ImageSource) (authn.Authenticator, error) {
	switch user, password := src.Username, src.Password.Reveal(); {
	case user == "" && password == "":
		return authn.Anonymous, nil
	case password == "":
		return nil, core.Invalid("password", "there is a user name for the registry and no password")
	case user == "":
		return authn.FromConfig(authn.AuthConfig{RegistryToken: password}), nil
	default:
		return authn.FromConfig(authn.AuthConfig{Username: user, Password: password}), nil
	}
}

// connect makes the handshake with a registry, once.
func connect(ctx context.Context, cfg Config, repo name.Repository, auth authn.Authenticator, base *outbound.Transport) (*registry, error) {
	plain := speaksPlain(cfg.PlainHTTP, repo.RegistryStr())
	checked := &checkedTransport{inner: base, registry: repo.RegistryStr(), plain: cfg.PlainHTTP, secrets: secretHeaders(cfg.Source)}
	retrying := transport.NewRetry(checked, transport.WithRetryPredicate(transient),
		transport.WithRetryBackoff(backoff(cfg.pace)), transport.WithRetryStatusCodes(transientStatus()...))
	options := []name.Option{name.WeakValidation}
	if plain {
		options = append(options, name.Insecure)
	}
	reg, err := name.NewRegistry(repo.RegistryStr(), options...)
	if err != nil {
		return nil, core.Wrap(core.CodeInvalid, err, "%q is no registry", repo.RegistryStr())
	}
	repo.Registry = reg
	scope := repo.Scope(transport.PullScope)
	wrapped, err := transport.NewWithContext(ctx, reg, auth, retrying, []string{scope})
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(remote.WithTransport(wrapped), remote.WithAuth(authn.Anonymous))
	if err != nil {
		return nil, fmt.Errorf("make a puller: %w", err)
	}
	scheme := "https"
	if plain {
		scheme = "http"
	}
	return &registry{repo: repo, puller: puller, client: &http.Client{Transport: wrapped}, scheme: scheme, pace: cfg.pace}, nil
}

// find goes from a reference to its image.
func (r *registry) find(ctx context.Context, ref name.Reference, want v1.Platform) (image, error) {
	ref = r.own(ref)
	desc, err := r.puller.Get(ctx, ref)
	if err != nil {
		return image{}, err
	}
	top := desc.Descriptor
	if kind, _, err := mime.ParseMediaType(string(top.MediaType)); err == nil {
		top.MediaType = types.MediaType(kind)
	}
	img, digest, err := resolve(ctx, r, top, desc.Manifest, want)
	if err != nil {
		return image{}, err
	}
	img.source = r.repo.Name() + "@" + digest.String()
	return img, nil
}

// own is a reference in our repository, which knows how the registry is spoken to.
func (r *registry) own(ref name.Reference) name.Reference {
	if d, ok := ref.(name.Digest); ok {
		return r.repo.Digest(d.DigestStr())
	}
	return r.repo.Tag(ref.Identifier())
}

func (r *registry) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	desc, err := r.puller.Get(ctx, r.repo.Digest(d.Digest.String()))
	if err != nil {
		return nil, err
	}
	return desc.Manifest, nil
}

func (r *registry) small(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	body, err := r.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return readVerified(body, d)
}

func (r *registry) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	url := r.scheme + "://" + r.repo.RegistryStr() + "/v2/" + r.repo.RepositoryStr() + "/blobs/" + d.Digest.String()
	return &blob{ctx: ctx, client: r.client, url: url, size: d.Size, pace: r.pace}, nil
}

// retryPace is how long the first retry waits; tests are faster.
const retryPace = time.Second

// Retries are the library's own: after one pace and three more, of what may be over by then.
func backoff(pace time.Duration) transport.Backoff {
	return transport.Backoff{Duration: pace, Factor: 3, Jitter: 0.1, Steps: 3}
}

func transientStatus() []int {
	return []int{
		http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
}

// transient reports whether an error of a request may be over soon.
func transient(err error) bool {
	var status *transport.Error
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case core.IsCode(err, core.CodeDenied), core.IsCode(err, core.CodeInvalid):
		return false
	case errors.As(err, &status):
		return status.Temporary()
	case core.IsCode(err, core.CodeUnavailable), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	return errors.As(err, &timeout)
}

// explain turns what the library says into an Error. What a registry says of itself is only logged: it is a stranger's text.
func explain(ref name.Reference, src core.ImageSource, err error) error {
	host := ref.Context().RegistryStr()
	if errors.As(err, new(*tls.CertificateVerificationError)) { // first: at loopback the library then tries without encryption, which is refused
		return core.Wrap(core.CodeUnavailable, err, "the registry %s can't be reached: its certificate is not one that this server trusts", host)
	}
	var own *core.Error
	if errors.As(err, &own) {
		return err
	}
	var status *transport.Error
	if !errors.As(err, &status) {
		return core.Wrap(core.CodeUnavailable, err, "the registry %s can't be reached, or what it says is not understood", host)
	}
	switch status.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		if src.Username != "" || src.Password != "" {
			return core.Wrap(core.CodeDenied, err, "the registry %s refuses access to %s with the login that it got: user name or password is wrong, or may not read it, or it is not there", host, ref)
		}
		return core.Wrap(core.CodeDenied, err, "the registry %s refuses access to %s: it is not there, or needs a user name and password that may read it", host, ref)
	case http.StatusNotFound:
		return core.Wrap(core.CodeNotFound, err, "the registry %s has no image %s", host, ref)
	case http.StatusTooManyRequests:
		return &core.Error{Code: core.CodeUnavailable, Message: "the registry " + host + " answers too many requests from here: try again later", RetryAfter: time.Minute, Err: err}
	}
	if status.StatusCode >= http.StatusInternalServerError {
		return core.Wrap(core.CodeUnavailable, err, "the registry %s answers with an error of its own (%d)", host, status.StatusCode)
	}
	return core.Wrap(core.CodeUnavailable, err, "the registry %s does not give out %s (%d)", host, ref, status.StatusCode)
}

// speaksPlain reports whether the operator lists a registry as one without TLS.
func speaksPlain(list []string, host string) bool {
	for _, entry := range list {
		if strings.EqualFold(entry, host) {
			return true
		}
		if h, _, err := net.SplitHostPort(host); err == nil && strings.EqualFold(entry, h) {
			return true
		}
		if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && entry == ip.String() {
			return true
		}
	}
	return false
}
