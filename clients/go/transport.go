package slipway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxBackoff = 8 * time.Second
	// Rate limits end within a minute. Longer waits are left to the caller.
	maxRetryAfter = time.Minute
	// The service sends no more than 10 MiB of a patch, or 4 MiB of text, in which JSON may write 6 bytes for one.
	maxReplyBytes = 64 << 20
)

// parameters are those of a query. Empty texts and zeros are left out: no parameter has them but as its default.
type parameters map[string]any

func (query parameters) encode() string {
	values := url.Values{}
	for name, value := range query {
		if value != "" && value != int64(0) {
			values.Set(name, fmt.Sprint(value))
		}
	}
	return values.Encode()
}

type request struct {
	method string
	// Segments of the path below the API's version.
	path []string
	// The path is of the internal API.
	internal bool
	query    parameters
	// Sent as JSON.
	body any
	// Sent as it is, with the name and the type of the upload.
	content []byte
	upload  *UploadOptions
	// The idempotency key.
	key         string
	lastEventID string
	// The reply is a stream.
	streams bool
}

// prepared is a request that can be sent several times.
type prepared struct {
	method, url string
	header      http.Header
	body        []byte
}

func (client *Client) prepare(sent request) (*prepared, error) {
	address := client.base + "/public/v1"
	if sent.internal {
		address = client.base + "/internal/v1"
	}
	for _, segment := range sent.path {
		// Dots would lead out of the path, encoded or not.
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("slipway: %q is no id", segment)
		}
		address += "/" + url.PathEscape(segment)
	}
	if query := sent.query.encode(); query != "" {
		address += "?" + query
	}
	made := &prepared{method: sent.method, url: address, header: http.Header{}}
	client.authorize(made.header)
	made.header.Set("User-Agent", "slipway-client-go/"+Version)
	if sent.body != nil {
		body, err := json.Marshal(sent.body)
		if err != nil {
			return nil, fmt.Errorf("slipway: the request cannot be sent as JSON: %w", err)
		}
		made.body = body
		made.header.Set("Content-Type", "application/json")
	}
	if sent.upload != nil {
		made.body = sent.content
		sent.upload.describe(made.header)
	}
	if sent.key != "" {
		if !printable.MatchString(sent.key) {
			return nil, errors.New("slipway: an idempotency key has 1 to 255 printable characters")
		}
		made.header.Set("Idempotency-Key", sent.key)
	}
	if sent.lastEventID != "" {
		made.header.Set("Last-Event-ID", sent.lastEventID)
	}
	if sent.streams {
		made.header.Set("Accept-Encoding", "identity")
	}
	return made, nil
}

func (options *UploadOptions) describe(header http.Header) {
	mediaType := options.MediaType
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	header.Set("Content-Type", mediaType)
	if options.Name != "" {
		// RFC 8187.
		name := strings.ReplaceAll(url.QueryEscape(options.Name), "+", "%20")
		header.Set("Content-Disposition", "attachment; filename*=UTF-8''"+name)
	}
}

// attempt is one try of a request. The caller's context, the time limit and the idle limit end it.
type attempt struct {
	caller context.Context
	ctx    context.Context
	close  context.CancelFunc
	isLate atomic.Bool
}

func newAttempt(caller context.Context) *attempt {
	ctx, cancel := context.WithCancel(caller)
	return &attempt{caller: caller, ctx: ctx, close: cancel}
}

// within returns the error of work, which ends with the attempt. It is an *Error, io.EOF or that of the caller's context.
func (try *attempt) within(limit time.Duration, work func() error) error {
	timer := time.AfterFunc(limit, func() {
		try.isLate.Store(true)
		try.close()
	})
	defer timer.Stop()
	err := work()
	var known *Error
	switch {
	case err == nil || err == io.EOF:
		return err
	case try.caller.Err() != nil:
		return try.caller.Err()
	case errors.As(err, &known):
		return err
	case try.isLate.Load():
		return &Error{Code: CodeTimeout, Message: fmt.Sprintf("Nothing came within %s.", limit), cause: err}
	}
	return unreachable(err)
}

// send returns a successful reply whose body is not read yet. Any other reply is an *Error.
func (client *Client) send(try *attempt, made *prepared) (*http.Response, error) {
	// Without a reader there is no Content-Type in doubt and nothing to rewind.
	var body io.Reader
	if made.body != nil {
		body = bytes.NewReader(made.body)
	}
	sent, err := http.NewRequestWithContext(try.ctx, made.method, made.url, body)
	if err != nil {
		return nil, err
	}
	sent.Header = made.header.Clone()
	response, err := client.http.Do(sent)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, refusal(response)
	}
	return response, nil
}

// once makes one attempt. read gets the reply within the time limit, and closes the attempt unless it leaves that to the caller.
func once[A any](
	try *attempt,
	client *Client,
	made *prepared,
	limit time.Duration,
	read func(*Client, *attempt, *http.Response) (A, error),
) (reply A, err error) {
	err = try.within(limit, func() error {
		response, err := client.send(try, made)
		if err != nil {
			return err
		}
		reply, err = read(client, try, response)
		return err
	})
	if err != nil {
		try.close()
	}
	return reply, err
}

// do tries until there is an answer, if the request is safe to repeat and the failure is temporary.
func do[A any](
	ctx context.Context,
	client *Client,
	sent request,
	read func(*Client, *attempt, *http.Response) (A, error),
) (A, error) {
	var none A
	made, err := client.prepare(sent)
	if err != nil {
		return none, err
	}
	isSafe := sent.method != http.MethodPost || sent.key != ""
	for failures := 0; ; failures++ {
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		reply, err := once(newAttempt(ctx), client, made, client.timeout, read)
		if err == nil {
			return reply, nil
		}
		var failed *Error
		if !errors.As(err, &failed) || !isSafe || failures >= client.retries || !failed.isRepeatable() {
			return none, err
		}
		wait := backoff(client.backoff, failures, maxBackoff)
		if failed.RetryAfter > wait {
			wait = failed.RetryAfter
		}
		if err := client.pause(ctx, wait); err != nil {
			return none, err
		}
	}
}

func readBytes(_ *Client, try *attempt, response *http.Response) ([]byte, error) {
	defer try.close()
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReplyBytes+1))
	if err == nil && len(body) > maxReplyBytes {
		return nil, invalidReply("The reply is too long.", response, nil)
	}
	return body, err
}

func readJSON[A any](client *Client, try *attempt, response *http.Response) (*A, error) {
	body, err := readBytes(client, try, response)
	if err != nil {
		return nil, err
	}
	reply := new(A)
	if err := json.Unmarshal(body, reply); err != nil {
		return nil, invalidReply("The reply is no JSON of the API.", response, err)
	}
	return reply, nil
}

func readNothing(client *Client, try *attempt, response *http.Response) (struct{}, error) {
	_, err := readBytes(client, try, response)
	return struct{}{}, err
}

func readDownload(client *Client, try *attempt, response *http.Response) (*Download, error) {
	return &Download{idleReader{try, response.Body, client.idleTimeout}}, nil
}

// idleReader reads a body that may take any time, but not be silent for longer than its limit.
type idleReader struct {
	try   *attempt
	body  io.ReadCloser
	limit time.Duration
}

func (reader *idleReader) Read(into []byte) (count int, err error) {
	err = reader.try.within(reader.limit, func() (err error) {
		count, err = reader.body.Read(into)
		return err
	})
	return count, err
}

func (reader *idleReader) Close() error {
	reader.try.close()
	return reader.body.Close()
}

// Download is the bytes of a file, read on demand. It must be closed.
type Download struct{ reader idleReader }

// Read fails with an *Error, or the error of the call's context.
func (download *Download) Read(into []byte) (int, error) { return download.reader.Read(into) }

// Close ends the download.
func (download *Download) Close() error { return download.reader.Close() }

// backoff draws half of the wait, so that clients that failed together do not retry together.
func backoff(base time.Duration, failures int, most time.Duration) time.Duration {
	wait := math.Min(float64(base)*math.Pow(2, float64(failures)), float64(most))
	return time.Duration(wait * (1 + float64(binary.BigEndian.Uint32(random(4)))/(1<<32)) / 2)
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}

func random(count int) []byte {
	made := make([]byte, count)
	if _, err := rand.Read(made); err != nil {
		panic("slipway: this machine has no random numbers: " + err.Error())
	}
	return made
}

// newKey makes a UUID of version 4.
func newKey() string {
	made := random(16)
	made[6] = made[6]&0x0f | 0x40
	made[8] = made[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", made[:4], made[4:6], made[6:8], made[8:10], made[10:])
}
