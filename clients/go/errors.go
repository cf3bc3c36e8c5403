package slipway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Codes of this package. The service has more: docs/errors.md of Slipway lists them.
const (
	// CodeUnreachable means that there was no reply, or that it was cut off.
	CodeUnreachable = "unreachable"
	// CodeTimeout means that the service was silent for too long.
	CodeTimeout = "timeout"
	// CodeEmptyStream means that a stream ended in order, and without an event.
	CodeEmptyStream = "empty_stream"
	// CodeRedirected means that the service answered with a redirect, which this package does not follow.
	CodeRedirected = "redirected"
	// CodeInvalidReply means that the reply is not of the API, or too long.
	CodeInvalidReply = "invalid_reply"
)

const maxRefusalBytes = 1 << 20

// Error says why a call failed. A call whose context ended fails with the context's error instead.
type Error struct {
	// Code is for programs: the service's, such as "turn_active", or one of this package. Codes may be added.
	Code string
	// Message is for people.
	Message string
	// Status is that of the reply, or 0 if there was none.
	Status int
	// RequestID identifies the reply in the service's logs, if there was one.
	RequestID string
	// RetryAfter is the wait that the service asked for, or 0.
	RetryAfter time.Duration

	cause error
}

func (err *Error) Error() string {
	text := fmt.Sprintf("slipway: %s (%s", err.Message, err.Code)
	if err.RequestID != "" {
		text += ", request " + err.RequestID
	}
	return text + ")"
}

// Unwrap returns the error of the network or of the decoder, if there was one.
func (err *Error) Unwrap() error { return err.cause }

// IsTemporary reports whether the same call may succeed later.
func (err *Error) IsTemporary() bool {
	switch err.Code {
	case CodeUnreachable, CodeTimeout, CodeEmptyStream:
		return true
	}
	return err.Status == http.StatusTooManyRequests || err.Status >= 500
}

// isRepeatable reports whether a request that may be sent again should be.
func (err *Error) isRepeatable() bool {
	switch {
	case err.RetryAfter > maxRetryAfter:
		return false
	case err.Code == CodeUnreachable || err.Code == CodeTimeout:
		return true
	}
	return err.Status == http.StatusTooManyRequests || err.Status == http.StatusServiceUnavailable
}

func invalidReply(message string, response *http.Response, cause error) *Error {
	return &Error{
		Code:      CodeInvalidReply,
		Message:   message,
		Status:    response.StatusCode,
		RequestID: response.Header.Get("X-Request-Id"),
		cause:     cause,
	}
}

// unreachable repeats the cause only if it is known to have no more than addresses: others may quote a proxy's password.
func unreachable(cause error) *Error {
	message := "The service could not be reached."
	var network *net.OpError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var certificate x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(cause, &network):
		message = "The service could not be reached: " + network.Error() + "."
	case errors.As(cause, &authority), errors.As(cause, &host), errors.As(cause, &certificate), errors.As(cause, &record):
		message = "The service could not be reached: its TLS certificate or protocol is not accepted."
	}
	return &Error{Code: CodeUnreachable, Message: message, cause: cause}
}

// refusal reads the reply to a request that did not succeed, and closes it.
func refusal(response *http.Response) *Error {
	defer response.Body.Close()
	refused := &Error{
		Code:       "unknown",
		Message:    fmt.Sprintf("The service answered with status %d.", response.StatusCode),
		Status:     response.StatusCode,
		RequestID:  response.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		refused.Code = CodeRedirected
		refused.Message = "The service redirects, which this client does not follow. Is its address right?"
		return refused
	}
	var said struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusalBytes))
	if err == nil && json.Unmarshal(body, &said) == nil && said.Error.Code != "" {
		refused.Code, refused.Message = said.Error.Code, said.Error.Message
	}
	return refused
}

// retryAfter reads whole seconds, or a date from a proxy (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil || date.Before(now) {
		return 0
	}
	return date.Sub(now)
}
