package slipway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testID  = "c_abcdefghjkmn"
	testKey = "sbx_live_test"
)

type asked struct {
	method, uri string
	header      http.Header
	body        string
}

// server answers requests in turn, and keeps what it was asked.
type server struct {
	url   string
	mutex sync.Mutex
	asked []asked
}

func (server *server) requests() []asked {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	return append([]asked(nil), server.asked...)
}

func (server *server) headers(name string) []string {
	var values []string
	for _, one := range server.requests() {
		values = append(values, one.header.Get(name))
	}
	return values
}

func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	made := &server{}
	running := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, from *http.Request) {
		body, _ := io.ReadAll(from.Body)
		made.mutex.Lock()
		made.asked = append(made.asked, asked{from.Method, from.RequestURI, from.Header, string(body)})
		count := len(made.asked)
		made.mutex.Unlock()
		if count > len(answers) {
			http.Error(writer, "no answer is left", http.StatusTeapot)
			return
		}
		answers[count-1](writer, from)
	}))
	t.Cleanup(running.Close)
	made.url = running.URL + "/below/"
	return made
}

// connect returns a client that does not wait, and the waits that it was to make.
func connect(t *testing.T, url string, options ...Option) (*Client, *[]time.Duration) {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// The library's own retries of idle connections would ask once more.
	transport.DisableKeepAlives = true
	client, err := New(url, testKey, append([]Option{WithTransport(transport)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	waits := &[]time.Duration{}
	client.pause = func(ctx context.Context, wait time.Duration) error {
		*waits = append(*waits, wait)
		return ctx.Err()
	}
	return client, waits
}

func reply(status int, body string, headers ...string) http.HandlerFunc {
	return func(writer http.ResponseWriter, _ *http.Request) {
		for at := 0; at+1 < len(headers); at += 2 {
			writer.Header().Set(headers[at], headers[at+1])
		}
		writer.WriteHeader(status)
		io.WriteString(writer, body)
	}
}

func refuse(status int, code string, headers ...string) http.HandlerFunc {
	return reply(status, fmt.Sprintf(`{"error":{"code":%q,"message":"No."}}`, code), headers...)
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func nothingLeft(writer http.ResponseWriter, _ *http.Request) {
	writer.WriteHeader(http.StatusNoContent)
}

// frames sends a stream that ends in order.
func frames(parts ...string) http.HandlerFunc {
	return reply(200, strings.Join(parts, ""), "Content-Type", "text/event-stream")
}

// staying sends a stream that stays open until the client closes it, which it reports.
func staying(closed chan<- struct{}, parts ...string) http.HandlerFunc {
	return func(writer http.ResponseWriter, from *http.Request) {
		io.WriteString(writer, strings.Join(parts, ""))
		writer.(http.Flusher).Flush()
		<-from.Context().Done()
		closed <- struct{}{}
	}
}

// broken sends a stream that is cut off.
func broken(parts ...string) http.HandlerFunc {
	return func(writer http.ResponseWriter, from *http.Request) {
		io.WriteString(writer, strings.Join(parts, ""))
		writer.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func frame(id int, kind, data string) string {
	event := fmt.Sprintf(`{"id":"%d","type":%q,"ts":"2026-11-21T02:41:03.004Z","data":%s}`, id, kind, data)
	return fmt.Sprintf("id: %d\ndata: %s\n\n", id, event)
}

func failed(t *testing.T, err error) *Error {
	t.Helper()
	var found *Error
	if !errors.As(err, &found) {
		t.Fatalf("%v is no *Error", err)
	}
	return found
}

func equal(t *testing.T, found, expected any) {
	t.Helper()
	if found != expected {
		t.Fatalf("found %v, expected %v", found, expected)
	}
}

func same(t *testing.T, found, expected any) {
	t.Helper()
	equal(t, fmt.Sprintf("%#v", found), fmt.Sprintf("%#v", expected))
}

// chunks is a reader that returns each part by itself.
type chunks [][]byte

func (left *chunks) Read(into []byte) (int, error) {
	if len(*left) == 0 {
		return 0, io.EOF
	}
	count := copy(into, (*left)[0])
	if (*left)[0] = (*left)[0][count:]; len((*left)[0]) == 0 {
		*left = (*left)[1:]
	}
	return count, nil
}

// pieces copies, because a reader may change what it is given.
func pieces(text []byte, size int) *chunks {
	var parts chunks
	for ; len(text) > size; text = text[size:] {
		parts = append(parts, append([]byte(nil), text[:size]...))
	}
	parts = append(parts, append([]byte(nil), text...))
	return &parts
}
