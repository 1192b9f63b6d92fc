package obs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLoggerLevels(t *testing.T) {
	levels := []string{"debug", "info", "warn", "error"}
	for i, level := range levels {
		var out bytes.Buffer
		log, err := NewLogger(&out, level, "text")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), l, "m")
		}
		if got, want := strings.Count(out.String(), "\n"), len(levels)-i; got != want {
			t.Errorf("%s: %d lines, want %d", level, got, want)
		}
	}
	for _, bad := range [][2]string{{"loud", "text"}, {"", "text"}, {"info", "xml"}, {"info", ""}} {
		if _, err := NewLogger(&bytes.Buffer{}, bad[0], bad[1]); err == nil {
			t.Errorf("level %q, format %q were accepted", bad[0], bad[1])
		}
	}
}

func TestLoggerFormats(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("x", 3600))
	for format, want := range map[string]string{
		"text": `msg="went well" sandbox_id=a at=2026-03-01T11:00:00.000000005Z key=[hidden]`,
		"json": `"msg":"went well","sandbox_id":"a","at":"2026-03-01T11:00:00.000000005Z","key":"[hidden]"}`,
	} {
		var out bytes.Buffer
		log, err := NewLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.InfoContext(t.Context(), "went well", slog.String("sandbox_id", "a"), slog.Time("at", at), slog.Any("key", NewSecret("swordfish")))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %s, want %s", format, out.String(), want)
		}
	}
}

// TestSecretHides tries every way in which a value usually gets out.
func TestSecretHides(t *testing.T) {
	const word = "swordfish"
	s := NewSecret(word)
	inside := struct {
		Open   Secret
		closed Secret
		list   []Secret
	}{s, s, []Secret{s}}
	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s", "%T"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, inside), fmt.Sprintf(verb, &inside))
	}
	for _, v := range []any{s, &s, inside, map[string]Secret{"a": s}, []Secret{s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(b))
	}
	var log bytes.Buffer
	for _, format := range []string{"text", "json"} {
		l, err := NewLogger(&log, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		l.InfoContext(t.Context(), "m", slog.Any("a", s), slog.Any("b", &s), slog.Any("c", inside), slog.Any("d", fmt.Errorf("key %v", s)))
	}
	shown = append(shown, log.String(), s.String())
	hexWord := fmt.Sprintf("%x", word)
	for _, text := range shown {
		if strings.Contains(text, word) || strings.Contains(strings.ToLower(text), hexWord) {
			t.Errorf("shown: %s", text)
		}
	}
}

func TestSecretKeeps(t *testing.T) {
	var s Secret
	if !s.IsEmpty() || s.Reveal() != "" {
		t.Error("the zero secret isn't empty")
	}
	if err := json.Unmarshal([]byte(`"swordfish"`), &s); err != nil {
		t.Fatal(err)
	}
	if s.IsEmpty() || s.Reveal() != "swordfish" || !s.Equal("swordfish") || s.Equal("swordfis") || s.Equal("") {
		t.Errorf("revealed %q", s.Reveal())
	}
}
