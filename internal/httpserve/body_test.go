package httpserve_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

func TestReadBody(t *testing.T) {
	read := func(r *http.Request) ([]byte, error) {
		return httpserve.ReadBody(httptest.NewRecorder(), r, 4, time.Second)
	}
	for _, text := range []string{"", "four"} {
		if got, err := read(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))); err != nil || string(got) != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	_, err := read(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("five!")))
	if status, ok := httpserve.FixedStatus(err); !ok || status != http.StatusRequestEntityTooLarge || !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("a byte too many: %v", err)
	}
	_, err = read(httptest.NewRequest(http.MethodPost, "/", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("four")))))
	if _, ok := httpserve.FixedStatus(err); ok || !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("cut off: %v", err)
	}
}
