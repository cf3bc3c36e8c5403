package slipway

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

var ctx = context.Background()

func TestARequestThatIsSafeToRepeatIsSentAgain(t *testing.T) {
	for name, call := range map[string]func(*Client) error{
		"a read": func(client *Client) error {
			_, err := client.GetSandbox(ctx, testID)
			return err
		},
		"a creation with its generated key": func(client *Client) error {
			_, err := client.CreateSandbox(ctx, CreateSandbox{Prompt: "x"})
			return err
		},
		"a message with a chosen key": func(client *Client) error {
			_, err := client.SendMessage(ctx, testID, SendMessage{Prompt: "x"}, WithIdempotencyKey("mine"))
			return err
		},
		"a deletion": func(client *Client) error {
			_, err := client.CancelMessage(ctx, testID, "m")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, cut, refuse(429, "rate_limited"), refuse(503, "unavailable"), reply(200, `{"id":"x"}`))
			client, waits := connect(t, server.url)
			if err := call(client); err != nil {
				t.Fatal(err)
			}
			equal(t, len(server.requests()), 4)
			equal(t, len(*waits), 3)
			first := server.requests()[0]
			for _, one := range server.requests() {
				equal(t, one.method+one.uri+one.body, first.method+first.uri+first.body)
				equal(t, one.header.Get("Idempotency-Key"), first.header.Get("Idempotency-Key"))
			}
			switch key := first.header.Get("Idempotency-Key"); name {
			case "a creation with its generated key":
				if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(key) {
					t.Fatal(key)
				}
			case "a message with a chosen key":
				equal(t, key, "mine")
			default:
				equal(t, key, "")
			}
		})
	}
}

func TestARequestThatMayBeDoneTwiceIsSentOnce(t *testing.T) {
	for _, answer := range []http.HandlerFunc{cut, refuse(429, "rate_limited"), refuse(503, "unavailable")} {
		server := serve(t, answer)
		client, _ := connect(t, server.url)
		_, err := client.InterruptTurn(ctx, testID)
		failed(t, err)
		equal(t, len(server.requests()), 1)
	}
}

func TestARefusalThatWillNotChangeIsNotAskedAgain(t *testing.T) {
	for _, status := range []int{400, 401, 402, 403, 404, 409, 413, 415, 500, 502} {
		server := serve(t, refuse(status, "told"))
		client, _ := connect(t, server.url)
		_, err := client.GetSandbox(ctx, testID)
		equal(t, failed(t, err).Status, status)
		equal(t, failed(t, err).IsTemporary(), status >= 500)
		equal(t, len(server.requests()), 1)
	}
}

func TestRetriesEndWithTheLastFailure(t *testing.T) {
	server := serve(t, cut, cut, refuse(503, "unavailable", "X-Request-Id", "req_1", "Retry-After", "2"))
	client, waits := connect(t, server.url, WithRetries(2))
	_, err := client.GetSandbox(ctx, testID)
	found := failed(t, err)
	same(t, *found, Error{Code: "unavailable", Message: "No.", Status: 503, RequestID: "req_1", RetryAfter: 2 * time.Second})
	equal(t, found.Error(), "slipway: No. (unavailable, request req_1)")
	equal(t, len(server.requests()), 3)
	equal(t, len(*waits), 2)
}

func TestWaitsDoubleAndKeepWhatTheServiceAsksFor(t *testing.T) {
	server := serve(t, cut, cut, refuse(429, "rate_limited", "Retry-After", "60"), refuse(429, "rate_limited", "Retry-After", "61"))
	client, waits := connect(t, server.url, WithRetries(9), WithBackoff(time.Second))
	_, err := client.GetSandbox(ctx, testID)
	equal(t, failed(t, err).RetryAfter, 61*time.Second)
	equal(t, len(*waits), 3)
	for at, most := range []time.Duration{time.Second, 2 * time.Second} {
		if wait := (*waits)[at]; wait < most/2 || wait > most {
			t.Fatalf("%s after %d failures", wait, at)
		}
	}
	equal(t, (*waits)[2], time.Minute)
	if wait := backoff(time.Hour, 2000, maxBackoff); wait < maxBackoff/2 || wait > maxBackoff {
		t.Fatal(wait)
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	for value, expected := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
		"Sat, 21 Nov 2026 02:00:20 GMT": 20 * time.Second, "Sat, 21 Nov 2026 01:00:00 GMT": 0,
	} {
		equal(t, retryAfter(value, now), expected)
	}
}

func TestAnErrorHasWhatTheServiceSays(t *testing.T) {
	for name, test := range map[string]struct {
		answer   http.HandlerFunc
		code     string
		message  string
		hasCause bool
	}{
		"a refusal":             {refuse(409, "turn_active"), "turn_active", "No.", false},
		"a page of a proxy":     {reply(404, "<html>"), "unknown", "The service answered with status 404.", false},
		"a refusal of no shape": {reply(400, `{"error":"no"}`), "unknown", "The service answered with status 400.", false},
		"a redirect": {reply(307, "", "Location", "/elsewhere"), CodeRedirected,
			"The service redirects, which this client does not follow. Is its address right?", false},
		"a reply of another service": {reply(200, "<html>"), CodeInvalidReply, "The reply is no JSON of the API.", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, test.answer)
			client, _ := connect(t, server.url)
			_, err := client.GetSandbox(ctx, testID)
			found := failed(t, fmt.Errorf("wrapped: %w", err))
			equal(t, found.Code, test.code)
			equal(t, found.Message, test.message)
			equal(t, found.IsTemporary(), false)
			equal(t, errors.Unwrap(found) != nil, test.hasCause)
			equal(t, len(server.requests()), 1)
		})
	}
}

func TestRepliesHaveABound(t *testing.T) {
	sent := make(chan int, 2)
	long := func(status int) http.HandlerFunc {
		return func(writer http.ResponseWriter, _ *http.Request) {
			writer.WriteHeader(status)
			count := 0
			// More than fits into the buffers of a connection, so that a client without a bound is noticed.
			for ; count < 200; count++ {
				if _, err := writer.Write(make([]byte, 1<<20)); err != nil {
					break
				}
			}
			sent <- count
		}
	}
	server := serve(t, long(200), long(400))
	client, _ := connect(t, server.url)
	_, err := client.DiffFiles(ctx, testID, DiffFilesQuery{})
	equal(t, failed(t, err).Code, CodeInvalidReply)
	equal(t, <-sent < 200, true)
	_, err = client.GetSandbox(ctx, testID)
	equal(t, failed(t, err).Code, "unknown")
	equal(t, <-sent < 100, true)
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (answer transport) RoundTrip(sent *http.Request) (*http.Response, error) { return answer(sent) }

// silent is a body that brings nothing until its request ends.
type silent struct{ ctx context.Context }

func (body silent) Read([]byte) (int, error) {
	<-body.ctx.Done()
	return 0, body.ctx.Err()
}

func (silent) Close() error { return nil }

func TestASilentServiceIsAskedAgainAndThenGivenUp(t *testing.T) {
	count := 0
	answer := transport(func(sent *http.Request) (*http.Response, error) {
		if count++; count == 2 {
			return &http.Response{StatusCode: 200, Body: silent{sent.Context()}}, nil
		}
		<-sent.Context().Done()
		return nil, sent.Context().Err()
	})
	client, _ := connect(t, "http://slipway.example", WithTransport(answer), WithTimeout(time.Millisecond), WithRetries(2))
	_, err := client.GetSandbox(ctx, testID)
	equal(t, failed(t, err).Code, CodeTimeout)
	equal(t, failed(t, err).IsTemporary(), true)
	equal(t, count, 3)
}

func TestAReplyThatIsCutOffIsNoReply(t *testing.T) {
	server := serve(t, broken(`{"id":"half"`), reply(200, `{"id":"whole"}`))
	client, _ := connect(t, server.url)
	sandbox, err := client.GetSandbox(ctx, testID)
	equal(t, err, nil)
	equal(t, sandbox.ID, "whole")
}

func TestTheContextEndsACall(t *testing.T) {
	t.Run("before it begins", func(t *testing.T) {
		server := serve(t)
		client, _ := connect(t, server.url)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := client.GetSandbox(ended, testID)
		equal(t, err, context.Canceled)
		equal(t, len(server.requests()), 0)
	})
	t.Run("while it is under way", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		server := serve(t, func(_ http.ResponseWriter, from *http.Request) {
			cancel()
			<-from.Context().Done()
		})
		client, _ := connect(t, server.url)
		_, err := client.GetSandbox(ended, testID)
		equal(t, err, context.Canceled)
		equal(t, len(server.requests()), 1)
	})
	t.Run("between two attempts", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		server := serve(t, refuse(503, "unavailable"))
		client, _ := connect(t, server.url)
		client.pause = func(ctx context.Context, _ time.Duration) error {
			cancel()
			return pause(ctx, time.Hour)
		}
		_, err := client.GetSandbox(ended, testID)
		equal(t, err, context.Canceled)
		equal(t, len(server.requests()), 1)
	})
	t.Run("within a download", func(t *testing.T) {
		closed := make(chan struct{}, 1)
		ended, cancel := context.WithCancel(ctx)
		server := serve(t, staying(closed, "ab"))
		client, _ := connect(t, server.url)
		file, err := client.DownloadFile(ended, testID, "a.txt", DownloadFileQuery{})
		equal(t, err, nil)
		defer file.Close()
		read := make([]byte, 2)
		_, err = io.ReadFull(file, read)
		equal(t, err, nil)
		cancel()
		_, err = file.Read(read)
		equal(t, err, context.Canceled)
		<-closed
	})
}

func TestADownloadIsReadToItsEndAndMayNotBeSilent(t *testing.T) {
	closed := make(chan struct{}, 2)
	server := serve(t, reply(200, "abc"), staying(closed, "ab"), staying(closed, "ab"), broken("ab"))
	client, _ := connect(t, server.url, WithIdleTimeout(200*time.Millisecond))
	read := func() (string, error) {
		file, err := client.DownloadFile(ctx, testID, "a b.txt", DownloadFileQuery{Repo: "acme/shop"})
		equal(t, err, nil)
		defer file.Close()
		found, err := io.ReadAll(file)
		return string(found), err
	}
	found, err := read()
	equal(t, found, "abc")
	equal(t, err, nil)
	_, err = read()
	equal(t, failed(t, err).Code, CodeTimeout)
	<-closed
	file, err := client.GetFileBytes(ctx, "file_abcdefghjkmn")
	equal(t, err, nil)
	file.Close()
	<-closed
	_, err = read()
	equal(t, failed(t, err).Code, CodeUnreachable)
	equal(t, server.requests()[0].uri, "/below/api/public/v1/sandboxes/"+testID+"/files/download?path=a+b.txt&repo=acme%2Fshop")
}

func TestAnUploadSendsTheBytesWithNameAndType(t *testing.T) {
	server := serve(t, reply(201, `{"id":"file_a"}`), reply(201, `{"id":"file_b"}`), cut)
	client, _ := connect(t, server.url)
	file, err := client.UploadFile(ctx, []byte("\x00\xff"), UploadOptions{Name: "ü b'.png", MediaType: "image/png"})
	equal(t, err, nil)
	equal(t, file.ID, "file_a")
	_, err = client.UploadFile(ctx, nil, UploadOptions{})
	equal(t, err, nil)
	_, err = client.UploadFile(ctx, nil, UploadOptions{})
	equal(t, failed(t, err).Code, CodeUnreachable)
	asked := server.requests()
	equal(t, len(asked), 3)
	equal(t, asked[0].body, "\x00\xff")
	equal(t, asked[1].body, "")
	equal(t, asked[0].header.Get("Content-Disposition"), "attachment; filename*=UTF-8''%C3%BC%20b%27.png")
	equal(t, asked[1].header.Get("Content-Disposition"), "")
	same(t, server.headers("Content-Type")[:2], []string{"image/png", "application/octet-stream"})
}

func TestIDsCannotLeadElsewhere(t *testing.T) {
	server := serve(t, reply(200, "{}"))
	client, _ := connect(t, server.url)
	_, err := client.GetSandbox(ctx, "../x?y#z%2f")
	equal(t, err, nil)
	equal(t, server.requests()[0].uri, "/below/api/public/v1/sandboxes/..%2Fx%3Fy%23z%252f")
	for _, id := range []string{"", ".", ".."} {
		if _, err := client.GetSandbox(ctx, id); err == nil {
			t.Fatalf("%q is taken for an id", id)
		}
	}
	equal(t, len(server.requests()), 1)
}

func TestTheKeyGoesOnlyToTheService(t *testing.T) {
	elsewhere := serve(t, reply(200, "{}"))
	server := serve(t, reply(307, "", "Location", elsewhere.url), reply(200, "{}"))
	client, _ := connect(t, server.url)
	_, err := client.GetSandbox(ctx, testID)
	equal(t, failed(t, err).Code, CodeRedirected)
	_, err = client.ListSandboxes(ctx, ListSandboxesQuery{})
	equal(t, err, nil)
	equal(t, len(elsewhere.requests()), 0)
	for _, one := range server.requests() {
		equal(t, one.header.Get("Authorization"), "Bearer "+testKey)
		equal(t, strings.Contains(one.uri, testKey), false)
	}
}

func TestTheKeyIsInNoTextOfTheClient(t *testing.T) {
	client, _ := connect(t, "https://slipway.example")
	stream := client.StreamEvents(ctx, testID, StreamOptions{})
	defer stream.Close()
	for _, value := range []any{client, *client, []*Client{client}, struct{ Client *Client }{client}, stream} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, testKey) || strings.Contains(text, fmt.Sprintf("%x", testKey)) {
				t.Fatalf("%s of %T has the key: %s", verb, value, text)
			}
		}
	}
	equal(t, client.String(), "slipway.Client(https://slipway.example/api)")
	server := serve(t, cut)
	unreachable, _ := connect(t, server.url, WithRetries(0))
	_, err := unreachable.GetSandbox(ctx, testID)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errors.Unwrap(err))} {
		equal(t, strings.Contains(text, testKey), false)
	}
}

func TestAFailureOfTheNetworkIsToldAndNoOtherTextIs(t *testing.T) {
	for cause, expected := range map[error]string{
		&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}: "The service could not be reached: dial tcp: connection refused.",
		errors.New(`invalid proxy address "http://user:secret@["`):                  "The service could not be reached.",
		x509.UnknownAuthorityError{}:                                                "The service could not be reached: its TLS certificate or protocol is not accepted.",
	} {
		answer := transport(func(*http.Request) (*http.Response, error) { return nil, cause })
		client, _ := connect(t, "http://slipway.example", WithTransport(answer), WithRetries(0))
		_, err := client.GetSandbox(ctx, testID)
		equal(t, failed(t, err).Message, expected)
		equal(t, failed(t, err).Code, CodeUnreachable)
		equal(t, errors.Is(err, cause), true)
	}
}

func TestAnAddressOrAKeyThatCannotBeIsRefusedAndNotRepeated(t *testing.T) {
	for _, address := range []string{
		"", "slipway.example", "ftp://slipway.example", "https://", "https://:80", "https://a:secret@slipway.example",
		"https://slipway.example/?secret", "https://slipway.example/?", "https://slipway.example#secret", "https://a:secret@[",
	} {
		if _, err := New(address, "key"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Fatalf("%s: %v", address, err)
		}
	}
	for _, key := range []string{"", "secret key", "secret\n", "sécret"} {
		if _, err := New("https://slipway.example", key); err == nil || strings.Contains(err.Error(), "cret") {
			t.Fatalf("%q: %v", key, err)
		}
	}
	client, _ := connect(t, "https://slipway.example")
	for _, key := range []string{"a\nb", "é", strings.Repeat("x", 256)} {
		_, err := client.CreateSandbox(ctx, CreateSandbox{}, WithIdempotencyKey(key))
		if err == nil || !strings.Contains(err.Error(), "idempotency") {
			t.Fatalf("%q: %v", key, err)
		}
	}
}

func TestRequestsTellAbsentFromEmpty(t *testing.T) {
	for name, test := range map[string]struct {
		body     any
		expected string
	}{
		"absent":        {CreateSandbox{Repos: []RepoRef{{FullName: "a/b"}}, Prompt: "x"}, `{"repos":[{"fullName":"a/b"}],"prompt":"x"}`},
		"an empty list": {CreateSandbox{Repos: []RepoRef{}, MCPServers: Ptr([]string{})}, `{"repos":[],"prompt":"","mcpServers":[]}`},
		"false":         {FeedbackChoice{Publish: Ptr(false)}, `{"publish":false}`},
		"nothing":       {FeedbackChoice{}, `{}`},
		"zero":          {RestoreCheckpoint{}, `{"checkpoint":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := json.Marshal(test.body)
			equal(t, err, nil)
			equal(t, string(made), test.expected)
		})
	}
}

func TestRepliesOfANewerServiceAreRead(t *testing.T) {
	server := serve(t, reply(200, `{"id":"x","status":"paused","added":{"a":[1]},"usage":{"costMicroUsd":9007199254740991}}`),
		reply(200, `{"data":[{"id":"1","type":"sandbox.added","data":{"x":1},"more":true},`+
			`{"id":"2","type":"turn.completed","turn_id":"t","data":{"state":"paused","more":[]}}],"nextCursor":"2"}`))
	client, _ := connect(t, server.url)
	sandbox, err := client.GetSandbox(ctx, testID)
	equal(t, err, nil)
	equal(t, sandbox.Status, "paused")
	equal(t, sandbox.Usage.CostMicroUSD, int64(9007199254740991))
	page, err := client.ListEvents(ctx, testID, ListEventsQuery{})
	equal(t, err, nil)
	added, err := page.Data[0].Decode()
	equal(t, added, nil)
	equal(t, err, nil)
	equal(t, string(page.Data[0].Data), `{"x":1}`)
	decoded, err := page.Data[1].Decode()
	equal(t, err, nil)
	completed, ok := decoded.(*TurnCompletedEvent)
	equal(t, ok, true)
	equal(t, completed.State, "paused")
	decoded, err = Event{Type: EventTypeTurnCompleted, Data: []byte("7")}.Decode()
	equal(t, decoded, nil)
	equal(t, failed(t, err).Code, CodeInvalidReply)
}

func TestOperationsOfTheInternalAPI(t *testing.T) {
	server := serve(t, nothingLeft, nothingLeft, nothingLeft, reply(200, `{"data":["c_1"]}`), reply(200, `{"repository":"a/b"}`))
	client, _ := connect(t, server.url)
	equal(t, client.DeleteSandbox(ctx, "c_1"), nil)
	equal(t, client.ArchiveSandbox(ctx, "c_1", true), nil)
	equal(t, client.ArchiveSandbox(ctx, "c_1", false), nil)
	archived, err := client.ArchivedSandboxes(ctx, []string{"c_1", "c_2"})
	equal(t, err, nil)
	same(t, archived, []string{"c_1"})
	reviews, err := client.GetPullRequestReviews(ctx, "c_1", "a/b")
	equal(t, err, nil)
	equal(t, string(reviews), `{"repository":"a/b"}`)
	var found []string
	for _, one := range server.requests() {
		found = append(found, one.method+" "+strings.TrimPrefix(one.uri, "/below/api/internal/v1/sandboxes/"))
	}
	same(t, found, []string{"DELETE c_1", "POST c_1/archive", "POST c_1/unarchive", "GET archived?ids=c_1%2Cc_2",
		"GET c_1/pull-request/reviews?repo=a%2Fb"})
}
