package slipway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

const over = `{"status":"terminated"}`

// readAll returns the ids of all events, or the types of those without one.
func readAll(stream *Stream) ([]string, error) {
	defer stream.Close()
	var read []string
	for stream.Next() {
		event := stream.Event()
		if event.ID == "" {
			read = append(read, event.Type)
		} else {
			read = append(read, event.ID)
		}
	}
	return read, stream.Err()
}

func TestAStreamThatIsCutGoesOnAfterItsLastEvent(t *testing.T) {
	server := serve(t,
		broken(frame(1, "turn.started", `{}`), strings.TrimSuffix(frame(2, "turn.completed", `{}`), "\n")),
		cut,
		refuse(503, "unavailable"),
		frames(frame(2, "turn.completed", `{}`)),
		frames(frame(3, "sandbox.status", over)),
		nothingLeft,
	)
	client, _ := connect(t, server.url)
	var lost []string
	onLost := func(err *Error, _ time.Duration) { lost = append(lost, err.Code) }
	read, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{Since: "0", OnLost: onLost}))
	equal(t, err, nil)
	same(t, read, []string{"1", "2", "3"})
	same(t, server.headers("Last-Event-Id"), []string{"0", "1", "1", "1", "2", "3"})
	same(t, lost, []string{"unreachable", "unreachable", "unavailable"})
	equal(t, server.requests()[0].uri, "/below/api/public/v1/sandboxes/"+testID+"/events/stream")
}

func TestAStreamThatIsCutAtEachByteHasEveryEventOnce(t *testing.T) {
	var log []string
	for id := 1; id <= 4; id++ {
		log = append(log, strings.ReplaceAll(frame(id, "message.updated", `{"text":"Größe €"}`), "\n", "\r\n"))
	}
	log = append(log, frame(5, "sandbox.status", over))
	for at := 0; at < len(strings.Join(log, "")); at++ {
		count := 0
		// As the service does: the events after the last one that the client has.
		answer := func(writer http.ResponseWriter, from *http.Request) {
			var after int
			fmt.Sscan(from.Header.Get("Last-Event-ID"), &after)
			text := strings.Join(log[after:], "")
			if count++; count == 1 {
				broken(text[:at])(writer, from)
			} else if text == "" {
				nothingLeft(writer, from)
			} else {
				frames(text)(writer, from)
			}
		}
		server := serve(t, answer, answer, answer, answer)
		client, _ := connect(t, server.url)
		read, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{Since: "0"}))
		equal(t, err, nil)
		same(t, read, []string{"1", "2", "3", "4", "5"})
	}
}

func TestAStreamGoesOnAtTheCursorOfItsSnapshot(t *testing.T) {
	snapshot := `data: {"type":"snapshot","ts":"2026-11-21T02:41:03.004Z","data":{"resume_cursor":"7"}}` + "\n\n"
	resync := `data: {"type":"stream.resync","ts":"2026-11-21T02:41:03.004Z","data":{"reason":"shutdown","resume_cursor":"9"}}` + "\n\n"
	server := serve(t, frames("retry: 2000\n\n: hb\n\n", snapshot), frames(frame(8, "turn.started", `{}`), resync), nothingLeft)
	client, _ := connect(t, server.url)
	read, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{}))
	equal(t, err, nil)
	same(t, read, []string{"snapshot", "8", "stream.resync"})
	same(t, server.headers("Last-Event-Id"), []string{"", "7", "9"})
}

func TestAFinalStatusIsNotTheEnd(t *testing.T) {
	server := serve(t,
		frames(frame(1, "sandbox.status", `{"status":"succeeded"}`)),
		frames(frame(2, "sandbox.status", `{"status":"terminating"}`), frame(3, "sandbox.status", over)),
		nothingLeft,
	)
	client, waits := connect(t, server.url)
	read, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{Since: "0"}))
	equal(t, err, nil)
	same(t, read, []string{"1", "2", "3"})
	// The end of an ended sandbox is asked for at once.
	equal(t, len(*waits), 0)
}

func TestWaitsOfAStreamDoubleAndStartOverAfterAnEvent(t *testing.T) {
	server := serve(t, frames("retry: 8000\n\n", frame(1, "a", `{}`)), cut, cut, refuse(503, "unavailable", "Retry-After", "50"), cut,
		frames(frame(2, "a", `{}`)), cut, nothingLeft)
	client, waits := connect(t, server.url)
	read, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{Since: "0"}))
	equal(t, err, nil)
	same(t, read, []string{"1", "2"})
	most := []time.Duration{8, 16, 30, 50, 30, 8, 16}
	equal(t, len(*waits), len(most))
	for at, wait := range *waits {
		if limit := most[at] * time.Second; wait > limit || wait < limit/2 || at == 3 && wait != limit {
			t.Fatalf("wait %d is %s", at, wait)
		}
	}
	fixed, waits := connect(t, serve(t, frames("retry: 8000\n\n", frame(1, "a", `{}`)), nothingLeft).url, WithReconnect(time.Millisecond))
	_, err = readAll(fixed.StreamEvents(ctx, testID, StreamOptions{}))
	equal(t, err, nil)
	equal(t, (*waits)[0] <= time.Millisecond, true)
}

func TestAStreamFailsAfterConnectionsWithoutAnEvent(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		code   string
	}{
		"that fail":         {refuse(503, "unavailable"), "unavailable"},
		"that end in order": {frames(": hb\n\n"), CodeEmptyStream},
		"that are cut":      {cut, CodeUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			answers := make([]http.HandlerFunc, 20)
			for at := range answers {
				answers[at] = test.answer
			}
			server := serve(t, answers...)
			client, waits := connect(t, server.url)
			lost := 0
			onLost := func(*Error, time.Duration) { lost++ }
			_, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{OnLost: onLost}))
			equal(t, failed(t, err).Code, test.code)
			equal(t, len(server.requests()), 11)
			equal(t, len(*waits), 10)
			equal(t, lost, 10)
		})
	}
}

func TestAStreamGivesUpAfterItsTime(t *testing.T) {
	answers := []http.HandlerFunc{frames(frame(1, "a", `{}`))}
	for len(answers) < 100 {
		answers = append(answers, cut)
	}
	server := serve(t, answers...)
	client, waits := connect(t, server.url, WithReconnect(10*time.Second))
	now := time.Now()
	client.now = func() time.Time { return now }
	client.pause = func(ctx context.Context, wait time.Duration) error {
		*waits = append(*waits, wait)
		now = now.Add(wait)
		return nil
	}
	started := now
	_, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{Since: "0", GiveUp: 15 * time.Minute}))
	equal(t, failed(t, err).Code, CodeUnreachable)
	// The wait after the connection with an event is not of the time without one.
	equal(t, now.Sub(started)-(*waits)[0], 15*time.Minute)
	equal(t, len(server.requests()) > 12, true)
}

func TestASilentStreamIsConnectedAgain(t *testing.T) {
	closed := make(chan struct{}, 2)
	server := serve(t, staying(closed, frame(1, "a", `{}`)), staying(closed, ": hb\n\n"), nothingLeft)
	client, _ := connect(t, server.url, WithIdleTimeout(200*time.Millisecond))
	var lost []string
	onLost := func(err *Error, _ time.Duration) { lost = append(lost, err.Code) }
	read, err := readAll(client.StreamEvents(ctx, testID, StreamOptions{Since: "0", OnLost: onLost}))
	equal(t, err, nil)
	same(t, read, []string{"1"})
	same(t, lost, []string{CodeTimeout, CodeTimeout})
	<-closed
	<-closed
}

func TestAFailureThatWillNotChangeEndsAStreamAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		code   string
	}{
		"a refusal":                    {refuse(404, "not_found"), "not_found"},
		"a redirect":                   {reply(302, "", "Location", "/"), CodeRedirected},
		"data that is no JSON":         {frames("data: {\n\n"), CodeInvalidReply},
		"data that is no event":        {frames("data: {}\n\n"), CodeInvalidReply},
		"a cursor that is no text":     {frames(`data: {"type":"snapshot","ts":"2026-11-21T02:41:03.004Z","data":{"resume_cursor":7}}` + "\n\n"), CodeInvalidReply},
		"a line without an end":        {endlessLine, CodeInvalidReply},
		"a block of lines without end": {endlessBlock, CodeInvalidReply},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, test.answer)
			client, _ := connect(t, server.url)
			stream := client.StreamEvents(ctx, testID, StreamOptions{})
			_, err := readAll(stream)
			equal(t, failed(t, err).Code, test.code)
			equal(t, len(server.requests()), 1)
			equal(t, stream.Next(), false)
		})
	}
}

func write(writer io.Writer, text string) {
	for {
		if _, err := io.WriteString(writer, text); err != nil {
			return
		}
	}
}

func endlessLine(writer http.ResponseWriter, _ *http.Request) {
	write(writer, strings.Repeat("x", 1<<20))
}

func endlessBlock(writer http.ResponseWriter, _ *http.Request) {
	write(writer, "data: "+strings.Repeat("x", 1<<20)+"\n")
}

func TestTheContextEndsAStreamAtOnce(t *testing.T) {
	t.Run("while it waits for an event", func(t *testing.T) {
		closed := make(chan struct{}, 1)
		ended, cancel := context.WithCancel(ctx)
		server := serve(t, staying(closed, frame(1, "a", `{}`)))
		client, _ := connect(t, server.url)
		stream := client.StreamEvents(ended, testID, StreamOptions{Since: "0"})
		equal(t, stream.Next(), true)
		waiting := make(chan bool)
		go func() { waiting <- stream.Next() }()
		cancel()
		equal(t, <-waiting, false)
		equal(t, stream.Err(), context.Canceled)
		<-closed
	})
	t.Run("and no event that has come already is told", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		server := serve(t, frames(frame(1, "a", `{}`), frame(2, "a", `{}`)))
		client, _ := connect(t, server.url)
		stream := client.StreamEvents(ended, testID, StreamOptions{Since: "0"})
		equal(t, stream.Next(), true)
		cancel()
		equal(t, stream.Next(), false)
		equal(t, stream.Event().ID, "")
		equal(t, stream.Err(), context.Canceled)
	})
	t.Run("while it waits to connect", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		client, _ := connect(t, serve(t, cut).url)
		client.pause = pause
		onLost := func(*Error, time.Duration) { cancel() }
		_, err := readAll(client.StreamEvents(ended, testID, StreamOptions{OnLost: onLost}))
		equal(t, err, context.Canceled)
	})
	t.Run("by its deadline", func(t *testing.T) {
		closed := make(chan struct{}, 1)
		ended, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		client, _ := connect(t, serve(t, staying(closed, ": hb\n\n")).url)
		_, err := readAll(client.StreamEvents(ended, testID, StreamOptions{}))
		equal(t, err, context.DeadlineExceeded)
	})
}

func TestCloseEndsAStreamWithoutAnError(t *testing.T) {
	closed := make(chan struct{}, 1)
	server := serve(t, staying(closed, frame(1, "a", `{}`)))
	client, _ := connect(t, server.url)
	stream := client.StreamEvents(ctx, testID, StreamOptions{Since: "0"})
	equal(t, stream.Next(), true)
	waiting := make(chan bool)
	go func() { waiting <- stream.Next() }()
	stream.Close()
	equal(t, <-waiting, false)
	equal(t, stream.Err(), nil)
	// Nor does it need another call of Next to give up the connection.
	<-closed
	other := client.StreamEvents(ctx, testID, StreamOptions{})
	other.Close()
	equal(t, other.Next(), false)
	equal(t, len(server.requests()), 1)
}

func TestASnapshotGivesUpItsStream(t *testing.T) {
	closed := make(chan struct{}, 1)
	snapshot := `data: {"type":"snapshot","ts":"2026-11-21T02:41:03.004Z","data":{"resume_cursor":"7","sandbox":{"id":"c_1"},"turn":null}}` + "\n\n"
	server := serve(t, cut, staying(closed, ": hb\n\n", snapshot))
	client, _ := connect(t, server.url)
	found, err := client.Snapshot(ctx, testID)
	equal(t, err, nil)
	equal(t, found.Sandbox.ID, "c_1")
	equal(t, found.ResumeCursor, "7")
	<-closed
	client, _ = connect(t, serve(t, nothingLeft).url)
	_, err = client.Snapshot(ctx, testID)
	equal(t, failed(t, err).Code, CodeInvalidReply)
}

// goroutines returns the stacks of goroutines that run code of this package besides tests, or of connections.
func goroutines() []string {
	stacks := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "net/http.(*persistConn)") || strings.Contains(stack, "slipway.(*Stream)") {
			found = append(found, stack)
		}
	}
	return found
}

func TestAClosedStreamLeavesNoGoroutine(t *testing.T) {
	closed := make(chan struct{}, 20)
	answers := make([]http.HandlerFunc, 20)
	for at := range answers {
		answers[at] = staying(closed, frame(1, "a", `{}`))
	}
	server := serve(t, answers...)
	client, _ := connect(t, server.url)
	for range answers {
		stream := client.StreamEvents(ctx, testID, StreamOptions{Since: "0"})
		equal(t, stream.Next(), true)
		stream.Close()
	}
	for range answers {
		<-closed
	}
	for left := goroutines(); len(left) > 0; left = goroutines() {
		// A leak would last until the test's time is over.
		if deadline, ok := t.Deadline(); ok && time.Until(deadline) < time.Minute {
			t.Fatal(strings.Join(left, "\n\n"))
		}
		runtime.Gosched()
	}
}
