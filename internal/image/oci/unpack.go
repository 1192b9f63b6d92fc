package oci

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/image/jail"
	"shoal/internal/image/layer"
)

// unpack applies an image's layers in a jail, and returns how many bytes the tree was written with.
func unpack(ctx context.Context, cfg Config, img image, workdir string) (written int64, err error) {
	total := int64(0)
	for _, l := range img.layers {
		if total += l.size; total > cfg.Limits.Bytes {
			return 0, core.Errorf(core.CodeInvalid, "the image has more than %d MiB, which is the most that this server takes", cfg.Limits.Bytes>>20)
		}
	}
	j, err := startJail(ctx, cfg, faceApply, map[string]string{treeName: cfg.Dir}, nil)
	if err != nil {
		return 0, err
	}
	p := &progress{report: cfg.Progress, layers: len(img.layers), total: total}
	if err := applyLayers(ctx, j, cfg, img, p); err != nil {
		return 0, j.fail(err)
	}
	p.tell("finishing the tree", 96)
	if err := j.command(command{Finish: &finishCommand{Workdir: workdir}}); err != nil {
		return 0, j.fail(err)
	}
	out, err := j.end()
	if err == nil {
		p.tell("image unpacked", 100)
	}
	return out.Written, err
}

// applyLayers sends the jail one layer after the other.
func applyLayers(ctx context.Context, j *jailed, cfg Config, img image, p *progress) error {
	if err := j.command(command{Limits: &cfg.Limits}); err != nil {
		return err
	}
	for i, l := range img.layers {
		p.layer = i + 1
		if err := j.command(command{Layer: &layerCommand{Size: l.size, DiffID: l.diffID.String()}}); err != nil {
			return err
		}
		if err := sendLayer(ctx, j, l, p); err != nil {
			return err
		}
		if err := failpoint.Hit(failpoint.ImageLayerSent); err != nil {
			return err
		}
	}
	return nil
}

// sendLayer copies a layer to the jail and holds it against its digest.
func sendLayer(ctx context.Context, j *jailed, l layerSource, p *progress) error {
	r, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	h, into := sha256.New(), io.Writer(p)
	// A layer that is not compressed has its diff id as its digest, and the jail checks that.
	check := l.digest != (v1.Hash{}) && l.digest != l.diffID
	if check {
		into = io.MultiWriter(h, p)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{j.input}, io.TeeReader(io.LimitReader(r, l.size), into), make([]byte, 1<<20))
	if err != nil {
		return fmt.Errorf("copy a layer: %w", err)
	}
	if n != l.size || check && hex.EncodeToString(h.Sum(nil)) != l.digest.Hex {
		return mismatch(l.digest)
	}
	return nil
}

// progress tells how far the layers are.
type progress struct {
	report        func(core.OperationProgress)
	layer, layers int
	done, total   int64
}

// Write counts bytes. It never fails.
func (p *progress) Write(data []byte) (int, error) {
	p.done += int64(len(data))
	percent := 95
	if p.total > 0 {
		percent = int(2 + 93*p.done/p.total)
	}
	p.tell(fmt.Sprintf("unpacking layer %d of %d", p.layer, p.layers), percent)
	return len(data), nil
}

// tell reports a step, with the bytes of layers as they travel: compressed, if they are.
func (p *progress) tell(step string, percent int) {
	p.report(core.OperationProgress{Step: step, Percent: percent, BytesDone: p.done, BytesTotal: p.total})
}

// command is one line to the jail: its length in four bytes, and JSON. A layer's bytes follow it.
type command struct {
	Limits *layer.Limits  `json:"limits,omitempty"`
	Layer  *layerCommand  `json:"layer,omitempty"`
	Finish *finishCommand `json:"finish,omitempty"`
}

type layerCommand struct {
	Size   int64  `json:"size"`
	DiffID string `json:"diff_id"`
}

type finishCommand struct {
	Workdir string `json:"workdir"`
}

// maxOutput bounds what a jail may answer: an index of an archive is the largest.
const maxOutput = 8 << 20

// answer is all that a jail says, once, at its end.
type answer struct {
	Written int64     `json:"written,omitempty"`
	Index   *index    `json:"index,omitempty"`
	Failure *jailFail `json:"failure,omitempty"`
}

// jailFail is an error as it crosses from the jail.
type jailFail struct {
	Code    core.Code `json:"code"`
	Message string    `json:"message"`
	Cause   string    `json:"cause"`
}

// err is a failure as an Error. A jail that was taken over can say what it likes: only codes that unpacking has are believed, and the text
// is bounded.
func (f *jailFail) err() error {
	cause := errors.New(clip(f.Cause, 2000))
	if slices.Contains([]core.Code{core.CodeInvalid, core.CodeUnsupported, core.CodeExhausted, core.CodeDataLoss}, f.Code) {
		return core.Wrap(f.Code, cause, "%s", clip(f.Message, 1000))
	}
	return core.Wrap(core.CodeInternal, cause, "the image could not be unpacked")
}

// jailed is a face of this program at work in a jail.
type jailed struct {
	input  *os.File
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	stdout limited
	stderr limited
}

// startJail starts a face. It ends by itself when it has had its input, and is killed when ctx ends.
func startJail(ctx context.Context, cfg Config, face string, binds map[string]string, extra []*os.File) (*jailed, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	// Larger pieces, fewer switches between the two processes. Where it can't be had the pipe does as it is.
	_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	ctx, cancel := context.WithCancel(ctx)
	j := &jailed{input: w, cancel: cancel, ended: make(chan struct{}), stdout: limited{most: maxOutput}, stderr: limited{most: 64 << 10}}
	box := jail.Jail{OwnerUID: cfg.OwnerUID, Binds: binds, NoNetwork: true}
	go func() {
		defer close(j.ended)
		j.err = box.RunCommand(ctx, jail.Command{
			// The file that this process runs from, also if another has taken its name since.
			Path: "/proc/self/exe", Argv: []string{faceName, face}, Env: jailEnv(),
			Stdin: r, Stdout: &j.stdout, Stderr: &j.stderr, Extra: extra,
		})
		// A writer that fills the pipe learns by this that there is nobody.
		_ = r.Close()
	}()
	return j, nil
}

// jailEnv is all of the environment that a face has. The Go runtime is not to keep files of the host's open, from which it would follow
// changes of its share of processors.
func jailEnv() []string { return []string{"GOTRACEBACK=single", "GODEBUG=containermaxprocs=0"} }

// command sends one command.
func (j *jailed) command(c command) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	line := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	if _, err := j.input.Write(append(line, data...)); err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	return nil
}

// fail ends the jail because of an error here, and returns the reason: what the jail says went wrong, if our error is only that it is gone.
func (j *jailed) fail(cause error) error {
	if errors.Is(cause, unix.EPIPE) {
		_, err := j.end()
		return err
	}
	j.cancel()
	_ = j.input.Close()
	<-j.ended
	return cause
}

// end closes the jail's input and waits for its answer.
func (j *jailed) end() (answer, error) {
	_ = j.input.Close()
	<-j.ended
	j.cancel()
	if errors.Is(j.err, unix.EACCES) {
		return answer{}, core.Wrap(core.CodeUnsupported, j.err, "images can't be unpacked here: the server's program is not executable by other users (chmod 755 it)")
	}
	var out answer
	if err := json.Unmarshal(j.stdout.data, &out); err != nil || j.stdout.over {
		cause := fmt.Errorf("run the unpacker: %w: %s", errors.Join(j.err, err), clip(string(j.stderr.data), 4000))
		return answer{}, core.Wrap(core.CodeInternal, cause, "the image could not be unpacked: the server's log says why")
	}
	if out.Failure != nil {
		return answer{}, out.Failure.err()
	}
	if j.err != nil {
		return answer{}, core.Wrap(core.CodeInternal, fmt.Errorf("run the unpacker: %w", j.err), "the image could not be unpacked")
	}
	return out, nil
}

// limited keeps the first bytes that are written to it.
type limited struct {
	most int
	data []byte
	over bool
}

// Write never fails: a jail that says too much is none to be believed, and ends all the same.
func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.most-len(l.data))
	l.data = append(l.data, p[:keep]...)
	l.over = l.over || keep < len(p)
	return len(p), nil
}
