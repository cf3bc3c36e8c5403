package slipway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	maxReconnect = 30 * time.Second
	// Connections in a row without an event before a stream fails: about 4 minutes.
	maxFruitless = 10
	// The least time for one attempt, even if less is left for the stream, so that a service has a chance to answer.
	leastAttempt = time.Second
)

// StreamOptions say where a stream begins and when it gives up.
type StreamOptions struct {
	// The ID of an event: the stream has all events after it, and no snapshot; "0" is the beginning. Empty: the first event is a
	// snapshot.
	Since string
	// The longest time without an event, counted from the end of the last connection with one, before the stream fails. 0: ten
	// connections in a row, about 4 minutes.
	GiveUp time.Duration
	// Called when a connection failed, or ended without an event, before the stream connects again after the wait.
	OnLost func(err *Error, wait time.Duration)
}

// Stream reads the events of a sandbox:
//
//	stream := client.StreamEvents(ctx, id, slipway.StreamOptions{Since: "0"})
//	defer stream.Close()
//	for stream.Next() {
//		event := stream.Event()
//	}
//	err := stream.Err()
//
// One goroutine may use it; only Close may be called by others.
type Stream struct {
	client  *Client
	options StreamOptions
	path    []string
	// Ended by the caller's context and by Close.
	ctx      context.Context
	cancel   context.CancelFunc
	isClosed atomic.Bool

	connection  *connection
	event       Event
	err         error
	isOver      bool
	lastEventID string
	reconnect   time.Duration
	status      string
	// Connections in a row without an event, and the end of the first of them.
	fruitless int
	since     time.Time
}

type connection struct {
	body   *idleReader
	blocks *blockReader
	// Whether it brought a snapshot or an event with an id, and whether it brought any event.
	isNews, hasEvent bool
}

// StreamEvents returns the events as they happen, up to the last event of an ended sandbox. A lost connection is resumed after the
// last event: every event with an ID comes once, in order. The end of ctx ends the stream at once.
func (client *Client) StreamEvents(ctx context.Context, sandboxID string, options StreamOptions) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	return &Stream{
		client:      client,
		options:     options,
		path:        []string{"sandboxes", sandboxID, "events", "stream"},
		ctx:         ctx,
		cancel:      cancel,
		lastEventID: options.Since,
		reconnect:   client.reconnect,
	}
}

// Next waits for the next event. It returns false at the end of the stream, after Close, and after an error, which Err returns.
func (stream *Stream) Next() bool {
	for !stream.isOver {
		if stream.ctx.Err() != nil {
			stream.end(stream.ctx.Err())
			break
		}
		hasEvent, err := stream.step()
		if err != nil {
			err = stream.lost(err)
		}
		if err != nil {
			stream.end(err)
		} else if hasEvent {
			return true
		}
	}
	return false
}

// Event returns the event that Next found.
func (stream *Stream) Event() Event { return stream.event }

// Err returns why the stream failed: an *[Error], or the error of its context. It is nil at the end of the events, and after Close.
func (stream *Stream) Err() error { return stream.err }

// Close ends the stream and its connection.
func (stream *Stream) Close() error {
	stream.isClosed.Store(true)
	stream.cancel()
	return nil
}

func (stream *Stream) end(err error) {
	stream.isOver = true
	stream.event = Event{}
	if !stream.isClosed.Load() {
		stream.err = err
	}
	stream.disconnect()
	stream.cancel()
}

func (stream *Stream) disconnect() {
	if stream.connection != nil {
		stream.connection.body.Close()
		stream.connection = nil
	}
}

// step connects, or reads one block. It reports whether there is an event.
func (stream *Stream) step() (bool, error) {
	if stream.connection == nil {
		return false, stream.connect()
	}
	read, err := stream.connection.blocks.next()
	if err == io.EOF {
		return false, stream.endConnection()
	}
	if errors.Is(err, errLongBlock) {
		return false, invalidStream("The stream brought an event without an end.", nil)
	}
	if err != nil {
		return false, err
	}
	return stream.take(read)
}

func (stream *Stream) connect() error {
	sent := request{method: http.MethodGet, path: stream.path, lastEventID: stream.lastEventID, streams: true}
	made, err := stream.client.prepare(sent)
	if err != nil {
		return err
	}
	limit := stream.client.timeout
	if left, isLimited := stream.left(); isLimited && left < limit {
		limit = left
		if limit < leastAttempt {
			limit = leastAttempt
		}
	}
	open := func(client *Client, try *attempt, response *http.Response) (*connection, error) {
		body := &idleReader{try, response.Body, client.idleTimeout}
		if response.StatusCode == http.StatusNoContent {
			return nil, body.Close()
		}
		return &connection{body: body, blocks: newBlockReader(body)}, nil
	}
	opened, err := once(newAttempt(stream.ctx), stream.client, made, limit, open)
	if err == nil && opened == nil {
		// The sandbox has ended, and everything was read.
		stream.end(nil)
	}
	stream.connection = opened
	return err
}

// endConnection is called when the service ended a connection in order, and waits before the next one.
func (stream *Stream) endConnection() error {
	ended := stream.connection
	stream.disconnect()
	if !ended.hasEvent {
		return &Error{Code: CodeEmptyStream, Message: "The stream ended without an event.", Status: http.StatusOK}
	}
	// Streams also end for other reasons. For an ended sandbox, connect again at once: 204 says that nothing is left.
	if ended.isNews && isFinal(stream.status) {
		return nil
	}
	return stream.client.pause(stream.ctx, backoff(stream.reconnect, 0, maxReconnect))
}

func isFinal(status string) bool {
	return status == SandboxStatusSucceeded || status == SandboxStatusFailed || status == SandboxStatusTerminated
}

// lost waits after a failure that may pass. It returns the error that ends the stream.
func (stream *Stream) lost(err error) error {
	if stream.ctx.Err() != nil {
		return stream.ctx.Err()
	}
	stream.disconnect()
	var failed *Error
	if !errors.As(err, &failed) || !failed.IsTemporary() {
		return err
	}
	if stream.fruitless == 0 {
		stream.since = stream.client.now()
	}
	stream.fruitless++
	left, isLimited := stream.left()
	if isLimited && left <= 0 || !isLimited && stream.fruitless > maxFruitless {
		return err
	}
	wait := backoff(stream.reconnect, stream.fruitless, maxReconnect)
	if failed.RetryAfter > wait {
		wait = failed.RetryAfter
	}
	if isLimited && left < wait {
		wait = left
	}
	if stream.options.OnLost != nil {
		stream.options.OnLost(failed, wait)
	}
	return stream.client.pause(stream.ctx, wait)
}

// left returns how long the stream may still go without an event, if GiveUp limits that.
func (stream *Stream) left() (time.Duration, bool) {
	if stream.options.GiveUp == 0 {
		return 0, false
	}
	if stream.fruitless == 0 {
		return stream.options.GiveUp, true
	}
	return stream.options.GiveUp - stream.client.now().Sub(stream.since), true
}

// take keeps what a block says, and reports whether it has an event.
func (stream *Stream) take(read block) (bool, error) {
	if read.hasRetry && !stream.client.isReconnectSet {
		stream.reconnect = read.retry
	}
	if read.hasID {
		stream.lastEventID = read.id
	}
	if !read.hasData {
		return false, nil
	}
	var event Event
	if err := json.Unmarshal(read.data, &event); err != nil || event.Type == "" || event.Data == nil {
		return false, invalidStream("The stream brought what is no event.", err)
	}
	var known struct {
		Status       string `json:"status"`
		ResumeCursor string `json:"resume_cursor"`
	}
	switch event.Type {
	case EventTypeSnapshot, EventTypeStreamResync, EventTypeSandboxStatus:
		if err := decodeData(event.Type, event.Data, &known); err != nil {
			return false, err
		}
	}
	switch event.Type {
	case EventTypeSandboxStatus:
		stream.status = known.Status
	case EventTypeSnapshot, EventTypeStreamResync:
		// After a snapshot the stream continues at its cursor, without a second snapshot.
		stream.lastEventID = known.ResumeCursor
	}
	stream.fruitless = 0
	stream.connection.hasEvent = true
	stream.connection.isNews = stream.connection.isNews || read.hasID || event.Type == EventTypeSnapshot
	stream.event = event
	return true, nil
}

func invalidStream(message string, cause error) *Error {
	return &Error{Code: CodeInvalidReply, Message: message, Status: http.StatusOK, cause: cause}
}
